"""Jobs with fake workers that take a second."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from regard.workers import local
from regard.workers.job import STOPPED, WorkerJob

# A fake worker; tests append its behavior.
WORKER = f"""
import json, signal, sys, time
from pathlib import Path
STOPPED = {STOPPED}
request = json.loads(sys.stdin.readline())
number = request["number"]
print(json.dumps({{"phase": "training", "done": 3, "total": 12}}), flush=True)
def write_results():
    Path(request["path"]).write_text("done")
"""


@dataclass(eq=False)
class FakeJob(WorkerJob):
    """A job whose result is a file."""

    module = "fake"

    path: Path

    def request_line(self) -> str:
        return json.dumps({"path": str(self.path), "number": int(self.label)})

    def is_done(self) -> bool:
        return self.path.exists()

    @property
    def log(self) -> Path:
        return self.path.with_suffix(".log")


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Replaces the worker by a fake one with the given behavior."""

    def use(behavior: str) -> None:
        monkeypatch.setattr(local, "worker_command", lambda module: [sys.executable, "-P", "-c", WORKER + behavior])

    return use


@pytest.fixture
def new_jobs(tmp_path: Path) -> Callable[[int], list[FakeJob]]:
    """Waiting jobs with the labels 1, 2, …."""
    return lambda count: [FakeJob(str(number), tmp_path / "results" / str(number)) for number in range(1, count + 1)]
