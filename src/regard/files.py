"""Reading files that may be damaged or hostile, crash-safe writing, and locks that end with the process.

The writer is Regard's own because no maintained package offers it: write to a temporary file, flush it to the disk,
rename it. A crash at any point leaves the previous content, and the next write removes the temporary file.
"""

from __future__ import annotations

import glob
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, TypeVar
from uuid import uuid4

from regard.errors import UserError, is_out_of_memory
from regard.terminal.output import detail

MAX_BYTES = 64_000_000  # of a file that is read as a whole, such as a vocabulary
LOCK, NEW, OLD = ".lock", "new", "old"  # the only names in a scratch folder
SCRATCH_NAMES = {LOCK, NEW, OLD, "run"}  # "run": of Regard 0.5
REPLACE_ATTEMPTS = 50  # 0.1 s apart
IS_WINDOWS = os.name == "nt"
Value = TypeVar("Value")


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading. Others never end (`/dev/zero`) or wait for a writer (a FIFO).

    Args:
        path: The file.

    Raises:
        UserError: It is not a regular file.
        OSError: It cannot be opened.
    """
    without_waiting = getattr(os, "O_NONBLOCK", 0)
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | without_waiting))  # noqa: SIM115
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise UserError(f"{path}: this is not a regular file")
    detail(f"reading {path}")
    return file


@contextmanager
def damage_as_user_error(origin: object) -> Iterator[None]:
    """Turn whatever reading and parsing a file raises within into a `UserError`, except `FileNotFoundError`.

    Args:
        origin: The file, or the file and the line, for the message.
    """
    try:
        yield
    except (UserError, FileNotFoundError):
        raise
    except OSError as error:
        raise UserError(f"{origin}: cannot be read: {error.strerror or error}") from None
    except KeyError as error:
        raise UserError(f"{origin}: this file is damaged: it lacks {error}") from None
    except RecursionError:
        raise UserError(f"{origin}: this file is damaged: it is nested too deeply") from None
    except Exception as error:
        if is_out_of_memory(error):
            raise
        raise UserError(f"{origin}: this file is damaged: {error}") from None


def read_file(path: Path, parse: Callable[[bytes], Value], max_bytes: int = MAX_BYTES) -> Value:
    """The parsed content of a regular file. Every file of a run directory and every configuration is read here.

    Args:
        path: The file.
        parse: Turns its content into a value; whatever it raises becomes a `UserError`.
        max_bytes: The largest size.

    Raises:
        UserError: The file cannot be read, is too large or is damaged.
        FileNotFoundError: There is no such file.
    """
    with damage_as_user_error(path):
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            if size > max_bytes:
                raise UserError(f"{path}: this file has {size:,} bytes; at most {max_bytes:,} are read")
            content = file.read(size)
        return parse(content)


@contextmanager
def name_in_errors(path: Path) -> Iterator[None]:
    """Add the path to an `OSError` that names no file, such as that of a write to a full disk.

    Args:
        path: The file that is written within.
    """
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            error.filename = str(path)
        raise


@contextmanager
def atomic_writer(path: Path) -> Iterator[BinaryIO]:
    """A binary file to write to. It replaces `path` when the block ends without an exception.

    Args:
        path: The file to create or replace. Its folder must exist.
    """
    with name_in_errors(path), scratch_folder(path) as folder:
        with (folder / NEW).open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        _replace(folder / NEW, path)
    detail(f"wrote {path}")


def _replace(new: Path, path: Path) -> None:
    """Rename a file. Windows refuses it while another process reads the old one, so wait for a moment there."""
    for _ in range(REPLACE_ATTEMPTS if IS_WINDOWS else 0):
        with suppress(PermissionError):
            return os.replace(new, path)
        time.sleep(0.1)
    os.replace(new, path)


def write_atomic(path: Path, content: bytes) -> None:
    """Write a file so that readers see either the old content or all of the new content.

    Args:
        path: The file to create or replace. Its folder must exist.
        content: What to write.
    """
    with atomic_writer(path) as file:
        file.write(content)


def append(path: Path, content: bytes) -> None:
    """Append to a file, and return when the content is on the disk.

    Args:
        path: The file, created if needed. A link is not followed.
        content: What to append.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    with name_in_errors(path), open(path, "ab", opener=lambda name, _: os.open(name, flags, 0o666)) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


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


@contextmanager
def scratch_folder(target: Path) -> Iterator[Path]:
    """An empty temporary folder next to `target`, in which a new version of it is made; removed at the end.

    It is locked as long as this process lives. Those of processes that were killed are removed first.

    Args:
        target: The file or folder that will be made. The scratch folder is called `.NAME.xxxxxxxx`.
    """
    remove_abandoned(target)
    while True:
        folder = target.with_name(f".{target.name}.{uuid4().hex[:8]}")
        folder.mkdir()
        with ExitStack() as stack:
            stack.callback(_remove_scratch, folder)  # after the lock is released, for Windows
            try:
                acquired = stack.enter_context(lock_folder(folder))
            except (FileNotFoundError, FileExistsError):
                acquired = False
            if acquired:  # otherwise another process considers it abandoned: take another one
                stack.callback(_remove_scratch, folder)
                yield folder
                return


def remove_abandoned(target: Path) -> list[Path]:
    """Remove the scratch folders of processes that have ended, and return their paths.

    Args:
        target: The file or folder that they were made for; `FOLDER/*` for everything in a folder.
    """
    name = "*" if target.name == "*" else glob.escape(target.name)
    return [folder for folder in target.parent.glob(f".{name}.????????") if _remove_if_abandoned(folder)]


def _remove_if_abandoned(folder: Path) -> bool:
    with suppress(OSError, UserError):
        if folder.is_symlink() or not folder.is_dir() or not SCRATCH_NAMES.issuperset(os.listdir(folder)):
            return False  # not ours
        with lock_folder(folder) as abandoned:
            if abandoned:
                _remove_scratch(folder)
        if abandoned and IS_WINDOWS:  # which removes no file that is open, such as the lock
            _remove_scratch(folder)
        return abandoned
    return False


def _remove_scratch(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def remove_entry(path: Path) -> None:
    """Remove a file, a folder with its content, or a link, but not what the link points to.

    Args:
        path: What to remove.
    """
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


@contextmanager
def existing_folder(folder: Path) -> Iterator[None]:
    """Create a folder and its parents; at the end, remove those of them that are empty.

    Args:
        folder: The folder that exists within.
    """
    created = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    finally:
        with suppress(OSError):  # one that is not empty, and so its parents
            for each in created:
                each.rmdir()


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
    with lock_file(folder / LOCK) as acquired:
        yield acquired


@contextmanager
def lock_file(path: Path) -> Iterator[bool]:
    """Lock a file without waiting. Yields False if another process holds the lock.

    The operating system releases the lock when the process ends, however it ends. A link is not followed, and the
    content of a file does not change (filelock opens it without O_TRUNC and with O_NOFOLLOW).

    Args:
        path: The lock file; created if needed, and never removed.

    Raises:
        UserError: It is something else than a regular file.
    """
    from filelock import FileLock, Timeout  # not needed by commands that only print

    path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileNotFoundError):
        if not stat.S_ISREG(path.lstat().st_mode):
            raise UserError(f"{path}: a lock is a regular file; remove this, which Regard has not made")
    # A soft lock would outlive a process that is killed.
    lock = FileLock(path, blocking=False, fallback_to_soft=False)
    with suppress(Timeout):
        lock.acquire()
    try:
        yield lock.is_locked
    finally:
        lock.release()


def parse_path(value: object, name: str) -> Path:
    """A path that was given as a text or as a `Path`; `~` is the user's home.

    Args:
        value: The argument.
        name: Its name, for the message.

    Raises:
        UserError: It is neither, or cannot be the name of a file.
    """
    text = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(text, str) or not text or "\0" in text:
        raise UserError(f"{name}: {value!r:.80} should be a path, as a text or a pathlib.Path")
    return Path(text).expanduser()
