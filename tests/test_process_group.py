"""Memory that processes share. How processes sum and wait is tested in `tests/training/test_processes.py`."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from regard import process_group
from regard.process_group import ProcessGroup, ProcessLost

pytestmark = pytest.mark.unix


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of files in memory."""
    monkeypatch.setattr(process_group, "SHARED_MEMORY", tmp_path / "memory")
    return tmp_path / "memory"


def test_memory_is_reserved_before_it_is_used(memory: Path):
    memory.mkdir()
    path = process_group._reserve(70_001)
    assert [str(each) for each in memory.iterdir()] == [path]
    assert os.stat(str(path)).st_blocks * 512 >= 70_001


def test_without_enough_memory_processes_share_none(memory: Path, monkeypatch: pytest.MonkeyPatch):
    assert process_group._reserve(100) is None, "the system has no such folder"
    memory.mkdir()

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", fail, raising=False)
    assert process_group._reserve(100) is None
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
