"""Mutation testing with a fixed list: deliberate faults, each of which the tests must catch.

    python tests/mutants/run.py                 # the default suite
    python tests/mutants/run.py --full          # the full product of all kinds
    python tests/mutants/run.py --only search   # the mutants whose path contains a text

Each mutant of `mutants.yaml` replaces one piece of source text in a copy of the package and runs the tests that are
named with it, which are part of both suites. A mutant is caught if they fail. Exit code 1 if one survives.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).parent.parent.parent
PACKAGE = ROOT / "src" / "regard"


@dataclass(frozen=True)
class Mutant:
    """A deliberate fault."""

    path: str  # of the source file, below src/regard
    original: str  # occurs exactly once in the file
    mutated: str
    tests: list[str]  # below tests/

    def apply(self, package: Path) -> None:
        file = package / self.path
        text = file.read_text(encoding="utf-8")
        assert text.count(self.original) == 1, (
            f"{self.path}: {self.original!r} occurs {text.count(self.original)} times"
        )
        file.write_text(text.replace(self.original, self.mutated), encoding="utf-8")


def read_mutants() -> list[Mutant]:
    text = (Path(__file__).parent / "mutants.yaml").read_text(encoding="utf-8")
    return [Mutant(**entry) for entry in yaml.safe_load(text)]


def is_caught(mutant: Mutant, full: bool) -> bool:
    """Run the mutant's tests on a mutated copy of the package; True if a test fails."""
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "regard"
        shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
        mutant.apply(package)
        environment = os.environ | {"PYTHONPATH": folder, "REGARD_TEST_FULL": "1" if full else "0"}
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--no-header", "--tb=no"]
        done = subprocess.run(
            [*command, *(f"tests/{test}" for test in mutant.tests)], cwd=ROOT, env=environment, capture_output=True
        )
        if done.returncode not in (0, 1, 2):  # 2: a fault at import interrupts the collection
            raise RuntimeError(done.stdout.decode() + done.stderr.decode())
        return done.returncode != 0


def main() -> int:
    parser = argparse.ArgumentParser(description="Check that the tests catch every deliberate fault.")
    parser.add_argument("--full", action="store_true", help="run the full product of all kinds")
    parser.add_argument("--only", default="", help="only mutants whose path contains this text")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    mutants = [mutant for mutant in read_mutants() if options.only in mutant.path]
    survivors = 0

    def check(mutant: Mutant) -> tuple[Mutant, bool, float]:
        began = time.monotonic()
        return mutant, is_caught(mutant, options.full), time.monotonic() - began

    with ThreadPoolExecutor(options.jobs) as pool:
        for mutant, caught, seconds in pool.map(check, mutants):
            survivors += not caught
            change = f"{mutant.original.strip()!r} → {mutant.mutated.strip()!r}"
            print(f"{'caught  ' if caught else 'SURVIVED'} {seconds:5.0f} s  {mutant.path}: {change}", flush=True)
    print(f"{len(mutants) - survivors} of {len(mutants)} mutants caught")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
