"""A command opens each run directory once, and tokenizes each text once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from shutil import copytree

import pytest

# Counts which files are opened for reading, and prints the counts at the end.
SCRIPT = """
import atexit, collections, os, sys

opened = collections.Counter()

def count(event, arguments):
    if event == "open" and isinstance(arguments[0], (str, bytes, os.PathLike)) and not arguments[2] & os.O_ACCMODE:
        opened[os.path.basename(os.fsdecode(arguments[0]))] += 1

sys.addaudithook(count)
atexit.register(lambda: print("\\nopened", *(f"{name}={opened[name]}" for name in ("run.json", "config.yaml"))))
from regard.cli import main

sys.argv = ["regard", *sys.argv[1:]]
main()
"""


def reads(output: str) -> Counter[str]:
    """How often each of the two files was opened, from the output of `SCRIPT`."""
    _, *counts = output.splitlines()[-1].split()
    return Counter({name: int(count) for name, _, count in (part.partition("=") for part in counts)})


def run_counted(*arguments: object) -> Counter[str]:
    command = [sys.executable, "-c", SCRIPT, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return reads(done.stdout)


ONCE = {"run.json": 1, "config.yaml": 1}
COMMANDS = {
    "translate": ("translate", "RUN", "abc", "ba"),
    "evaluate": ("evaluate", "RUN", "--beam", "1,2"),
    "show": ("show", "RUN", "abc", "--out", "FOLDER/map.svg", "--tree", "FOLDER/tree.svg", "--curves", "FOLDER/c.svg"),
    "show curves": ("show", "RUN", "--curves", "FOLDER/curves.svg"),
    "explain": ("explain", "RUN", "abc"),
    "trace": ("trace", "RUN", "abc"),
    "faithful": ("faithful", "RUN", "abc"),
    "faithful on a split": ("faithful", "RUN", "--limit", "2"),
    "gradients": ("gradients", "RUN", "--limit", "2"),
    "align": ("align", "RUN", "--limit", "2"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_opens_its_run_directory_once(name: str, trained: Path, tmp_path: Path):
    arguments = [part.replace("RUN", str(trained)).replace("FOLDER", str(tmp_path)) for part in COMMANDS[name]]
    assert run_counted(*arguments) == ONCE


@pytest.mark.slow
def test_every_run_of_an_ensemble_is_opened_once(trained: Path, tmp_path: Path):
    copytree(trained, tmp_path / "copy")
    assert run_counted("translate", trained, tmp_path / "copy", "abc") == {"run.json": 2, "config.yaml": 2}


@pytest.mark.slow
def test_train_opens_a_run_directory_once_to_start_and_once_to_resume(
    tiny_file: Path, brief_settings: tuple[str, ...], tmp_path: Path
):
    settings = [part for setting in brief_settings for part in ("--set", setting)]
    arguments = ("train", tiny_file, *settings, "--out", tmp_path / "run")
    assert run_counted(*arguments) == ONCE
    assert run_counted(*arguments) == ONCE


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for one process")
def test_the_server_opens_a_run_directory_once(trained: Path):
    command = [sys.executable, "-c", SCRIPT, "serve", str(trained), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout
        assert "http://127.0.0.1:" in server.stdout.readline()
        server.send_signal(signal.SIGINT)
        output = server.stdout.read()
    assert reads(output) == ONCE
