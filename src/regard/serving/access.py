"""Who may ask, and how much at once; and what browsers are told about the answers.

A page of somebody else's in the user's browser can send requests to a server on the same machine. Browsers say where
such a request comes from (`Origin`), and only our own pages and those that were allowed may ask. A name that somebody
makes point to this machine (DNS rebinding) would make such a page look like ours, so requests that call us by a name
that is not known to be ours are refused, too (`Host`).
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

from fastapi import HTTPException
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.errors import UserError
from regard.serving.errors import problem
from regard.serving.limits import TOO_LARGE, TOO_SLOW, Limits

OPEN = {"/", "/docs", "/openapi.json", "/healthz"}  # what is told without a token, besides the files of the page
FILES = "/static/"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
log = logging.getLogger(__name__)


class AccessMiddleware:
    """Stands before all else: it refuses what may not be asked, and puts headers on every answer."""

    def __init__(self, app: ASGIApp, token: str | None, origins: Sequence[str], limits: Limits) -> None:
        self.app = app
        self.token = None if token is None else token.encode()
        self.origins = frozenset(origins)
        self.hosts = {"localhost", socket.gethostname().lower(), *(urlsplit(each).hostname or "" for each in origins)}
        self.body_bytes, self.seconds = limits.body_bytes, limits.seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)

        started = False

        async def send_with_headers(message: Message) -> None:
            nonlocal started
            started = True
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                if not self.origins:
                    headers["Cross-Origin-Resource-Policy"] = "same-origin"
            await send(message)

        headers = Headers(scope=scope)
        refusal = self._refusal(scope, headers)
        if refusal is not None:
            return await refusal(scope, receive, send_with_headers)
        try:
            await self.app(scope, self._limited(receive), send_with_headers)
        except Exception:
            log.exception("%s %s", scope["method"], scope["path"])
            if started:
                raise
            answer = problem(500, "something went wrong here; the server's log says what")
            await answer(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope, headers: Headers) -> JSONResponse | None:
        host, origin = headers.get("host", "").lower(), headers.get("origin")
        if not self._is_ours(host):
            known = f"ask by its address, or start it with --allow-origin http://{host}"
            return problem(403, f"this server is not known as {host!r}; {known}")
        ours = {f"http://{host}", f"https://{host}", *self.origins}
        if origin is not None and origin.lower() not in ours:
            allowed = "--allow-origin says whose may, when the server is started"
            return problem(403, f"pages from {origin!r} may not ask here; {allowed}")
        is_open = scope["path"] in OPEN or scope["path"].startswith(FILES)
        if not is_open and not self._knows(headers):
            answer = problem(401, "a token is needed: send the header 'Authorization: Bearer TOKEN'")
            answer.headers["WWW-Authenticate"] = "Bearer"
            return answer
        length = headers.get("content-length", "0")
        if length.isdecimal() and int(length[:20]) > self.body_bytes:
            return problem(TOO_LARGE, self._too_large())
        return None

    def _is_ours(self, host: str) -> bool:
        """Is it a name that we know, or an address, which nobody can make point elsewhere?"""
        try:
            parts = urlsplit(f"//{host}")
            name, _ = parts.hostname or "", parts.port  # which raises if it is no number
            return name in self.hosts or bool(ip_address(name))
        except ValueError:
            return False

    def _knows(self, headers: Headers) -> bool:
        if self.token is None:
            return True
        scheme, _, given = headers.get("authorization", "").partition(" ")
        # Headers are read as Latin-1. The comparison takes as long for a nearly right token as for a wrong one.
        return scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode("latin-1"), self.token)

    def _limited(self, receive: Receive) -> Receive:
        """A body comes in time; and one whose length was not told, or not truly, has its limit, too."""
        received, complete = 0, False
        late = asyncio.get_running_loop().time() + self.seconds

        async def receive_some() -> Message:
            nonlocal received, complete
            try:
                async with asyncio.timeout_at(None if complete else late):
                    message = await receive()
            except TimeoutError:
                reason = f"the request was not complete within {self.seconds:g} seconds; send it faster"
                raise HTTPException(TOO_SLOW, reason) from None
            received += len(message.get("body", b""))
            complete = not message.get("more_body", False)
            if received > self.body_bytes:
                raise HTTPException(TOO_LARGE, self._too_large())
            return message

        return receive_some

    def _too_large(self) -> str:
        return f"a request may have {self.body_bytes:,} bytes at most; send fewer or shorter texts"


def check_token(token: str) -> str:
    """A token that can be sent in a header; a `UserError` if it cannot."""
    if not (token.isascii() and token.isprintable() and token.split() == [token]):
        raise UserError("--token: should be made of letters, digits and signs of ASCII, without spaces")
    return token


ORIGIN = re.compile(r"(https?)://(\[[0-9a-f:.]+\]|[^][/@?#:*\\\s]+)(?::(\d{1,5}))?/?")
USUAL_PORTS = {"http": "80", "https": "443"}


def check_origin(origin: str) -> str:
    """The origin as browsers write it: without a usual port, and in ASCII; a `UserError` if it is none."""
    try:
        found = ORIGIN.fullmatch(origin.lower())
        scheme, host, port = found.groups() if found else ("", "", None)
        name = host.encode("idna").decode()
    except UnicodeError:
        name = ""
    if not name:
        raise UserError(f"--allow-origin {origin}: should be like https://example.org or http://localhost:3000")
    return f"{scheme}://{name}" if port in (None, USUAL_PORTS[scheme]) else f"{scheme}://{name}:{port}"
