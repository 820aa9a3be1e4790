"""Crash-safe file writing and locks that end with the process.

The writer is Regard's own because no maintained package offers it: write to a temporary file, flush it to the disk,
rename it. A crash at any point leaves the previous content.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from regard.errors import UserError


@contextmanager
def atomic_writer(path: Path) -> Iterator[BinaryIO]:
    """A binary file to write to. It replaces `path` when the block ends without an exception.

    Args:
        path: The file to create or replace. Its folder must exist.
    """
    temporary = path.with_name(f".{path.name}.{uuid4().hex[:8]}")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_atomic(path: Path, content: bytes) -> None:
    """Write a file so that readers see either the old content or all of the new content.

    Args:
        path: The file to create or replace. Its folder must exist.
        content: What to write.
    """
    with atomic_writer(path) as file:
        file.write(content)


def write_output(path: Path, content: bytes, what: str) -> None:
    """Write a file that the user requested, and create its folder if needed.

    Args:
        path: The file to create or replace.
        content: What to write.
        what: A noun phrase for the error message, such as `"the figure"`.

    Raises:
        UserError: The file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, content)
    except OSError as error:
        raise UserError(f"{path}: cannot write {what}: {error.strerror or error}") from error


def rename_folder(folder: Path, path: Path) -> None:
    """Rename a folder to `path`, which must not exist or be an empty folder.

    Args:
        folder: The folder to rename.
        path: Its new name, on the same disk.
    """
    if path.is_dir():
        path.rmdir()  # Windows does not rename onto an existing folder, even an empty one
    folder.rename(path)


@contextmanager
def lock_folder(folder: Path) -> Iterator[bool]:
    """Lock a folder, through the file `.lock` in it. Yields False if another process holds the lock.

    Args:
        folder: The folder to lock; created if needed.
    """
    with lock_file(folder / ".lock") as acquired:
        yield acquired


@contextmanager
def lock_file(path: Path) -> Iterator[bool]:
    """Lock a file without waiting. Yields False if another process holds the lock.

    The operating system releases the lock when the process ends, however it ends. The content of the file does not
    change.

    Args:
        path: The lock file; created if needed, and never removed.
    """
    from filelock import FileLock, Timeout  # not needed by commands that only print

    path.parent.mkdir(parents=True, exist_ok=True)
    # A soft lock would outlive a process that is killed.
    lock = FileLock(path, blocking=False, fallback_to_soft=False)
    with suppress(Timeout):
        lock.acquire()
    try:
        yield lock.is_locked
    finally:
        lock.release()
