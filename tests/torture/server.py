"""Attacks on `regard serve`: JSON bodies, malformed HTTP, slow clients, and good clients among all of these.

The server runs as a process of its own, with few file descriptors. Good clients and health checks run in processes of
their own, too, so that the load of the attackers does not distort what they measure.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from torture.outcomes import Campaign, Tally
from torture.server_requests import (
    HANG_SECONDS,
    HEAD,
    HOST,
    REFUSED,
    UNUSUAL,
    Client,
    Response,
    get,
    json_body,
    malformed_requests,
    post,
)

EXPERIMENT = """\
data: {task: copy, alphabet: abcde, max_length: 5, train: 600, validation: 40, test: 50}
model:
  encoder: {cell: tanh, embedding: 16, size: 16, positions: {kind: sine, width: 8}}
  decoder: {cell: tanh, embedding: 16, size: 32, positions: {kind: sine, width: 8}}
  attention: {kind: dot}
training: {epochs: 15, batch_tokens: 400, rate: {peak: 0.03}, save_every: 1000}
"""
DESCRIPTORS = 1024  # the limit on open files of the server
REQUEST_SECONDS, IDLE_SECONDS = 8, 10  # the limits of the server; the second is the default
MARGIN_SECONDS = 4.0  # for time-outs on a busy machine
HEALTH_SECONDS = 0.5
MAX_LOG_BYTES = 100_000
MAX_GROWTH_MEGABYTES = 200.0
SERVICE_UNAVAILABLE = 503
RETRY = (429, SERVICE_UNAVAILABLE)


def attack(campaign: Campaign) -> list[Tally]:
    """Train a tiny model, serve it and attack the server.

    Args:
        campaign: The settings of the campaign.
    """
    rng = random.Random(campaign.seed)
    with served_model(campaign) as server:
        answers = reference_answers(server, rng)
        tallies = []
        for run_attack in (attack_json, attack_http, attack_slowly):
            tallies.append(run_attack(campaign, server, rng))
            campaign.progress(f"{tallies[-1].name}: {tallies[-1].tries:,} tries")
        tallies += attack_good_clients(campaign, server, rng, answers)
        campaign.progress("server: good clients among attacks")
        return [*tallies, stop(server)]


# --- the server ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Server:
    """A running `regard serve`.

    Args:
        process: The process.
        port: The port on 127.0.0.1.
        log: The file with its standard error.
        command: The command, to reproduce failures.
        megabytes: Its memory after the first request, 0 if unknown.
    """

    process: subprocess.Popen[str]
    port: int
    log: Path
    command: str
    megabytes: float


@contextmanager
def served_model(campaign: Campaign) -> Iterator[Server]:
    """Train a model and serve it until the end of the block."""
    experiment, run, log = (campaign.folder / name for name in ("experiment.yaml", "run", "server.log"))
    experiment.write_text(EXPERIMENT)
    regard = [sys.executable, "-m", "regard"]
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    trained = subprocess.run([*regard, "train", experiment, "--out", run], env=env, capture_output=True, text=True)
    assert trained.returncode == 0, trained.stderr
    command = shlex.join([*regard, "serve", str(run), "--port", "0", "--max-seconds", str(REQUEST_SECONDS)])
    if os.name == "posix":
        command = f"ulimit -n {DESCRIPTORS}; exec {command}"
    with log.open("wb") as stderr:
        process = subprocess.Popen(command, shell=True, env=env, stdout=subprocess.PIPE, stderr=stderr, text=True)
    with process:
        assert process.stdout is not None
        try:
            port = int(process.stdout.readline().rsplit("/", 1)[0].rsplit(":", 1)[1])
            translate(port, ["abc"])
            yield Server(process, port, log, command, resident_megabytes(process.pid))
        finally:
            if process.poll() is None:
                process.kill()


def resident_megabytes(pid: int) -> float:
    """Memory of a process; 0 where there is no `/proc`."""
    with suppress(OSError):
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
    return 0.0


def stop(server: Server) -> Tally:
    """Stop the server and check what it leaves behind."""
    tally = Tally("server: memory, log, exit code")
    growth = resident_megabytes(server.process.pid) - server.megabytes
    grown = f"memory grew by {growth:.0f} MB" if growth > MAX_GROWTH_MEGABYTES else ""
    tally.record(grown, **{"growth in MB": growth})
    server.process.send_signal(signal.SIGTERM)
    try:
        code = server.process.wait(REQUEST_SECONDS + IDLE_SECONDS)
        expected = 128 + signal.SIGTERM if os.name == "posix" else code
        tally.record("" if code == expected else f"SIGTERM: exit code {code}; {server.command}")
    except subprocess.TimeoutExpired:
        tally.record(f"SIGTERM: still running; {server.command}")
    text = server.log.read_text(errors="replace")
    size = float(len(text))
    tally.record(f"the log has {size:,.0f} bytes: {server.log}" if size > MAX_LOG_BYTES else "", **{"log bytes": size})
    tally.record(f"the log has a traceback: {server.log}" if "Traceback" in text else "")
    tally.record(f"the log has control characters: {server.log}" if "\x1b" in text else "")
    return tally


def translate(port: int, texts: list[str]) -> list[str]:
    """The translations of the texts, by one request."""

    async def send() -> Response:
        client = Client(port)
        try:
            return await client.send(post("/api/translate", json.dumps({"texts": texts}).encode()))
        finally:
            client.close()

    return translations(asyncio.run(send()))


def translations(response: Response) -> list[str]:
    return [each["text"] for each in json.loads(response.body)["translations"]]


def reference_answers(server: Server, rng: random.Random) -> dict[str, str]:
    """Translations of some texts, one by one."""
    texts = {"".join(rng.choices("abcde", k=rng.randint(1, 12))) for _ in range(200)}
    return {text: translate(server.port, [text])[0] for text in sorted(texts)}


def is_healthy(port: int) -> bool:
    """True if the server responds to a health check on a new connection."""

    async def send() -> bool:
        client = Client(port)
        try:
            return (await client.send(get("/healthz"))).status == 200
        finally:
            client.close()

    try:
        return asyncio.run(send())
    except (OSError, EOFError):
        return False


# --- (a) JSON bodies -------------------------------------------------------------------------------------


def attack_json(campaign: Campaign, server: Server, rng: random.Random) -> Tally:
    """Send broken JSON; each response is JSON, and none is a server error."""
    tally = Tally("server: JSON bodies")
    bodies = [json_body(rng) for _ in range(campaign.tries(4_000))]

    async def send_all() -> None:
        client = Client(server.port)
        for number, (path, body) in enumerate(bodies):
            start, failure = time.monotonic(), ""
            try:
                failure = json_failure(await client.send(post(path, body)))
            except (OSError, EOFError) as error:
                failure = f"no response ({error!r})"
            if failure:
                file = campaign.folder / f"body-{number}"
                file.write_bytes(body)
                failure = f"{failure}: curl -H 'Content-Type: application/json' --data-binary @{file} HOST:PORT{path}"
            tally.record(failure, seconds=time.monotonic() - start)
        client.close()

    asyncio.run(send_all())
    return tally


def json_failure(response: Response) -> str:
    """What is wrong with a response of the API; empty if nothing is."""
    if response.status >= 500 and response.status != SERVICE_UNAVAILABLE:
        return f"status {response.status}"
    try:
        content = json.loads(response.body)
    except ValueError:
        return f"status {response.status}, and the body is not JSON"
    return "" if response.status < 400 or isinstance(content.get("detail"), str) else "an error without its detail"


# --- (b) malformed HTTP ----------------------------------------------------------------------------------


def attack_http(campaign: Campaign, server: Server, rng: random.Random) -> Tally:
    """Send malformed HTTP; the server answers with a client error or closes the connection, and stays healthy."""
    tally = Tally("server: malformed HTTP")
    requests = list(malformed_requests(rng, campaign.tries(1_000)))

    async def send_all() -> None:
        slots = asyncio.Semaphore(16)

        async def send(number: int, name: str, data: bytes, must_refuse: bool) -> None:
            async with slots:
                start = time.monotonic()
                failure = http_failure(await exchange(server.port, data), must_refuse)
            if failure:
                file = campaign.folder / f"request-{number}"
                file.write_bytes(data)
                failure = f"{name}: {failure}: nc HOST PORT < {file}"
            tally.record(failure, seconds=time.monotonic() - start)

        await asyncio.gather(*(send(number, *request) for number, request in enumerate(requests)))

    asyncio.run(send_all())
    tally.record("" if is_healthy(server.port) else f"not healthy afterwards: {server.command}")
    return tally


async def exchange(port: int, data: bytes) -> bytes | None:
    """What the server answers to these bytes until it closes the connection; None if it does not close it."""
    received = bytearray()
    with suppress(ConnectionError):
        reader, writer = await asyncio.open_connection(HOST, port)
        try:
            writer.write(data)
            with suppress(TimeoutError):
                await asyncio.wait_for(collect(reader, received), 1)  # before the end: the server stops reading there
            if writer.can_write_eof():
                writer.write_eof()
            await asyncio.wait_for(collect(reader, received), IDLE_SECONDS + MARGIN_SECONDS)
        except TimeoutError:
            return None
        finally:
            writer.transport.abort()
    return bytes(received)


async def collect(reader: asyncio.StreamReader, received: bytearray) -> None:
    while piece := await reader.read(65_536):
        received += piece


def http_failure(received: bytes | None, must_refuse: bool) -> str:
    """What is wrong with the bytes that the server sent; empty if nothing is."""
    if received is None:
        return "the connection stays open"
    statuses = [int(line.split()[1]) for line in re.findall(rb"^HTTP/1\.1 \d{3} ", received, re.MULTILINE)]
    if received and not statuses:
        return f"no HTTP: {received[:50]!r}"
    if any(status >= 500 and status != SERVICE_UNAVAILABLE for status in statuses):
        return f"statuses {statuses}"
    return f"statuses {statuses}" if must_refuse and any(status < 400 for status in statuses) else ""


# --- (c) slow clients ------------------------------------------------------------------------------------


def attack_slowly(campaign: Campaign, server: Server, rng: random.Random) -> Tally:
    """Open connections that are idle or slow; each is closed within the documented time."""
    tally = Tally("server: slow clients")
    body = post("/api/score", b" " * 10_000)
    allowed = {  # what is sent at once, what is sent byte by byte, and seconds until the connection is closed
        "silent": (b"", b"", IDLE_SECONDS),
        "slow headers": (b"GET /healthz HTTP/1.1\r\n", HEAD * 100, IDLE_SECONDS),
        "idle after a response": (get("/healthz"), b"", IDLE_SECONDS),
        "slow headers after a response": (get("/healthz") + b"GET ", b"a" * 1_000, IDLE_SECONDS),
        "slow body": (body[:200], body[200:], REQUEST_SECONDS + IDLE_SECONDS),
        "slow body that is not needed": (b"GET" + body[4:200], body[200:], IDLE_SECONDS),
    }

    async def time_out(name: str, at_once: bytes, slowly: bytes, seconds: float) -> None:
        start = time.monotonic()
        reader, writer = await asyncio.open_connection(HOST, server.port)
        writer.write(at_once)
        sending = asyncio.create_task(dribble(writer, slowly))
        try:
            with suppress(ConnectionError):
                await asyncio.wait_for(collect(reader, bytearray()), seconds + MARGIN_SECONDS)
            failure = ""
        except TimeoutError:
            failure = f"{name}: the connection stays open; {server.command}"
        sending.cancel()
        writer.transport.abort()
        tally.record(failure, **{f"seconds, {name}": time.monotonic() - start})

    async def all_kinds() -> None:
        count = campaign.tries(8)
        kinds = [time_out(name, *kind) for name, kind in allowed.items() for _ in range(count)]
        await asyncio.gather(*kinds, *(read_nothing(server, tally) for _ in range(count)))

    asyncio.run(all_kinds())
    return tally


async def dribble(writer: asyncio.StreamWriter, data: bytes) -> None:
    """Send a byte five times a second."""
    with suppress(ConnectionError):
        for byte in data:
            await asyncio.sleep(0.2)
            writer.write(bytes([byte]))
            await writer.drain()


async def read_nothing(server: Server, tally: Tally) -> None:
    """Ask for more than the system buffers and read nothing of it; the server must not send the rest later."""
    count = 2_000
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        connection.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(connection, (HOST, server.port))
        with suppress(TimeoutError, ConnectionError):
            await asyncio.wait_for(loop.sock_sendall(connection, get("/openapi.json") * count), 1)
        await asyncio.sleep(IDLE_SECONDS + MARGIN_SECONDS)
        received = 0
        try:
            async with asyncio.timeout(HANG_SECONDS):
                with suppress(ConnectionError):
                    while piece := await loop.sock_recv(connection, 1_000_000):
                        received += piece.count(b"HTTP/1.1 200 OK")
            failure = "" if received < count else "unread response: all of it was sent later"
        except TimeoutError:
            failure = f"unread response: the connection stays open; {server.command}"
    tally.record(failure)


# --- (d) good clients among all of these -----------------------------------------------------------------


def attack_good_clients(campaign: Campaign, server: Server, rng: random.Random, answers: dict[str, str]) -> list[Tally]:
    """Load the server with good clients while it is attacked; no answer is wrong or lost, and it stays healthy."""
    seconds = max(3.0, 30 * campaign.scale)
    context = get_context("spawn")
    with ProcessPoolExecutor(1, context) as health, ProcessPoolExecutor(2, context, yield_to_server) as others:
        tallies = [
            future.result()
            for future in [
                others.submit(good_clients, server.port, answers, seconds, campaign.seed),
                health.submit(check_health, server.port, seconds),
                others.submit(hostile_clients, server.port, seconds, campaign.seed),
            ]
        ]
    for tally in tallies:
        tally.failures = [f"{failure}; {server.command}" for failure in tally.failures]
    return tallies


def yield_to_server() -> None:
    """Let the server run first: real clients do not use its processors."""
    if hasattr(os, "nice"):
        os.nice(10)


def good_clients(port: int, answers: dict[str, str], seconds: float, seed: int) -> Tally:
    """Translate with 64 clients and compare each answer with the known one. A status with Retry-After is retried."""
    tally = Tally("server: good clients among attacks")
    end = time.monotonic() + seconds

    async def translate_repeatedly(number: int) -> None:
        client, rng = Client(port), random.Random(f"{seed} {number}")
        while time.monotonic() < end:
            texts = rng.sample(sorted(answers), rng.randint(1, 3))
            start, failure, retries = time.monotonic(), "", 0
            try:
                request = post("/api/translate", json.dumps({"texts": texts}).encode())
                while (response := await client.send(request)).status in RETRY and "retry-after" in response.headers:
                    retries += 1
                    await asyncio.sleep(float(response.headers["retry-after"]))
                expected = [answers[text] for text in texts]
                if response.status != 200:
                    failure = f"{texts}: status {response.status}"
                elif (received := translations(response)) != expected:
                    failure = f"{texts}: {received} instead of {expected}"
            except (OSError, EOFError) as error:
                failure = f"{texts}: the answer is lost ({error!r})"
            tally.record(failure, seconds=time.monotonic() - start, retries=retries)
        client.close()

    async def all_clients() -> None:
        await asyncio.gather(*(translate_repeatedly(number) for number in range(64)))

    asyncio.run(all_clients())
    return tally


def check_health(port: int, seconds: float) -> Tally:
    """Check the server's health on a new connection, ten times a second."""
    tally = Tally("server: health among attacks")
    begin = time.monotonic()
    while (start := time.monotonic()) < begin + seconds:
        healthy = is_healthy(port)
        took = time.monotonic() - start
        failure = "not healthy" if not healthy else f"{took:.2f} s" if took > HEALTH_SECONDS else ""
        tally.record(failure and f"/healthz after {start - begin:.1f} s: {failure}", seconds=took)
        time.sleep(0.1)
    return tally


def hostile_clients(port: int, seconds: float, seed: int) -> Tally:
    """Keep 1,000 connections idle, opening those again that are closed, beside broken and slow requests."""
    tally = Tally("server: idle connections")
    end, rng = time.monotonic() + seconds, random.Random(seed)

    async def idle() -> None:
        while time.monotonic() < end:
            with suppress(OSError):
                reader, writer = await asyncio.open_connection(HOST, port)
                tally.record()
                with suppress(TimeoutError):
                    await asyncio.wait_for(reader.read(), end - time.monotonic())
                writer.transport.abort()
            await asyncio.sleep(rng.uniform(0, 10))

    async def hostile() -> None:
        while time.monotonic() < end:
            *_, (_, data, _) = malformed_requests(rng, len(REFUSED) + len(UNUSUAL) + 1)
            path, body = json_body(rng)
            for sent in (data, post(path, body), post("/api/score", body)[:-1]):
                with suppress(OSError):
                    _, writer = await asyncio.open_connection(HOST, port)
                    writer.write(sent)
                    await asyncio.sleep(1)
                    writer.transport.abort()

    async def all_clients() -> None:
        await asyncio.gather(*(idle() for _ in range(1_000)), *(hostile() for _ in range(8)))

    asyncio.run(all_clients())
    return tally
