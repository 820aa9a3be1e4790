"""Open connections: how many there may be, which are closed to make room, and which the server no longer waits for.

Below the limits, a connection is served. At a limit it is served, too, and one that waits for its client is closed. If
all others are being served, it gets status 503, except for `/healthz`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from contextlib import suppress
from importlib import import_module
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from regard.serving.access import OVER_CONNECTION_LIMIT, SECURITY_HEADERS
from regard.serving.errors import error_response
from regard.serving.limits import Limits
from regard.serving.metrics import Metrics

ACCEPTED_AT_ONCE = 16  # connections that the event loop accepts before it continues with the others
REFUSED_AT_ONCE = 32  # connections beyond the limit that are kept until they have got their response
MAX_HEADER_BYTES = 16_384
MAX_CHUNKS = 2_000  # in one request body: the event loop does nothing else while h11 parses what has arrived
LOG_INTERVAL = 60.0  # seconds between two messages about reached limits
# There are as many silent connections as others (see `Acceptor`). For a few iterations of the event loop, connections
# that are accepted or closed are in no table of open ones. The rest is for runs, logs and libraries.
DESCRIPTORS_PER_CONNECTION = 2
OTHER_DESCRIPTORS = REFUSED_AT_ONCE + 4 * ACCEPTED_AT_ONCE + 96
log = logging.getLogger(__name__)


class ConnectionLimiter:
    """The open connections of a server, limited in number and in the time that they may wait for their client.

    Args:
        limits: The numbers of connections, and the seconds that a connection may be idle.
        metrics: Where connections are counted.
    """

    def __init__(self, limits: Limits, metrics: Metrics) -> None:
        self.limits, self.metrics = limits, metrics
        # Dictionaries as ordered sets. A connection is added and removed in constant time, so that a flood is cheap.
        self._admitted: dict[ClientConnection, None] = {}
        self._over_limit: dict[ClientConnection, None] = {}
        self._without_request: dict[ClientConnection, None] = {}  # those of `_admitted` that have never sent one
        self._of_client: Counter[str] = Counter()  # the number of those of `_admitted`, by `client_network`
        self._log_after = 0.0
        metrics.watch_connections(self.__len__)

    def __len__(self) -> int:
        return len(self._admitted) + len(self._over_limit)

    def add(self, new: ClientConnection) -> None:
        """Count a new connection. At a limit, close one that waits for its client or, without any, refuse the new one.

        Args:
            new: The connection, which has a transport.
        """
        client = new.client_network
        if self._of_client[client] >= self.limits.client_connections:
            has_room = self._make_room(client)
        else:
            has_room = len(self._admitted) < self.limits.connections or self._make_room()
        if has_room:
            self._admitted[new] = self._without_request[new] = None
            self._of_client[client] += 1
        else:
            self._refuse(new)

    def remove(self, connection: ClientConnection) -> None:
        """Forget a connection that is closed.

        Args:
            connection: The connection; nothing happens if it was removed before.
        """
        if connection in self._admitted:
            self._of_client[connection.client_network] -= 1
            if not self._of_client[connection.client_network]:
                del self._of_client[connection.client_network]
        for connections in (self._admitted, self._over_limit, self._without_request):
            connections.pop(connection, None)

    def on_request(self, connection: ClientConnection) -> None:
        """Note that a connection has sent a request.

        Args:
            connection: The connection.
        """
        self._without_request.pop(connection, None)

    def close_idle(self) -> None:
        """Close every connection that has waited for its client for too long."""
        now = time.monotonic()
        for connection in [*self._admitted, *self._over_limit]:
            if connection.seconds_idle(now) > self.limits.idle_seconds:
                self._close(connection, "idle")

    def log_limit(self, reached: str) -> None:
        """Log that a limit is reached, from time to time.

        Args:
            reached: The limit.
        """
        if time.monotonic() >= self._log_after:
            self._log_after = time.monotonic() + LOG_INTERVAL
            log.warning("the limit on connections is reached (%s); idle ones are closed in favor of new ones", reached)

    def _make_room(self, client: str | None = None) -> bool:
        """Close a connection, of one client or of any, that waits for its client; False if there is none.

        The first choice is the oldest that has never sent a request, the second the one that has waited longest.
        """
        self.log_limit(f"{self.limits.connections}" if client is None else f"{self._of_client[client]} of {client}")
        oldest = next((each for each in self._without_request if client in (None, each.client_network)), None)
        if oldest is None:
            waiting = [e for e in self._admitted if client in (None, e.client_network) and e.waits_for_client]
            oldest = min(waiting, key=lambda each: each.idle_since, default=None)
        if oldest is not None:
            self._close(oldest, "evicted")
        return oldest is not None

    def _refuse(self, new: ClientConnection) -> None:
        """Keep a connection over the limit for its error response, if there are few of them; otherwise close it."""
        self.metrics.observe_closed_connection("refused")
        new.mark_over_limit()
        if len(self._over_limit) >= REFUSED_AT_ONCE:
            oldest = next((each for each in self._over_limit if each.waits_for_client), new)
            self.remove(oldest)
            oldest.transport.abort()
            if oldest is new:
                return
        self._over_limit[new] = None

    def _close(self, connection: ClientConnection, reason: str) -> None:
        self.remove(connection)
        self.metrics.observe_closed_connection(reason)
        connection.transport.abort()  # unlike `close`, it does not wait for the client to read the rest of a response


class ChunkLimiter(h11.Connection):
    """The HTTP parser of a server's connection, which refuses a body of very many chunks."""

    def __init__(self, max_incomplete_event_size: int) -> None:
        super().__init__(h11.SERVER, max_incomplete_event_size)
        self._chunks = 0

    def next_event(self) -> Any:
        event = super().next_event()
        if isinstance(event, h11.Request):
            self._chunks = 0
        elif isinstance(event, h11.Data) and event.chunk_start:
            self._chunks += 1
            if self._chunks > MAX_CHUNKS:
                raise h11.RemoteProtocolError("too many chunks")
        return event


class ClientConnection(H11Protocol):
    """The HTTP protocol of one connection, counted by a limiter.

    Args:
        limiter: The limiter of the server.
        options: The arguments of uvicorn's protocol.
    """

    def __init__(self, limiter: ConnectionLimiter, **options: Any) -> None:
        super().__init__(**options)
        self.conn = ChunkLimiter(MAX_HEADER_BYTES)
        self.limiter = limiter
        self.client_network = ""
        self.idle_since = time.monotonic()  # when it was opened, when its last response ended, or some of it was read
        self._unsent_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        peer = transport.get_extra_info("peername")  # None if the client has closed the connection already
        self.client_network = client_network(peer[0]) if peer else ""
        self.limiter.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.limiter.remove(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None:
            self.limiter.on_request(self)

    def on_response_complete(self) -> None:
        self.idle_since = time.monotonic()
        super().on_response_complete()

    def timeout_keep_alive_handler(self) -> None:
        """Nothing: `ConnectionLimiter.close_idle` closes idle connections, also those that send incomplete headers."""

    def mark_over_limit(self) -> None:
        """Have `AccessMiddleware` refuse the request of this connection."""
        self.app_state = {**self.app_state, OVER_CONNECTION_LIMIT: True}

    @property
    def has_request(self) -> bool:
        """True from the end of a request's headers to the end of its response."""
        return self.cycle is not None and not self.cycle.response_complete

    @property
    def waits_for_client(self) -> bool:
        """True if the server waits for a request, for the rest of a body, or until the client has read a response."""
        return not self.has_request or self.cycle.more_body or self.transport.get_write_buffer_size() > 0

    def seconds_idle(self, now: float) -> float:
        """The time without a request or, if a response is unread, without reading; 0 while a request is in progress.

        Args:
            now: The current time of `time.monotonic`.
        """
        unsent = self.transport.get_write_buffer_size()
        if unsent != self._unsent_bytes:
            self._unsent_bytes, self.idle_since = unsent, now
        return 0.0 if self.has_request and not unsent else now - self.idle_since

    def send_400_response(self, msg: str) -> None:
        """Answer malformed HTTP, unless a response has begun, and close the connection."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            response = error_response(400, msg)
            response.headers.update({**SECURITY_HEADERS, "Connection": "close"})
            start = h11.Response(status_code=response.status_code, headers=response.raw_headers, reason=b"Bad Request")
            for event in (start, h11.Data(data=bytes(response.body)), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


def client_network(host: str) -> str:
    """The address by which the connections of a client are counted; a client has a whole IPv6 network of 64 bits.

    Args:
        host: An IP address, possibly with a scope such as `%eth0`.
    """
    address = ip_address(host.partition("%")[0])
    if not isinstance(address, IPv6Address):
        return str(address)
    return str(address.ipv4_mapped or ip_network((address, 64), strict=False))


def fit_descriptors(connections: int) -> int:
    """The number of connections for which the process can open files and sockets, at most the given one.

    Args:
        connections: The wanted number; the process's limit on open files is raised for it where that is allowed.
    """
    try:
        resource: Any = import_module("resource")  # of Unix only; Windows has no such limit
    except ImportError:
        return connections
    needed = DESCRIPTORS_PER_CONNECTION * connections + OTHER_DESCRIPTORS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < needed:
        with suppress(ValueError, OSError):  # macOS allows fewer than its hard limit
            resource.setrlimit(
                resource.RLIMIT_NOFILE, (needed if hard == resource.RLIM_INFINITY else min(needed, hard), hard)
            )
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        needed = min(needed, soft)
    return max(1, (needed - OTHER_DESCRIPTORS) // DESCRIPTORS_PER_CONNECTION)
