"""Studies whose processes are killed: the one that runs the study, or one that trains."""

from __future__ import annotations

import json
import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

from torture import kills, materials
from torture.judging import TRACEBACK, describe_traceback
from torture.launcher import Ended, Launcher
from torture.outcomes import Campaign, Tally
from torture.pool import WORKERS

TRIES = 5  # of each kind; one takes ten seconds
COMPARE = ("compare", "letters.yaml", "--vary", "model.attention.kind=none,dot", "--seeds", "1", "--out", "study")
OPTIONS = ("--set", "training.epochs=2", "--jobs", "1")
WORKER_EVENTS = 45  # about how many changes of files a worker makes
WAIT = 20.0  # seconds until a process that has lost its parent must have ended
# Python runs a module of this name at its start. In a worker of a study, it ends the process at an event.
SITE = """
import os, sys
if "regard.studies.worker" in sys.orig_argv:
    from torture.launcher import Counter, Request
    counter = Counter(Request((), {folder!r}, at={at}), os.open(os.devnull, os.O_WRONLY))
    os.fsync = counter.after(os.fsync, "os.fsync")
    sys.addaudithook(counter.hook)
"""


def attack(campaign: Campaign) -> list[Tally]:
    """Kill the processes of studies."""
    tallies = {name: Tally(f"kills: compare, the {name} killed") for name in ("parent", "worker")}
    with Launcher() as first, Launcher() as second, ThreadPoolExecutor(WORKERS) as threads:
        folder = campaign.folder / "study undisturbed"
        reference = run(first, folder)
        assert reference.code == 0, reference.output
        expected = result(folder)
        numbers = range(campaign.tries(TRIES))
        halves = [(first, numbers[::2]), (second, numbers[1::2])]
        jobs = [threads.submit(disturb, campaign, *half, expected, tallies, len(reference.events)) for half in halves]
        for job in jobs:
            job.result()
    campaign.progress(f"kills: {sum(tally.tries for tally in tallies.values())} studies")
    return list(tallies.values())


def disturb(
    campaign: Campaign, launcher: Launcher, numbers: range, expected: Any, tallies: dict[str, Tally], events: int
) -> None:
    """Disturb studies, one after the other."""
    for number in numbers:
        random = Random(f"{campaign.seed} study {number}")
        at, worker_at, delay = random.randint(1, events), random.randint(1, WORKER_EVENTS), random.uniform(0, 12)
        ways = {
            "parent": {"at": at} if number % 2 else {"delay": round(delay, 2)},
            "worker": {"worker_at": worker_at},
        }
        for name, way in ways.items():
            folder = campaign.folder / f"study {number} {name}"
            fault = disturb_once(launcher, folder, way, expected)
            tallies[name].record(f"{fault} | {name} killed: {way} | {folder}" if fault else "")
            if not fault:
                shutil.rmtree(folder, ignore_errors=True)


def disturb_once(launcher: Launcher, folder: Path, way: dict[str, Any], expected: Any) -> str:
    """Disturb a study, repeat it, and compare; returns what went wrong."""
    disturbed = run(launcher, folder, **way)
    if TRACEBACK in disturbed.output:
        return f"traceback of the disturbed study: {describe_traceback(disturbed.output)}"
    repeated = run(launcher, folder)
    deadline = time.monotonic() + WAIT
    while repeated.code == 1 and time.monotonic() < deadline:  # a worker of the killed parent may still be there
        repeated = run(launcher, folder)
    if repeated.code != 0 or TRACEBACK in repeated.output:
        return f"the repeated study ends with code {repeated.code}: {repeated.output[-300:]!r}"
    left = [name for name in kills.hidden_files(folder) if not name.endswith(".lock")]
    if left:
        return f"left over: {', '.join(sorted(kills.mask(name) for name in left))}"
    found = result(folder)
    changed = [name for name in expected if expected[name] != found.get(name)]
    return f"other results: {', '.join(changed)}" if found != expected else ""


def run(launcher: Launcher, folder: Path, worker_at: int = 0, **options: Any) -> Ended:
    """Run the study in its folder."""
    if not folder.exists():
        folder.mkdir(parents=True)
        shutil.copy(materials.prepare() / "letters.yaml", folder)
    variables = (("HOME", str(folder.parent)),)
    if worker_at:
        site = folder.with_name(f"{folder.name} site")
        site.mkdir()
        (site / "sitecustomize.py").write_text(SITE.format(folder=str(folder), at=worker_at))
        path = [str(site), str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
        variables = (*variables, ("PYTHONPATH", os.pathsep.join(filter(None, path))))
    return launcher.run(*COMPARE, *OPTIONS, folder=folder, variables=variables, **options)


def result(folder: Path) -> dict[str, Any]:
    """The results of a study, without measured times: the report's numbers, and every run directory."""
    found = {"results.json": kills.without_times(json.loads((folder / "study" / "results.json").read_text()))}
    for file in sorted((folder / "runs").glob("*/run.json")):
        found[file.parent.name] = kills.describe_run(file.parent)
    return found
