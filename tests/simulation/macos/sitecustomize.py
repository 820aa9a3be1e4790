"""Makes a process resemble one on macOS, where Linux's own functions are missing.

A file that Regard opens as text without an encoding is an error, if the environment sets PYTHONWARNDEFAULTENCODING.
"""

from __future__ import annotations

import os
import select
import signal
import warnings

from hiding import hide

hide(
    os,
    *("sched_getaffinity", "sched_setaffinity", "posix_fadvise", "memfd_create", "pipe2", "eventfd", "splice"),
    *("O_DIRECT", "O_TMPFILE", "O_PATH", "copy_file_range", "getrandom", "pidfd_open"),
)
hide(select, "epoll")
hide(signal, "SIGRTMIN", "SIGRTMAX", "SIGPWR", "SIGPOLL", "sigwaitinfo", "sigtimedwait")
warnings.filterwarnings("error", category=EncodingWarning, module=r"regard\b")
