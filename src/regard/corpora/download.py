"""One file from the web: in pieces, with patience, and going on where a connection broke."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Callable
from email.message import Message
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse, InvalidURL
from pathlib import Path
from ssl import SSLError
from urllib.error import HTTPError, URLError

TRIES = 3
PAUSE = 0.5  # seconds before the second try; twice as long before each further one
TIMEOUT = 30.0  # seconds in which nothing arrives
CHUNK = 1 << 16
MOST_BYTES = 1 << 30  # of one download: no copy of a data set comes near, a runaway server stops here

Received = Callable[[str, int, int | None], None]  # address, bytes so far, bytes in all if known


class UnavailableError(Exception):
    """An address does not give what it should; another one may."""


class NotThereError(UnavailableError):
    """The server answers, and has no such file."""


class _BrokenError(Exception):
    """It may work the next time."""


def download(address: str, path: Path, received: Received) -> None:
    """Bring what lies at `address` to `path`, a file that is not there yet."""
    for attempt in range(TRIES):
        if attempt:
            time.sleep(PAUSE * 2 ** (attempt - 1))
        try:
            _transfer(address, path, received)
            return
        except _BrokenError as error:
            reason = error
    raise UnavailableError(f"{address}: {reason} ({TRIES} tries)")


def _transfer(address: str, path: Path, received: Received) -> None:
    """Ask for what is still missing at the end of `path`; a server that cannot do that sends everything again."""
    have = path.stat().st_size if path.exists() else 0
    # Without compression on the way: lengths and ranges then count the bytes that are written here.
    headers = {"User-Agent": "regard", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
    try:
        with _opener().open(urllib.request.Request(address, headers=headers), timeout=TIMEOUT) as response:
            continued = response.status == HTTPStatus.PARTIAL_CONTENT
            if continued and not response.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
                path.unlink(missing_ok=True)
                raise _BrokenError("the server went on at another place than asked for")
            _receive(response, path, have if continued else 0, lambda done, total: received(address, done, total))
    except HTTPError as error:
        with error:  # it is a response, too
            _judge(error, address, path)
    except URLError as error:
        if isinstance(error.reason, ConnectionError | TimeoutError):
            raise _BrokenError(str(error.reason)) from error
        raise UnavailableError(f"{address}: {error.reason}") from error
    except (ConnectionError, TimeoutError, SSLError) as error:
        raise _BrokenError(str(error)) from error
    except (InvalidURL, ValueError) as error:
        raise UnavailableError(f"{address}: {error}") from error
    except HTTPException as error:  # not the language of the web, or broken off in the middle of a word
        raise _BrokenError(f"{type(error).__name__} {error}".strip()) from error


def _receive(response: HTTPResponse, path: Path, done: int, received: Callable[[int, int | None], None]) -> None:
    total = _total(response.headers, done)
    received(done, total)
    with path.open("ab" if done else "wb") as file:
        while chunk := response.read(CHUNK):
            file.write(chunk)
            done += len(chunk)
            if done > MOST_BYTES:
                raise UnavailableError(f"{response.url}: more than {MOST_BYTES:,} bytes")
            received(done, total)
    if total is not None and done != total:
        raise _BrokenError(f"ended after {done:,} of {total:,} bytes")


def _total(headers: Message, done: int) -> int | None:
    length = headers.get("Content-Length", "")
    return done + int(length) if length.isdecimal() else None


def _judge(error: HTTPError, address: str, path: Path) -> None:
    """What an answer other than success means: try again, give this file up, or give this address up."""
    problem = f"{error.code} {error.reason}"
    if error.code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
        path.unlink(missing_ok=True)  # what we have is not a beginning of what is there
        raise _BrokenError(problem) from error
    if error.code >= 500 or error.code in (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS):
        raise _BrokenError(problem) from error
    if error.code in (HTTPStatus.NOT_FOUND, HTTPStatus.GONE):
        raise NotThereError(f"{address}: {problem}") from error
    raise UnavailableError(f"{address}: {problem}") from error


def _opener() -> urllib.request.OpenerDirector:
    """Knows http and https and nothing else, so that no redirection can lead to a file of this computer."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler,
        urllib.request.HTTPHandler,
        urllib.request.HTTPSHandler,
        urllib.request.HTTPRedirectHandler,
        urllib.request.HTTPDefaultErrorHandler,
        urllib.request.HTTPErrorProcessor,
        urllib.request.UnknownHandler,
    ):
        opener.add_handler(handler())
    return opener
