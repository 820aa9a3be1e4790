"""Servers to ask, within this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from regard.serving.api import build_app
from regard.serving.limits import Limits
from regard.serving.served import open_runs

Ask = Callable[..., TestClient]


@pytest.fixture
def ask(trained: Path) -> Iterator[Ask]:
    """A client of a new server; `limits` and how it is guarded can be chosen."""
    with ExitStack() as stack:

        def start(*runs: Path, token: str | None = None, origins: tuple[str, ...] = (), **limits: Any) -> TestClient:
            app = build_app(open_runs(runs or [trained]), Limits(**limits), token=token, origins=origins)
            return stack.enter_context(TestClient(app, base_url="http://127.0.0.1:8000", raise_server_exceptions=False))

        yield start
