"""Writing files so that a crash at any instant leaves the previous good state."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from regard.errors import UserError


@contextmanager
def atomic_writer(path: Path) -> Iterator[BinaryIO]:
    """A file to write to that takes the place of `path` all at once, when the block ends without an error."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_atomic(path: Path, content: bytes) -> None:
    with atomic_writer(path) as file:
        file.write(content)


def write_output(path: Path, content: bytes, what: str) -> None:
    """Write what a user has asked for, wherever that is to be; its folder is made, too."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, content)
    except OSError as error:
        raise UserError(f"{path}: cannot write {what}: {error.strerror or error}") from error


@contextmanager
def lock_folder(folder: Path) -> Iterator[bool]:
    """Holds a folder for this process; False if another one has it."""
    with lock_file(folder / ".lock") as alone:
        yield alone


@contextmanager
def lock_file(path: Path) -> Iterator[bool]:
    """Holds a file for this process; False if another one has it. The lock ends with the process, however it ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
