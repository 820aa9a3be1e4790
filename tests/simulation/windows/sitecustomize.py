"""Makes a process, and those that it starts, resemble one on Windows; Python imports it if PYTHONPATH has this folder.

What Windows lacks is missing: modules, functions, signals. A file that is open or memory-mapped can be neither removed,
renamed nor replaced. Text files have CRLF line ends and the encoding cp1252, unless the program sets both.
"""

from __future__ import annotations

import asyncio
import builtins
import errno
import io
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import types
from collections.abc import Callable, Iterator
from typing import Any

import platformdirs
from hiding import hide

USES_UNIX = (asyncio, platformdirs, subprocess)  # on this system they import some of these modules
MODULES = ("fcntl", "grp", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty")


def open_files() -> Iterator[str]:
    """The files that this process has open or mapped into its memory."""
    for number in os.listdir("/proc/self/fd"):
        try:
            yield os.readlink(f"/proc/self/fd/{number}")
        except OSError:
            continue
    with original_open("/proc/self/maps", encoding="utf-8") as maps:
        yield from (line.rstrip("\n").split(maxsplit=5)[5] for line in maps if "/" in line)


def refuse_if_open(change: Callable[..., Any]) -> Callable[..., Any]:
    """A function of `os` that fails if one of its paths is an open file, or a folder with one."""

    def refusing(*arguments: Any, **options: Any) -> Any:
        for path in arguments[:2]:
            full = os.path.realpath(path)
            if any(name == full or name.startswith(f"{full}/") for name in open_files()):
                raise PermissionError(errno.EACCES, "The process cannot access the file: it is open", full)
        return change(*arguments, **options)

    return refusing


def open_as_on_windows(
    file: Any,
    mode: str = "r",
    buffering: int = -1,
    encoding: Any = None,
    errors: Any = None,
    newline: Any = None,
    closefd: bool = True,
    opener: Any = None,
) -> Any:
    if "b" not in mode:
        encoding = "cp1252" if encoding in (None, "locale") else encoding
        newline = "\r\n" if newline is None and "r" not in mode else newline
    return original_open(file, mode, buffering, encoding, errors, newline, closefd, opener)


for name in MODULES:
    sys.modules[name] = None
sys.modules["portalocker"] = types.ModuleType("portalocker")  # of sacreBLEU; chooses its module by the platform's name
hide(
    os,
    *("fork", "forkpty", "killpg", "getuid", "geteuid", "getgid", "getegid", "getpgid", "setsid", "mkfifo", "chown"),
    *("pread", "pwrite", "preadv", "sched_getaffinity", "statvfs", "sysconf", "uname", "wait3", "openpty", "fchown"),
    *("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_DIRECTORY", "posix_fadvise", "sendfile", "memfd_create"),
)
hide(
    signal,
    *("SIGHUP", "SIGKILL", "SIGUSR1", "SIGUSR2", "SIGSTOP", "SIGCONT", "SIGALRM", "SIGPIPE", "SIGQUIT", "SIGCHLD"),
)
for name in ("unlink", "remove", "rename", "replace", "rmdir"):
    setattr(os, name, refuse_if_open(getattr(os, name)))
original_open = io.open
builtins.open = io.open = open_as_on_windows
shutil._use_fd_functions = False
tempfile.TemporaryFile = tempfile.NamedTemporaryFile
