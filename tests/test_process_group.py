"""Memory that processes share. How processes sum and wait is tested in `tests/training/test_processes.py`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest
import torch

from regard import process_group
from regard.errors import UserError
from regard.process_group import ProcessGroup, ProcessLost

pytestmark = pytest.mark.unix


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of files in memory."""
    monkeypatch.setattr(process_group, "SHARED_MEMORY", tmp_path / "memory")
    return tmp_path / "memory"


def test_memory_is_reserved_before_it_is_used(memory: Path):
    memory.mkdir()
    with process_group._file_in_memory(70_001) as path:
        assert os.stat(str(path)).st_blocks * 512 >= 70_001
    assert list(memory.iterdir()) == []


def test_memory_of_a_process_that_was_killed_is_removed_by_the_next(memory: Path):
    memory.mkdir()
    code = (
        "import os, sys; from pathlib import Path; from regard import process_group\n"
        "process_group.SHARED_MEMORY = Path(sys.argv[1])\n"
        "with process_group._file_in_memory(100): os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(memory)]).returncode == -signal.SIGKILL
    (abandoned,) = memory.iterdir()
    with process_group._file_in_memory(100) as path:
        assert [str(each / "new") for each in memory.iterdir()] == [path]
    assert not abandoned.exists()


def test_without_enough_memory_processes_share_none(memory: Path, monkeypatch: pytest.MonkeyPatch):
    with process_group._file_in_memory(100) as path:
        assert path is None, "the system has no such folder"
    memory.mkdir()

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", fail, raising=False)
    with process_group._file_in_memory(100) as path:
        assert path is None
    assert list(memory.iterdir()) == []


def test_a_machine_with_one_of_the_processes_shares_no_memory():
    assert ProcessGroup(rank=1, size=2).buffer(5, torch.device("cpu")).shape == (5,)


@pytest.mark.parametrize("operation", ["gather", "_wait_for_all"])
def test_memory_is_removed_if_another_process_ends_meanwhile(
    operation: str, memory: Path, monkeypatch: pytest.MonkeyPatch
):
    memory.mkdir()

    def lose(*_: object) -> None:
        assert len(list(memory.iterdir())) == 1
        raise ProcessLost("it was killed")

    monkeypatch.setattr(ProcessGroup, "gather", lambda _, value: [value, None])
    monkeypatch.setattr(ProcessGroup, operation, lose)
    with pytest.raises(ProcessLost):
        ProcessGroup(size=2, local_size=2).buffer(5, torch.device("cpu"))
    assert list(memory.iterdir()) == []


def test_a_group_has_a_new_name_in_a_store_that_has_the_names_of_an_earlier_one():
    store = torch.distributed.HashStore()
    names = []
    for _ in range(3):
        with ThreadPoolExecutor(3) as threads:
            names.append(list(threads.map(lambda rank: process_group._agree_on_name(store, rank, 3), range(3))))
    assert [len(set(each)) for each in names] == [1, 1, 1], "all processes of a group have the same name"
    assert len({each[0] for each in names}) == 3


def test_a_process_that_was_killed_while_it_connected_is_not_waited_for(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(process_group, "CONNECT", timedelta(seconds=0.1))
    store = torch.distributed.HashStore()
    store.set("process 1", "its name")
    with pytest.raises(RuntimeError, match="process 1 does not answer"):
        process_group._agree_on_name(store, 0, 2)


def test_a_launcher_of_one_process_starts_a_single_one(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")  # and no address

    def interrupt() -> None:
        with process_group.join_process_group() as group:
            assert group == process_group.SINGLE
            raise KeyboardInterrupt

    for _ in range(2):  # as in a notebook
        with pytest.raises(KeyboardInterrupt):
            interrupt()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"RANK": "2", "WORLD_SIZE": "2"},
            "it should be 0 <= RANK < WORLD_SIZE, and .*; the environment has RANK=2, WORLD_SIZE=2",
        ),
        ({"RANK": "-1", "WORLD_SIZE": "1"}, "it should be 0 <= RANK < WORLD_SIZE"),
        ({"RANK": "0", "WORLD_SIZE": "0"}, "it should be 0 <= RANK < WORLD_SIZE"),
        (
            {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "3", "LOCAL_WORLD_SIZE": "2"},
            "it should be 0 <= RANK < WORLD_SIZE",
        ),
        (
            {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "3"},
            "it should be 0 <= RANK < WORLD_SIZE",
        ),
        ({"RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "0"}, "it should be 0 <= RANK < WORLD_SIZE"),
        ({"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "0"}, "set both LOCAL_RANK and LOCAL_WORLD_SIZE, or neither"),
        ({"RANK": "zero", "WORLD_SIZE": "2"}, "invalid literal"),
    ],
)
def test_wrong_variables_are_refused_before_anything_is_awaited(
    values: dict[str, str], message: str, monkeypatch: pytest.MonkeyPatch
):
    for name in process_group.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UserError, match=message), process_group.join_process_group():
        pytest.fail("accepted")
