"""Processes that are killed: before and after every change of a file, in the middle of a write, at random instants.

The same command then runs to its end. Its results must be those of an undisturbed process, to the bit, and nothing may
be left over.
"""

from __future__ import annotations

import json
import re
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from queue import SimpleQueue
from random import Random
from threading import Lock
from typing import Any

from torture import archives, materials
from torture.judging import TRACEBACK, describe_traceback, differences, snapshot
from torture.launcher import KILL, Ended, Launcher
from torture.outcomes import Campaign, Tally
from torture.pool import REPORT_EVERY, WORKERS

DOCUMENTED = {
    *("run.json", "config.yaml", "vocabulary.json", "subwords.model", "source.model", "target.model", ".lock"),
    *("model.safetensors", "state.safetensors", "metrics.jsonl", "scores.json", "examples", "evaluations"),
}
TIMES = "second"  # a part of the names of values that are measured
RANDOM, TORN, STOPS, CHAINS = 40, 20, 20, 15  # tries of each kind


@dataclass(frozen=True)
class Scenario:
    """A command that is killed and then repeated.

    Args:
        name: Its name, for the table.
        arguments: The arguments of `regard`.
        prepare: Makes its input in an empty folder.
        result: Describes what it has written, without measured times.
        leftovers: The names of files that must not be there at the end.
        share: Share of the tries of a scenario.
    """

    name: str
    arguments: tuple[str, ...]
    prepare: Callable[[Path], None]
    result: Callable[[Path], Any]
    leftovers: Callable[[Path], list[str]]
    share: float = 1.0


@dataclass(frozen=True)
class Disturbance:
    """When a process ends early: options of `Request`, one for each attempt before the last."""

    kind: str
    options: tuple[dict[str, Any], ...]
    description: str


def attack(campaign: Campaign) -> list[Tally]:
    """Kill processes, and compare what they leave."""
    from torture import interrupts, study_kills

    tallies = disturb_all(campaign)
    return [*tallies, *study_kills.attack(campaign), *interrupts.attack(campaign)]


def scenarios(given: Path) -> list[Scenario]:
    """The commands that are killed."""

    def copy(*names: str) -> Callable[[Path], None]:
        def make(folder: Path) -> None:
            for name in names:
                source = given / name
                (shutil.copytree if source.is_dir() else shutil.copy)(source, folder / name)

        return make

    def small_corpus(folder: Path) -> None:
        shutil.copy(given / "subwords.yaml", folder)
        (folder / "corpus").mkdir()
        for file in (given / "corpus").glob("*.[de][en]"):
            lines = file.read_text().splitlines(keepends=True)[: 25 if file.stem == "train" else 1]
            (folder / "corpus" / file.name).write_text("".join(lines))

    def texts(folder: Path) -> None:
        (folder / "small.tar.gz").write_bytes(archives.pack("small.tar.gz", archives.TEXTS))

    return [
        Scenario(
            "train",
            ("train", "letters.yaml", "--set", "training.epochs=2", "--out", "run"),
            copy("letters.yaml"),
            run_result,
            run_leftovers,
        ),
        Scenario(
            "train on text",
            ("train", "subwords.yaml", "--set", "data.text.size=60", "--out", "run"),
            small_corpus,
            run_result,
            run_leftovers,
            share=0.25,
        ),
        Scenario(
            "show",
            ("show", "letters", "abc", "--out", "pictures/map.svg", "--curves", "pictures/curves.svg"),
            copy("letters"),
            lambda folder: snapshot(folder),
            hidden_files,
            share=0.3,
        ),
        Scenario(
            "data get",
            ("data", "get", "small", "--from", "small.tar.gz"),
            texts,
            lambda folder: snapshot(folder, ["data/small/.lock"]),
            hidden_files,
            share=0.5,
        ),
    ]


def run_result(folder: Path) -> dict[str, str]:
    """The description of the run directory `run`."""
    return describe_run(folder / "run")


def describe_run(run: Path) -> dict[str, str]:
    """Everything in a run directory but stored evaluations, without measured times and without its own path."""
    measured = ["config.yaml", "metrics.jsonl", "state.safetensors", "scores.json"]
    found = dict(snapshot(run, [".lock", "evaluations", *measured]))
    found["config.yaml"] = re.sub(r"\S*(?=/corpus/)", "", (run / "config.yaml").read_text())
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    found["metrics.jsonl"] = json.dumps([without_times(row) for row in rows])
    header, data = materials.split_tensors((run / "state.safetensors").read_bytes())
    progress = without_times(json.loads(header.pop("__metadata__")["regard"]))
    found["state.safetensors"] = f"{progress} {header} {sha256(data).hexdigest()}"
    if (run / "scores.json").exists():
        found["scores.json"] = json.dumps(without_times(json.loads((run / "scores.json").read_text())))
    return found


def without_times(value: Any) -> Any:
    """A JSON value without the values that are measured times."""
    if isinstance(value, dict):
        return {key: without_times(inner) for key, inner in value.items() if TIMES not in key}
    return [without_times(inner) for inner in value] if isinstance(value, list) else value


def run_leftovers(folder: Path) -> list[str]:
    """What should not be in a run directory or next to it."""
    inside = [f"run/{path.name}" for path in (folder / "run").iterdir() if path.name not in DOCUMENTED]
    return [*inside, *hidden_files(folder)]


def hidden_files(folder: Path) -> list[str]:
    """Hidden files and folders anywhere below a folder, besides locks."""
    return [str(path.relative_to(folder)) for path in folder.rglob(".*") if path.name != ".lock"]


def disturbances(reference: Ended, seconds: float, seed: int, scale: float) -> Iterator[Disturbance]:
    """All ways in which a scenario is disturbed."""
    events = reference.events
    random = Random(f"{seed} {events[0]}")

    def share(count: int) -> int:
        return max(1, round(count * scale))

    every = range(1, len(events) + 1)
    for at in every if scale >= 1 else sorted(random.sample(every, min(len(every), share(len(every))))):
        yield Disturbance("killed at a change of a file", ({"at": at},), f"killed before event {at}: {events[at - 1]}")
    for _ in range(share(CHAINS)):
        numbers = [random.randint(1, len(events)) for _ in range(random.randint(2, 4))]
        options = tuple({"at": at} for at in numbers)
        yield Disturbance(
            "killed several times", options, f"killed before events {numbers}, one process after the other"
        )
    for _ in range(share(RANDOM)):
        delay = round(random.uniform(0, seconds), 3)
        yield Disturbance("killed at a random instant", ({"delay": delay},), f"killed after {delay} s")
    for _ in range(share(TORN)):
        size = random.choice((random.randint(0, 1_500), random.randint(0, 60_000)))
        yield Disturbance("killed while writing", ({"file_limit": size},), f"killed after {size} bytes of a file")
    for _ in range(share(STOPS)):
        at, number = random.randint(1, len(events)), random.choice((signal.SIGINT, signal.SIGTERM))
        yield Disturbance("stopped by a signal", ({"at": at, "signal": number},), f"{number.name} before event {at}")


def disturb_all(campaign: Campaign) -> list[Tally]:
    """Disturb every scenario in every way."""
    given = materials.prepare()
    tallies: dict[str, Tally] = {}
    with ExitStack() as stack:
        launchers: SimpleQueue[Launcher] = SimpleQueue()
        for _ in range(WORKERS):
            launchers.put(stack.enter_context(Launcher()))
        for scenario in scenarios(given):
            disturb(campaign, scenario, launchers, tallies)
    return list(tallies.values())


def disturb(
    campaign: Campaign, scenario: Scenario, launchers: SimpleQueue[Launcher], tallies: dict[str, Tally]
) -> None:
    """Disturb one scenario in every way, with all launchers at the same time."""
    folder = campaign.folder / f"{scenario.name}-undisturbed".replace(" ", "-")
    launcher = launchers.get()
    began = time.monotonic()
    reference = run_in(launcher, scenario, folder)
    seconds = time.monotonic() - began
    launchers.put(launcher)
    assert reference.code == 0, reference.output
    expected = scenario.result(folder)
    ways = list(disturbances(reference, seconds, campaign.seed, campaign.scale * scenario.share))
    lock, progress = Lock(), {"done": 0, "reported": time.monotonic()}

    def one(number: int, way: Disturbance) -> None:
        launcher = launchers.get()
        place = campaign.folder / f"{scenario.name}-{number}".replace(" ", "-")
        try:
            fault = disturb_once(launcher, scenario, way, place, expected)
        finally:
            launchers.put(launcher)
        with lock:
            name = f"kills: {scenario.name}, {way.kind}"
            kept = f" | {way.description} | {place}" if fault else ""
            tallies.setdefault(name, Tally(name)).record(f"{fault}{kept}")
            progress["done"] += 1
            if not fault:
                shutil.rmtree(place, ignore_errors=True)
            now = time.monotonic()
            if now - progress["reported"] > REPORT_EVERY or progress["done"] == len(ways):
                progress["reported"] = now
                rate = progress["done"] / (now - began)
                left = round((len(ways) - progress["done"]) / rate)
                campaign.progress(
                    f"kills: {scenario.name}: {progress['done']}/{len(ways)} tries, {rate:.1f} tries/s, "
                    f"{left // 60}:{left % 60:02d} left"
                )

    with ThreadPoolExecutor(WORKERS) as threads:
        for job in [threads.submit(one, number, way) for number, way in enumerate(ways)]:
            job.result()
    shutil.rmtree(folder, ignore_errors=True)


def disturb_once(launcher: Launcher, scenario: Scenario, way: Disturbance, folder: Path, expected: Any) -> str:
    """Disturb a command, repeat it, and compare; returns what went wrong."""
    for options in way.options:
        ended = run_in(launcher, scenario, folder, **options)
        if fault := fault_of_disturbed(ended):
            return fault
    ended = run_in(launcher, scenario, folder)
    if TRACEBACK in ended.output:
        return f"traceback of the repeated command: {describe_traceback(ended.output)}"
    if ended.code != 0:
        return f"the repeated command ends with code {ended.code}: {ended.output[-200:]!r}"
    if left := scenario.leftovers(folder):
        return f"left over: {', '.join(sorted(mask(name) for name in left))}"
    found = scenario.result(folder)
    return f"other results: {differences(expected, found)}" if found != expected else ""


def mask(name: str) -> str:
    """A name without the random part of temporary files, so that equal causes have equal descriptions."""
    return re.sub(r"\.[0-9a-z_]{8}(?=/|$)", ".xxxxxxxx", name)


def fault_of_disturbed(ended: Ended) -> str:
    """What is wrong with the end of a process that was disturbed."""
    if TRACEBACK in ended.output:
        return f"traceback of the disturbed command: {describe_traceback(ended.output)}"
    endings = (0, 2, 130, 143, -KILL, -signal.SIGINT, -signal.SIGTERM, -getattr(signal, "SIGXFSZ", KILL))
    return (
        "" if ended.code in endings else f"the disturbed command ends with code {ended.code}: {ended.output[-200:]!r}"
    )


def run_in(launcher: Launcher, scenario: Scenario, folder: Path, **options: Any) -> Ended:
    """Run a scenario in its folder, which is made if needed."""
    if not folder.exists():
        folder.mkdir(parents=True)
        scenario.prepare(folder)
    variables = (("REGARD_DATA", "data"), ("HOME", str(folder.parent)))
    return launcher.run(*scenario.arguments, folder=folder, variables=variables, **options)
