"""Files that are not what they seem: links, pipes, devices, folders, files without end."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

SPARSE = 8 << 30  # bytes: more than may be read into memory


def _nothing(path: Path) -> None:
    pass


def _folder(path: Path) -> None:
    path.mkdir()


def _full_folder(path: Path) -> None:
    path.mkdir()
    (path / "file").write_text("x\n")


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    here = os.getcwd()
    os.chdir(path.parent)  # the name of a socket has at most 108 bytes
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path.name)
    finally:
        os.chdir(here)


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(SPARSE)


def _no_permission(path: Path) -> None:
    path.write_text("{}\n")
    path.chmod(0)


def link_to(target: str) -> Callable[[Path], None]:
    """Make a link with this target.

    Args:
        target: What the link points to; may not exist.
    """
    return lambda path: path.symlink_to(target)


MAKERS: dict[str, Callable[[Path], None]] = {
    "missing": _nothing,
    "empty": lambda path: path.write_bytes(b"") and None,
    "folder": _folder,
    "full folder": _full_folder,
    "sparse": _sparse,
    "link to nothing": link_to("nothing-here"),
    "link to a folder": link_to("."),
}
if hasattr(os, "mkfifo"):
    MAKERS |= {
        "pipe": _pipe,
        "socket": _socket,
        "link to /dev/zero": link_to("/dev/zero"),
        "link to /dev/full": link_to("/dev/full"),
        "link to /dev/stdin": link_to("/dev/stdin"),
        "link to /proc/self/mem": link_to("/proc/self/mem"),
    }
if hasattr(os, "geteuid") and os.geteuid() != 0:  # root may read everything
    MAKERS["no permission"] = _no_permission


KINDS = (*MAKERS, "link to itself", "link to the victim")


def make(kind: str, path: Path, victim: Path) -> None:
    """Replace a path by a special file.

    Args:
        kind: One of `KINDS`.
        path: The path.
        victim: The file that no command may touch.
    """
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    if kind == "link to itself":
        path.symlink_to(path.name)
    elif kind == "link to the victim":
        path.symlink_to(os.path.relpath(victim, path.parent))
    else:
        MAKERS[kind](path)
