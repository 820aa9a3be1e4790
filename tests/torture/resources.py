"""Missing resources: a full disk, few inodes, a folder that cannot be written, little memory, few open files.

A command must end with exit code 2 and a message that names a file or says that memory is short. What was there before
is intact, and the same command continues to the same bits once the resource is there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from torture import kills, materials
from torture.judging import TRACEBACK, describe_traceback, differences, is_explanation, snapshot
from torture.kills import Scenario, mask
from torture.launcher import Ended, Launcher
from torture.outcomes import Campaign, Tally

MEGABYTE = 1 << 20
TRIES = {
    "disk full": 30,
    "few inodes": 16,
    "read-only": 8,
    "file size": 25,
    "open files": 25,
    "memory": 30,
    "start": 14,
}
READERS = {
    "translate": ("translate", "letters", "abc", "--beam", "3"),
    "explain": ("explain", "letters", "abc", "--out", "steps.html"),
    "show": ("show", "letters", "abc", "--out", "map.svg"),
}
START_LIMITS = (300, 500, 700, 900, 1_200, 1_600, 2_500)  # megabytes


def attack(campaign: Campaign) -> list[Tally]:
    """Take resources away."""
    given = materials.prepare()
    limited = ["file size", "open files", *(["memory"] if os.path.exists("/proc/self/statm") else [])]
    mounted = ["disk full", "few inodes", "read-only"] if can_mount() else []

    def attack_all(names: list[str], own_mounts: bool) -> list[Tally]:
        with Launcher(own_mounts) as launcher:
            lacking = Lacking(campaign, launcher, given)
            return [lacking.attack(name) for name in names]

    with ThreadPoolExecutor(2) as threads:
        jobs = [threads.submit(attack_all, names, names is mounted) for names in (limited, mounted) if names]
        tallies = [tally for job in jobs for tally in job.result()]
    return [*tallies, attack_start(campaign, given)]


def can_mount() -> bool:
    """True if this process may mount file systems in a name space of its own."""
    command = ["unshare", "-rm", "mount", "-t", "tmpfs", "none", "/mnt"]
    with suppress(OSError):
        return subprocess.run(command, capture_output=True).returncode == 0
    return False


@dataclass(frozen=True)
class Lack:
    """What is missing, and how it is restored.

    Args:
        description: For messages.
        options: Options of `Request`.
        mount: Options of the file system at the folder, from its usage; None: none is mounted.
        freeze: Whether the file system is made read-only, after a process was killed at this event.
    """

    description: str
    options: dict[str, Any]
    mount: Callable[[os.statvfs_result], str] | None = None
    freeze: int = 0


class Lacking:
    """Runs scenarios without resources.

    Args:
        campaign: The campaign.
        launcher: Runs the commands.
        given: The materials.
    """

    def __init__(self, campaign: Campaign, launcher: Launcher, given: Path) -> None:
        self.campaign, self.launcher, self.given = campaign, launcher, given
        reading = [
            Scenario(name, arguments, lambda folder: _copy(given / "letters", folder), _results, kills.hidden_files)
            for name, arguments in READERS.items()
            if name != "show"  # which is one of those that are killed
        ]
        self.scenarios = [*kills.scenarios(given), *reading]
        self.expected: dict[str, Any] = {}

    def attack(self, name: str) -> Tally:
        """Try all lacks of a kind, each with the next scenario."""
        tally = Tally(f"resources: {name}")
        random = Random(f"{self.campaign.seed} {name}")
        began = time.monotonic()
        aborted = 0
        for number in range(self.campaign.tries(TRIES[name])):
            # Every second try is a training, which writes most.
            scenario = (
                self.scenarios[0] if number % 2 == 0 else self.scenarios[1 + number // 2 % (len(self.scenarios) - 1)]
            )
            lack = LACKS[name](number, random)
            place = self.campaign.folder / f"{name}-{number}".replace(" ", "-")
            fault, ended_by_library = self.one(scenario, lack, place)
            aborted += ended_by_library
            what = f" | {scenario.name}, {lack.description} | regard {' '.join(scenario.arguments)}" if fault else ""
            tally.record(f"{fault}{what}", **({"aborted in a library": aborted} if aborted else {}))
        rate = tally.tries / (time.monotonic() - began)
        self.campaign.progress(
            f"resources: {name}: {tally.tries} tries, {len(tally.failures)} failures, {rate:.1f} tries/s"
        )
        return tally

    def one(self, scenario: Scenario, lack: Lack, folder: Path) -> tuple[str, bool]:
        """What goes wrong without a resource, and whether a library has ended the process."""
        self.expect(scenario)
        folder.mkdir()
        if lack.mount:
            self.launcher.system("mount", "-t", "tmpfs", "-o", "size=64m", "none", folder)
        seen = self.launcher.seen(folder)
        try:
            scenario.prepare(seen)
            self.take(lack, scenario, folder)
            before = snapshot(seen)
            ended = self.run(scenario, folder, **lack.options)
            aborted = has_aborted(ended.code, ended.output)
            fault = "" if aborted else find_fault(ended, before, snapshot(seen), scenario, folder)
            if lack.mount:
                self.launcher.system("mount", "-o", "remount,rw,size=64m,nr_inodes=10000", folder)
            return fault or self.finish(scenario, folder), aborted
        finally:
            if lack.mount:
                self.launcher.system("umount", folder)
            shutil.rmtree(folder, ignore_errors=True)

    def take(self, lack: Lack, scenario: Scenario, folder: Path) -> None:
        """Take the resource away from the file system."""
        if lack.freeze:
            self.run(scenario, folder, at=lack.freeze)
        if lack.mount:
            options = lack.mount(os.statvfs(self.launcher.seen(folder)))
            assert self.launcher.system("mount", "-o", f"remount,{options}", folder) == 0, options

    def finish(self, scenario: Scenario, folder: Path) -> str:
        """Run the command with all resources, and compare its results."""
        ended = self.run(scenario, folder)
        if ended.code != 0:
            return f"the repeated command ends with code {ended.code}: {ended.output[-200:]!r}"
        seen = self.launcher.seen(folder)
        if left := scenario.leftovers(seen):
            return f"left over: {', '.join(sorted(mask(name) for name in left))}"
        found, expected = scenario.result(seen), self.expected[scenario.name]
        return f"other results: {differences(expected, found)}" if found != expected else ""

    def expect(self, scenario: Scenario) -> None:
        """Run a scenario with all resources, once."""
        if scenario.name not in self.expected:
            folder = self.campaign.folder / f"{scenario.name}-expected-{id(self)}".replace(" ", "-")
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            scenario.prepare(folder)
            ended = self.run(scenario, folder)
            assert ended.code == 0, ended.output
            self.expected[scenario.name] = scenario.result(folder)

    def run(self, scenario: Scenario, folder: Path, **options: Any) -> Ended:
        """Run a scenario."""
        variables = (("REGARD_DATA", "data"), ("HOME", str(self.campaign.folder)))
        return self.launcher.run(*scenario.arguments, folder=folder, variables=variables, **options)


def _copy(source: Path, folder: Path) -> None:
    shutil.copytree(source, folder / source.name)


def _results(folder: Path) -> Any:
    return snapshot(folder)


def find_fault(ended: Ended, before: Any, after: Any, scenario: Scenario, folder: Path) -> str:
    """What is wrong with the end of a command that lacked something."""
    if TRACEBACK in ended.output:
        return f"traceback: {describe_traceback(ended.output)}"
    if ended.code not in (0, 2):
        return f"exit code {ended.code}: {ended.output[-200:]!r}"
    if ended.code == 2:
        messages = [line for line in ended.output.splitlines() if is_explanation(line)]
        if not messages:
            return f"exit code 2 without a message: {ended.output[-200:]!r}"
        if not any(names_reason(message, after, folder) for message in messages):
            return f"the message names neither a path nor memory: {mask(messages[-1])!r}"
    own = {path for path in before if not path.startswith("run")}
    changed = sorted(path for path in own if before[path] != after.get(path))
    return f"input was changed: {', '.join(changed)}" if changed else ""


def has_aborted(code: int, output: str) -> bool:
    """True if a library in C or C++ has ended the process because memory was short, which Python cannot catch."""
    return code < 0 or any(text in output for text in ("terminate called", "cannot allocate memory for thread-local"))


def names_reason(message: str, files: Any, folder: Path) -> bool:
    """True if a message names a file or says that memory is short."""
    names = {str(folder), "run", "data", "pictures", "letters", "map.svg", "steps.html", os.sep, *files}
    return "memory" in message or any(name in message for name in names)


def attack_start(campaign: Campaign, given: Path) -> Tally:
    """Start real processes with little memory.

    An abort by a C++ exception inside of a library, while it is imported, cannot be caught: it is counted, and not a
    failure.
    """
    tally = Tally("resources: memory at the start")
    if not hasattr(os, "fork"):
        return tally
    folder = campaign.folder / "start"
    shutil.copytree(given / "letters", folder / "letters")
    shutil.copy(given / "letters.yaml", folder)
    commands = [*READERS.values(), ("train", "letters.yaml", "--out", "letters")]
    before = snapshot(folder / "letters", [".lock"])
    aborted = 0
    for number in range(campaign.tries(TRIES["start"])):
        size, arguments = START_LIMITS[number % len(START_LIMITS)], commands[number % len(commands)]
        ended = subprocess.run(
            [
                "sh",
                "-c",
                f'ulimit -c 0; ulimit -v {size << 10}; exec "$0" "$@"',
                sys.executable,
                "-m",
                "regard",
                *arguments,
            ],
            cwd=folder,
            capture_output=True,
            text=True,
        )
        fault = ""
        if has_aborted(ended.returncode, ended.stderr):
            aborted += 1
        elif TRACEBACK in ended.stderr:
            fault = f"traceback: {describe_traceback(ended.stderr)}"
        elif ended.returncode not in (0, 2):
            fault = f"exit code {ended.returncode}: {ended.stderr[-200:]!r}"
        if changed := differences(before, snapshot(folder / "letters", [".lock"])):
            fault = f"files were changed: {changed}"
        what = f" | ulimit -v {size << 10}; regard {' '.join(arguments)}" if fault else ""
        tally.record(f"{fault}{what}", **({"aborted in a library": aborted} if aborted else {}))
    campaign.progress(f"resources: memory at the start: {tally.tries} tries, {len(tally.failures)} failures")
    return tally


def _disk_full(number: int, random: Random) -> Lack:
    pages = random.choice((1, 2, 3, random.randint(1, 60)))
    size = lambda disk: f"size={(disk.f_blocks - disk.f_bfree + pages) * disk.f_frsize}"  # noqa: E731
    return Lack(f"{pages} pages left on the disk", {}, size)


def _few_inodes(number: int, random: Random) -> Lack:
    return Lack(f"{number % 12} inodes left", {}, lambda disk: f"nr_inodes={disk.f_files - disk.f_ffree + number % 12}")


def _read_only(number: int, random: Random) -> Lack:
    return Lack("a read-only disk", {}, lambda disk: "ro", freeze=random.randint(5, 60))


def _file_size(number: int, random: Random) -> Lack:
    size = random.choice((0, 1, 100, random.randint(0, 2_000), random.randint(0, 60_000)))
    return Lack(f"files of at most {size} bytes", {"limits": (("RLIMIT_FSIZE", size),)})


def _open_files(number: int, random: Random) -> Lack:
    count = 8 + number % 25
    return Lack(f"at most {count} open files", {"limits": (("RLIMIT_NOFILE", count),)})


def _memory(number: int, random: Random) -> Lack:
    extra = random.choice((0, 1 << 16, MEGABYTE, 4 * MEGABYTE, random.randint(0, 64) * MEGABYTE, 200 * MEGABYTE))
    return Lack(f"{extra:,} bytes of memory left", {"limits": (("RLIMIT_AS", extra),)})


LACKS: dict[str, Callable[[int, Random], Lack]] = {
    "disk full": _disk_full,
    "few inodes": _few_inodes,
    "read-only": _read_only,
    "file size": _file_size,
    "open files": _open_files,
    "memory": _memory,
}
