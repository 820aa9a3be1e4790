"""Where requests wait: what is done together, what is refused, and what is not done at all."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Event, get_ident
from typing import Any

import pytest

from regard.search import SearchStopped
from regard.serving.batch_queue import BatchQueue, RequestSize
from regard.serving.limits import Limits, RefusedError


@dataclass(frozen=True)
class Doubling:
    """Work that waits until it is let go, and remembers what was done at once."""

    name: str = "doubling"
    batches: list[list[int]] = field(default_factory=list, compare=False)
    begun: Event = field(default_factory=Event, compare=False)
    let_go: Event = field(default_factory=Event, compare=False)
    threads: set[int] = field(default_factory=set, compare=False)

    def megabytes(self, extent: RequestSize) -> float:
        return extent.items * extent.source

    def do(self, items: Sequence[int], should_stop: Callable[[], bool]) -> list[int]:
        self.batches.append(list(items))
        self.threads.add(get_ident())
        self.begun.set()
        assert self.let_go.wait(10)
        if 13 in items:
            raise ValueError("not this one")
        return [2 * item for item in items]


def run(visit: Callable[[BatchQueue], Coroutine[Any, Any, None]], **limits: Any) -> list[tuple[int, float]]:
    """Visit a desk; what it was observed to do."""
    observed: list[tuple[int, float]] = []
    desk = BatchQueue(Limits(**limits), lambda texts, seconds: observed.append((texts, seconds)))
    desk.open()
    try:
        asyncio.run(asyncio.wait_for(visit(desk), 60))
    finally:
        desk.close()
    return observed


async def ask(desk: BatchQueue, work: Any, items: Sequence[int], length: int = 1) -> list[int]:
    return await desk.ask(work, items, RequestSize(len(items), length, length))


async def begun(work: Doubling) -> None:
    assert await asyncio.to_thread(work.begun.wait, 10)


async def queued(desk: BatchQueue, texts: int) -> None:
    while desk.waiting < texts:
        await asyncio.sleep(0.001)


def test_what_arrives_during_work_is_then_done_together_and_each_gets_its_own():
    work = Doubling()

    async def visit(desk: BatchQueue) -> None:
        first = asyncio.ensure_future(ask(desk, work, [1]))
        await begun(work)
        assert desk.under_way == 1
        others = [asyncio.ensure_future(ask(desk, work, list(range(n)))) for n in (2, 0, 3, 1)]
        await queued(desk, 6)
        work.let_go.set()
        assert await first == [2]
        assert [await other for other in others] == [[0, 2], [], [0, 2, 4], [0]]

    observed = run(visit)
    assert work.batches == [[1], [0, 1, 0, 1, 2, 0]]
    assert [texts for texts, _ in observed] == [1, 6]
    assert len(work.threads) == 1
    assert get_ident() not in work.threads


@pytest.mark.parametrize(
    ("limits", "lengths", "expected"),
    [
        ({"batch": 2}, [1] * 6, [[0], [1, 2], [3, 4], [5]]),
        ({"memory": 30}, [10] * 6, [[0], [1, 2, 3], [4, 5]]),
        ({"memory": 30}, [1, 1, 10, 20, 1, 1], [[0], [1, 2, 4], [3], [5]]),  # the longest is what all are padded to
    ],
)
def test_a_batch_has_its_limits(limits: dict[str, int], lengths: list[int], expected: list[list[int]]):
    work = Doubling()

    async def visit(desk: BatchQueue) -> None:
        first = asyncio.ensure_future(ask(desk, work, [0], lengths[0]))
        await begun(work)
        others = [asyncio.ensure_future(ask(desk, work, [n], lengths[n])) for n in range(1, 6)]
        await queued(desk, 5)
        work.let_go.set()
        await asyncio.gather(first, *others)

    run(visit, **limits)
    assert work.batches == expected


def test_other_work_waits_its_turn_and_the_oldest_comes_first():
    one, other = Doubling("one"), Doubling("other")
    other.let_go.set()

    async def visit(desk: BatchQueue) -> None:
        asked = [asyncio.ensure_future(ask(desk, one, [0]))]
        await begun(one)
        for number, work in enumerate((other, one, other, one), start=1):
            asked.append(asyncio.ensure_future(ask(desk, work, [number])))
            await queued(desk, number)
        one.let_go.set()
        assert await asyncio.gather(*asked) == [[0], [2], [4], [6], [8]]

    run(visit)
    assert (one.batches, other.batches) == ([[0], [2, 4]], [[1, 3]])


def test_nobody_fails_for_what_somebody_else_has_asked():
    work = Doubling()

    async def visit(desk: BatchQueue) -> None:
        first = asyncio.ensure_future(ask(desk, work, [0]))
        await begun(work)
        others = [asyncio.ensure_future(ask(desk, work, items)) for items in ([1], [12, 13], [2])]
        await queued(desk, 4)
        work.let_go.set()
        one, bad, two = await asyncio.gather(*others, return_exceptions=True)
        assert (await first, one, two) == ([0], [2], [4])
        assert isinstance(bad, ValueError)

    run(visit)
    assert work.batches == [[0], [1, 12, 13, 2], [1], [12, 13], [2]]


def test_who_has_gone_is_not_done_alone_either():
    together = Event()

    @dataclass(frozen=True)
    class Touchy(Doubling):
        """It fails when it is asked for several things, but not before it is let go."""

        def do(self, items: Sequence[int], should_stop: Callable[[], bool]) -> list[int]:
            if len(items) > 1:
                self.batches.append(list(items))
                assert together.wait(10)
                raise ValueError("one at a time")
            return super().do(items, should_stop)

    work = Touchy()

    async def visit(desk: BatchQueue) -> None:
        first = asyncio.ensure_future(ask(desk, work, [0]))
        await begun(work)
        kept, gone = [asyncio.ensure_future(ask(desk, work, [item])) for item in (1, 2)]
        await queued(desk, 2)
        work.let_go.set()
        await first
        while desk.waiting:
            await asyncio.sleep(0.001)
        gone.cancel()
        with suppress(asyncio.CancelledError):
            await gone
        together.set()
        assert await kept == [2]

    run(visit)
    assert work.batches == [[0], [1, 2], [1]]


def test_want_of_memory_is_told_as_such_and_nothing_ends_the_desk():
    class Starved(Doubling):
        def do(self, items: Sequence[int], should_stop: Callable[[], bool]) -> list[int]:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory")

    def broken(texts: int, seconds: float) -> None:
        raise KeyError("nobody expects this")

    async def visit(desk: BatchQueue) -> None:
        with pytest.raises(MemoryError):
            await ask(desk, Starved(), [0])
        desk.observe = broken
        work = Doubling()
        work.let_go.set()
        with pytest.raises(RefusedError):
            await ask(desk, work, [1])
        desk.observe = lambda texts, seconds: None
        assert desk.is_open
        assert await ask(desk, work, [1]) == [2]

    run(visit, seconds=0.3)


def test_a_full_queue_refuses():
    work = Doubling()

    async def visit(desk: BatchQueue) -> None:
        first = asyncio.ensure_future(ask(desk, work, [0]))
        await begun(work)
        second = asyncio.ensure_future(ask(desk, work, [1, 2, 3]))
        await queued(desk, 3)
        with pytest.raises(RefusedError, match=r"3 texts are waiting, and at most 4 may; try again") as error:
            await ask(desk, work, [4, 5])
        assert error.value.status == 429
        third = asyncio.ensure_future(ask(desk, work, [4]))
        await queued(desk, 4)
        work.let_go.set()
        assert await asyncio.gather(first, second, third) == [[0], [2, 4, 6], [8]]

    run(visit, waiting=4, texts=4)


def test_what_takes_too_long_is_given_up_and_not_done():
    work = Doubling()

    async def visit(desk: BatchQueue) -> None:
        first = asyncio.ensure_future(ask(desk, work, [0]))
        await begun(work)
        with pytest.raises(RefusedError, match=r"no answer within 0\.05 seconds") as error:
            await ask(desk, work, [1])
        assert error.value.status == 503
        assert (desk.waiting, list(desk._queue)) == (0, []), "nobody waits for it"
        with pytest.raises(RefusedError):
            await first
        work.let_go.set()

    run(visit, seconds=0.05)
    assert work.batches == [[0]]


@dataclass(frozen=True)
class Endless:
    """Work that runs until `should_stop` returns True."""

    started: Event = field(default_factory=Event, compare=False)
    stopped: Event = field(default_factory=Event, compare=False)

    def megabytes(self, extent: RequestSize) -> float:
        return 0.0

    def do(self, items: Sequence[int], should_stop: Callable[[], bool]) -> list[int]:
        self.started.set()
        while not should_stop():
            time.sleep(0.001)
        self.stopped.set()
        raise SearchStopped


def test_work_that_nobody_waits_for_is_stopped():
    async def visit(desk: BatchQueue) -> None:
        work = Endless()
        endless = asyncio.ensure_future(ask(desk, work, [0]))
        assert await asyncio.to_thread(work.started.wait, 10)
        endless.cancel()
        assert await asyncio.to_thread(work.stopped.wait, 10)
        doubling = Doubling()
        doubling.let_go.set()
        assert await ask(desk, doubling, [4]) == [8], "the next request is served"

    run(visit)


def test_a_batch_is_stopped_only_when_all_its_clients_have_left():
    first = Doubling()
    endless = Endless()

    async def visit(desk: BatchQueue) -> None:
        busy = asyncio.ensure_future(ask(desk, first, [0]))
        await begun(first)
        clients = [asyncio.ensure_future(ask(desk, endless, [number])) for number in range(2)]
        await queued(desk, 2)
        first.let_go.set()
        assert await busy == [0]
        assert await asyncio.to_thread(endless.started.wait, 10)
        clients[0].cancel()
        assert not await asyncio.to_thread(endless.stopped.wait, 0.1)
        clients[1].cancel()
        assert await asyncio.to_thread(endless.stopped.wait, 10)

    run(visit)


def test_a_queue_does_not_stop_the_work_of_another_queue():
    work = Endless()

    async def visit(desk: BatchQueue) -> None:
        other = BatchQueue(Limits())
        other.open()
        abandoned = asyncio.ensure_future(ask(desk, Endless(), [0]))
        kept = asyncio.ensure_future(ask(other, work, [0]))
        assert await asyncio.to_thread(work.started.wait, 10)
        abandoned.cancel()
        with suppress(asyncio.CancelledError):
            await abandoned
        assert not await asyncio.to_thread(work.stopped.wait, 0.1)
        kept.cancel()
        assert await asyncio.to_thread(work.stopped.wait, 10)
        await asyncio.to_thread(other.close)

    run(visit)


def test_a_desk_that_closes_finishes_what_is_there():
    work = Doubling()

    async def visit(desk: BatchQueue) -> None:
        asked = [asyncio.ensure_future(ask(desk, work, [number])) for number in range(3)]
        await begun(work)
        closing = asyncio.ensure_future(asyncio.to_thread(desk.close))
        await asyncio.sleep(0.01)
        assert not closing.done()
        work.let_go.set()
        assert await asyncio.gather(*asked) == [[0], [2], [4]]
        await closing

    run(visit)
