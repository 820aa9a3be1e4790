"""Silent connections: which are closed, and that new clients have time to send their request."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest

from regard.serving import acceptor
from regard.serving.acceptor import Acceptor
from regard.serving.connections import ConnectionLimiter
from regard.serving.limits import Limits
from regard.serving.metrics import Metrics

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="its event loop cannot watch sockets")
TIMEOUT = 20.0  # against a hang


class Listener(socket.socket):
    """A listening socket that cannot accept connections at first."""

    failures = 0

    def accept(self) -> tuple[socket.socket, Any]:
        if self.failures:
            self.failures -= 1
            raise OSError(errno.ENFILE, "Too many open files in system")
        return super().accept()


class Bench:
    """An acceptor in an event loop, and clients of it."""

    def __init__(self, stack: ExitStack, failures: int = 0, **limits: Any) -> None:
        self.listener = stack.enter_context(Listener())
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen(100)
        self.listener.failures = failures
        self.stack, self.metrics, self.served = stack, Metrics(), list[socket.socket]()
        self.acceptor = Acceptor(self.listener, ConnectionLimiter(Limits(**limits), self.metrics), self.serve)
        self.acceptor.start()
        stack.callback(self.acceptor.close)

    def serve(self, connection: socket.socket) -> None:
        self.served.append(self.stack.enter_context(connection))

    def connect(self, sent: bytes = b"") -> socket.socket:
        client = self.stack.enter_context(socket.create_connection(self.listener.getsockname(), TIMEOUT))
        client.sendall(sent)
        return client

    def closed(self, reason: str) -> float:
        return self.metrics.registry.get_sample_value("regard_closed_connections_total", {"reason": reason}) or 0.0

    def open(self) -> float | None:
        return self.metrics.registry.get_sample_value("regard_open_connections")


async def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.005)


def run(test: Callable[[ExitStack], Any]) -> None:
    async def main() -> None:
        with ExitStack() as stack:
            await test(stack)

    asyncio.run(main())


def test_the_oldest_silent_connections_are_closed_in_favor_of_new_ones(caplog: pytest.LogCaptureFixture):
    async def check(stack: ExitStack) -> None:
        bench = Bench(stack, connections=3)
        clients = [bench.connect() for _ in range(5)]
        await wait_until(lambda: bench.closed("evicted") == 2)
        assert [client.recv(1) for client in clients[:2]] == [b"", b""]
        assert bench.open() == 3
        clients[4].sendall(b"GET")
        await wait_until(lambda: len(bench.served) == 1)
        assert bench.served[0].recv(10) == b"GET"
        assert bench.open() == 2

    run(check)
    (record,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert "(3 that have sent nothing)" in record.message


def test_a_client_has_time_to_send_its_request(monkeypatch: pytest.MonkeyPatch):
    async def check(stack: ExitStack) -> None:
        monkeypatch.setattr(acceptor, "GRACE_SECONDS", 60)
        bench = Bench(stack, connections=1)
        slow = bench.connect()
        others = [bench.connect() for _ in range(3)]
        await wait_until(lambda: bench.open() == 1)
        await asyncio.sleep(0.05)
        assert bench.closed("evicted") == 0, "the others wait in the backlog"
        slow.sendall(b"request")
        await wait_until(lambda: len(bench.served) == 1)
        assert bench.served[0].recv(10) == b"request"
        assert len(others) == 3

    run(check)


def test_connections_that_stay_silent_or_are_closed_by_the_client_are_removed():
    async def check(stack: ExitStack) -> None:
        bench = Bench(stack, idle_seconds=0.1)
        silent, leaving = bench.connect(), bench.connect()
        await wait_until(lambda: bench.open() == 2)
        leaving.close()
        await wait_until(lambda: bench.open() == 1)
        bench.acceptor.close_idle()
        assert bench.closed("idle") == 0
        await asyncio.sleep(0.11)
        bench.acceptor.close_idle()
        assert (bench.closed("idle"), bench.open(), bench.served) == (1, 0, [])
        assert silent.recv(1) == b""

    run(check)


@pytest.mark.parametrize(("retry_seconds", "remaining"), [(60, 4), (0.01, 0)])
def test_accepting_is_tried_again_some_time_after_an_error_of_the_system(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, retry_seconds: float, remaining: int
):
    async def check(stack: ExitStack) -> None:
        monkeypatch.setattr(acceptor, "RETRY_SECONDS", retry_seconds)
        bench = Bench(stack, failures=5)
        bench.connect(b"request")
        await wait_until(lambda: bench.listener.failures == remaining)
        await asyncio.sleep(0.05)
        assert bench.listener.failures == remaining
        await wait_until(lambda: len(bench.served) == (remaining == 0))

    run(check)
    messages = [record.message for record in caplog.records if record.levelno == logging.ERROR]
    assert messages == ["cannot accept connections: [Errno 23] Too many open files in system"] * (5 - remaining)
