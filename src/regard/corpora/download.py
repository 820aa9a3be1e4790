"""Downloading one file: in chunks, with retries, resuming where a connection broke."""

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

from regard.files import name_in_errors

TRIES = 3
PAUSE = 0.5  # seconds before the second attempt; doubled before each further one
TIMEOUT = 30.0  # seconds without data
CHUNK = 1 << 16
MAX_BYTES = 1 << 30  # of one download: far more than any mirror of a data set has

Received = Callable[[str, int, int | None], None]  # address, bytes so far, bytes in all if known


class UnavailableError(Exception):
    """A URL cannot be downloaded; another one may work."""


class NotThereError(UnavailableError):
    """The server has no such file."""


class _TransientError(Exception):
    """A failure that may not occur again."""


def download(address: str, path: Path, received: Received) -> None:
    """Download a file.

    Args:
        address: Its URL.
        path: Where to store it; the file must not exist.
        received: Is called with the URL, the bytes so far, and the total if known.

    Raises:
        UnavailableError: After `TRIES` attempts, or at once where a retry cannot help.
    """
    for attempt in range(TRIES):
        if attempt:
            time.sleep(PAUSE * 2 ** (attempt - 1))
        try:
            _transfer(address, path, received)
            return
        except _TransientError as error:
            reason = error
    raise UnavailableError(f"{address}: {reason} ({TRIES} tries)")


def _transfer(address: str, path: Path, received: Received) -> None:
    """Request the bytes after the end of `path`; a server without ranges sends the whole file again."""
    have = path.stat().st_size if path.exists() else 0
    # No transfer compression, so that lengths and ranges count the bytes that are written.
    headers = {"User-Agent": "regard", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
    try:
        with _opener().open(urllib.request.Request(address, headers=headers), timeout=TIMEOUT) as response:
            continued = response.status == HTTPStatus.PARTIAL_CONTENT
            if continued and not response.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
                path.unlink(missing_ok=True)
                raise _TransientError("the server resumed at the wrong position")
            _receive(response, path, have if continued else 0, lambda done, total: received(address, done, total))
    except HTTPError as error:
        with error:  # the error is a response
            _raise_for_status(error, address, path)
    except URLError as error:
        if isinstance(error.reason, ConnectionError | TimeoutError):
            raise _TransientError(str(error.reason)) from error
        raise UnavailableError(f"{address}: {error.reason}") from error
    except (ConnectionError, TimeoutError, SSLError) as error:
        raise _TransientError(str(error)) from error
    except (InvalidURL, ValueError) as error:
        raise UnavailableError(f"{address}: {error}") from error
    except HTTPException as error:  # not HTTP, or cut off in a header
        raise _TransientError(f"{type(error).__name__} {error}".strip()) from error


def _receive(response: HTTPResponse, path: Path, done: int, received: Callable[[int, int | None], None]) -> None:
    total = _total(response.headers, done)
    received(done, total)
    with path.open("ab" if done else "wb") as file:
        while chunk := response.read(CHUNK):
            with name_in_errors(path):
                file.write(chunk)
            done += len(chunk)
            if done > MAX_BYTES:
                raise UnavailableError(f"{response.url}: more than {MAX_BYTES:,} bytes")
            received(done, total)
    if total is not None and done != total:
        raise _TransientError(f"ended after {done:,} of {total:,} bytes")


def _total(headers: Message, done: int) -> int | None:
    length = headers.get("Content-Length", "")
    return done + int(length) if length.isdecimal() else None


def _raise_for_status(error: HTTPError, address: str, path: Path) -> None:
    """Raise what an HTTP error means: retry, no such file, or give this URL up."""
    problem = f"{error.code} {error.reason}"
    if error.code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
        path.unlink(missing_ok=True)  # the partial file is not a beginning of the remote one
        raise _TransientError(problem) from error
    if error.code >= 500 or error.code in (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS):
        raise _TransientError(problem) from error
    if error.code in (HTTPStatus.NOT_FOUND, HTTPStatus.GONE):
        raise NotThereError(f"{address}: {problem}") from error
    raise UnavailableError(f"{address}: {problem}") from error


def _opener() -> urllib.request.OpenerDirector:
    """Opens http and https only, so that no redirection can lead to a local file."""
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
