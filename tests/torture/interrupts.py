"""Ctrl-C at random instants, from the moment when Regard's own code runs."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from threading import Lock

from torture import materials
from torture.judging import TRACEBACK, describe_traceback
from torture.outcomes import Campaign, Tally
from torture.pool import WORKERS

TRIES = 8  # of each command
LATEST = 3.0  # seconds
LIMIT = 30.0  # seconds until the process must have ended
CODES = (0, 130, -int(signal.SIGINT))
COMMANDS = {
    "--help": (["--help"], 0.6),
    "translate": (["translate", "letters", "abc"], LATEST),
    "train": (["train", "letters.yaml", "--out", "run"], LATEST),
    "show": (["show", "letters", "abc", "--out", "map.svg"], LATEST),
}
# Python's own start cannot be protected: the interrupt follows when `regard` imports its command line.
CODE = """
import os, runpy, sys
def hook(event, arguments, told=[]):
    if event == "import" and arguments[0] == "regard.cli" and not told:
        told.append(os.write({descriptor}, b"x"))
sys.addaudithook(hook)
runpy.run_module("regard", run_name="__main__", alter_sys=True)
"""


def attack(campaign: Campaign) -> list[Tally]:
    """Interrupt real processes."""
    if os.name != "posix":
        return []
    given = materials.prepare()
    tallies = {name: Tally(f"kills: Ctrl-C in {name}") for name in COMMANDS}
    lock = Lock()

    def one(name: str, number: int) -> None:
        arguments, latest = COMMANDS[name]
        delay = round(Random(f"{campaign.seed} {name} {number}").uniform(0, latest), 3)
        folder = campaign.folder / f"interrupted {name} {number}"
        folder.mkdir()
        shutil.copy(given / "letters.yaml", folder)
        shutil.copytree(given / "letters", folder / "letters")
        code, output, seconds = interrupt(arguments, folder, delay)
        fault = ""
        if TRACEBACK in output:
            fault = f"traceback: {describe_traceback(output)}"
        elif code not in CODES:
            fault = f"exit code {code}: {output[-200:]!r}"
        with lock:
            what = f" | Ctrl-C {delay} s after the start of regard {' '.join(arguments)} | {folder}" if fault else ""
            tallies[name].record(f"{fault}{what}", seconds_to_stop=round(seconds, 1))
        if not fault:
            shutil.rmtree(folder, ignore_errors=True)

    with ThreadPoolExecutor(WORKERS) as threads:
        for job in [threads.submit(one, name, n) for name in COMMANDS for n in range(campaign.tries(TRIES))]:
            job.result()
    campaign.progress(f"kills: {sum(tally.tries for tally in tallies.values())} interrupts")
    return list(tallies.values())


def interrupt(arguments: list[str], folder: Path, delay: float) -> tuple[int, str, float]:
    """Exit code, output and seconds until the end of a command that is interrupted after a delay."""
    reader, writer = os.pipe()
    command = [sys.executable, "-c", CODE.format(descriptor=writer), *arguments]
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(command, cwd=folder, pass_fds=[writer], text=True, errors="replace", **pipes) as process:
        os.close(writer)
        os.read(reader, 1)
        os.close(reader)
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        began = time.monotonic()
        try:
            output, _ = process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            output = f"{process.communicate()[0]}\nno end within {LIMIT} s"
    return process.returncode, output, time.monotonic() - began
