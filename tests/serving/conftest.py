"""Servers for tests: within this process, or on a socket."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from starlette.testclient import TestClient

from regard.serving.app import build_app
from regard.serving.limits import Limits
from regard.serving.metrics import Metrics
from regard.serving.registry import ServedRun, open_runs
from regard.serving.server import Server, listen

NewClient = Callable[..., TestClient]
StartServer = Callable[..., AbstractContextManager[int]]


@pytest.fixture(scope="session")
def opened() -> Callable[..., list[ServedRun]]:
    """`open_runs(paths)`, with each combination of runs loaded once. Serving does not change a run."""
    return cache(lambda *paths: open_runs(paths))


@pytest.fixture
def new_client(trained: Path, opened: Callable[..., list[ServedRun]]) -> Iterator[NewClient]:
    """A client of a new application in this process, with the given runs, token, origins and limits."""
    with ExitStack() as stack:

        def create(*runs: Path, token: str | None = None, origins: tuple[str, ...] = (), **limits: Any) -> TestClient:
            app = build_app(opened(*runs or [trained]), Limits(**limits), token=token, origins=origins)
            return stack.enter_context(TestClient(app, base_url="http://127.0.0.1:8000", raise_server_exceptions=False))

        yield create


@pytest.fixture(scope="session")
def start_server() -> StartServer:
    """A context manager that serves an application on a free port, with these limits, and returns the port."""

    @contextmanager
    def start(app: Any, metrics: Metrics | None = None, **limits: Any) -> Iterator[int]:
        started = Event()
        with listen("127.0.0.1", 0) as server_socket:
            server = Server(app, Limits(**{"seconds": 1} | limits), metrics or Metrics(), started.set)
            thread = Thread(target=server.run, kwargs={"sockets": [server_socket]})
            thread.start()
            try:
                assert started.wait(30)
                yield server_socket.getsockname()[1]
            finally:
                server.should_exit = True
                thread.join()

    return start
