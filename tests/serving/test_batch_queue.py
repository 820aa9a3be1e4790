"""The batch queue: which requests share a batch, which are refused, and which are stopped."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Event, get_ident
from typing import Any

import pytest
from fastapi import HTTPException

from regard.search import SearchStopped
from regard.serving.batch_queue import BatchQueue, RequestSize
from regard.serving.limits import Limits


@dataclass(frozen=True)
class DoublingJob:
    """Doubles numbers once `release` is set, and records its batches."""

    name: str = "double"
    batches: list[list[int]] = field(default_factory=list, compare=False)
    started: Event = field(default_factory=Event, compare=False)
    release: Event = field(default_factory=Event, compare=False)
    threads: set[int] = field(default_factory=set, compare=False)

    def megabytes(self, size: RequestSize) -> float:
        return size.items * size.source

    def run_batch(self, items: Sequence[int], should_stop: Callable[[], bool]) -> list[int]:
        self.batches.append(list(items))
        self.threads.add(get_ident())
        self.started.set()
        assert self.release.wait(10)
        if 13 in items:
            raise ValueError("13 is not allowed")
        return [2 * item for item in items]


def run_queue(use: Callable[[BatchQueue], Coroutine[Any, Any, None]], **limits: Any) -> list[tuple[int, float]]:
    """Call `use` with a running queue; the observed (texts, seconds) of its batches."""
    observed: list[tuple[int, float]] = []
    queue = BatchQueue(Limits(**limits), lambda texts, seconds: observed.append((texts, seconds)))
    queue.start()
    try:
        asyncio.run(asyncio.wait_for(use(queue), 60))
    finally:
        queue.close()
    return observed


async def submit(queue: BatchQueue, job: Any, items: Sequence[int], length: int = 1) -> list[int]:
    return await queue.submit(job, items, RequestSize(len(items), length, length))


async def wait_until_started(job: DoublingJob) -> None:
    assert await asyncio.to_thread(job.started.wait, 10)


async def wait_until_queued(queue: BatchQueue, texts: int) -> None:
    while queue.queued_texts < texts:
        await asyncio.sleep(0.001)


def test_requests_that_arrive_during_a_batch_share_the_next_one():
    job = DoublingJob()

    async def use(queue: BatchQueue) -> None:
        first = asyncio.ensure_future(submit(queue, job, [1]))
        await wait_until_started(job)
        assert queue.in_progress_texts == 1
        others = [asyncio.ensure_future(submit(queue, job, list(range(n)))) for n in (2, 0, 3, 1)]
        await wait_until_queued(queue, 6)
        job.release.set()
        assert await first == [2]
        assert [await other for other in others] == [[0, 2], [], [0, 2, 4], [0]]

    observed = run_queue(use)
    assert job.batches == [[1], [0, 1, 0, 1, 2, 0]]
    assert [texts for texts, _ in observed] == [1, 6]
    assert len(job.threads) == 1
    assert get_ident() not in job.threads


@pytest.mark.parametrize(
    ("limits", "lengths", "expected"),
    [
        ({"batch": 2}, [1] * 6, [[0], [1, 2], [3, 4], [5]]),
        ({"memory": 30}, [10] * 6, [[0], [1, 2, 3], [4, 5]]),
        ({"memory": 30}, [1, 1, 10, 20, 1, 1], [[0], [1, 2, 4], [3], [5]]),  # all are padded to the longest
    ],
)
def test_a_batch_is_limited_in_texts_and_memory(limits: dict[str, int], lengths: list[int], expected: list[list[int]]):
    job = DoublingJob()

    async def use(queue: BatchQueue) -> None:
        first = asyncio.ensure_future(submit(queue, job, [0], lengths[0]))
        await wait_until_started(job)
        others = [asyncio.ensure_future(submit(queue, job, [n], lengths[n])) for n in range(1, 6)]
        await wait_until_queued(queue, 5)
        job.release.set()
        await asyncio.gather(first, *others)

    run_queue(use, **limits)
    assert job.batches == expected


def test_different_jobs_do_not_share_a_batch_and_the_oldest_runs_first():
    one, other = DoublingJob("one"), DoublingJob("other")
    other.release.set()

    async def use(queue: BatchQueue) -> None:
        requests = [asyncio.ensure_future(submit(queue, one, [0]))]
        await wait_until_started(one)
        for number, job in enumerate((other, one, other, one), start=1):
            requests.append(asyncio.ensure_future(submit(queue, job, [number])))
            await wait_until_queued(queue, number)
        one.release.set()
        assert await asyncio.gather(*requests) == [[0], [2], [4], [6], [8]]

    run_queue(use)
    assert (one.batches, other.batches) == ([[0], [2, 4]], [[1, 3]])


def test_a_failing_request_does_not_fail_the_others_of_its_batch():
    job = DoublingJob()

    async def use(queue: BatchQueue) -> None:
        first = asyncio.ensure_future(submit(queue, job, [0]))
        await wait_until_started(job)
        others = [asyncio.ensure_future(submit(queue, job, items)) for items in ([1], [12, 13], [2])]
        await wait_until_queued(queue, 4)
        job.release.set()
        one, bad, two = await asyncio.gather(*others, return_exceptions=True)
        assert (await first, one, two) == ([0], [2], [4])
        assert isinstance(bad, ValueError)

    run_queue(use)
    assert job.batches == [[0], [1, 12, 13, 2], [1], [12, 13], [2]]


def test_an_abandoned_request_is_not_run_again_after_a_failed_batch():
    fail = Event()

    @dataclass(frozen=True)
    class SingleItemJob(DoublingJob):
        """Fails with several items, once `fail` is set."""

        def run_batch(self, items: Sequence[int], should_stop: Callable[[], bool]) -> list[int]:
            if len(items) > 1:
                self.batches.append(list(items))
                assert fail.wait(10)
                raise ValueError("one at a time")
            return super().run_batch(items, should_stop)

    job = SingleItemJob()

    async def use(queue: BatchQueue) -> None:
        first = asyncio.ensure_future(submit(queue, job, [0]))
        await wait_until_started(job)
        kept, gone = [asyncio.ensure_future(submit(queue, job, [item])) for item in (1, 2)]
        await wait_until_queued(queue, 2)
        job.release.set()
        await first
        while queue.queued_texts:
            await asyncio.sleep(0.001)
        gone.cancel()
        with suppress(asyncio.CancelledError):
            await gone
        fail.set()
        assert await kept == [2]

    run_queue(use)
    assert job.batches == [[0], [1, 2], [1]]


def test_an_allocation_error_is_a_memory_error_and_the_queue_survives_all_errors():
    class OutOfMemoryJob(DoublingJob):
        def run_batch(self, items: Sequence[int], should_stop: Callable[[], bool]) -> list[int]:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory")

    def broken(texts: int, seconds: float) -> None:
        raise KeyError("unexpected")

    async def use(queue: BatchQueue) -> None:
        with pytest.raises(MemoryError):
            await submit(queue, OutOfMemoryJob(), [0])
        queue.on_batch = broken
        job = DoublingJob()
        job.release.set()
        with pytest.raises(HTTPException):
            await submit(queue, job, [1])
        queue.on_batch = lambda texts, seconds: None
        assert queue.is_running
        assert await submit(queue, job, [1]) == [2]

    run_queue(use, seconds=0.3)


def test_a_full_queue_refuses_requests():
    job = DoublingJob()

    async def use(queue: BatchQueue) -> None:
        first = asyncio.ensure_future(submit(queue, job, [0]))
        await wait_until_started(job)
        second = asyncio.ensure_future(submit(queue, job, [1, 2, 3]))
        await wait_until_queued(queue, 3)
        with pytest.raises(HTTPException, match=r"3 of at most 4 texts are queued; retry") as error:
            await submit(queue, job, [4, 5])
        assert error.value.status_code == 429
        third = asyncio.ensure_future(submit(queue, job, [4]))
        await wait_until_queued(queue, 4)
        job.release.set()
        assert await asyncio.gather(first, second, third) == [[0], [2, 4, 6], [8]]

    run_queue(use, waiting=4, texts=4)


def test_a_request_times_out_and_leaves_the_queue():
    job = DoublingJob()

    async def use(queue: BatchQueue) -> None:
        first = asyncio.ensure_future(submit(queue, job, [0]))
        await wait_until_started(job)
        with pytest.raises(HTTPException, match=r"no result within 0\.05 seconds") as error:
            await submit(queue, job, [1])
        assert error.value.status_code == 503
        assert (queue.queued_texts, list(queue._queue)) == (0, []), "it has left the queue"
        with pytest.raises(HTTPException):
            await first
        job.release.set()

    run_queue(use, seconds=0.05)
    assert job.batches == [[0]]


@dataclass(frozen=True)
class EndlessJob:
    """Runs until `should_stop` returns True."""

    started: Event = field(default_factory=Event, compare=False)
    stopped: Event = field(default_factory=Event, compare=False)

    def megabytes(self, size: RequestSize) -> float:
        return 0.0

    def run_batch(self, items: Sequence[int], should_stop: Callable[[], bool]) -> list[int]:
        self.started.set()
        while not should_stop():
            time.sleep(0.001)
        self.stopped.set()
        raise SearchStopped


def test_an_abandoned_batch_is_stopped():
    async def use(queue: BatchQueue) -> None:
        job = EndlessJob()
        endless = asyncio.ensure_future(submit(queue, job, [0]))
        assert await asyncio.to_thread(job.started.wait, 10)
        endless.cancel()
        assert await asyncio.to_thread(job.stopped.wait, 10)
        doubling = DoublingJob()
        doubling.release.set()
        assert await submit(queue, doubling, [4]) == [8], "the next request is served"

    run_queue(use)


def test_a_batch_is_stopped_only_when_all_its_clients_have_left():
    first = DoublingJob()
    endless = EndlessJob()

    async def use(queue: BatchQueue) -> None:
        busy = asyncio.ensure_future(submit(queue, first, [0]))
        await wait_until_started(first)
        clients = [asyncio.ensure_future(submit(queue, endless, [number])) for number in range(2)]
        await wait_until_queued(queue, 2)
        first.release.set()
        assert await busy == [0]
        assert await asyncio.to_thread(endless.started.wait, 10)
        clients[0].cancel()
        assert not await asyncio.to_thread(endless.stopped.wait, 0.1)
        clients[1].cancel()
        assert await asyncio.to_thread(endless.stopped.wait, 10)

    run_queue(use)


def test_a_queue_does_not_stop_the_batches_of_another_queue():
    job = EndlessJob()

    async def use(queue: BatchQueue) -> None:
        other = BatchQueue(Limits())
        other.start()
        abandoned = asyncio.ensure_future(submit(queue, EndlessJob(), [0]))
        kept = asyncio.ensure_future(submit(other, job, [0]))
        assert await asyncio.to_thread(job.started.wait, 10)
        abandoned.cancel()
        with suppress(asyncio.CancelledError):
            await abandoned
        assert not await asyncio.to_thread(job.stopped.wait, 0.1)
        kept.cancel()
        assert await asyncio.to_thread(job.stopped.wait, 10)
        await asyncio.to_thread(other.close)

    run_queue(use)


def test_closing_finishes_all_queued_requests():
    job = DoublingJob()

    async def use(queue: BatchQueue) -> None:
        requests = [asyncio.ensure_future(submit(queue, job, [number])) for number in range(3)]
        await wait_until_started(job)
        closing = asyncio.ensure_future(asyncio.to_thread(queue.close))
        await asyncio.sleep(0.01)
        assert not closing.done()
        job.release.set()
        assert await asyncio.gather(*requests) == [[0], [2], [4]]
        await closing

    run_queue(use)
