"""Runs a command as a process that ends at a chosen event: before it opens, renames or removes its n-th file.

Where there is `os.fork`, a server that has imported torch and Regard forks the processes, because starting one takes
three seconds. Elsewhere each is started anew.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

KILL = getattr(signal, "SIGKILL", signal.SIGTERM)  # on Windows, the latter ends a process at once, too
PRELOAD = (
    "regard.training.trainer",
    "regard.cli.translate",
    "regard.evaluation.final",
    "regard.cli.show",
    "regard.cli.evaluate",
)
EVENTS = frozenset(
    ("open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.truncate", "os.link", "os.symlink", "os.chmod")
)
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
LIMIT = 90.0  # seconds for one command


@dataclass(frozen=True)
class Request:
    """A command, and when it is to end.

    Args:
        arguments: The arguments of `regard`.
        folder: The current folder, below which events count.
        at: The number of the event, from 1; 0: none.
        signal: What is sent at that event, or after `delay`.
        delay: Seconds after which the signal is sent.
        file_limit: Bytes after which writing to a file ends the process.
        limits: Limits of resources by their names in the module `resource`; an address space is relative to today's.
        variables: Environment variables.
    """

    arguments: tuple[str, ...]
    folder: str
    at: int = 0
    signal: int = KILL
    delay: float | None = None
    file_limit: int | None = None
    limits: tuple[tuple[str, int], ...] = ()
    variables: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Ended:
    """How a command ended.

    Args:
        code: Its exit code; negative for a signal.
        output: Standard output and standard error.
        events: The events, in order.
    """

    code: int
    output: str
    events: tuple[str, ...]


class Counter:
    """Counts events that change files below a folder, and sends a signal to this process at one of them.

    Args:
        request: What to do.
        log: Where events are recorded.
    """

    def __init__(self, request: Request, log: int) -> None:
        self.request, self.log = request, log
        self.folder = os.path.realpath(request.folder)
        self.count = 0

    def hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Called by Python before each event."""
        if event in EVENTS and self.concerns(event, arguments):
            self.happened(f"{event} {os.path.basename(os.fsdecode(arguments[0]))}")

    def concerns(self, event: str, arguments: tuple[Any, ...]) -> bool:
        """True for a change below the folder."""
        path, *rest = arguments
        if not isinstance(path, str | bytes) or (
            event == "open" and not (isinstance(rest[1], int) and rest[1] & WRITING)
        ):
            return False
        is_relative = event != "open" and rest and isinstance(rest[-1], int) and rest[-1] >= 0  # to an open folder
        return bool(is_relative) or os.path.realpath(os.fsdecode(os.path.dirname(path))).startswith(self.folder)

    def happened(self, what: str) -> None:
        """Count an event."""
        self.count += 1
        if self.count == self.request.at:
            os.kill(os.getpid(), self.request.signal)
        os.write(self.log, f"{what}\n".encode())

    def after(self, function: Callable[..., Any], name: str) -> Callable[..., Any]:
        """`function`, with an event after it."""

        def wrapped(*arguments: Any, **options: Any) -> Any:
            result = function(*arguments, **options)
            self.happened(f"after {name}")
            return result

        return wrapped


def run_child(request: Request, output: str, log: str) -> None:
    """Run the command in this process, which then ends."""
    os.environ |= dict(request.variables)
    os.chdir(request.folder)
    target = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number in (1, 2):
        os.dup2(target, number)
    counter = Counter(request, os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC))
    os.fsync, os.replace = counter.after(os.fsync, "os.fsync"), counter.after(os.replace, "os.replace")
    sys.addaudithook(counter.hook)
    sys.argv = ["regard", *request.arguments]
    from regard.cli import main
    from torture import archives

    archives.prepare_worker()
    set_limits(request)
    main()


def set_limits(request: Request) -> None:
    """Limit the resources of this process."""
    if request.file_limit is None and not request.limits:
        return
    import resource

    limits = dict(request.limits)
    if request.file_limit is not None:
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # Python ignores it: writing would raise an OSError
        limits["RLIMIT_FSIZE"] = request.file_limit
    if "RLIMIT_AS" in limits:
        limits["RLIMIT_AS"] += int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    for name, value in {"RLIMIT_CORE": 0, **limits}.items():
        resource.setrlimit(getattr(resource, name), (value, value))


def fork_child(request: Request, output: str, log: str) -> int:
    """Run the command in a forked process; returns its exit code."""
    child = os.fork()
    if child == 0:
        code = 0
        try:
            run_child(request, output, log)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1 if end.code else 0
        except KeyboardInterrupt:
            code = 130
        except BaseException:
            import traceback

            traceback.print_exc()
            code = 1
        finally:
            with suppress(Exception):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)
    with _timer(request, child):
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class _timer:  # noqa: N801 (a context manager)
    """Sends the signal after the delay, and kills the process after the limit."""

    def __init__(self, request: Request, pid: int) -> None:
        def send(number: int) -> None:
            with suppress(OSError):
                os.kill(pid, number)

        self.timers = [threading.Timer(LIMIT, send, [KILL])]
        if request.delay is not None:
            self.timers.append(threading.Timer(request.delay, send, [request.signal]))

    def __enter__(self) -> None:
        for timer in self.timers:
            timer.start()

    def __exit__(self, *_: object) -> None:
        for timer in self.timers:
            timer.cancel()
            timer.join()


def serve_forks(connection: Any) -> None:
    """Fork a process for each request until there is None; a list is a command of the system, to be run here."""
    from importlib import import_module

    signal.signal(signal.SIGINT, signal.default_int_handler)
    for name in PRELOAD:
        import_module(name)
    connection.send("ready")
    for request, *files in iter(connection.recv, None):
        if isinstance(request, list):
            connection.send(subprocess.run(request, capture_output=True).returncode)
        else:
            connection.send(fork_child(request, *files))


class Launcher:
    """Runs commands, one at a time; a context manager.

    Args:
        own_mounts: Whether to run in a name space of its own, in which file systems can be mounted.
    """

    def __init__(self, own_mounts: bool = False) -> None:
        self.prefix = ["unshare", "-rm"] if own_mounts else []
        self.server: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Launcher:
        self.files = tempfile.TemporaryDirectory(prefix="regard-torture-launcher-")
        if hasattr(os, "fork"):
            self.connection, theirs = Pipe()
            command = [*self.prefix, sys.executable, "-m", "torture.launcher", str(theirs.fileno())]
            self.server = subprocess.Popen(command, pass_fds=[theirs.fileno()], env=_environment())
            theirs.close()
            try:
                self.connection.recv()
            except EOFError:
                raise RuntimeError("the fork server does not start") from None
        return self

    def __exit__(self, *_: object) -> None:
        if self.server:
            with suppress(OSError):
                self.connection.send(None)
            with suppress(subprocess.TimeoutExpired):
                self.server.wait(5)
            self.server.kill()
            self.server.wait()
        self.files.cleanup()

    def run(self, *arguments: object, folder: Path, **options: Any) -> Ended:
        """Run `regard ARGUMENTS` in a folder; see `Request` for the options."""
        request = Request(tuple(map(str, arguments)), str(folder), **options)
        output, log = Path(self.files.name) / "output", Path(self.files.name) / "log"
        for file in (output, log):
            file.write_bytes(b"")
        if self.server:
            self.connection.send((request, str(output), str(log)))
            code = self.connection.recv()
        else:
            code = start_process(request, str(output), str(log))
        events = log.read_text(errors="replace").splitlines()
        return Ended(code, output.read_text(errors="replace"), tuple(events))

    def system(self, *command: object) -> int:
        """Run a command of the system where the server runs; returns its exit code."""
        self.connection.send(([*map(str, command)],))
        return self.connection.recv()

    def seen(self, folder: Path) -> Path:
        """The path under which this process sees a folder of the server's name space."""
        assert self.server
        return Path(f"/proc/{self.server.pid}/root") / folder.relative_to("/") if self.prefix else folder


def _environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": os.pathsep.join(map(str, [Path(__file__).parents[1], *sys.path]))}


def start_process(request: Request, output: str, log: str) -> int:
    """The same as `fork_child` in a process that is started anew."""
    command = [sys.executable, "-m", "torture.launcher", json.dumps(asdict(request)), output, log]
    process = subprocess.Popen(command, env=_environment())
    with _timer(request, process.pid):
        return process.wait()


def main() -> None:
    """Serve forks on a connection with this number, or run one request."""
    if len(sys.argv) == 2:
        serve_forks(Connection(int(sys.argv[1])))
    else:
        fields = json.loads(sys.argv[1])
        pairs = {name: tuple(map(tuple, fields[name])) for name in ("limits", "variables")}
        run_child(Request(**fields | pairs), *sys.argv[2:])


if __name__ == "__main__":
    main()
