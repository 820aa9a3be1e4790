"""Accepts connections, and keeps those that have sent nothing yet apart from those that are served.

A silent connection is a socket and nothing else: it costs a fraction of an HTTP connection, and cannot replace one. If
there are too many, the oldest is closed, but not at once: a client may need a moment to send its request. Until then,
new connections wait in the backlog of the system.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Callable

from regard.serving.connections import ACCEPTED_AT_ONCE, ConnectionLimiter

GRACE_SECONDS = 0.1  # that a connection has to send something before it is closed in favor of a new one
RETRY_SECONDS = 1.0  # after an error of the system, for example if all processes together have too many files open
log = logging.getLogger(__name__)


class Acceptor:
    """Accepts the connections of a listening socket, in the running event loop, which must be able to watch sockets.

    Args:
        server_socket: The listening socket.
        limiter: Whose limits and metrics apply: there are as many silent connections as others.
        serve: Called with a connection that has sent something.
    """

    def __init__(
        self, server_socket: socket.socket, limiter: ConnectionLimiter, serve: Callable[[socket.socket], None]
    ) -> None:
        self.server_socket, self.limiter, self.serve = server_socket, limiter, serve
        self.loop = asyncio.get_running_loop()
        self.silent: dict[socket.socket, float] = {}  # when each was accepted, the oldest first
        self._resuming: asyncio.TimerHandle | None = None
        limiter.metrics.watch_connections(lambda: len(limiter) + len(self.silent))

    def start(self) -> None:
        """Start to accept connections."""
        self.server_socket.setblocking(False)
        self._resume()

    def close(self) -> None:
        """Stop to accept connections, and close the silent ones."""
        self._pause(None)
        for connection in list(self.silent):
            self._forget(connection)
            connection.close()

    def close_idle(self) -> None:
        """Close the connections that have been silent for too long."""
        accepted_until = time.monotonic() - self.limiter.limits.idle_seconds
        for connection, accepted_at in list(self.silent.items()):
            if accepted_at >= accepted_until:
                break
            self._close(connection, "idle")

    def _resume(self) -> None:
        self._resuming = None
        self.loop.add_reader(self.server_socket, self._accept)

    def _pause(self, seconds: float | None) -> None:
        """Accept no connections for some seconds; None: forever."""
        self.loop.remove_reader(self.server_socket)
        if self._resuming is not None:
            self._resuming.cancel()
        self._resuming = None if seconds is None else self.loop.call_later(seconds, self._resume)

    def _accept(self) -> None:
        """Accept some connections. The event loop calls this again, after other events, if there are more."""
        for _ in range(ACCEPTED_AT_ONCE):
            is_full = len(self.silent) >= self.limiter.limits.connections
            if is_full and (remaining := self._grace_seconds()) > 0:
                return self._pause(remaining)
            try:
                connection, _ = self.server_socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                log.error("cannot accept connections: %s", error)
                return self._pause(RETRY_SECONDS)
            if is_full:
                self.limiter.log_limit(f"{len(self.silent)} that have sent nothing")
                self._close(next(iter(self.silent)), "evicted")
            connection.setblocking(False)
            self.silent[connection] = time.monotonic()
            self.loop.add_reader(connection, self._on_data, connection)

    def _grace_seconds(self) -> float:
        """The time for which the oldest silent connection must not be closed yet; negative if it may be."""
        return next(iter(self.silent.values())) + GRACE_SECONDS - time.monotonic()

    def _on_data(self, connection: socket.socket) -> None:
        """Serve a connection, unless its client has closed it."""
        self._forget(connection)
        try:
            has_data = bool(connection.recv(1, socket.MSG_PEEK))
        except OSError:
            has_data = False
        if has_data:
            self.serve(connection)
        else:
            connection.close()

    def _close(self, connection: socket.socket, reason: str) -> None:
        self._forget(connection)
        connection.close()
        self.limiter.metrics.observe_closed_connection(reason)

    def _forget(self, connection: socket.socket) -> None:
        self.loop.remove_reader(connection)
        del self.silent[connection]
