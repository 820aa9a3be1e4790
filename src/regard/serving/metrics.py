"""What a server has done so far, in Prometheus's text format."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from threading import Lock

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard import __version__

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
TEXTS = (1, 2, 4, 8, 16, 32, 64, 128)


class Histogram:
    """How many values were at most so large."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def lines(self, name: str, labels: Mapping[str, str]) -> Iterator[str]:
        total = 0
        for bound, count in zip((*self.bounds, "+Inf"), self.counts, strict=True):
            total += count
            yield _line(f"{name}_bucket", {**labels, "le": str(bound)}, total)
        yield _line(f"{name}_sum", labels, self.sum)
        yield _line(f"{name}_count", labels, total)


class Metrics:
    """Counted by the event loop and by the thread that translates."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.requests: Counter[tuple[str, str]] = Counter()  # by path and status
        self.seconds: defaultdict[str, Histogram] = defaultdict(lambda: Histogram(SECONDS))  # by path
        self.batches = Histogram(TEXTS)
        self.work_seconds = 0.0

    def answered(self, path: str, status: int, seconds: float) -> None:
        with self._lock:
            self.requests[path, str(status)] += 1
            self.seconds[path].add(seconds)

    def worked(self, texts: int, seconds: float) -> None:
        with self._lock:
            self.batches.add(texts)
            self.work_seconds += seconds

    def text(self, waiting: int, under_way: int) -> str:
        """All of it; so many texts are waiting, and so many under way, at this moment."""
        with self._lock:
            return "\n".join([*self._lines(waiting, under_way), ""])

    def _lines(self, waiting: int, under_way: int) -> Iterator[str]:
        yield from _head("regard_info", "gauge", "What is running.")
        yield _line("regard_info", {"version": __version__}, 1)
        yield from _head("regard_requests_total", "counter", "Requests that were answered.")
        for (path, status), count in sorted(self.requests.items()):
            yield _line("regard_requests_total", {"path": path, "status": status}, count)
        yield from _head("regard_request_seconds", "histogram", "From request to answer.")
        for path, histogram in sorted(self.seconds.items()):
            yield from histogram.lines("regard_request_seconds", {"path": path})
        yield from _head("regard_batch_texts", "histogram", "Texts that were done together.")
        yield from self.batches.lines("regard_batch_texts", {})
        yield from _head("regard_work_seconds_total", "counter", "Time that the models were at work.")
        yield _line("regard_work_seconds_total", {}, self.work_seconds)
        yield from _head("regard_waiting_texts", "gauge", "Texts that wait to be begun with.")
        yield _line("regard_waiting_texts", {}, waiting)
        yield from _head("regard_under_way_texts", "gauge", "Texts that are being worked on.")
        yield _line("regard_under_way_texts", {}, under_way)
        resident = resident_bytes()
        if resident is not None:
            yield from _head("process_resident_memory_bytes", "gauge", "Memory in use.")
            yield _line("process_resident_memory_bytes", {}, resident)


class MetricsMiddleware:
    """Tells the metrics of every answer. Only known paths are told apart: others are anybody's invention."""

    def __init__(self, app: ASGIApp, metrics: Metrics, paths: Sequence[str]) -> None:
        self.app, self.metrics, self.paths = app, metrics, frozenset(paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        began = time.monotonic()
        status = 500

        async def send_and_note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, send_and_note)
        finally:
            path = scope["path"] if scope["path"] in self.paths else "other"
            self.metrics.answered(path, status, time.monotonic() - began)


def resident_bytes() -> int | None:
    """Of this process; None where the system does not tell."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:"))
    except (OSError, StopIteration):
        return None


def _head(name: str, kind: str, about: str) -> tuple[str, str]:
    return f"# HELP {name} {about}", f"# TYPE {name} {kind}"


def _line(name: str, labels: Mapping[str, str], value: float) -> str:
    """Label values are ours, with nothing in them that needs escaping."""
    told = ",".join(f'{key}="{label}"' for key, label in labels.items())
    return f"{name}{{{told}}} {value:.10g}" if told else f"{name} {value:.10g}"
