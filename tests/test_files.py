"""Crash-safe writing leaves the old content or all of the new; locks end with their process."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from regard import files
from regard.errors import UserError


class Crash(BaseException):
    pass


def test_a_file_is_written_and_replaced(tmp_path: Path):
    path = tmp_path / "file"
    files.write_atomic(path, b"old")
    files.write_atomic(path, b"new")
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["file"]


def test_new_content_is_invisible_until_the_block_ends(tmp_path: Path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with files.atomic_writer(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"


def write_half(path: Path, error: type[BaseException]) -> None:
    with files.atomic_writer(path) as file:
        file.write(b"half of the n")
        raise error


@pytest.mark.parametrize("error", [ValueError, Crash, KeyboardInterrupt])
@pytest.mark.parametrize("before", [None, b"old"])
def test_when_the_writer_fails_the_old_content_is_kept(
    tmp_path: Path, error: type[BaseException], before: bytes | None
):
    path = tmp_path / "file"
    if before is not None:
        path.write_bytes(before)
    with pytest.raises(error):
        write_half(path, error)
    assert os.listdir(tmp_path) == ([] if before is None else ["file"])
    assert before is None or path.read_bytes() == before


@pytest.mark.parametrize("call", ["fsync", "replace", "fchmod", "chmod"])
def test_when_the_disk_fails_the_old_content_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    called = []

    def fail(*_: object, **__: object) -> None:
        called.append(call)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, call, fail)
    with suppress(OSError):
        files.write_atomic(path, b"new")
    assert path.read_bytes() == (b"old" if called else b"new")
    assert os.listdir(tmp_path) == ["file"]


def test_content_is_on_the_disk_before_the_name_points_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    calls = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda *a: (calls.append("fsync"), fsync(*a)))
    monkeypatch.setattr(os, "replace", lambda *a: (calls.append("replace"), replace(*a)))
    files.write_atomic(tmp_path / "file", b"new")
    assert calls[:2] == ["fsync", "replace"]


def test_a_file_has_the_permissions_of_the_umask(tmp_path: Path):
    before = os.umask(0o027)
    try:
        files.write_atomic(tmp_path / "file", b"")
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640


LOCK = """
import sys
from pathlib import Path
from regard.files import lock_folder
with lock_folder(Path(sys.argv[1])) as acquired:
    print(acquired, flush=True)
    sys.stdin.read()
"""


def test_a_lock_is_released_when_its_process_ends_in_any_way(tmp_path: Path):
    with files.lock_folder(tmp_path) as acquired:
        assert acquired
        with files.lock_folder(tmp_path) as second:
            assert not second
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", LOCK, str(tmp_path)], **pipes) as process:
        assert process.stdout.readline() == "True\n"
        with files.lock_folder(tmp_path) as acquired:
            assert not acquired
        process.kill()
    with files.lock_folder(tmp_path) as acquired:
        assert acquired


def test_a_lock_is_released_by_an_exception(tmp_path: Path):
    with suppress(Crash), files.lock_folder(tmp_path):
        raise Crash
    with files.lock_folder(tmp_path) as acquired:
        assert acquired


def test_a_lock_file_keeps_its_content(tmp_path: Path):
    path = tmp_path / "file"
    path.write_bytes(b"content")
    with files.lock_file(path) as acquired:
        assert acquired
        with files.lock_file(path) as second:
            assert not second
    assert path.read_bytes() == b"content"


def test_a_lock_does_not_follow_a_symbolic_link(tmp_path: Path):
    target = tmp_path / "target"
    (tmp_path / "lock").symlink_to(target)
    with pytest.raises(UserError, match="lock: a lock is a regular file"), files.lock_file(tmp_path / "lock"):
        pass
    assert not target.exists()


def test_a_lock_is_a_regular_file(tmp_path: Path):
    (tmp_path / "folder").mkdir()
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "fifo")
    for path in tmp_path.iterdir():
        with pytest.raises(UserError, match=f"{path.name}: a lock is a regular file"), files.lock_file(path):
            pass


def test_a_folder_is_renamed_onto_an_empty_one_only(tmp_path: Path):
    for name in ("new", "empty", "full"):
        (tmp_path / name).mkdir()
    (tmp_path / "new" / "file").write_bytes(b"new")
    (tmp_path / "full" / "file").write_bytes(b"old")
    with pytest.raises(OSError, match="not empty"):
        files.rename_folder(tmp_path / "new", tmp_path / "full")
    files.rename_folder(tmp_path / "new", tmp_path / "empty")
    assert {path: (tmp_path / path / "file").read_bytes() for path in os.listdir(tmp_path)} == {
        "empty": b"new",
        "full": b"old",
    }


# --- Reading ---------------------------------------------------------------------------------------------


def test_a_file_is_read_and_parsed(tmp_path: Path):
    (tmp_path / "file").write_bytes(b"12")
    assert files.read_file(tmp_path / "file", int) == 12


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("no number"), "this file is damaged: no number"),
        (KeyError("step"), "this file is damaged: it lacks 'step'"),
        (RecursionError(), "this file is damaged: it is nested too deeply"),
        (OverflowError("too large"), "this file is damaged: too large"),
        (AttributeError("x"), "this file is damaged: x"),
        (OSError(5, "Input/output error"), "cannot be read: Input/output error"),
        (UserError("explained already"), "explained already"),
    ],
)
def test_whatever_a_parser_raises_is_a_user_error(tmp_path: Path, error: Exception, message: str):
    def parse(content: bytes) -> None:
        raise error

    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(UserError, match=f"{message}$"):
        files.read_file(tmp_path / "file", parse)


def test_a_missing_file_and_missing_memory_are_not_damage(tmp_path: Path):
    with pytest.raises(FileNotFoundError):
        files.read_file(tmp_path / "file", bytes)
    with pytest.raises(MemoryError), files.damage_as_user_error("file"):
        raise MemoryError


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path):
    with (tmp_path / "file").open("wb") as file:
        file.truncate(files.MAX_BYTES + 1)  # sparse
    with pytest.raises(UserError, match=r"file: this file has 64,000,001 bytes; at most 64,000,000 are read"):
        files.read_file(tmp_path / "file", bytes)


def test_only_regular_files_are_read(tmp_path: Path):
    special = [tmp_path / "fifo", Path("/dev/zero")]
    if hasattr(os, "mkfifo"):
        os.mkfifo(special[0])  # without a writer, to open it would take for ever
    for path in special:
        if path.exists():
            with pytest.raises(UserError, match=f"{path}: this is not a regular file"):
                files.read_file(path, bytes)
    with pytest.raises(UserError, match="cannot be read: "):
        files.read_file(tmp_path, bytes)


# --- Writing ---------------------------------------------------------------------------------------------


def test_a_full_disk_is_reported_with_the_path(tmp_path: Path):
    with pytest.raises(OSError, match="No space left") as failed, files.atomic_writer(tmp_path / "file"):
        raise OSError(28, "No space left on device")
    assert failed.value.filename == str(tmp_path / "file")


def test_appending_extends_a_file_and_follows_no_link(tmp_path: Path):
    for line in (b"one\n", b"two\n"):
        files.append(tmp_path / "file", line)
    assert (tmp_path / "file").read_bytes() == b"one\ntwo\n"
    (tmp_path / "link").symlink_to(tmp_path / "file")
    if hasattr(os, "O_NOFOLLOW"):
        with pytest.raises(OSError, match=r".+"):
            files.append(tmp_path / "link", b"three\n")
    assert (tmp_path / "file").read_bytes() == b"one\ntwo\n"


def test_on_windows_a_file_that_is_being_read_is_replaced_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    calls, replace = [], os.replace

    def replace_at_third_call(*paths: Path) -> None:
        calls.append(paths)
        if len(calls) < 3:
            raise PermissionError(13, "The process cannot access the file")
        replace(*paths)

    monkeypatch.setattr(os, "replace", replace_at_third_call)
    monkeypatch.setattr(files, "IS_WINDOWS", True)
    monkeypatch.setattr(files.time, "sleep", lambda _: None)
    files.write_atomic(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"new"
    monkeypatch.setattr(files, "IS_WINDOWS", False)
    calls.clear()
    with pytest.raises(PermissionError):
        files.write_atomic(tmp_path / "file", b"newer")
    assert os.listdir(tmp_path) == ["file"]


# --- Scratch folders -------------------------------------------------------------------------------------

SCRATCH = """
import sys
from pathlib import Path
from regard.files import scratch_folder
with scratch_folder(Path(sys.argv[1])) as folder:
    (folder / "new").write_text("half")
    print(folder.name, flush=True)
    sys.stdin.read()
"""


def test_a_scratch_folder_is_removed_at_the_end_and_after_an_error(tmp_path: Path):
    with files.scratch_folder(tmp_path / "target") as folder:
        assert folder.parent == tmp_path
        (folder / "new").write_text("draft")
    with suppress(Crash), files.scratch_folder(tmp_path / "target"):
        raise Crash
    assert os.listdir(tmp_path) == []


def test_the_scratch_folder_of_a_killed_process_is_removed_and_that_of_a_living_one_kept(tmp_path: Path):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    target = tmp_path / "target"
    with subprocess.Popen([sys.executable, "-c", SCRATCH, str(target)], **pipes) as process:
        left = tmp_path / process.stdout.readline().strip()
        assert files.remove_abandoned(target) == []
        with files.scratch_folder(target):
            assert left.is_dir()
        process.kill()
    assert left.is_dir()
    assert files.remove_abandoned(tmp_path / "other") == []
    with files.scratch_folder(target):
        assert not left.exists()
    assert os.listdir(tmp_path) == []


def test_the_drafts_of_a_folder_are_removed_and_nothing_else(tmp_path: Path):
    for name in (".run.abcd1234/run", ".a b.12345678/new"):  # the first as Regard 0.5 left it
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "config.yaml").write_text("")
    kept = tmp_path / "kept"
    kept.mkdir()
    (tmp_path / ".run.original").mkdir()
    (tmp_path / ".run.original" / "mine").write_text("")  # the name fits, the content does not
    (tmp_path / ".link.12345678").symlink_to(kept)
    (tmp_path / ".file.12345678").write_text("")
    removed = files.remove_abandoned(tmp_path / "*")
    assert sorted(path.name for path in removed) == [".a b.12345678", ".run.abcd1234"]
    assert sorted(os.listdir(tmp_path)) == [".file.12345678", ".link.12345678", ".run.original", "kept"]


def test_a_folder_that_another_process_takes_for_abandoned_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    lock_folder, locked = files.lock_folder, []

    @contextmanager
    def lock_second_folder(folder: Path) -> Iterator[bool]:
        locked.append(folder)
        with lock_folder(folder) as acquired:
            yield acquired and len(locked) > 1

    monkeypatch.setattr(files, "lock_folder", lock_second_folder)
    with files.scratch_folder(tmp_path / "target") as folder:
        assert locked[0] != folder == locked[1]
        assert os.listdir(tmp_path) == [folder.name]
    assert os.listdir(tmp_path) == []


def test_a_link_is_removed_and_not_what_it_points_to(tmp_path: Path):
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    files.remove_entry(tmp_path / "link")
    assert os.listdir(tmp_path) == ["kept"]
    files.remove_entry(tmp_path / "kept")
    assert os.listdir(tmp_path) == []


def test_processes_that_write_the_same_file_do_not_remove_the_scratch_folders_of_each_other(tmp_path: Path):
    """Each looks for abandoned folders at any moment of the life of the others; threads lock like processes."""

    def write(writer: int) -> None:
        for number in range(150):
            files.write_atomic(tmp_path / "file", f"{writer} {number}".encode())

    with ThreadPoolExecutor(4) as writers:
        list(writers.map(write, range(4)))
    assert os.listdir(tmp_path) == ["file"]
