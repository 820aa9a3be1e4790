"""A queue that batches requests: those that arrive while the model is busy run together in the next batch.

    submit ─→ queue ─→ one thread: the oldest request and all that fit into its batch ─→ results

The event loop only fills the queue and passes on results, so that it stays responsive. A request whose client has left
is removed from the queue, and a batch that no client waits for is stopped.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Condition, Thread
from typing import Any, Protocol

from fastapi import HTTPException

from regard.search import SearchStopped
from regard.serving.limits import SERVICE_UNAVAILABLE, TOO_MANY_REQUESTS, Limits

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RequestSize:
    """The size of a request. The sum of two sizes is that of a batch, which is padded to the longest text.

    Args:
        items: The number of texts, or of pairs of texts.
        source: Tokens of the longest source.
        target: Tokens of the longest target, given or possible.
    """

    items: int
    source: int
    target: int

    def __add__(self, other: RequestSize) -> RequestSize:
        return RequestSize(self.items + other.items, max(self.source, other.source), max(self.target, other.target))


class Job(Protocol):
    """The operation that a request needs. Requests with equal jobs can run in one batch."""

    def __hash__(self) -> int: ...

    def megabytes(self, size: RequestSize) -> float:
        """An upper bound on the memory that a batch of this size needs."""

    def run_batch(self, items: Sequence[Any], should_stop: Callable[[], bool]) -> list[Any]:
        """A result for each item; raises `SearchStopped` soon after `should_stop` returns True."""


@dataclass(eq=False)
class QueuedRequest:
    """A request in the queue or in the current batch."""

    job: Job
    items: Sequence[Any]
    size: RequestSize
    future: asyncio.Future[list[Any]]
    is_abandoned: bool = False  # the client has left, or the time is over


@dataclass(eq=False)
class BatchQueue:
    """A queue of requests and the thread that runs them in batches.

    Args:
        limits: Limits on the queue, on a batch and on the time until a result.
        on_batch: Called after each batch with its number of texts and its seconds.
    """

    limits: Limits
    on_batch: Callable[[int, float], None] = lambda texts, seconds: None
    _queue: deque[QueuedRequest] = field(default_factory=deque)
    _changed: Condition = field(default_factory=Condition)
    _current_batch: Sequence[QueuedRequest] = ()
    _is_closing: bool = False

    def __post_init__(self) -> None:
        self._thread = Thread(target=self._run, name="regard-inference", daemon=True)

    def start(self) -> None:
        """Start the inference thread."""
        self._thread.start()

    def close(self) -> None:
        """Finish all queued requests, then end the thread."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        self._thread.join()

    @property
    def is_running(self) -> bool:
        """True while the inference thread is alive."""
        return self._thread.is_alive()

    @property
    def queued_texts(self) -> int:
        """The number of texts that wait in the queue."""
        with self._changed:
            return sum(len(request.items) for request in self._queue)

    @property
    def in_progress_texts(self) -> int:
        """The number of texts in the current batch."""
        return sum(len(request.items) for request in self._current_batch)

    async def submit(self, job: Job, items: Sequence[Any], size: RequestSize) -> list[Any]:
        """Wait for the results, in the order of the items.

        Args:
            job: What to do with each item.
            items: Texts, or pairs of texts.
            size: Their size.

        Raises:
            HTTPException: 429 if the queue is full, 503 if there is no result in time.
        """
        if not items:
            return []
        queued = self.queued_texts
        if queued + len(items) > self.limits.waiting:
            detail = f"{queued} of at most {self.limits.waiting} texts are queued; retry in a moment"
            raise HTTPException(TOO_MANY_REQUESTS, detail)
        request = QueuedRequest(job, items, size, asyncio.get_running_loop().create_future())
        with self._changed:
            self._queue.append(request)
            self._changed.notify()
        try:
            async with asyncio.timeout(self.limits.seconds):
                return await request.future
        except TimeoutError:
            detail = f"no result within {self.limits.seconds:g} seconds; send a smaller request, or retry later"
            raise HTTPException(SERVICE_UNAVAILABLE, detail) from None
        finally:
            request.is_abandoned = True
            with self._changed, suppress(ValueError):  # it may be in a batch already
                self._queue.remove(request)

    def _run(self) -> None:
        """Run batches until the queue is closed and empty."""
        while batch := self._next_batch():
            try:
                self._run_batch(batch)
            except Exception:  # its requests time out, and the next batch runs
                log.exception("a batch was lost")

    def _next_batch(self) -> list[QueuedRequest]:
        """The oldest request and all that can run with it; empty once the queue is closed and empty."""
        with self._changed:
            while not self._queue:
                if self._is_closing:
                    return []
                self._changed.wait()
            batch = [self._queue.popleft()]
            job, size = batch[0].job, batch[0].size
            others: deque[QueuedRequest] = deque()
            for request in self._queue:
                total = size + request.size
                fits = total.items <= self.limits.batch and job.megabytes(total) <= self.limits.memory
                if request.job == job and fits:
                    batch.append(request)
                    size = total
                else:
                    others.append(request)
            self._queue = others
            return batch

    def _run_batch(self, batch: Sequence[QueuedRequest]) -> None:
        """Run a batch. If it fails, run each request alone: no request fails because of another."""
        self._current_batch = batch
        items = [item for request in batch for item in request.items]
        start = time.monotonic()
        try:
            results: list[Any] | Exception = batch[0].job.run_batch(
                items, lambda: all(each.is_abandoned for each in batch)
            )
        except SearchStopped:  # no client waits for any of these results
            return
        except Exception as error:
            # PyTorch has no exception class for this.
            results = MemoryError() if "can't allocate memory" in str(error) else error
        finally:
            self._current_batch = ()
            self.on_batch(len(items), time.monotonic() - start)
        if isinstance(results, list) or len(batch) == 1:
            self._set_results(batch, results)
        else:
            for request in batch:
                if not request.is_abandoned:
                    self._run_batch([request])

    def _set_results(self, batch: Sequence[QueuedRequest], results: list[Any] | Exception) -> None:
        """Complete the futures of a batch, in the event loop."""

        def set_results() -> None:
            start = 0
            for request in batch:
                if request.future.done():  # cancelled
                    pass
                elif isinstance(results, Exception):
                    request.future.set_exception(results)
                else:
                    request.future.set_result(results[start : start + len(request.items)])
                start += len(request.items)

        with suppress(RuntimeError):  # the event loop is closed
            batch[0].future.get_loop().call_soon_threadsafe(set_results)
