"""Access control: tokens, host names, origins, body sizes, and the security headers of every response.

Another site's page in the user's browser can send requests to a server on the same machine. Browsers name the page's
origin (`Origin`), and only this server's own pages and allowed origins may send requests. With DNS rebinding, an
attacker's host name points to this machine and such a page looks like ours, so requests for an unknown host name
(`Host`) are refused, too.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import re
import socket
from collections.abc import Sequence
from ipaddress import ip_address
from urllib.parse import urlsplit

from fastapi import HTTPException  # not Starlette's: FastAPI turns other exceptions of `receive` into status 400
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.errors import UserError
from regard.serving.errors import error_response
from regard.serving.limits import CONTENT_TOO_LARGE, REQUEST_TIMEOUT, SERVICE_UNAVAILABLE, Limits

PUBLIC_PATHS = {"/", "/docs", "/openapi.json", "/healthz"}  # need no token
PUBLIC_PREFIX = "/static/"  # the page's files need none either
OVER_CONNECTION_LIMIT = "over_connection_limit"  # key of `scope["state"]`
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
SECURITY_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
log = logging.getLogger(__name__)


class AccessMiddleware:
    """ASGI middleware that refuses forbidden requests and adds security headers to every response.

    Args:
        app: The ASGI application to protect.
        token: The bearer token that every request of the API needs; None: no token.
        origins: Origins whose pages may send requests, besides this server's own; see `normalize_origin`.
        limits: Limits on body size and on the time that a body may take.
    """

    def __init__(self, app: ASGIApp, token: str | None, origins: Sequence[str], limits: Limits) -> None:
        self.app = app
        self.token = None if token is None else token.encode()
        self.origins = frozenset(origins)
        origin_hosts = (urlsplit(origin).hostname or "" for origin in origins)
        self.hosts = {"localhost", socket.gethostname().lower(), *origin_hosts}
        self.max_body_bytes, self.timeout = limits.body_bytes, limits.seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)

        is_over_limit = scope.get("state", {}).get(OVER_CONNECTION_LIMIT, False)
        response_started = False

        async def send_with_headers(message: Message) -> None:
            nonlocal response_started
            response_started = True
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
                if not self.origins:
                    headers["Cross-Origin-Resource-Policy"] = "same-origin"
                if is_over_limit:
                    headers["Connection"] = "close"
            await send(message)

        refusal = self._refuse(scope, Headers(scope=scope))
        if is_over_limit and scope["path"] != "/healthz":
            refusal = error_response(SERVICE_UNAVAILABLE, "too many connections; close those that you do not need")
        if refusal is not None:
            return await refusal(scope, receive, send_with_headers)
        try:
            await self.app(scope, self._limit_body(receive), send_with_headers)
        except Exception:
            log.exception("%s %s", scope["method"], scope["path"])
            if response_started:
                raise
            response = error_response(500, "internal server error; see the server's log")
            await response(scope, receive, send_with_headers)

    def _refuse(self, scope: Scope, headers: Headers) -> JSONResponse | None:
        """The error response to a forbidden request; None if it may pass."""
        host, origin = headers.get("host", "").lower(), headers.get("origin")
        if not self._is_own_host(host):
            remedy = f"use its IP address, or start it with --allow-origin http://{host}"
            return error_response(403, f"this server does not have the host name {host!r}; {remedy}")
        if origin is not None and origin.lower() not in {f"http://{host}", f"https://{host}", *self.origins}:
            remedy = "start the server with --allow-origin to allow it"
            return error_response(403, f"pages from {origin!r} may not send requests to this server; {remedy}")
        is_public = scope["path"] in PUBLIC_PATHS or scope["path"].startswith(PUBLIC_PREFIX)
        if not is_public and not self._has_token(headers):
            response = error_response(401, "a token is required: send the header 'Authorization: Bearer TOKEN'")
            response.headers["WWW-Authenticate"] = "Bearer"
            return response
        length = headers.get("content-length", "0")
        if length.isdecimal() and int(length[:20]) > self.max_body_bytes:
            return error_response(CONTENT_TOO_LARGE, self._too_large())
        return None

    def _is_own_host(self, host: str) -> bool:
        """True for known names and for IP addresses, which DNS cannot point elsewhere."""
        try:
            parts = urlsplit(f"//{host}")
            name, _ = parts.hostname or "", parts.port  # `port` raises if it is not a number
            return name in self.hosts or bool(ip_address(name))
        except ValueError:
            return False

    def _has_token(self, headers: Headers) -> bool:
        if self.token is None:
            return True
        scheme, _, credentials = headers.get("authorization", "").partition(" ")
        # Headers are decoded as Latin-1. The comparison takes constant time.
        return scheme.lower() == "bearer" and hmac.compare_digest(credentials.strip().encode("latin-1"), self.token)

    def _limit_body(self, receive: Receive) -> Receive:
        """`receive` with a deadline and a size limit, for bodies whose Content-Length is missing or wrong."""
        received, is_complete = 0, False
        deadline = asyncio.get_running_loop().time() + self.timeout

        async def receive_limited() -> Message:
            nonlocal received, is_complete
            try:
                async with asyncio.timeout_at(None if is_complete else deadline):
                    message = await receive()
            except TimeoutError:
                detail = f"the request was not complete within {self.timeout:g} seconds; send it faster"
                raise HTTPException(REQUEST_TIMEOUT, detail) from None
            received += len(message.get("body", b""))
            is_complete = not message.get("more_body", False)
            if received > self.max_body_bytes:
                raise HTTPException(CONTENT_TOO_LARGE, self._too_large())
            return message

        return receive_limited

    def _too_large(self) -> str:
        return f"a request body may have at most {self.max_body_bytes:,} bytes; send fewer or shorter texts"


def validate_token(token: str) -> str:
    """The token, if it can be sent in a header; a `UserError` otherwise.

    Args:
        token: The value of `--token`.
    """
    if not (token.isascii() and token.isprintable() and token.split() == [token]):
        raise UserError("--token: must consist of printable ASCII characters without spaces")
    return token


ORIGIN_PATTERN = re.compile(r"(https?)://(\[[0-9a-f:.]+\]|[^][/@?#:*\\\s]+)(?::(\d{1,5}))?/?")
DEFAULT_PORTS = {"http": "80", "https": "443"}


def normalize_origin(origin: str) -> str:
    """The origin as browsers write it: in ASCII, without a default port; a `UserError` if it is not an origin.

    Args:
        origin: The value of `--allow-origin`, such as `https://example.org`.
    """
    try:
        match = ORIGIN_PATTERN.fullmatch(origin.lower())
        scheme, host, port = match.groups() if match else ("", "", None)
        name = host.encode("idna").decode()
    except UnicodeError:
        name = ""
    if not name:
        raise UserError(f"--allow-origin {origin}: should be like https://example.org or http://localhost:3000")
    return f"{scheme}://{name}" if port in (None, DEFAULT_PORTS[scheme]) else f"{scheme}://{name}:{port}"
