"""The API under thousands of valid and invalid requests: generated from its OpenAPI description, and malformed ones.

Requests go over a socket to a server in this process, because HTTP clients do not send malformed requests.
"""

from __future__ import annotations

import json
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from copy import deepcopy
from http.client import HTTPResponse
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, note, settings
from schemathesis import GenerationMode
from schemathesis.checks import content_type_conformance, response_schema_conformance, status_code_conformance

from pairwise import FULL, pairwise_sample
from regard.serving.app import build_app
from regard.serving.limits import Limits
from regard.serving.registry import ServedRun, open_runs

pytestmark = pytest.mark.slow

# Requests of each kind, for each operation. Valid requests rarely reach a model: their texts have characters that the
# model does not know. Feasible ones are valid, too, and do reach it, so there are more of them. All are derandomized.
EXAMPLES = (
    dict.fromkeys(("valid", "invalid", "feasible"), 300) if FULL else {"valid": 50, "invalid": 100, "feasible": 100}
)
AS_DESCRIBED = [status_code_conformance, content_type_conformance, response_schema_conformance]
LIMITS = Limits(characters=50, texts=7, beam=11)
TOKEN, ALLOWED = "s3cret", "https://slides.example"
TRANSFORMER = (
    *("model.encoder.kind=self-attention", "model.decoder.kind=transformer", "model.decoder.layers=2"),
    *("model.attention.kind=multi-head", "model.attention.heads=2"),
    *(f"model.{side}.positions.{what}" for side in ("encoder", "decoder") for what in ("kind=learned", "longest=19")),
)

Description = dict[str, Any]
Headers = list[tuple[str, str]]


@pytest.fixture(scope="module")
def runs(trained: Path, trained_brief: Callable[..., Path]) -> list[ServedRun]:
    """Two runs whose attention has different axes; the second has a maximum length."""
    return open_runs([trained, trained_brief(*TRANSFORMER)])


@pytest.fixture(scope="module")
def ports(runs: list[ServedRun], start_server: Callable[..., Any]) -> Iterator[dict[str, int]]:
    """Ports of three servers: without restrictions, with an allowed origin, and with a token."""
    options: dict[str, dict[str, Any]] = {"open": {}, "shared": {"origins": [ALLOWED]}, "guarded": {"token": TOKEN}}
    with ExitStack() as stack:
        ports = {
            name: stack.enter_context(start_server(build_app(runs, LIMITS, **server)))
            for name, server in options.items()
        }
        yield ports
        body = b'{"texts": ["abc"]}'
        headers = default_headers(
            Content_Type="application/json", Content_Length=str(len(body)), Authorization=f"Bearer {TOKEN}"
        )
        for port in ports.values():
            assert send(port, "POST", "/api/translate", headers, body) == 200, "the servers still work"


def check_response(status: int, content_type: str, body: bytes) -> None:
    """Check what holds for every response."""
    assert status < 500 or status == 503, body
    assert b"Traceback" not in body
    if status >= 400:
        assert content_type == "application/json", body
        error = json.loads(body)
        assert error.keys() == {"detail"}
        assert isinstance(error["detail"], str)
        assert error["detail"]


# --- generated from the OpenAPI description --------------------------------------------------------------


def narrowed(description: Description, runs: list[ServedRun]) -> Description:
    """The description of requests that these runs can process: few valid requests reach a model."""
    description = deepcopy(description)
    schemas = description["components"]["schemas"]
    text = {"type": "string", "pattern": "^[a-e]{0,5}$"}
    schemas["ScorePair"]["properties"] = {"source": text | {"minLength": 1}, "target": text}
    schemas["ScoreRequest"]["properties"]["pairs"]["maxItems"] = LIMITS.texts
    schemas["TranslateRequest"]["properties"] |= {
        "texts": {"type": "array", "items": text, "maxItems": LIMITS.texts},
        "prefix": {"anyOf": [text, {"type": "array", "items": {"enum": [*"abcde"]}, "maxItems": 3}]},
        **{name: {"enum": [0, 1, 2, 13]} for name in ("min_length", "block_ngrams", "alternatives")},
        "n_best": {"enum": [1, 2, 5]},
    }
    for name in ("ScoreRequest", "TranslateRequest"):
        schemas[name]["properties"]["run"] = {"enum": [None, *(run.name for run in runs)]}
    wanted = schemas["TranslateRequest"]
    beam = {"beam": {"enum": [5, LIMITS.beam]}}
    sampling = {"sample": {"const": True}, "top_k": {"enum": [None, 1, 3, 10**30]}, "seed": {"enum": [0, 2**63 - 1]}}
    schemas["TranslateRequest"] = {
        "anyOf": [
            variant(wanted, beam, without=("sample", "temperature", "top_k", "top_p", "seed")),
            variant(wanted, sampling, without=("beam", "tree")),
        ]
    }
    return description


def variant(schema: Description, properties: Description, without: tuple[str, ...]) -> Description:
    """The schema with the first of the properties required, and without those of `without`."""
    others = {name: value for name, value in schema["properties"].items() if name not in without}
    return schema | {"properties": others | properties, "required": ["texts", next(iter(properties))]}


@pytest.mark.parametrize("path", ["/api/translate", "/api/score"])
@pytest.mark.parametrize("kind", EXAMPLES)
def test_responses_conform_to_the_openapi_description(
    ports: dict[str, int], runs: list[ServedRun], kind: str, path: str
):
    address = f"http://127.0.0.1:{ports['open']}"
    description = requests.get(f"{address}/openapi.json").json()
    if kind == "feasible":
        description = narrowed(description, runs)
    mode = GenerationMode.NEGATIVE if kind == "invalid" else GenerationMode.POSITIVE
    statuses: Counter[int] = Counter()

    @settings(max_examples=EXAMPLES[kind], derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(case=schemathesis.openapi.from_dict(description)[path]["POST"].as_strategy(generation_mode=mode))
    def send_case(case: schemathesis.Case) -> None:
        note(f"request: {case.body!r}")
        response = case.call(base_url=address, session=session)
        statuses[response.status_code] += 1
        check_response(response.status_code, response.headers["content-type"][0], response.content)
        case.validate_response(response, checks=AS_DESCRIBED)

    with requests.Session() as session:
        send_case()
    assert statuses.total() >= EXAMPLES[kind]
    assert kind != "invalid" or statuses[200] == 0
    assert kind != "feasible" or statuses[200] > EXAMPLES[kind] / 2


@pytest.mark.parametrize("path", ["/api/runs", "/healthz", "/metrics"])
def test_get_responses_conform_to_the_openapi_description(ports: dict[str, int], path: str):
    address = f"http://127.0.0.1:{ports['guarded']}"
    case = schemathesis.openapi.from_url(f"{address}/openapi.json")[path]["GET"].Case()
    headers = [
        {},
        {"Authorization": f"Bearer {TOKEN}"},
        {"Host": "rebound.example"},
        {"Origin": "https://evil.example"},
    ]
    responses = [case.call(base_url=address, headers=each) for each in headers]
    assert [response.status_code for response in responses] == [200 if path == "/healthz" else 401, 200, 403, 403]
    for response in responses:
        check_response(response.status_code, response.headers["content-type"][0].split(";")[0], response.content)
        case.validate_response(response, checks=AS_DESCRIBED)


# --- malformed requests ----------------------------------------------------------------------------------


# Responses of Starlette to invalid headers, which have no JSON body.
FRAMEWORK_ERRORS = (b"Malformed range", b"Range header", b"Disallowed CORS")
BODIES = [
    *(b"", b" ", b"{", b"}", b"[", b'"', b"null", b"0", b"[]", b"{}", b"\x00", b"\xff\xfe", b"texts=abc"),
    *(b'{"texts": ["abc"]', b'{"texts": ["abc"]}}', b'{"texts": ["abc"],}', b"{'texts': ['abc']}"),
    b'\xef\xbb\xbf{"texts": ["abc"], "x": 1}',
    '{"texts": ["abc"], "x": 1}'.encode("utf-16"),
    b'{"texts": ["' + b"a" * (LIMITS.characters + 1) + b'"]}',
    b'{"texts": ["\xff"]}',
    b'{"texts": ["\xed\xa0\x80"]}',
    *(b'{"texts": ["\\ud800"]}', b'{"texts": ["abc"], "run": "\\ud800"}', b'{"texts": ["abc"], "\\udfff": 1}'),
    *(b'{"texts": ["abc"], "prefix": "\\ud800"}', b'{"texts": ["abc"], "prefix": ["\\ud800"]}'),
    *(b'{"pairs": [{"source": "\\ud800", "target": ""}]}', b'{"pairs": [{"source": "a", "target": "\\ud800"}]}'),
    *(b"[" * 100_000, b'{"texts":' * 10_000, b'{"texts": ' + b"[" * 500 + b"]" * 500 + b"}"),
    *(b'{"texts": ["abc"], "x": ' + b'{"x":' * 900 + b"1" + b"}" * 901, b"1" * 100_000),
    *(
        b'{"texts": ["abc"], "%s": %s}' % (name, number)
        for name in (b"beam", b"length_penalty", b"temperature", b"repetition_penalty", b"seed", b"min_length")
        for number in (b"NaN", b"Infinity", b"-Infinity", b"1e999", b"-1", b"1" + b"0" * 400, b"1" + b"0" * 5000, b"[]")
    ),
]
CONTENT_TYPES = [
    "application/json",
    "application/json; charset=utf-16",
    "text/plain",
    "multipart/form-data",
    "\xff",
    "",
    None,
]
METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW", "get"]
PATHS = [
    *("/", "//", "/docs", "/openapi.json", "/healthz", "/metrics", "/api", "/api/runs", "/api/translate", "/api/score"),
    *("/api/runs/", "//api/runs", "/API/RUNS", "/api/runs?x=%00", "/api/runs#x", "/nowhere", "/favicon.ico"),
    *("/static", "/static/", "/static/page", "/static/page/", "/static/page/app.js", "/static/frozen.html"),
    *("/static/page/../api.py", "/static/page/%2e%2e/api.py", "/static/page/..%2fapi.py", "/static/page/..%5capi.py"),
    *("/static/page//etc/passwd", "/static/page/%2fetc/passwd", "/static/page/%00", "/static/page/app.js%00"),
    *("/static/view/../../../pyproject.toml", "/static/view/%ff", "/static/view/\xff", "/static/page/" + "a" * 5_000),
    *("/%", "/%zz", "/\x00", "/ /", "*", "x", "http://127.0.0.1/api/runs", "http://[", "/a" * 2_000, "/" + "%00" * 99),
]
HOSTS = [
    *("127.0.0.1", "127.0.0.1:8000", "localhost", "LOCALHOST:1", "[::1]:8000", "[::1", "[", "]", "0x7f.1", "1", ""),
    *(
        "rebound.example",
        "a@localhost",
        "localhost:x",
        "localhost:99999",
        "[::1%25x]",
        "[v1.x]",
        "\xff",
        "a b",
        "x" * 9_999,
    ),
]
ORIGINS = [
    *(None, "null", "", "http://127.0.0.1", ALLOWED, ALLOWED.upper(), f"{ALLOWED}/", "https://evil.example", "//", "x"),
    *("http://[", "http://[::1", "http://]", "http://a:x", "http://\xff", "javascript:", "http://127.0.0.1:99999"),
]
TOKENS = [None, "", "Bearer", f"Bearer {TOKEN}", f"bearer  {TOKEN} ", "Bearer \xff", f"Basic {TOKEN}", "Bearer " * 999]
UNUSUAL_HEADERS: list[Headers] = [
    *([("Content-Length", size)] for size in ("-1", "x", "1e3", "0x1", "\xb2", "", "9" * 19, "9" * 5_000)),
    *([("Content-Length", "0"), ("Content-Length", size)] for size in ("0", "1")),
    *([("Transfer-Encoding", how)] for how in ("gzip", "identity", "chunked, chunked", "")),
    *([("Connection", how)] for how in ("upgrade", "x", "")),
    [("Connection", "Upgrade"), ("Upgrade", "websocket"), ("Sec-WebSocket-Key", "x"), ("Sec-WebSocket-Version", "13")],
    [("Connection", "Upgrade, HTTP2-Settings"), ("Upgrade", "h2c"), ("HTTP2-Settings", "x")],
    *([("Host", "127.0.0.1"), (name, value)] for name in ("Host", "host") for value in ("127.0.0.1", "evil.example")),
    *(
        [(name, "x"), (name, "\xff")]
        for name in ("Origin", "Authorization", "Cookie", "Accept", "Range", "If-None-Match")
    ),
    *(
        [("Range", f"bytes={which}")]
        for which in ("0-", "-1", "5-2", "0-0,1-1", "x", "9" * 99 + "-", ",".join(["0-1"] * 999))
    ),
    *(
        [("If-Modified-Since", when)]
        for when in ("x", "Thu, 01 Jan 1970 00:00:00 GMT", "Thu, 99 Jan 99999 00:00:00 GMT")
    ),
    *([("X-" + "x" * size, "x" * size)] for size in (10_000, 30_000)),
    *([(name, "x")] for name in ("", " ", "a b", "\xff", "\x00")),
    *([("X", value)] for value in ("\x00", "\r", "\n y", "\x7f")),
    [("X", "x")] * 500,
    [("Expect", "100-continue")],
    [
        ("Origin", ALLOWED),
        ("Access-Control-Request-Method", "BREW"),
        ("Access-Control-Request-Headers", "\xff"),
        ("Access-Control-Request-Private-Network", "true"),
    ],
]


def send(port: int, method: str, path: str, headers: Headers, body: bytes = b"") -> int:
    """The status of the response to a request with these headers; the rest of the response is checked."""
    head = "\r\n".join([f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers), "", ""])
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        with suppress(ConnectionError):  # a long request may be refused before all of it is sent
            connection.sendall(head.encode("latin-1") + body)
        with HTTPResponse(connection, method=method) as response:
            response.begin()
            content = response.read()
    assert response.status < 500 or response.status == 503
    assert b"import annotations" not in content, "the server's source code is not served"
    if not content.startswith(FRAMEWORK_ERRORS) and method != "HEAD" and response.status != 416:
        check_response(response.status, response.headers.get_content_type(), content)
    return response.status


def default_headers(**changed: str | None) -> Headers:
    """The headers of a normal request, some of them changed, or removed (None)."""
    headers = {"Host": "127.0.0.1", "Connection": "close"} | {name.replace("_", "-"): changed[name] for name in changed}
    return [(name, value) for name, value in headers.items() if value is not None]


def test_a_malformed_body_is_a_client_error(ports: dict[str, int]):
    statuses: Counter[int] = Counter()
    for path, body, content_type in product(("/api/translate", "/api/score"), BODIES, CONTENT_TYPES):
        headers = default_headers(Content_Type=content_type, Content_Length=str(len(body)))
        statuses[send(ports["open"], "POST", path, headers, body)] += 1
    assert statuses.keys() == {400, 413, 422}
    assert statuses.total() > 1_000


@pytest.mark.parametrize("server", ["open", "shared", "guarded"])
def test_no_path_serves_other_files_or_fails(ports: dict[str, int], server: str):
    sent = [
        send(ports[server], method, path, default_headers(Content_Length="0"))
        for method, path in product(METHODS, PATHS)
    ]
    assert set(sent) <= {200, 307, 400, 401, 403, 404, 405, 422}
    assert len(sent) > 400


@pytest.mark.parametrize("path", ["/healthz", "/api/runs"])
def test_hosts_origins_and_tokens_are_checked_in_combination(ports: dict[str, int], path: str):
    statuses: Counter[int] = Counter()
    combinations = [
        (server, host, origin, token)
        for server, host, origin, token in product(ports, HOSTS, ORIGINS, TOKENS)
        if server == "guarded" or token is None
    ]
    for server, host, origin, token in combinations if FULL else pairwise_sample(combinations):
        headers = default_headers(Host=host, Origin=origin, Authorization=token)
        statuses[send(ports[server], "GET", path, headers)] += 1
    assert statuses.keys() <= {200, 400, 401, 403}
    assert min(statuses[200], statuses[403]) > (30 if FULL else 2)


@pytest.mark.parametrize("server", ["open", "shared", "guarded"])
def test_unusual_headers_get_a_response(ports: dict[str, int], server: str):
    gets = [("GET", path) for path in ("/", "/healthz", "/static/page/app.js")]
    requests_to_send = [*gets, ("POST", "/api/translate"), ("OPTIONS", "/api/score")]
    sent = [
        send(ports[server], *request, [*default_headers(), *unusual])
        for request, unusual in product(requests_to_send, UNUSUAL_HEADERS)
    ]
    assert len(sent) > 200
