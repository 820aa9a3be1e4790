"""Crash-safe writing leaves the old content or all of the new; locks end with their process."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from regard import files


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
    with pytest.raises(OSError, match=r".+"), files.lock_file(tmp_path / "lock"):
        pass
    assert not target.exists()


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
