"""The server itself: a socket, an event loop, and how it stops."""

from __future__ import annotations

import logging
import os
import socket
import sys
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

from regard.errors import UserError


def listen(host: str, port: int) -> socket.socket:
    """A socket that accepts connections; a `UserError` if there cannot be one."""
    if not 0 <= port <= 65_535:
        raise UserError(f"--port {port}: should be 0, which is any free one, to 65535")
    host = host.removeprefix("[").removesuffix("]")  # as addresses write it
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
        listening = socket.create_server((host, port), family=family, backlog=2048)
        # asyncio knows only its own sockets to be TCP's. Without this, an answer waits 40 ms for its second packet.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listening
    except (OSError, UnicodeError) as error:
        number = getattr(error, "errno", None) or 0
        reason = os.strerror(number) if number > 0 else getattr(error, "strerror", error)  # a name that is not found
        raise UserError(f"{host}:{port}: cannot listen there: {reason}; choose another --port or --host") from None


def address_of(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


class Server(uvicorn.Server):
    """Says when it is ready; the first Ctrl-C finishes what is under way, the second one does not wait."""

    def __init__(self, app: ASGIApp, patience: float, ready: Callable[[], None]) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                loop="asyncio",
                lifespan="on",
                log_level="error",
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=int(patience) + 1,
            )
        )
        self.ready = ready
        self.signal = 0  # by which it was stopped
        self.failure: OSError | None = None  # of `ready`, which may have nobody to tell

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        try:
            if self.started:
                self.ready()
        except OSError as error:
            self.failure, self.should_exit = error, True

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.signal = sig
        again = self.should_exit
        super().handle_exit(sig, frame)
        if again:
            logging.disable()  # of all that is now cut off
        else:
            # Not print: the signal may have come in the middle of one.
            with suppress(OSError):
                os.write(sys.stderr.fileno(), b"\nregard: finishing what is under way; once more stops at once\n")


def open_page(address: str) -> None:
    """In a browser, for which some systems wait until it is closed."""

    def open_it() -> None:
        if not webbrowser.open(address):
            print("regard: no browser could be opened; open the address above", file=sys.stderr)

    Thread(target=open_it, daemon=True).start()
