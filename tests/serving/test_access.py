"""Who may ask."""

from __future__ import annotations

import asyncio
import hmac
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from regard.errors import UserError
from regard.serving.access import check_origin
from regard.serving.app import build_app
from regard.serving.endpoints import Endpoints
from regard.serving.limits import Limits
from regard.serving.registry import open_runs

Ask = Callable[..., TestClient]
JSON = {"Content-Type": "application/json"}
ALL = ("/", "/docs", "/openapi.json", "/healthz", "/metrics", "/api/runs", "/static/page/app.js", "/static/view/map.js")


def test_every_answer_tells_browsers_to_load_nothing_from_elsewhere(ask: Ask):
    client = ask()
    answers = [client.get(path) for path in ALL]
    answers += [client.get("/nowhere"), client.post("/api/translate", content=b"{", headers=JSON)]
    for answer in answers:
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self';")
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    assert [answer.status_code for answer in answers] == [200] * len(ALL) + [404, 400]


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
def test_with_a_token_every_call_of_the_api_needs_it(ask: Ask, header: dict[str, str], status: int):
    client = ask(token="s3cret")
    assert client.get("/api/runs", headers=header).status_code == status
    assert client.get("/metrics", headers=header).status_code == status
    assert client.post("/api/translate", json={"texts": ["abc"]}, headers=header).status_code == status
    assert client.post("/api/score", json={"pairs": []}, headers=header).status_code == status
    for path in ("/", "/docs", "/openapi.json", "/healthz", "/static/page/app.js", "/static/frozen.html"):
        assert client.get(path, headers=header).status_code == 200, "the page itself has no secrets"
    for path in ("/healthz/x", "/docsx", "/nowhere", "/api", "//api/runs"):
        assert client.get(path, headers=header).status_code in (401, 404)


def test_a_refusal_says_how_a_token_is_sent(ask: Ask):
    answer = ask(token="s3cret").get("/api/runs")
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.json() == {"detail": "a token is needed: send the header 'Authorization: Bearer TOKEN'"}


def test_tokens_are_compared_in_constant_time(ask: Ask, monkeypatch: pytest.MonkeyPatch):
    compared, really = [], hmac.compare_digest

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return really(one, other)

    client = ask(token="s3cret")
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
def test_pages_from_elsewhere_are_refused(ask: Ask, origin: str | None, status: int):
    client = ask()
    headers = {} if origin is None else {"Origin": origin}
    assert client.post("/api/translate", json={"texts": ["abc"]}, headers=headers).status_code == status
    assert client.get("/api/runs", headers=headers).status_code == status
    assert "access-control-allow-origin" not in client.get("/api/runs", headers=headers).headers


def test_pages_that_were_allowed_may_ask(ask: Ask):
    client = ask(token="s3cret", origins=("https://slides.example",))
    before = {
        "Origin": "https://slides.example",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization, content-type",
    }
    answer = client.options("/api/translate", headers=before)
    assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, "https://slides.example")
    asked = {"Origin": "https://slides.example", "Authorization": "Bearer s3cret"}
    answer = client.post("/api/translate", json={"texts": ["abc"]}, headers=asked)
    assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, "https://slides.example")
    answer = client.get("/api/runs", headers={"Origin": "https://slides.example"})
    assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (401, "https://slides.example")
    asked["Origin"] = "https://other.example"
    assert client.post("/api/translate", json={"texts": ["abc"]}, headers=asked).status_code == 403


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
def test_who_calls_us_by_a_name_that_is_not_ours_is_refused(ask: Ask, host: str, status: int):
    answer = ask().get("/api/runs", headers={"Host": host})
    assert answer.status_code == status
    if status == 403:
        assert "this server is not known as" in answer.json()["detail"]


def test_the_name_of_an_allowed_page_is_ours(ask: Ask):
    client = ask(origins=("https://translate.example",))
    headers = {"Host": "translate.example", "Origin": "https://translate.example"}
    assert client.get("/api/runs", headers=headers).status_code == 200


@pytest.mark.parametrize("told", [True, False])
def test_a_body_has_its_limit_whatever_it_says_of_itself(ask: Ask, told: bool):
    client = ask(characters=10, texts=1)
    most = 2 * (12 * 10 + 100) + 100_000
    body = b'{"texts": ["abc"]}'.ljust(most)
    assert client.post("/api/translate", content=body, headers=JSON).status_code == 200
    body += b" "
    content = body if told else iter([body[:50], body[50:]])
    answer = client.post("/api/translate", content=content, headers=JSON)
    assert answer.status_code == 413
    assert answer.json() == {"detail": f"a request may have {most:,} bytes at most; send fewer or shorter texts"}


def test_a_body_that_does_not_come_is_not_waited_for(trained: Path):
    app = build_app(open_runs([trained]), Limits(seconds=0.05))
    parts = [{"type": "http.request", "body": b'{"texts": ', "more_body": True}]
    told: list[Any] = []
    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": "/api/translate", "headers": headers, "query_string": b""}

    async def receive() -> Any:
        return parts.pop() if parts else await asyncio.sleep(60)

    async def send(message: Any) -> None:
        told.append(message)

    asyncio.run(asyncio.wait_for(app(scope, receive, send), 10))
    assert told[0]["status"] == 408
    assert b"the request was not complete within 0.05 seconds" in told[1]["body"]


def test_what_nobody_has_thought_of_has_the_same_headers(ask: Ask, monkeypatch: pytest.MonkeyPatch):
    client = ask()
    monkeypatch.setattr(Endpoints, "_run", lambda self, name: 1 / 0)
    answer = client.post("/api/translate", json={"texts": ["abc"]})
    assert answer.status_code == 500
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
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
def test_an_origin_is_written_as_browsers_write_it(origin: str, expected: str):
    assert check_origin(origin) == expected


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
def test_what_is_no_origin_is_refused(origin: str):
    with pytest.raises(UserError, match=r"--allow-origin .*: should be like https://example.org"):
        check_origin(origin)
