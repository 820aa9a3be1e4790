"""Runs numbered tries in worker processes, with limits of time and memory."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from torture.judging import MEMORY_LIMIT, TIME_LIMIT
from torture.outcomes import Campaign, Tally
from torture.worker import serve_tries

WORKERS = 2
START_LIMIT = 120.0  # seconds until a worker has imported everything
POLL = 0.05  # seconds
REPORT_EVERY = 15.0  # seconds between two lines of progress
KEPT = 25  # failing inputs of an attack that are kept


@dataclass
class Worker:
    """A worker process, started when it is needed and replaced when it has ended.

    Args:
        campaign: The campaign.
        module: The module that builds the tries.
        folder: The folder of its current try.
        materials: What the tries are made from.
        limit: Seconds for one try.
    """

    campaign: Campaign
    module: str
    folder: Path
    materials: Path | None
    limit: float
    process: Any = None
    connection: Any = None

    def start(self) -> None:
        """Start the process and wait until it has imported what it needs."""
        context = get_context("spawn")
        self.connection, theirs = context.Pipe()
        settings = (theirs, self.module, self.campaign.seed, self.folder, self.materials)
        self.process = context.Process(target=serve_tries, args=settings, daemon=False)
        self.process.start()
        theirs.close()
        if not self.connection.poll(START_LIMIT) or self.connection.recv() != "ready":
            self.end()
            raise RuntimeError(f"the worker for {self.module} does not start")

    def run(self, number: int) -> tuple[str, str, str, dict[str, float]]:
        """Try once: the kind of attack, the command, what went wrong, and measured values."""
        if self.process is None:
            self.start()
        kind, command = self.module.rpartition(".")[2], ""
        try:
            self.connection.send(number)
            fault = self.wait()
            if not fault:
                kind, command = self.receive()
                fault = self.wait()
            if not fault:
                return kind, command, *self.receive()
        except (EOFError, OSError):
            fault = "the process ended"
        self.end()
        if self.process.exitcode and fault == "the process ended":
            fault = f"the process ended with code {self.process.exitcode}: {self.last_words()}"
        self.process = None
        return kind, command, fault, {}

    def wait(self) -> str:
        """Wait for a message; what went wrong if there is none."""
        deadline = time.monotonic() + self.limit
        while not self.connection.poll(POLL):
            if time.monotonic() > deadline:
                return f"no end within {self.limit:.0f} s"
            if resident_memory(self.process.pid) > MEMORY_LIMIT:
                return f"memory over {MEMORY_LIMIT >> 30} GB"
        return ""

    def receive(self) -> Any:
        """A message; a text is a mistake of the test itself."""
        message = self.connection.recv()
        if isinstance(message, str):
            raise RuntimeError(f"{self.module}: {message}")
        return message

    def last_words(self) -> str:
        """The end of what the process wrote to its real standard error."""
        with suppress(OSError):
            return repr(self.folder.with_name(f"{self.folder.name}.log").read_bytes()[-300:])
        return ""

    def end(self) -> None:
        """End the process; what it has started ends with its session."""
        if self.process is not None:
            if hasattr(os, "killpg"):
                with suppress(OSError):
                    os.killpg(self.process.pid, 9)
            self.process.kill()
            self.process.join()


def resident_memory(pid: int) -> int:
    """The memory of a process in bytes; 0 where there is no /proc."""
    try:
        with open(f"/proc/{pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, AttributeError):
        return 0


@dataclass
class Scoreboard:
    """Collects outcomes of all workers, keeps failing inputs and reports progress.

    Args:
        campaign: The campaign.
        name: The name of the attack.
        total: The number of tries.
    """

    campaign: Campaign
    name: str
    total: int
    tallies: dict[str, Tally] = field(default_factory=dict)
    done: int = 0
    began: float = field(default_factory=time.monotonic)
    reported: float = field(default_factory=time.monotonic)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def record(self, number: int, folder: Path, kind: str, command: str, fault: str, measured: dict[str, Any]) -> None:
        """Count a try, and keep its input if it failed."""
        with self.lock:
            if fault:
                again = f"--only {self.name} --seed {self.campaign.seed} --try {number}"
                fault = f"{fault} | {command} | {again} | {self._keep(number, folder)}"
            self.tallies.setdefault(kind, Tally(kind)).record(fault, **measured)
            self.done += 1
            if time.monotonic() - self.reported >= REPORT_EVERY or self.done == self.total:
                self._report()

    def _keep(self, number: int, folder: Path) -> str:
        kept = self.campaign.folder / "failed" / str(number)
        if sum(len(tally.failures) for tally in self.tallies.values()) >= KEPT:
            return "input not kept: there are many"
        kept.parent.mkdir(exist_ok=True)
        with suppress(OSError):
            shutil.rmtree(kept, ignore_errors=True)
            folder.rename(kept)
        return str(kept)

    def _report(self) -> None:
        self.reported = time.monotonic()
        rate = self.done / max(self.reported - self.began, 1e-9)
        left = round((self.total - self.done) / rate)
        failures = sum(len(tally.failures) for tally in self.tallies.values())
        self.campaign.progress(
            f"{self.name}: {self.done:,}/{self.total:,} tries, {failures} failures, {rate:.1f} tries/s, "
            f"{left // 60}:{left % 60:02d} left"
        )


def run_tries(
    campaign: Campaign,
    module: str,
    numbers: Iterable[int],
    materials: Path | None = None,
    *,
    limit: float = TIME_LIMIT,
    workers: int = WORKERS,
) -> list[Tally]:
    """Try every number; a tally for each kind of attack.

    Args:
        campaign: The campaign.
        module: The module whose `build` makes a try from its number.
        numbers: The numbers of the tries.
        materials: What the tries are made from.
        limit: Seconds for one try.
        workers: Processes at a time.
    """
    numbers = list(numbers)
    scores = Scoreboard(campaign, module.rpartition(".")[2].replace("_", "-"), len(numbers))
    left = iter(numbers)

    def next_numbers() -> Iterator[int]:
        while True:
            with scores.lock:
                number = next(left, None)
            if number is None:
                return
            yield number

    def work(index: int) -> None:
        worker = Worker(campaign, module, campaign.folder / f"try-{index}", materials, limit)
        try:
            for number in next_numbers():
                scores.record(number, worker.folder, *worker.run(number))
        finally:
            worker.end()
            shutil.rmtree(worker.folder, ignore_errors=True)

    with ThreadPoolExecutor(workers) as threads:
        for job in [threads.submit(work, index) for index in range(min(workers, len(numbers)))]:
            job.result()
    return [scores.tallies[kind] for kind in sorted(scores.tallies)]
