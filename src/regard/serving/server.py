"""The HTTP server: its socket, its event loop, and how it shuts down."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from threading import Thread
from types import FrameType
from typing import Any, cast

import uvicorn
from starlette.types import ASGIApp

from regard.errors import UserError
from regard.serving.acceptor import Acceptor
from regard.serving.connections import ACCEPTED_AT_ONCE, ClientConnection, ConnectionLimiter
from regard.serving.limits import Limits
from regard.serving.metrics import Metrics
from regard.terminal.output import print_message

MAX_PORT = 65_535
BACKLOG = 2048  # connections that wait to be accepted
SHUTDOWN_MESSAGE = b"\nregard: finishing the current requests; press Ctrl-C again to stop immediately\n"


def listen(host: str, port: int) -> socket.socket:
    """A listening TCP socket; a `UserError` if there cannot be one.

    Args:
        host: A host name or IP address.
        port: A port number; 0 is any free port.
    """
    if not 0 <= port <= MAX_PORT:
        raise UserError(f"--port {port}: must be between 0, which is any free port, and {MAX_PORT}")
    host = host.removeprefix("[").removesuffix("]")  # of an IPv6 address in a URL
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
        server_socket = socket.create_server((host, port), family=family, backlog=BACKLOG)
        # asyncio sets this only for sockets that it creates. Without it, Nagle's algorithm delays responses by 40 ms.
        server_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return server_socket
    except (OSError, UnicodeError) as error:
        reason = str(getattr(error, "strerror", None) or error).partition(" (while ")[0]
        raise UserError(f"{host}:{port}: cannot listen there: {reason}; choose another --port or --host") from None


def server_url(server_socket: socket.socket) -> str:
    """The URL of a listening socket, such as `http://127.0.0.1:8000/`.

    Args:
        server_socket: A socket from `listen`.
    """
    host, port = server_socket.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


class Server(uvicorn.Server):
    """A uvicorn server that limits connections, finishes current requests at the first signal and stops at the second.

    Args:
        app: The ASGI application.
        limits: Limits on connections; its `seconds` are also what current requests have after the first signal.
        metrics: Where connections are counted.
        on_ready: Called once the server accepts connections.
    """

    def __init__(self, app: ASGIApp, limits: Limits, metrics: Metrics, on_ready: Callable[[], None]) -> None:
        self.limiter = ConnectionLimiter(limits, metrics)
        super().__init__(
            uvicorn.Config(
                app,
                loop="asyncio",
                http=cast(Any, partial(ClientConnection, self.limiter)),
                ws="none",
                lifespan="on",
                log_config=None,
                log_level="error",
                access_log=False,
                server_header=False,
                backlog=ACCEPTED_AT_ONCE,
                timeout_graceful_shutdown=int(limits.seconds) + 1,
            )
        )
        self.acceptors: list[Acceptor] = []
        self.on_ready = on_ready
        self._starting: set[asyncio.Task[Any]] = set()
        self.exit_signal = 0
        self.ready_error: OSError | None = None  # raised by `on_ready`, for example when stdout cannot be written

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        has_acceptors = isinstance(asyncio.get_running_loop(), asyncio.SelectorEventLoop)  # not on Windows
        await super().startup([] if has_acceptors else sockets)
        for server_socket in sockets or []:
            if has_acceptors:
                self.acceptors.append(Acceptor(server_socket, self.limiter, self._serve_connection))
                self.acceptors[-1].start()
            else:
                server_socket.listen(BACKLOG)  # asyncio has set it to what it accepts at once
        try:
            if self.started:
                self.on_ready()
        except OSError as error:
            self.ready_error, self.should_exit = error, True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for acceptor in self.acceptors:
            acceptor.close()
        await super().shutdown(sockets)

    def _serve_connection(self, connection: socket.socket) -> None:
        """Let the event loop serve a connection that an acceptor has accepted."""
        loop = asyncio.get_running_loop()
        new_protocol = partial(
            ClientConnection,
            self.limiter,
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
        )
        task = loop.create_task(loop.connect_accepted_socket(new_protocol, connection))
        self._starting.add(task)  # the loop itself keeps no reference
        task.add_done_callback(self._starting.discard)

    async def on_tick(self, counter: int) -> bool:
        self.limiter.close_idle()
        for acceptor in self.acceptors:
            acceptor.close_idle()
        return await super().on_tick(counter)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.should_exit:
            os._exit(128 + sig)
        # Not `super().handle_exit`: uvicorn would raise the signal again after the shutdown.
        self.exit_signal, self.should_exit = sig, True
        # Not print: the signal may interrupt another print.
        with suppress(OSError):
            os.write(sys.stderr.fileno(), SHUTDOWN_MESSAGE)


def open_browser(url: str) -> None:
    """Open a URL in a browser, in a thread: some systems block until the browser is closed.

    Args:
        url: The URL of the web page.
    """

    def open_or_warn() -> None:
        if not webbrowser.open(url):
            print_message("regard: no browser found; open the URL above yourself")

    Thread(target=open_or_warn, daemon=True).start()
