"""The server under load: requests that are translated together against one at a time, in one run.

Two servers of the same run are there, one with its usual `--max-batch`, one with `--max-batch 1`. They are loaded in
turn, so that whatever else the machine does slows both down. The load comes from a process of its own: so many clients,
each of which sends a test sentence, waits for its answer, compares it with what `regard.load(RUN).translate` makes of
it, and sends the next one. Meanwhile somebody asks twice a second whether the server is well.

Ends with 1 if an answer is wrong, or does not come. The first turn of each server is for warming up and does not
count: memory is told after it, and after each of the others.

    python benchmarks/serving.py RUN [--clients 64] [--seconds 30] [--turns 3] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import select
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
from typing import Any

WAYS = {"together": (), "one at a time": ("--max-batch", "1")}  # options of `regard serve`
SENTENCES = 1_000  # at most
START_UP, PATIENCE = 120, 60  # seconds: until a server is there, and until an answer counts as lost
CHECK_EVERY = 0.5  # seconds

Question = tuple[bytes, str]  # a request, and the text that should come back


@dataclass
class Tally:
    """What the clients have seen."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0  # of the load itself, which should be little
    latencies: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    wrong: int = 0
    lost: int = 0
    health: list[float] = field(default_factory=list)  # how long it took to say that all is well

    def add(self, other: Tally) -> None:
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)


@dataclass(frozen=True)
class Server:
    port: int

    def ask(self, path: str) -> bytes:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request("GET", path)
            return connection.getresponse().read()
        finally:
            connection.close()

    def metrics(self) -> dict[str, float]:
        """Those without labels."""
        lines = [line.split() for line in self.ask("/metrics").decode().splitlines() if line[0] != "#"]
        return {name: float(value) for name, value in lines if "{" not in name}


@contextmanager
def serving(run: Path, *options: str) -> Iterator[Server]:
    """`regard serve RUN`, until the end of the block."""
    command = [sys.executable, "-m", "regard", "serve", str(run), "--port", "0", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        there, _, _ = select.select([process.stdout], [], [], START_UP)
        address = re.search(r"http://127\.0\.0\.1:(\d+)/", process.stdout.readline() if there else "")
        if address is None:
            sys.exit(f"the server did not start: {' '.join(command)}")
        yield Server(int(address[1]))
    finally:
        process.kill()  # it has nothing to lose
        process.wait()
        process.stdout.close()


def questions_for(run: Path) -> list[Question]:
    """The run's own test sentences, with the answers that are right."""
    import regard  # here, because the process that makes the load has no use for it
    from regard.cli.loading import use_threads_of

    translator = regard.load(run)
    use_threads_of(translator.runs[0])
    texts = [pair.source for pair in islice(translator.experiment.data.pairs("test"), SENTENCES)]
    return [(request(text), right.text) for text, right in zip(texts, translator.translate(texts), strict=True)]


def request(text: str) -> bytes:
    body = json.dumps({"texts": [text]}).encode()
    head = f"POST /api/translate HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Content-Type: application/json\r\n\r\n".encode() + body


def load(port: int, questions: Sequence[Question], clients: int, seconds: float) -> Tally:
    """So many clients at once, for so many seconds. Runs in a process of its own."""
    tally = Tally()
    shared = cycle(questions)
    began, cpu_began = time.monotonic(), time.process_time()

    async def all_clients() -> None:
        await asyncio.gather(*(ask_on(port, shared, began + seconds, tally) for _ in range(clients)))

    asyncio.run(all_clients())
    tally.seconds, tally.cpu_seconds = time.monotonic() - began, time.process_time() - cpu_began
    return tally


async def ask_on(port: int, questions: Iterator[Question], until: float, tally: Tally) -> None:
    """One client: one question after the other over one connection, and over a new one if it breaks."""
    while time.monotonic() < until:
        try:
            async with asyncio.timeout(PATIENCE):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:  # a timeout is one, too
            tally.lost += 1
            await asyncio.sleep(CHECK_EVERY)
            continue
        try:
            while time.monotonic() < until:
                async with asyncio.timeout(PATIENCE):
                    await ask(reader, writer, *next(questions), tally)
        except (OSError, EOFError, asyncio.LimitOverrunError):
            tally.lost += 1
        finally:
            writer.close()


async def ask(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes, right: str, tally: Tally
) -> None:
    began = time.monotonic()
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    size = re.search(rb"\r\ncontent-length: (\d+)", head, re.IGNORECASE)
    body = await reader.readexactly(int(size[1]) if size else 0)
    tally.latencies.append(time.monotonic() - began)
    status = int(head.split(maxsplit=2)[1])
    tally.statuses[status] += 1
    tally.wrong += status != 200 or json.loads(body)["translations"][0]["text"] != right


def take_a_turn(pool: Executor, server: Server, questions: Sequence[Question], clients: int, seconds: float) -> Tally:
    """Load a server, and see meanwhile how it is."""
    health = []
    loading = pool.submit(load, server.port, questions, clients, seconds)
    while not loading.done():
        began = time.monotonic()
        server.ask("/healthz")
        health.append(time.monotonic() - began)
        time.sleep(CHECK_EVERY)
    tally = loading.result()
    tally.health = health
    return tally


def compare(run: Path, questions: Sequence[Question], clients: int, seconds: float, turns: int) -> dict[str, Any]:
    """What each way makes of the load."""
    with (
        serving(run, *WAYS["together"]) as together,
        serving(run, *WAYS["one at a time"]) as alone,
        ProcessPoolExecutor(1, get_context("spawn")) as pool,
    ):
        servers = dict(zip(WAYS, (together, alone), strict=True))
        tallies = {name: Tally() for name in WAYS}
        metrics: dict[str, list[dict[str, float]]] = {name: [] for name in WAYS}
        for turn in range(turns + 1):
            for name, server in servers.items():
                tally = take_a_turn(pool, server, questions, clients, seconds / turns)
                metrics[name].append(server.metrics())
                if turn > 0:
                    tallies[name].add(tally)
    return {name: result(tallies[name], metrics[name]) for name in WAYS}


def result(tally: Tally, metrics: Sequence[dict[str, float]]) -> dict[str, Any]:
    names = ("regard_batch_texts_sum", "regard_batch_texts_count")
    texts, batches = (metrics[-1][name] - metrics[0][name] for name in names)
    percentiles = quantiles(tally.latencies, n=100) if len(tally.latencies) > 1 else [float("nan")] * 99
    return {
        "requests_a_second": len(tally.latencies) / tally.seconds,
        "answers": len(tally.latencies),
        "statuses": dict(tally.statuses),
        "wrong": tally.wrong,
        "lost": tally.lost,
        "seconds_median": percentiles[49],
        "seconds_95": percentiles[94],
        "seconds_99": percentiles[98],
        "health_median": median(tally.health),
        "health_worst": max(tally.health),
        "texts_a_batch": texts / max(batches, 1),
        "bytes_after_turns": [each.get("process_resident_memory_bytes", 0.0) for each in metrics],
        "load_cpu_share": tally.cpu_seconds / tally.seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, help="a finished run")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=30, help="of load, for each of the two ways")
    parser.add_argument("--turns", type=int, default=3, help="in which they pass")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if not min(arguments.clients, arguments.seconds, arguments.turns) > 0:
        parser.error("--clients, --seconds and --turns should be above 0")
    questions = questions_for(arguments.run)
    ways = compare(arguments.run, questions, arguments.clients, arguments.seconds, arguments.turns)
    fast, slow = (ways[name]["requests_a_second"] for name in WAYS)
    report = {"sentences": len(questions), "clients": arguments.clients, "ways": ways, "ratio": fast / slow}
    print(json.dumps(report) if arguments.json else table(report))
    sys.exit(any(way["wrong"] or way["lost"] for way in ways.values()))


def table(report: dict[str, Any]) -> str:
    lines = [f"{report['clients']} clients, {report['sentences']:,} sentences"]
    lines += ["", f"{'':16}requests a second   answers   wrong   lost   texts a batch   load's share of a core"]
    for name, way in report["ways"].items():
        rate, answers, wrong, lost = (way[key] for key in ("requests_a_second", "answers", "wrong", "lost"))
        lines.append(
            f"{name:16}{rate:17,.1f}{answers:10,}{wrong:8}{lost:7}"
            f"{way['texts_a_batch']:16.1f}{way['load_cpu_share']:25.1%}"
        )
    lines += ["", f"{'milliseconds':16}     median        95%        99%   health: median      worst"]
    for name, way in report["ways"].items():
        times = (way[key] * 1_000 for key in ("seconds_median", "seconds_95", "seconds_99"))
        health = f"{way['health_median'] * 1_000:17,.1f}{way['health_worst'] * 1_000:11,.1f}"
        lines.append(f"{name:16}" + "".join(f"{each:11,.1f}" for each in times) + health)
    lines += ["", f"{'megabytes':16}   growth   after the warm-up and each turn"]
    for name, way in report["ways"].items():
        held = [bytes / 1_000_000 for bytes in way["bytes_after_turns"]]
        lines.append(f"{name:16}{held[-1] - held[0]:9.1f}   " + "  ".join(f"{each:.1f}" for each in held))
    lines += ["", f"translated together, requests are {report['ratio']:.1f} times as fast as one at a time"]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
