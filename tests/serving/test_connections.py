"""Limits on connections: which are closed, which are refused, and that requests in progress are never lost."""

from __future__ import annotations

import json
import logging
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.client import HTTPResponse
from threading import Semaphore
from typing import Any

import anyio.to_thread
import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from regard.serving import connections
from regard.serving.access import AccessMiddleware
from regard.serving.connections import (
    DESCRIPTORS_PER_CONNECTION,
    MAX_CHUNKS,
    OTHER_DESCRIPTORS,
    client_network,
    fit_descriptors,
)
from regard.serving.limits import Limits
from regard.serving.metrics import Metrics

TIMEOUT = 20.0  # against a hang
GET = b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n"
LARGE = 50_000_000  # more bytes than the system buffers


class SlowApp:
    """An application that answers requests to `/slow` when it is told to."""

    def __init__(self) -> None:
        self.arrived, self.released = Semaphore(0), Semaphore(0)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            for event in ("startup", "shutdown"):
                assert (await receive())["type"] == f"lifespan.{event}"
                await send({"type": f"lifespan.{event}.complete"})
            return
        if scope["path"] == "/slow":
            self.arrived.release()
            await anyio.to_thread.run_sync(self.released.acquire)
        while scope["path"] == "/read" and (await receive()).get("more_body"):
            pass
        body = b"x" * LARGE if scope["path"] == "/large" else b"ok"
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
        await send({"type": "http.response.body", "body": body})


@pytest.fixture
def app() -> SlowApp:
    return SlowApp()


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def serve(
    app: SlowApp, metrics: Metrics, start_server: Callable[..., Any]
) -> Iterator[Callable[..., Callable[..., socket.socket]]]:
    """Start a server with the given limits; returns a function that opens a connection and sends bytes."""
    with ExitStack() as stack:

        def start(**limits: Any) -> Callable[..., socket.socket]:
            protected: ASGIApp = AccessMiddleware(app, None, (), Limits())
            port = stack.enter_context(start_server(protected, metrics, **limits))

            def connect(sent: bytes = b"") -> socket.socket:
                connection = stack.enter_context(socket.create_connection(("127.0.0.1", port), TIMEOUT))
                connection.sendall(sent)
                return connection

            return connect

        yield start
        app.released.release(10)  # if the test has failed


def read_response(connection: socket.socket) -> tuple[int, dict[str, str], bytes]:
    with HTTPResponse(connection) as response:
        response.begin()
        return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()


def is_closed(connection: socket.socket) -> bool:
    """True if the server has closed the connection, or closes it before the time-out."""
    try:
        return connection.recv(1_000_000) == b""
    except ConnectionResetError:
        return True


def closed_connections(metrics: Metrics) -> dict[str, float]:
    samples = next(iter(metrics.closed_connections.collect())).samples
    return {sample.labels["reason"]: sample.value for sample in samples if sample.name.endswith("_total")}


@pytest.mark.parametrize("limit", ["connections", "client_connections"])
def test_incomplete_headers_are_closed_in_favor_of_new_connections(
    serve: Callable[..., Any], metrics: Metrics, caplog: pytest.LogCaptureFixture, limit: str
):
    connect = serve(**{limit: 3})
    first = [connect(b"GET ") for _ in range(3)]
    later = [connect(b"GET / HTTP/1.1\r\n") for _ in range(2)]
    assert read_response(connect(GET % b"/healthz"))[0] == 200
    assert all(map(is_closed, first))
    assert all(map(is_open, later))
    assert closed_connections(metrics) == {"evicted": 3, "idle": 0, "refused": 0}
    assert b"regard_open_connections 3.0\n" in metrics.export()
    (message,) = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    scope = "3" if limit == "connections" else "3 of 127.0.0.1"
    assert message == f"the limit on connections is reached ({scope}); idle ones are closed in favor of new ones"


def is_open(connection: socket.socket) -> bool:
    connection.settimeout(0.05)
    with pytest.raises(TimeoutError):
        connection.recv(1)
    connection.settimeout(TIMEOUT)
    return True


def test_a_connection_that_has_sent_requests_outlives_silent_ones(serve: Callable[..., Any]):
    connect = serve(connections=3)
    kept = connect(GET % b"/")
    assert read_response(kept)[0] == 200
    others = [connect(b"GET ") for _ in range(10)]
    assert is_closed(others[7]), "all have been accepted"
    kept.sendall(GET % b"/")
    assert read_response(kept)[0] == 200


def test_requests_in_progress_are_never_closed_and_others_are_refused(
    serve: Callable[..., Any], app: SlowApp, metrics: Metrics
):
    connect = serve(connections=2)
    slow = [connect(GET % b"/slow") for _ in range(2)]
    assert all(app.arrived.acquire(timeout=TIMEOUT) for _ in slow)
    refused = connect(GET % b"/")
    status, headers, body = read_response(refused)
    assert (status, headers["retry-after"], headers["connection"]) == (503, "1", "close")
    assert json.loads(body) == {"detail": "too many connections; close those that you do not need"}
    assert is_closed(refused)
    for path, expected in ((b"/healthz", 200), (b"/health", 503)):
        assert read_response(connect(GET % path))[0] == expected
    assert closed_connections(metrics) == {"evicted": 0, "idle": 0, "refused": 3}
    app.released.release(2)
    assert [read_response(each)[2] for each in slow] == [b"ok", b"ok"]
    assert read_response(connect(GET % b"/"))[0] == 200


def test_only_some_refused_connections_stay_open(
    serve: Callable[..., Any], app: SlowApp, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(connections, "REFUSED_AT_ONCE", 2)
    connect = serve(connections=1)
    connect(GET % b"/slow")
    assert app.arrived.acquire(timeout=TIMEOUT)
    waiting = [connect(b"GET ") for _ in range(4)]
    assert read_response(connect(GET % b"/healthz"))[0] == 200
    assert [is_closed(each) for each in waiting[:3]] == [True] * 3
    waiting[3].sendall(GET.removeprefix(b"GET ") % b"/")
    assert read_response(waiting[3])[0] == 503
    app.released.release()


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET / HTTP/1.1\r\nX: ",
        GET % b"/",
        GET % b"/" + b"GET",
        GET % b"/large",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nabc",
    ],
    ids=["silent", "headers", "keep-alive", "next headers", "unread response", "body that is not read"],
)
def test_idle_connections_are_closed(serve: Callable[..., Any], metrics: Metrics, sent: bytes):
    connection = serve(idle_seconds=0.2)(sent)
    deadline = time.monotonic() + TIMEOUT
    while not closed_connections(metrics)["idle"] and time.monotonic() < deadline:
        time.sleep(0.01)
    assert closed_connections(metrics) == {"evicted": 0, "idle": 1, "refused": 0}
    while not is_closed(connection):
        pass


def test_slow_requests_and_slow_readers_are_not_idle(serve: Callable[..., Any], app: SlowApp):
    connect = serve(idle_seconds=0.3)
    slow, large = connect(GET % b"/slow"), connect(GET % b"/large")
    received = 0
    while received < LARGE:  # takes a second
        piece = large.recv(500_000)
        assert piece, "the server has closed the connection"
        received += len(piece)
        time.sleep(0.01)
    app.released.release()
    assert read_response(slow)[2] == b"ok"


def test_malformed_http_is_answered_in_json_once(serve: Callable[..., Any], caplog: pytest.LogCaptureFixture):
    connect = serve()
    status, headers, body = read_response(connect(b"\x16\x03\x01 nonsense\r\n\r\n"))
    assert (status, headers["content-type"], headers["connection"]) == (400, "application/json", "close")
    assert headers["x-content-type-options"] == "nosniff"
    assert json.loads(body) == {"detail": "Invalid HTTP request received."}
    after_response = connect(b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
    assert read_response(after_response)[0] == 200
    after_response.sendall(b"no chunk\r\n")
    assert is_closed(after_response)
    assert [record.message for record in caplog.records if record.levelno >= logging.ERROR] == []


def test_a_body_of_very_many_chunks_is_refused(serve: Callable[..., Any]):
    connect = serve()
    head = b"POST /read HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    for chunks, expected in ((MAX_CHUNKS, 200), (MAX_CHUNKS + 1, 400)):
        assert read_response(connect(head + b"1\r\n \r\n" * chunks + b"0\r\n\r\n"))[0] == expected


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::7", "2001:db8:1:2::/64"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("fe80::1%eth0", "fe80::/64"),
    ],
)
def test_the_addresses_of_an_ipv6_network_are_one_client(host: str, expected: str):
    assert client_network(host) == expected


@pytest.mark.parametrize(
    ("soft", "hard", "settable", "expected"),
    [
        (100_000, 100_000, True, 400),
        (256, "unlimited", True, 400),
        (256, 100_000, True, 400),
        (256, 512, True, (512 - OTHER_DESCRIPTORS) // DESCRIPTORS_PER_CONNECTION),
        (256, 100_000, False, (256 - OTHER_DESCRIPTORS) // DESCRIPTORS_PER_CONNECTION),
        (10, 10, True, 1),
        ("unlimited", "unlimited", True, 400),
    ],
)
def test_connections_fit_into_the_limit_on_open_files(
    monkeypatch: pytest.MonkeyPatch, soft: Any, hard: Any, settable: bool, expected: int
):
    resource = pytest.importorskip("resource")
    current = [resource.RLIM_INFINITY if value == "unlimited" else value for value in (soft, hard)]

    def set_limit(kind: int, values: tuple[int, int]) -> None:
        if not settable:
            raise ValueError("not allowed")
        current[:] = values

    monkeypatch.setattr(resource, "getrlimit", lambda kind: tuple(current))
    monkeypatch.setattr(resource, "setrlimit", set_limit)
    assert fit_descriptors(400) == expected


def test_the_default_limit_fits_into_1024_open_files():
    assert Limits().connections * DESCRIPTORS_PER_CONNECTION + OTHER_DESCRIPTORS <= 1024


def test_without_a_limit_on_open_files_all_connections_fit(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "resource", None)  # as on Windows
    assert fit_descriptors(100_000) == 100_000
