"""Access control: tokens, origins, host names, body limits and security headers."""

from __future__ import annotations

import asyncio
import hmac
import socket
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from regard.errors import UserError
from regard.serving.access import normalize_origin
from regard.serving.app import build_app
from regard.serving.endpoints import Endpoints
from regard.serving.limits import PICTURE_CHARACTERS, Limits
from regard.serving.registry import open_runs

NewClient = Callable[..., TestClient]
JSON = {"Content-Type": "application/json"}
PATHS = (
    "/",
    "/docs",
    "/openapi.json",
    "/healthz",
    "/metrics",
    "/api/runs",
    "/static/page/app.js",
    "/static/view/map.js",
)


def test_every_response_has_the_security_headers(new_client: NewClient):
    client = new_client()
    responses = [client.get(path) for path in PATHS]
    responses += [client.get("/nowhere"), client.post("/api/translate", content=b"{", headers=JSON)]
    for response in responses:
        policy = response.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self';")
        assert "unsafe" not in policy
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["cross-origin-resource-policy"] == "same-origin"
    assert [response.status_code for response in responses] == [200] * len(PATHS) + [404, 400]


@pytest.mark.parametrize(
    ("header", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": "Bearer s3cret "}, 200),
        ({"Authorization": "bearer s3cret"}, 200),
        ({"Authorization": "Basic s3cret"}, 401),
        ({"Authorization": "s3cret"}, 401),
        ({"Authorization": "Bearer"}, 401),
        ({"Authorization": "Bearer s3cretX"}, 401),
        ({"Authorization": b"Bearer \xff\xfe"}, 401),
    ],
)
def test_the_api_requires_the_token_and_the_page_does_not(new_client: NewClient, header: dict[str, str], status: int):
    client = new_client(token="s3cret")
    assert client.get("/api/runs", headers=header).status_code == status
    assert client.get("/metrics", headers=header).status_code == status
    assert client.post("/api/translate", json={"texts": ["abc"]}, headers=header).status_code == status
    assert client.post("/api/score", json={"pairs": []}, headers=header).status_code == status
    for path in ("/", "/docs", "/openapi.json", "/healthz", "/static/page/app.js", "/static/frozen.html"):
        assert client.get(path, headers=header).status_code == 200, "the page itself is public"
    for path in ("/healthz/x", "/docsx", "/nowhere", "/api", "//api/runs"):
        assert client.get(path, headers=header).status_code in (401, 404)


def test_the_401_response_names_the_header_to_send(new_client: NewClient):
    response = new_client(token="s3cret").get("/api/runs")
    assert response.headers["www-authenticate"] == "Bearer"
    assert response.json() == {"detail": "a token is required: send the header 'Authorization: Bearer TOKEN'"}


def test_tokens_are_compared_in_constant_time(new_client: NewClient, monkeypatch: pytest.MonkeyPatch):
    compared, compare_digest = [], hmac.compare_digest

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return compare_digest(one, other)

    client = new_client(token="s3cret")
    monkeypatch.setattr(hmac, "compare_digest", compare)
    client.get("/api/runs", headers={"Authorization": "Bearer guess"})
    assert compared == [(b"guess", b"s3cret")]


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        (None, 200),
        ("http://127.0.0.1:8000", 200),
        ("http://127.0.0.1:8001", 403),
        ("http://127.0.0.1", 403),
        ("https://evil.example", 403),
        ("null", 403),
        ("", 403),
        ("http://127.0.0.1:8000.evil.example", 403),
        ("http://[", 403),
    ],
)
def test_other_origins_are_refused(new_client: NewClient, origin: str | None, status: int):
    client = new_client()
    headers = {} if origin is None else {"Origin": origin}
    assert client.post("/api/translate", json={"texts": ["abc"]}, headers=headers).status_code == status
    assert client.get("/api/runs", headers=headers).status_code == status
    assert "access-control-allow-origin" not in client.get("/api/runs", headers=headers).headers


def test_allowed_origins_may_send_requests_and_read_errors(new_client: NewClient):
    client = new_client(token="s3cret", origins=("https://slides.example",))
    preflight = {
        "Origin": "https://slides.example",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization, content-type",
    }
    response = client.options("/api/translate", headers=preflight)
    assert (response.status_code, response.headers["access-control-allow-origin"]) == (200, "https://slides.example")
    headers = {"Origin": "https://slides.example", "Authorization": "Bearer s3cret"}
    response = client.post("/api/translate", json={"texts": ["abc"]}, headers=headers)
    assert (response.status_code, response.headers["access-control-allow-origin"]) == (200, "https://slides.example")
    response = client.get("/api/runs", headers={"Origin": "https://slides.example"})
    assert (response.status_code, response.headers["access-control-allow-origin"]) == (401, "https://slides.example")
    headers["Origin"] = "https://other.example"
    assert client.post("/api/translate", json={"texts": ["abc"]}, headers=headers).status_code == 403


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8000", 200),
        ("127.0.0.1", 200),
        ("localhost:8000", 200),
        ("LOCALHOST", 200),
        ("[::1]:8000", 200),
        ("192.0.2.7:8000", 200),
        (socket.gethostname(), 200),
        ("rebound.example:8000", 403),
        ("127.0.0.1.rebound.example", 403),
        ("", 403),
        ("[", 403),
        ("localhost:port", 403),
        ("a@localhost:8000@evil.example", 403),
    ],
)
def test_unknown_host_names_are_refused(new_client: NewClient, host: str, status: int):
    response = new_client().get("/api/runs", headers={"Host": host})
    assert response.status_code == status
    if status == 403:
        assert "this server does not have the host name" in response.json()["detail"]


def test_the_host_of_an_allowed_origin_is_known(new_client: NewClient):
    client = new_client(origins=("https://translate.example",))
    headers = {"Host": "translate.example", "Origin": "https://translate.example"}
    assert client.get("/api/runs", headers=headers).status_code == 200


@pytest.mark.parametrize("has_length", [True, False])
def test_body_size_is_limited_with_and_without_content_length(new_client: NewClient, has_length: bool):
    client = new_client(characters=10, texts=1)
    limit = 2 * (12 * 10 + 100) + 100_000 + PICTURE_CHARACTERS
    body = b'{"texts": ["abc"]}'.ljust(limit)
    assert client.post("/api/translate", content=body, headers=JSON).status_code == 200
    body += b" "
    content = body if has_length else iter([body[:50], body[50:]])
    response = client.post("/api/translate", content=content, headers=JSON)
    assert response.status_code == 413
    assert response.json() == {
        "detail": f"a request body may have at most {limit:,} bytes; send fewer or shorter texts"
    }


def post_in_chunks(run: Path, limits: Limits, chunks: Iterable[bytes]) -> tuple[int, bytes]:
    """Status and body of the response to a request that never ends; a test client would send it as a whole."""
    app, parts, sent = build_app(open_runs([run]), limits), iter(chunks), []
    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": "/api/translate", "headers": headers, "query_string": b""}

    async def receive() -> Any:
        chunk = next(parts, None)
        if chunk is None:
            await asyncio.sleep(60)
        return {"type": "http.request", "body": chunk, "more_body": True}

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(asyncio.wait_for(app(scope, receive, send), 10))
    return sent[0]["status"], sent[1]["body"]


def test_an_incomplete_body_times_out(trained: Path):
    status, body = post_in_chunks(trained, Limits(seconds=0.05), [b'{"texts": '])
    assert status == 408
    assert b"the request was not complete within 0.05 seconds" in body


def test_the_size_of_all_chunks_of_a_body_is_limited(trained: Path):
    limits = Limits(characters=10, texts=1)
    status, body = post_in_chunks(trained, limits, [b" " * 10_000] * (limits.body_bytes // 10_000 + 1))
    assert status == 413
    assert b"a request body may have at most" in body


def test_an_internal_error_has_the_security_headers(new_client: NewClient, monkeypatch: pytest.MonkeyPatch):
    client = new_client()
    monkeypatch.setattr(Endpoints, "_find_run", lambda self, name: 1 / 0)
    response = client.post("/api/translate", json={"texts": ["abc"]})
    assert response.status_code == 500
    assert response.headers["content-security-policy"].startswith("default-src 'none'")
    assert 'status="500"' in client.get("/metrics").text


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        ("https://example.org", "https://example.org"),
        ("http://LOCALHOST:3000/", "http://localhost:3000"),
        ("http://[::1]:3000", "http://[::1]:3000"),
        ("https://example.org:443", "https://example.org"),
        ("http://example.org:80/", "http://example.org"),
        ("http://example.org:443", "http://example.org:443"),
        ("https://exämple.org", "https://xn--exmple-cua.org"),
    ],
)
def test_origins_are_normalized_as_browsers_write_them(origin: str, expected: str):
    assert normalize_origin(origin) == expected


@pytest.mark.parametrize(
    "origin",
    [
        "*",
        "example.org",
        "ftp://example.org",
        "https://",
        "https://a/b",
        "https://a?x",
        "https://a:port",
        "http://[",
        "",
    ],
)
def test_an_invalid_origin_is_refused(origin: str):
    with pytest.raises(UserError, match=r"--allow-origin .*: should be like https://example.org"):
        normalize_origin(origin)
