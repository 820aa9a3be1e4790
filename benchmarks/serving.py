"""Load test of the server: batched requests compared with one request at a time.

Two servers of the same run are started, one with the default `--max-batch` and one with `--max-batch 1`. They are
loaded alternately, in several rounds, so that other load on the machine affects both. A separate process generates the
load: each of its clients sends a test sentence, waits for the response, compares it with the translation of
`regard.load(RUN).translate`, and sends the next one. Meanwhile the main process checks the server's health.

The exit status is 1 if a response is wrong or missing. The first round of each server is a warm-up and does not count;
memory is reported after each round.

    python benchmarks/serving.py RUN [--clients 64] [--seconds 30] [--rounds 3] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from itertools import cycle, islice
from multiprocessing import get_context
from pathlib import Path
from statistics import median, quantiles
from threading import Timer
from typing import Any

SERVERS = {"batched": (), "one by one": ("--max-batch", "1")}  # options of `regard serve`
MAX_SENTENCES = 1_000
STARTUP_TIMEOUT, RESPONSE_TIMEOUT = 120, 60  # seconds
HEALTH_INTERVAL = 0.5  # seconds

TestCase = tuple[bytes, str]  # a request and its expected translation


@dataclass
class Tally:
    """What the clients have measured."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0  # of the load generator, which should be small
    latencies: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    wrong: int = 0
    lost: int = 0
    health: list[float] = field(default_factory=list)  # latencies of health checks

    def add(self, other: Tally) -> None:
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)


@dataclass(frozen=True)
class Server:
    port: int

    def get(self, path: str) -> bytes:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=RESPONSE_TIMEOUT)
        try:
            connection.request("GET", path)
            return connection.getresponse().read()
        finally:
            connection.close()

    def metrics(self) -> dict[str, float]:
        """The metrics without labels."""
        lines = [line.split() for line in self.get("/metrics").decode().splitlines() if line[0] != "#"]
        return {name: float(value) for name, value in lines if "{" not in name}


@contextmanager
def start_server(run: Path, *options: str) -> Iterator[Server]:
    """`regard serve RUN`, until the end of the block."""
    command = [sys.executable, "-m", "regard", "serve", str(run), "--port", "0", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        timer = Timer(STARTUP_TIMEOUT, process.kill)  # ends readline
        timer.start()
        url = re.search(r"http://127\.0\.0\.1:(\d+)/", process.stdout.readline())
        timer.cancel()
        if url is None:
            sys.exit(f"the server did not start: {' '.join(command)}")
        yield Server(int(url[1]))
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def load_test_cases(run: Path) -> list[TestCase]:
    """The run's test sentences with their expected translations."""
    import regard  # here, because the load generator does not need it
    from regard.cli.loading import set_num_threads

    translator = regard.load(run)
    set_num_threads(translator.runs[0])
    texts = [pair.source for pair in islice(translator.experiment.task.dataset.pairs("test"), MAX_SENTENCES)]
    return [
        (build_request(text), expected.text) for text, expected in zip(texts, translator.translate(texts), strict=True)
    ]


def build_request(text: str) -> bytes:
    body = json.dumps({"texts": [text]}).encode()
    head = f"POST /api/translate HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Content-Type: application/json\r\n\r\n".encode() + body


def generate_load(port: int, test_cases: Sequence[TestCase], clients: int, seconds: float) -> Tally:
    """Run this many clients at once, for this many seconds. Runs in a separate process."""
    tally = Tally()
    shared = cycle(test_cases)
    start, cpu_start = time.monotonic(), time.process_time()

    async def all_clients() -> None:
        await asyncio.gather(*(run_client(port, shared, start + seconds, tally) for _ in range(clients)))

    asyncio.run(all_clients())
    tally.seconds, tally.cpu_seconds = time.monotonic() - start, time.process_time() - cpu_start
    return tally


async def run_client(port: int, test_cases: Iterator[TestCase], end: float, tally: Tally) -> None:
    """One client: one request after the other over one connection, and over a new one if it breaks."""
    while time.monotonic() < end:
        try:
            async with asyncio.timeout(RESPONSE_TIMEOUT):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:  # includes TimeoutError
            tally.lost += 1
            await asyncio.sleep(HEALTH_INTERVAL)
            continue
        try:
            while time.monotonic() < end:
                async with asyncio.timeout(RESPONSE_TIMEOUT):
                    await send_request(reader, writer, *next(test_cases), tally)
        except (OSError, EOFError, asyncio.LimitOverrunError):
            tally.lost += 1
        finally:
            writer.close()


async def send_request(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes, expected: str, tally: Tally
) -> None:
    start = time.monotonic()
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    size = re.search(rb"\r\ncontent-length: (\d+)", head, re.IGNORECASE)
    body = await reader.readexactly(int(size[1]) if size else 0)
    tally.latencies.append(time.monotonic() - start)
    status = int(head.split(maxsplit=2)[1])
    tally.statuses[status] += 1
    tally.wrong += status != 200 or json.loads(body)["translations"][0]["text"] != expected


def run_round(pool: Executor, server: Server, test_cases: Sequence[TestCase], clients: int, seconds: float) -> Tally:
    """Load a server, and check its health meanwhile."""
    health = []
    loading = pool.submit(generate_load, server.port, test_cases, clients, seconds)
    while not loading.done():
        start = time.monotonic()
        server.get("/healthz")
        health.append(time.monotonic() - start)
        time.sleep(HEALTH_INTERVAL)
    tally = loading.result()
    tally.health = health
    return tally


def compare(run: Path, test_cases: Sequence[TestCase], clients: int, seconds: float, rounds: int) -> dict[str, Any]:
    """The results of both servers."""
    with (
        start_server(run, *SERVERS["batched"]) as batched,
        start_server(run, *SERVERS["one by one"]) as one_by_one,
        ProcessPoolExecutor(1, get_context("spawn")) as pool,
    ):
        servers = dict(zip(SERVERS, (batched, one_by_one), strict=True))
        tallies = {name: Tally() for name in SERVERS}
        metrics: dict[str, list[dict[str, float]]] = {name: [] for name in SERVERS}
        for number in range(rounds + 1):
            for name, server in servers.items():
                tally = run_round(pool, server, test_cases, clients, seconds / rounds)
                metrics[name].append(server.metrics())
                if number > 0:
                    tallies[name].add(tally)
    return {name: summarize(tallies[name], metrics[name]) for name in SERVERS}


def summarize(tally: Tally, metrics: Sequence[dict[str, float]]) -> dict[str, Any]:
    names = ("regard_batch_texts_sum", "regard_batch_texts_count")
    texts, batches = (metrics[-1][name] - metrics[0][name] for name in names)
    percentiles = quantiles(tally.latencies, n=100) if len(tally.latencies) > 1 else [float("nan")] * 99
    return {
        "requests_per_second": len(tally.latencies) / tally.seconds,
        "responses": len(tally.latencies),
        "statuses": dict(tally.statuses),
        "wrong": tally.wrong,
        "lost": tally.lost,
        "seconds_median": percentiles[49],
        "seconds_95": percentiles[94],
        "seconds_99": percentiles[98],
        "health_median": median(tally.health),
        "health_max": max(tally.health),
        "texts_per_batch": texts / max(batches, 1),
        "bytes_after_rounds": [each.get("process_resident_memory_bytes", 0.0) for each in metrics],
        "load_cpu_share": tally.cpu_seconds / tally.seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, help="a finished run")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=30, help="of load, for each of the two servers")
    parser.add_argument("--rounds", type=int, default=3, help="into which the seconds are split")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if not min(arguments.clients, arguments.seconds, arguments.rounds) > 0:
        parser.error("--clients, --seconds and --rounds must be above 0")
    test_cases = load_test_cases(arguments.run)
    results = compare(arguments.run, test_cases, arguments.clients, arguments.seconds, arguments.rounds)
    fast, slow = (results[name]["requests_per_second"] for name in SERVERS)
    report = {"sentences": len(test_cases), "clients": arguments.clients, "servers": results, "ratio": fast / slow}
    print(json.dumps(report) if arguments.json else format_report(report))
    sys.exit(any(result["wrong"] or result["lost"] for result in results.values()))


def format_report(report: dict[str, Any]) -> str:
    lines = [f"{report['clients']} clients, {report['sentences']:,} sentences"]
    lines += ["", f"{'':16}requests/s   responses   wrong   lost   texts/batch   load generator's CPU"]
    for name, result in report["servers"].items():
        rate, responses, wrong, lost = (result[key] for key in ("requests_per_second", "responses", "wrong", "lost"))
        lines.append(
            f"{name:16}{rate:10,.1f}{responses:12,}{wrong:8}{lost:7}"
            f"{result['texts_per_batch']:14.1f}{result['load_cpu_share']:23.1%}"
        )
    lines += ["", f"{'milliseconds':16}     median        95%        99%   health: median    maximum"]
    for name, result in report["servers"].items():
        times = (result[key] * 1_000 for key in ("seconds_median", "seconds_95", "seconds_99"))
        health = f"{result['health_median'] * 1_000:17,.1f}{result['health_max'] * 1_000:11,.1f}"
        lines.append(f"{name:16}" + "".join(f"{each:11,.1f}" for each in times) + health)
    lines += ["", f"{'megabytes':16}   growth   after the warm-up and each round"]
    for name, result in report["servers"].items():
        held = [bytes / 1_000_000 for bytes in result["bytes_after_rounds"]]
        lines.append(f"{name:16}{held[-1] - held[0]:9.1f}   " + "  ".join(f"{each:.1f}" for each in held))
    lines += ["", f"batching serves {report['ratio']:.1f} times as many requests per second"]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
