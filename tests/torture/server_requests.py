"""What the attacks on the server send: a minimal HTTP client, JSON bodies and malformed HTTP."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

HOST = "127.0.0.1"
HANG_SECONDS = 10.0  # no response may take longer
JSON_HEADERS = {"Content-Type": "application/json"}


@dataclass(frozen=True)
class Response:
    """A response, with header names in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


def post(path: str, body: bytes, headers: dict[str, str] = JSON_HEADERS) -> bytes:
    """The bytes of a POST request."""
    lines = [f"POST {path} HTTP/1.1", f"Host: {HOST}", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def get(path: str) -> bytes:
    """The bytes of a GET request."""
    return f"GET {path} HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode()


class Client:
    """A client with one connection, which it opens again after it was closed."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def send(self, request: bytes) -> Response:
        """The response to a request; an `OSError` or `EOFError` if there is none in time."""
        try:
            async with asyncio.timeout(HANG_SECONDS):
                if self.streams is None:
                    self.streams = await asyncio.open_connection(HOST, self.port)
                reader, writer = self.streams
                writer.write(request)
                response = await read_response(reader)
        except BaseException:
            self.close()
            raise
        if response.headers.get("connection") == "close":
            self.close()
        return response

    def close(self) -> None:
        """Close the connection."""
        if self.streams is not None:
            self.streams[1].close()
        self.streams = None


async def read_response(reader: asyncio.StreamReader) -> Response:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Response(int(head[0].split()[1]), headers, body)


# --- JSON bodies -----------------------------------------------------------------------------------------

BODIES: dict[str, dict[str, Any]] = {
    "/api/translate": {"texts": ["abc", "de"], "beam": 2, "n_best": 2, "attention": True},
    "/api/score": {"pairs": [{"source": "abc", "target": "abc"}]},
}
FIELDS = (
    *("texts", "pairs", "run", "beam", "n_best", "length_penalty", "min_length", "block_ngrams", "prefix", "sample"),
    *(
        "temperature",
        "top_k",
        "top_p",
        "seed",
        "attention",
        "alternatives",
        "tree",
        "source",
        "target",
        "",
        "__proto__",
    ),
)
NUMBERS = (
    *("NaN", "Infinity", "-Infinity", "1e999", "-1e999", "-0", "-1", "0.5", "1e-400", "9" * 5_000, "1" + "0" * 400),
    *(str(2**63), str(2**64), str(-(2**63) - 1), "1e308", "00", "0x10", "1_000", "٣"),
)
STRINGS = (
    *(r"\ud800", r"\udfff\ud800", r"\u0000", r"\u202e", "\x1b[2J", "\x00", "\\", "\n", "e\u0301" * 50, "🙂" * 100),
    *("a" * 1_999, "a" * 2_001, "a" * 100_000, "", " ", "<s>", "</s>", "%s%n{0}", "\ufeff", "\uffff"),
)
ENCODINGS = ("utf-16", "utf-32", "utf-16-be", "utf-8-sig", "cp037", "utf-7")


def json_body(rng: random.Random) -> tuple[str, bytes]:
    """A path of the API, and a body for it that is broken in one or two ways."""
    path = rng.choice(list(BODIES))
    text = json.dumps(BODIES[path])
    for _ in range(rng.randint(1, 2)):
        text = rng.choice(TEXT_MUTATIONS)(rng, text)
    body = text.encode("utf-8", "surrogatepass")
    return path, rng.choice(BYTE_MUTATIONS)(rng, body) if rng.random() < 0.4 else body


def json_value(rng: random.Random, kinds: int = 6) -> str:
    """A value of any type, as JSON or nearly so. The last kind is a list of others."""
    kind = rng.randrange(kinds)
    if kind == 0:
        return rng.choice(NUMBERS)
    if kind == 1:
        return f'"{rng.choice(STRINGS)}"'
    if kind == 2:
        depth = rng.choice((3, 50, 900, 20_000))
        return "[" * depth + "]" * depth
    if kind == 3:
        depth = rng.choice((3, 50, 900, 5_000))
        return '{"a":' * depth + "1" + "}" * depth
    if kind == 5:
        return "[" + ",".join([json_value(rng, 5)] * rng.choice((1, 2, 65))) + "]"
    return rng.choice(("null", "true", "false", "{}", "[]", '""', "[null]", '[[["abc"]]]', "'abc'", "undefined"))


def add_field(rng: random.Random, text: str) -> str:
    """The object with one more field, often one that it has already."""
    return f'{text.rstrip().removesuffix("}")}, "{rng.choice(FIELDS)}": {json_value(rng)}}}'


def replace_value(rng: random.Random, text: str) -> str:
    return text.replace(rng.choice(('"abc"', "2", "true", '["abc", "de"]', '"source"')), json_value(rng), 1)


def truncate(rng: random.Random, text: str) -> str:
    return text[: rng.randrange(len(text) + 1)]


def insert_string(rng: random.Random, text: str) -> str:
    return text.replace("abc", rng.choice(STRINGS), rng.choice((1, -1)))


def replace_all(rng: random.Random, text: str) -> str:
    return json_value(rng)


def encode(rng: random.Random, body: bytes) -> bytes:
    return body.decode("utf-8", "replace").encode(rng.choice(ENCODINGS), "replace")


def flip_bytes(rng: random.Random, body: bytes) -> bytes:
    changed = bytearray(body)
    for _ in range(min(len(changed), rng.randint(1, 8))):
        changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


def insert_bytes(rng: random.Random, body: bytes) -> bytes:
    position = rng.randrange(len(body) + 1)
    return body[:position] + rng.randbytes(rng.choice((1, 4, 1_000))) + body[position:]


TEXT_MUTATIONS = (add_field, add_field, replace_value, replace_value, truncate, insert_string, replace_all)
BYTE_MUTATIONS = (encode, flip_bytes, insert_bytes)


# --- malformed HTTP --------------------------------------------------------------------------------------

HEAD = f"Host: {HOST}\r\n".encode()
SMUGGLED = get("/healthz")
# Requests that must not be answered by anything but a client error.
REFUSED = {
    "no request line": b"\r\n" * 5 + b"nonsense\r\n\r\n",
    "no version": b"GET /healthz\r\n" + HEAD + b"\r\n",
    "space in the path": b"GET /a b HTTP/1.1\r\n" + HEAD + b"\r\n",
    "NUL in the path": b"GET /\x00 HTTP/1.1\r\n" + HEAD + b"\r\n",
    "non-ASCII path": b"GET /\xff HTTP/1.1\r\n" + HEAD + b"\r\n",
    "NUL in a header": b"GET /healthz HTTP/1.1\r\n" + HEAD + b"X: a\x00b\r\n\r\n",
    "header without a colon": b"GET /healthz HTTP/1.1\r\n" + HEAD + b"nonsense\r\n\r\n",
    "space before the colon": b"GET /healthz HTTP/1.1\r\n" + HEAD + b"X : a\r\n\r\n",
    "no host": b"GET /healthz HTTP/1.1\r\n\r\n",
    "two hosts": b"GET /healthz HTTP/1.1\r\n" + HEAD + HEAD + b"\r\n",
    "long path": b"GET /" + b"a" * 1_000_000 + b" HTTP/1.1\r\n" + HEAD + b"\r\n",
    "long header": b"GET /healthz HTTP/1.1\r\n" + HEAD + b"X: " + b"a" * 1_000_000 + b"\r\n\r\n",
    "many headers": b"GET /healthz HTTP/1.1\r\n" + HEAD + b"X: a\r\n" * 100_000 + b"\r\n",
    "two lengths": b"POST /api/score HTTP/1.1\r\n"
    + HEAD
    + b"Content-Length: 0\r\nContent-Length: 40\r\n\r\n"
    + SMUGGLED,
    "negative length": b"POST /api/score HTTP/1.1\r\n" + HEAD + b"Content-Length: -1\r\n\r\n" + SMUGGLED,
    "length with a sign": b"POST /api/score HTTP/1.1\r\n" + HEAD + b"Content-Length: +2\r\n\r\n{}",
    "huge length": b"POST /api/score HTTP/1.1\r\n" + HEAD + b"Content-Length: " + b"9" * 5_000 + b"\r\n\r\n",
    "length and chunks": b"POST /healthz HTTP/1.1\r\n"
    + HEAD
    + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    + SMUGGLED,
    "unknown encoding": b"POST /api/score HTTP/1.1\r\n" + HEAD + b"Transfer-Encoding: xchunked\r\n\r\n" + SMUGGLED,
    "two encodings": b"POST /api/score HTTP/1.1\r\n" + HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n" + SMUGGLED,
    "no chunk size": b"POST /api/score HTTP/1.1\r\n" + HEAD + b"Transfer-Encoding: chunked\r\n\r\nnonsense\r\n",
    "huge chunk size": b"POST /api/score HTTP/1.1\r\n"
    + HEAD
    + b"Transfer-Encoding: chunked\r\n\r\n"
    + b"f" * 99
    + b"\r\n",
    "wrong chunk end": b"POST /api/score HTTP/1.1\r\n" + HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}xx0\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(64),
    "TLS": bytes.fromhex("16030100c8010000c40303") + bytes(range(200)),
    "SSH": b"SSH-2.0-OpenSSH_9.6\r\n",
    "a response": b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    "NULs": bytes(10_000),
    "newlines": b"\n" * 20_000,
}
# Requests that may be answered in any way but a server error.
UNUSUAL = {
    "unknown version": b"GET /healthz HTTP/9.9\r\n" + HEAD + b"\r\n",
    "pipelined": SMUGGLED * 50,
    "pipelined nonsense": SMUGGLED * 3 + b"nonsense\r\n\r\n",
    "websocket": b"GET /healthz HTTP/1.1\r\n" + HEAD + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    "HTTP/1.0": b"GET /healthz HTTP/1.0\r\n\r\n",
    "line feeds only": b"GET /healthz HTTP/1.1\nHost: 127.0.0.1\n\n",
    "folded header": b"GET /healthz HTTP/1.1\r\n" + HEAD + b"X: a\r\n b\r\n\r\n",
    "body of a GET": b"GET /healthz HTTP/1.1\r\n" + HEAD + b"Content-Length: 5\r\n\r\nabc",
    "expectation": b"POST /api/score HTTP/1.1\r\n" + HEAD + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n{}",
    "escapes in the path": b"GET /%1b%5b2J%0d%0aX%3a%20y%00 HTTP/1.1\r\n" + HEAD + b"\r\n",
    "absolute form": b"GET http://evil.example/healthz HTTP/1.1\r\n" + HEAD + b"\r\n",
    "chunk extensions": b"POST /api/score HTTP/1.1\r\n"
    + HEAD
    + b"Transfer-Encoding: chunked\r\n\r\n2;a=b\r\n{}\r\n0\r\nX: y\r\n\r\n",
    "many small chunks": b"POST /api/score HTTP/1.1\r\n"
    + HEAD
    + b"Transfer-Encoding: chunked\r\n\r\n"
    + b"1\r\n \r\n" * 20_000
    + b"0\r\n\r\n",
    "method": b"BREW /coffee HTTP/1.1\r\n" + HEAD + b"\r\n",
}


def malformed_requests(rng: random.Random, count: int) -> Iterator[tuple[str, bytes, bool]]:
    """Name, bytes and whether they must be refused: all that are listed, then random changes to valid ones."""
    listed = [(name, data, True) for name, data in REFUSED.items()]
    listed += [(name, data, False) for name, data in UNUSUAL.items()]
    yield from listed
    valid = [SMUGGLED, get("/api/runs"), post("/api/translate", b'{"texts": ["abc"]}'), *UNUSUAL.values()]
    for number in range(len(listed), count):
        data = rng.choice(valid)
        data = rng.choice((flip_bytes, insert_bytes, cut_bytes))(rng, data)
        yield f"random {number}", data, False


def cut_bytes(rng: random.Random, data: bytes) -> bytes:
    start, end = sorted(rng.randrange(len(data) + 1) for _ in range(2))
    return data[:start] + data[end:]
