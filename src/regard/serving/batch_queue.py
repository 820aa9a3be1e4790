"""Where requests wait for a model: those that arrive while it is at work are then done together.

    ask ─→ queue ─→ one thread: the oldest, and all behind it that can be done with it ─→ answers

The event loop only puts jobs into the queue and hands out answers, so that it can always say how things are. A job
whose asker has gone is not done, and one that is under way for askers who have all gone is stopped.
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

from regard.search import SearchStopped
from regard.serving.limits import NOT_NOW, TOO_MANY, Limits, RefusedError

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RequestSize:
    """How much there is to do. What is done together is padded to the longest."""

    items: int
    source: int  # tokens of the longest
    target: int

    def __add__(self, other: RequestSize) -> RequestSize:
        return RequestSize(self.items + other.items, max(self.source, other.source), max(self.target, other.target))


class Job(Protocol):
    """What is to be done with each item. Jobs of equal work are done together."""

    def __hash__(self) -> int: ...

    def megabytes(self, extent: RequestSize) -> float:
        """How much memory it takes to do so much of it at once, about."""

    def do(self, items: Sequence[Any], should_stop: Callable[[], bool]) -> list[Any]:
        """A result for each item; raises `SearchStopped` soon after `should_stop` returns True."""


@dataclass(eq=False)
class QueuedRequest:
    work: Job
    items: Sequence[Any]
    extent: RequestSize
    answer: asyncio.Future[list[Any]]
    wanted: bool = True  # does somebody still wait?


@dataclass(eq=False)
class BatchQueue:
    """One thread that works, and a queue before it."""

    limits: Limits
    observe: Callable[[int, float], None] = lambda texts, seconds: None  # is told of each batch
    _queue: deque[QueuedRequest] = field(default_factory=deque)
    _changed: Condition = field(default_factory=Condition)
    _under_way: Sequence[QueuedRequest] = ()
    _closing: bool = False

    def __post_init__(self) -> None:
        self._thread = Thread(target=self._serve, name="regard-desk", daemon=True)

    def open(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Finish what is there, and end."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    @property
    def is_open(self) -> bool:
        return self._thread.is_alive()

    @property
    def waiting(self) -> int:
        """Texts that nobody has begun with."""
        with self._changed:
            return sum(len(job.items) for job in self._queue)

    @property
    def under_way(self) -> int:
        """Texts that are being worked on."""
        return sum(len(job.items) for job in self._under_way)

    async def ask(self, work: Job, items: Sequence[Any], extent: RequestSize) -> list[Any]:
        """The results, in the order of the items; a `RefusedError` if they cannot be had in time."""
        if not items:
            return []
        waiting = self.waiting
        if waiting + len(items) > self.limits.waiting:
            reason = f"{waiting} texts are waiting, and at most {self.limits.waiting} may; try again in a moment"
            raise RefusedError(TOO_MANY, reason)
        job = QueuedRequest(work, items, extent, asyncio.get_running_loop().create_future())
        with self._changed:
            self._queue.append(job)
            self._changed.notify()
        try:
            async with asyncio.timeout(self.limits.seconds):
                return await job.answer
        except TimeoutError:
            reason = f"no answer within {self.limits.seconds:g} seconds; ask for less, or try again later"
            raise RefusedError(NOT_NOW, reason) from None
        finally:
            job.wanted = False
            with self._changed, suppress(ValueError):  # it may have been begun with
                self._queue.remove(job)

    def _serve(self) -> None:
        while batch := self._next():
            try:
                self._finish(batch)
            except Exception:  # whoever waits will be told that it took too long; the next batch is done all the same
                log.exception("a batch was lost")

    def _next(self) -> list[QueuedRequest]:
        """The oldest job, and those that can be done with it; none, when all is done and the desk closes."""
        with self._changed:
            while not self._queue:
                if self._closing:
                    return []
                self._changed.wait()
            batch = [self._queue.popleft()]
            work, extent = batch[0].work, batch[0].extent
            others: deque[QueuedRequest] = deque()
            for job in self._queue:
                both = extent + job.extent
                fits = both.items <= self.limits.batch and work.megabytes(both) <= self.limits.memory
                if job.work == work and fits:
                    batch.append(job)
                    extent = both
                else:
                    others.append(job)
            self._queue = others
            return batch

    def _finish(self, batch: Sequence[QueuedRequest]) -> None:
        """Do a batch. If that fails, each job is tried alone: nobody shall fail for what somebody else has asked."""
        self._under_way = batch
        items = [item for job in batch for item in job.items]
        began = time.monotonic()
        try:
            results: list[Any] | Exception = batch[0].work.do(items, lambda: not any(job.wanted for job in batch))
        except SearchStopped:  # nobody waits for any of these any more
            return
        except Exception as error:
            # Torch has no class of its own for this.
            results = MemoryError() if "can't allocate memory" in str(error) else error
        finally:
            self._under_way = ()
            self.observe(len(items), time.monotonic() - began)
        if isinstance(results, list) or len(batch) == 1:
            self._deliver(batch, results)
        else:
            for job in batch:
                if job.wanted:
                    self._finish([job])

    def _deliver(self, batch: Sequence[QueuedRequest], results: list[Any] | Exception) -> None:
        def hand_out() -> None:
            place = 0
            for job in batch:
                if job.answer.done():  # it was given up
                    pass
                elif isinstance(results, Exception):
                    job.answer.set_exception(results)
                else:
                    job.answer.set_result(results[place : place + len(job.items)])
                place += len(job.items)

        with suppress(RuntimeError):  # the loop has been closed: nobody is there to be told
            batch[0].answer.get_loop().call_soon_threadsafe(hand_out)
