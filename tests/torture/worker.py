"""The process that tries commands: it imports Regard once and calls `main` again and again."""

from __future__ import annotations

import io
import os
import shutil
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any, NoReturn

from torture.judging import (
    INPUT,
    MEMORY_LIMIT,
    OUTPUT,
    VICTIM,
    VICTIM_CONTENT,
    Attempt,
    differences,
    find_fault,
    snapshot,
)

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def serve_tries(connection: Connection, module_name: str, seed: int, folder: Path, materials: Path | None) -> None:
    """Receive numbers of tries until None; send the kind and the command before each, and the failure after it.

    Args:
        connection: To the parent process.
        module_name: The module that builds the tries; its own `main`, if it has one, is tried in place of Regard's.
        seed: The seed of the campaign.
        folder: An empty folder.
        materials: The folder that `materials.prepare` has made.
    """
    if hasattr(os, "setsid"):
        os.setsid()
    stray = _redirect_streams(folder.with_name(f"{folder.name}.log"))
    module = import_module(module_name)
    for name in getattr(module, "PRELOAD", ()):
        import_module(name)
    main = getattr(module, "main", None) or import_module("regard.cli").main
    prepare = getattr(module, "prepare_worker", None)
    if prepare:
        prepare()
    _isolate(folder)
    connection.send("ready")
    for number in iter(connection.recv, None):
        make_folder(folder)
        stray.truncate(0)
        try:
            # Relative paths: the commands can be repeated where the input is kept.
            attempt = module.build(number, Random(f"{seed} {module_name} {number}"), Path(".."), materials)
            connection.send((attempt.kind, attempt.command))
            connection.send(try_once(attempt, folder, main, stray))
        except Exception:  # a mistake of the test, not of the command
            connection.send(traceback.format_exc())


def make_folder(folder: Path) -> None:
    """Make an empty folder for a try, with a victim."""
    os.chdir(folder.parent)
    if folder.exists():
        shutil.rmtree(folder)
    (folder / INPUT).mkdir(parents=True)
    (folder / OUTPUT).mkdir()
    (folder / VICTIM).write_bytes(VICTIM_CONTENT)
    os.chdir(folder / OUTPUT)


def try_once(attempt: Attempt, folder: Path, main: Callable[[], None], stray: Any) -> tuple[str, dict[str, float]]:
    """Run a command in this process. Returns what went wrong, and measured values.

    Args:
        attempt: The command.
        folder: The folder of the try.
        main: Runs a command.
        stray: The file that the libraries' own output goes to.
    """
    unwatched = (OUTPUT, *attempt.may_change)
    before = snapshot(folder, unwatched)
    with suppress(OSError):
        CLEAR.write_text("5")  # resets the peak
    start = time.monotonic()
    with _interrupt(attempt.interrupt_after) as interrupted:
        code, output, errors = run_command(attempt, main)
    seconds = time.monotonic() - start
    stray.seek(0)
    errors += stray.read().decode(errors="replace")
    if interrupted():
        attempt = Attempt(attempt.kind, attempt.arguments, codes=(*attempt.codes, 130))
    fault = find_fault(attempt, code, output, errors)
    changed = differences(before, snapshot(folder, unwatched))
    peak = peak_memory()
    if not fault and changed:
        fault = f"files were changed that the command must not change: {changed}"
    if not fault and peak > MEMORY_LIMIT:
        fault = f"used {peak >> 20:,} MB of memory"
    (folder / "errors").write_text(errors, errors="replace")
    return fault, {"seconds": round(seconds, 2), "megabytes": peak >> 20}


def run_command(attempt: Attempt, main: Callable[[], None]) -> tuple[object, str, str]:
    """Exit code, standard output and standard error of a command in this process."""
    before = sys.argv, sys.stdin, sys.stdout, sys.stderr
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    err.reconfigure(errors="backslashreplace")  # as Python's own
    sys.argv = ["regard", *attempt.arguments]
    sys.stdin, sys.stdout, sys.stderr = io.TextIOWrapper(io.BytesIO(attempt.stdin)), out, err
    code: object = 0
    try:
        main()
    except SystemExit as end:
        code = end.code if end.code is not None else 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.argv, sys.stdin, sys.stdout, sys.stderr = before
    written = (stream.buffer.getvalue().decode(errors="replace") for stream in (out, err))  # type: ignore[attr-defined]
    return code, *written


def peak_memory() -> int:
    """The largest memory of this process in bytes since it was reset; 0 where there is no /proc."""
    with suppress(OSError):
        for line in STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) << 10
    return 0


@contextmanager
def _interrupt(after: float | None) -> Iterator[Callable[[], bool]]:
    """Raise SIGINT in this process after some seconds, unless the block has ended."""
    timer = threading.Timer(after or 0, signal.raise_signal, [signal.SIGINT])
    if after is not None:
        timer.start()
    try:
        yield lambda: after is not None and not timer.is_alive()
    finally:
        timer.cancel()
        if after is not None:
            timer.join()


def _redirect_streams(path: Path) -> Any:
    """Send what libraries write to the real streams to a file, and return it."""
    stray = open(path, "a+b", buffering=0)  # noqa: SIM115
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number in (1, 2):
        os.dup2(stray.fileno(), number)
    return stray


def _isolate(folder: Path) -> None:
    """No network, and no folder of the user."""
    for name in ("HOME", "USERPROFILE", "XDG_CACHE_HOME", "XDG_DATA_HOME", "REGARD_DATA"):
        os.environ[name] = str(folder / OUTPUT / "home")
    socket.getaddrinfo = _refuse  # type: ignore[assignment]


def _refuse(*_: object, **__: object) -> NoReturn:
    raise OSError(101, "no network in this test")
