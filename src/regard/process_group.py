"""The processes that train one model together, on one machine or on several, as `torchrun` starts them.

Between processes, values travel as JSON in tensors: PyTorch's own functions for objects would pickle them.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from ctypes import py_object, pythonapi
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

import torch
from torch import Tensor, distributed
from torch.distributed import PrefixStore  # type: ignore[attr-defined]
from torch.distributed.rendezvous import rendezvous

from regard.errors import UserError
from regard.files import NEW, scratch_folder

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store

WAIT = timedelta(days=1)  # for another process, which may have a large corpus to read
CONNECT = timedelta(minutes=5)  # until all processes of the group have started
# Environment variables of a launcher, with the values of a process that is alone.
VARIABLES = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
ADDRESS = ("MASTER_ADDR", "MASTER_PORT")
END = 5.0  # seconds in which the launcher ends the others after one has failed
SHARED_MEMORY = Path("/dev/shm")  # files that are in memory, on Linux
ENDED_FIRST = "ended first"  # in the store: the rank and the exit code of the process that has ended first
POLL_INTERVAL = 0.01  # seconds
Value = TypeVar("Value")


class ProcessLost(Exception):  # noqa: N818 (the error is in the other process, which reports it)
    """Another process of the group has ended before its time."""


@dataclass(frozen=True)
class ProcessGroup:
    """The processes of a training. The default is a single one, which never waits.

    Args:
        rank: The number of this process among all, from 0.
        size: The number of all processes.
        local_rank: The number of this process among those of its machine, from 0.
        local_size: The number of processes of its machine.
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1
    # By number of elements: memory that the processes share, one row for each of them and one for their sum.
    _shared: dict[int, Tensor | None] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def is_first(self) -> bool:
        """True in the one process that writes files and prints."""
        return self.rank == 0

    @property
    def first_of_machine(self) -> int:
        """The rank of the first process on the machine of this one."""
        return self.rank - self.local_rank

    @property
    def has_several_machines(self) -> bool:
        """True if not all processes are on the machine of this one."""
        return self.size > self.local_size

    def buffer(self, length: int, device: torch.device) -> Tensor:
        """A vector of float32, whose `sum` over the processes takes the least time.

        Its content is valid until the next call with this length, which may return the same vector.

        Args:
            length: The number of elements.
            device: Where it is.
        """
        rows = None
        if self.size > 1 and device.type == "cpu" and not self.has_several_machines:
            if length not in self._shared:
                self._shared[length] = self._allocate(self.size + 1, length)
            rows = self._shared[length]
        return torch.empty(length, device=device) if rows is None else rows[self.rank]

    def sum(self, values: Tensor) -> Tensor:
        """The sum of the values of all processes.

        Args:
            values: A tensor of the same shape in all processes, or a `buffer`.

        Returns:
            Of a buffer, a tensor to read from until the next call; otherwise `values`, which are replaced.
        """
        if self.size == 1:
            return values
        rows = self._shared.get(len(values)) if values.dim() else None
        if rows is not None and rows[self.rank].data_ptr() == values.data_ptr():
            return self._sum_rows(rows)
        _communicate(lambda: distributed.all_reduce(values))
        return values

    def _sum_rows(self, rows: Tensor) -> Tensor:
        """The last one of rows in shared memory, to which the processes write the sum of the others.

        Each adds up a part of the elements. Of 15 MB and two processes, this takes 2 ms; gloo, which sends messages
        between processes of one machine, too, takes 10.
        """
        columns = rows.shape[1]
        part = slice(columns * self.rank // self.size, columns * (self.rank + 1) // self.size)
        self._wait_for_all()
        torch.sum(rows[:-1, part], dim=0, out=rows[-1, part])
        self._wait_for_all()  # all write to their own rows afterwards, so nobody changes the sum until it is used
        return rows[-1]

    def _allocate(self, rows: int, columns: int) -> Tensor | None:
        """A tensor of zeros in memory that the processes share; None if there is not enough."""
        with _file_in_memory(4 * rows * columns) if self.is_first else nullcontext() as own:
            (path, *_) = self.gather(own)
            if path is None:
                return None
            shared = torch.from_file(path, shared=True, size=rows * columns, dtype=torch.float32)
            self._wait_for_all()
        # The file is removed, so the memory is free when all processes have ended, however they end.
        return shared.view(rows, columns)

    def _wait_for_all(self) -> None:
        _communicate(lambda: distributed.all_reduce(torch.zeros(1, device="cpu")))

    def gather(self, value: Any) -> list[Any]:
        """The values of all processes, by rank. Each process waits here for all others, and handles signals meanwhile.

        Args:
            value: A JSON value.
        """
        if self.size == 1:
            return [value]
        content = torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8)
        lengths = [torch.zeros(1, dtype=torch.int64, device="cpu") for _ in range(self.size)]
        own = torch.tensor([len(content)], device="cpu")
        _communicate(lambda: _gather(lengths, own))
        longest = max(int(length) for length in lengths)
        rows = [torch.zeros(longest, dtype=torch.uint8, device="cpu") for _ in range(self.size)]
        padded = torch.nn.functional.pad(content, (0, longest - len(content)))
        _communicate(lambda: _gather(rows, padded))
        return [json.loads(bytes(row[: int(n)].tolist())) for row, n in zip(rows, lengths, strict=True)]

    def any(self, flag: bool) -> bool:
        """True if the flag is True in any process.

        Args:
            flag: That of this process.
        """
        return bool(self.sum(torch.tensor(int(flag), device="cpu")).item()) if self.size > 1 else flag


SINGLE = ProcessGroup()


@contextmanager
def join_process_group() -> Iterator[ProcessGroup]:
    """The group of processes that a launcher such as `torchrun` has started; a single process if there is none.

    If processes fail or are interrupted, the first one raises its exception. The others end silently, with its exit
    code (an attribute of the exception, or 1): they have failed for the same reason, or because that one is gone.
    """
    group = _launched_group() if is_launched() else SINGLE
    if group.size == 1:
        yield group
        return
    store = _connect_processes()
    try:
        yield group
    except BaseException as error:
        # The group is left as it is: its connections close when this process ends, and not before, so that the
        # launcher sees the process first that has ended first.
        _end_unless_first(group, store, error)
        raise
    distributed.destroy_process_group()


def _launched_group() -> ProcessGroup:
    """The group that the launcher's environment variables describe."""
    try:
        rank, size, local_rank, local_size = (int(os.environ.get(name, alone)) for name, alone in VARIABLES.items())
        if not (0 <= rank < size and 0 <= local_rank < local_size <= size):
            raise ValueError(
                "it should be 0 <= RANK < WORLD_SIZE, and 0 <= LOCAL_RANK < LOCAL_WORLD_SIZE <= WORLD_SIZE"
            )
        if size > 1 and ("LOCAL_RANK" in os.environ) != ("LOCAL_WORLD_SIZE" in os.environ):
            raise ValueError("set both LOCAL_RANK and LOCAL_WORLD_SIZE, or neither")
    except ValueError as error:
        raise _wrong_variables(error) from None
    return ProcessGroup(rank, size, local_rank, local_size)


def _wrong_variables(error: Exception) -> UserError:
    values = ", ".join(f"{name}={os.environ[name]}" for name in (*VARIABLES, *ADDRESS) if name in os.environ)
    return UserError(
        f"the processes of this training cannot connect: {str(error).splitlines()[0]}; the environment has {values}. "
        "torchrun sets these variables; to train in one process, unset RANK and WORLD_SIZE"
    )


def _connect_processes() -> Store:
    """Connect the processes of a group."""
    try:
        store, rank, size = _await(lambda: next(rendezvous("env://", timeout=CONNECT)))
        store = PrefixStore(_await(lambda: _agree_on_name(store, rank, size)), store)
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() and distributed.is_nccl_available() else "gloo"
        _await(lambda: distributed.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=WAIT))
    except (ValueError, RuntimeError) as error:
        raise _wrong_variables(error) from None
    return store


def _agree_on_name(store: Store, rank: int, size: int) -> str:
    """A name for this group that all its processes know, and no earlier one has had.

    A launcher that starts processes again may keep their store, in which a process could read the address of one that
    was killed. Each process therefore writes a random name of its own. The first one answers to all that it finds,
    until those of this group have confirmed the answer, which is its own name.
    """
    own = uuid4().hex
    if rank:
        store.set(f"process {rank}", own)
        name: str = store.get(f"answer to {own}").decode()
        store.set(f"{name} {rank}", "confirmed")
        return name
    give_up_at = time.monotonic() + CONNECT.total_seconds()
    for other in range(1, size):
        while not store.check([f"{own} {other}"]):
            if time.monotonic() > give_up_at:
                raise RuntimeError(f"process {other} does not answer")
            store.set(f"answer to {store.get(f'process {other}').decode()}", own)
            time.sleep(POLL_INTERVAL)
    return own


def is_launched() -> bool:
    """True in a process that `torchrun`, or another launcher with the same environment variables, has started."""
    return "RANK" in os.environ and "WORLD_SIZE" in os.environ


def restarts_after_errors() -> bool:
    """True if the launcher (`torchrun --max-restarts`) starts all processes again when one ends with an error."""
    return os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0") != "0"


def has_agent() -> bool:
    """True if the agent of `torchrun` or `regard train --processes` has started this process. It passes signals on."""
    return "TORCHELASTIC_RUN_ID" in os.environ


@contextmanager
def _file_in_memory(size: int) -> Iterator[str | None]:
    """The path of a new file, which is removed at the end; None if there is not enough memory, or no such files.

    Those of processes that were killed are removed first.
    """
    path = None
    with ExitStack() as stack:
        if SHARED_MEMORY.is_dir():
            with suppress(OSError):
                folder = stack.enter_context(scratch_folder(SHARED_MEMORY / "regard"))
                with (folder / NEW).open("xb") as file:
                    # Without it, a process that writes to memory that is not there would be ended by SIGBUS.
                    os.posix_fallocate(file.fileno(), 0, size)
                path = str(folder / NEW)
        yield path


def _communicate(operation: Callable[[], object]) -> None:
    try:
        operation()
    except RuntimeError as error:  # a connection is closed
        raise ProcessLost(str(error)) from error


def _gather(rows: list[Tensor], own: Tensor) -> None:
    """Exchange tensors, and handle signals meanwhile."""
    work = distributed.all_gather(rows, own, async_op=True)
    try:
        while not work.is_completed():
            time.sleep(POLL_INTERVAL)
    except BaseException:
        # The end of Python would destroy the group, and wait for the other processes: keep all that is in use.
        pythonapi.Py_IncRef(py_object((distributed.group.WORLD, work, rows, own)))
        raise
    work.wait()  # raises an exception if a connection is closed


def _await(operation: Callable[[], Value]) -> Value:
    """The result of an operation in another thread: while PyTorch waits for other processes, no signal is handled."""
    results: list[Value] = []
    errors: list[Exception] = []

    def run() -> None:
        try:
            results.append(operation())
        except Exception as error:
            errors.append(error)

    thread = Thread(target=run, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(POLL_INTERVAL)
    if errors:
        raise errors[0]
    return results[0]


def _end_unless_first(group: ProcessGroup, store: Store, error: BaseException) -> None:
    """Return in the first process that ends; in the others, let the launcher end this process, and otherwise end it."""
    is_lost = isinstance(error, ProcessLost)
    if is_lost:
        time.sleep(END)  # in which the launcher ends this process, if another one was killed
    exit_code = getattr(error, "exit_code", 1)
    own = f"{group.rank} {exit_code}"
    try:
        first = store.compare_set(ENDED_FIRST, "", own).decode()
    except RuntimeError:  # the process that has the store is gone
        raise SystemExit(exit_code) from None
    if first != own:
        if not is_lost and not isinstance(error, KeyboardInterrupt):
            time.sleep(END)
        raise SystemExit(int(first.split()[1])) from None
    if is_lost:
        reason = (str(error).splitlines() or ["it has ended"])[0]
        raise UserError(f"process {group.rank} has lost its connection to another process: {reason}") from None
