"""Mutation testing: applies one deliberate breakage at a time and checks that the tests listed with it fail.

    python tests/mutants/run.py [--only SUBSTRING] [--full] [--unchanged] [--jobs N] [--json]

Each mutant of `mutants.yaml` is a copy of the package with one text replaced. Its tests import that copy instead of the
installed package. A mutant is caught if a test fails; errors of collection or of pytest itself do not count.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
MUTANTS = Path(__file__).with_name("mutants.yaml")
PACKAGE = "src/regard"
TIMEOUT = 600  # seconds for the tests of one mutant
TESTS_FAILED = 1  # exit code of pytest
CAUGHT, NOT_CAUGHT, TIMED_OUT, ERROR, PASSED = "caught", "NOT CAUGHT", "timeout", "error", "passed"
# A pytest plugin, in the folder of the copy. `find_spec` finds the package as `import` does, but runs none of it.
PLUGIN = """
import importlib.util, pytest

def pytest_configure(config):
    found = importlib.util.find_spec("regard").origin
    if found != {expected!r}:
        raise pytest.UsageError("not the mutated copy: regard would be imported from " + found)
"""


@dataclass(frozen=True)
class Mutant:
    """One deliberate breakage.

    Args:
        file: The file to change, relative to the repository.
        original: A text that occurs exactly once in it.
        mutated: The text that replaces it.
        breaks: What is wrong then, in one sentence.
        tests: Arguments of pytest: the tests that fail then.
        exit_codes: Exit codes of pytest that count as caught.
    """

    file: str
    original: str
    mutated: str
    breaks: str
    tests: tuple[str, ...]
    exit_codes: tuple[int, ...] = (TESTS_FAILED,)

    def source(self) -> str:
        """The content of the file with the breakage."""
        text = (ROOT / self.file).read_text(encoding="utf-8")
        if text.count(self.original) != 1:
            raise ValueError(f"{self.file}: occurs {text.count(self.original)} times, not once: {self.original}")
        return text.replace(self.original, self.mutated)


@dataclass(frozen=True)
class Outcome:
    """What the tests of a mutant reported.

    Args:
        file: The changed file.
        breaks: What is wrong with it.
        status: `caught`, `NOT CAUGHT`, `timeout` or, if no test has failed and yet pytest has, `error`.
        seconds: How long it took.
        detail: The test that failed, or else the end of the output.
    """

    file: str
    breaks: str
    status: str
    seconds: float
    detail: str


def load_mutants() -> list[Mutant]:
    """All mutants of `mutants.yaml`."""
    entries = yaml.safe_load(MUTANTS.read_text(encoding="utf-8"))
    return [Mutant(**{key: tuple(v) if isinstance(v, list) else v for key, v in entry.items()}) for entry in entries]


def run_mutant(mutant: Mutant, *, full: bool = False, unchanged: bool = False) -> Outcome:
    """Run the tests of a mutant on a copy of the package; with `unchanged`, on a copy without the breakage."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="regard-mutant-") as folder:
        copy = Path(folder).resolve() / "regard"
        shutil.copytree(ROOT / PACKAGE, copy)
        if not unchanged:
            apply(mutant, copy)
        (copy.parent / "check_copy.py").write_text(PLUGIN.format(expected=str(copy / "__init__.py")), encoding="utf-8")
        variables = {"PYTHONPATH": str(copy.parent), "PYTHONDONTWRITEBYTECODE": "1", "REGARD_TEST_FULL": f"{full:d}"}
        options = ["-x", "-q", "--tb=no", "-p", "no:cacheprovider", "-p", "check_copy"]
        code, output = run_tests([*options, *mutant.tests], os.environ | variables)
    status = {None: TIMED_OUT, 0: NOT_CAUGHT} | dict.fromkeys(mutant.exit_codes, CAUGHT)
    if unchanged:
        status = {None: TIMED_OUT, 0: PASSED}
    failed = [line for line in output.splitlines() if line.startswith(("FAILED", "ERROR"))]
    detail = failed[0] if failed else "\n".join(output.splitlines()[-8:])
    return Outcome(mutant.file, mutant.breaks, status.get(code, ERROR), round(time.monotonic() - start, 1), detail)


def apply(mutant: Mutant, copy: Path) -> None:
    """Break a copy of the package."""
    file = copy / Path(mutant.file).relative_to(PACKAGE)
    file.write_text(mutant.source(), encoding="utf-8")
    for compiled in file.parent.glob(f"__pycache__/{file.stem}.*"):
        compiled.unlink()


def run_tests(arguments: Iterable[str], environment: dict[str, str]) -> tuple[int | None, str]:
    """Exit code and output of pytest; None if it takes too long."""
    command = [sys.executable, "-m", "pytest", *arguments]
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(command, cwd=ROOT, env=environment, text=True, start_new_session=True, **pipes) as process:
        try:
            output, _ = process.communicate(timeout=TIMEOUT)
            return process.returncode, output
        except subprocess.TimeoutExpired:
            if hasattr(os, "killpg"):  # what the tests have started ends with them
                os.killpg(process.pid, signal.SIGKILL)
            process.kill()
            return None, ""


def main() -> int:
    parser = argparse.ArgumentParser(description="Check that the tests catch deliberate breakages.")
    parser.add_argument("--only", default="", help="only mutants with this text in their file or description")
    parser.add_argument("--full", action="store_true", help="all combinations of kinds, as in make test-full")
    parser.add_argument("--unchanged", action="store_true", help="no breakages: check that the listed tests pass")
    parser.add_argument("--jobs", type=int, default=1, help="mutants at a time")
    parser.add_argument("--json", action="store_true", help="a JSON object for each mutant")
    arguments = parser.parse_args()
    mutants = [mutant for mutant in load_mutants() if arguments.only in f"{mutant.file} {mutant.breaks}"]
    start, good = time.monotonic(), 0
    with ThreadPoolExecutor(arguments.jobs) as pool:
        runs = [pool.submit(run_mutant, each, full=arguments.full, unchanged=arguments.unchanged) for each in mutants]
        for done, run in enumerate(as_completed(runs), start=1):
            outcome = run.result()
            is_good = outcome.status in (CAUGHT, PASSED)
            good += is_good
            rate = done / (time.monotonic() - start)
            left = round((len(mutants) - done) / rate)
            progress = f"{outcome.seconds:.0f} s; {60 * rate:.1f} mutants/min, {left // 60}:{left % 60:02d} left"
            print_progress(f"[{done}/{len(mutants)}] {outcome.status}: {outcome.file}: {outcome.breaks} ({progress})")
            if arguments.json:
                print(json.dumps(asdict(outcome), ensure_ascii=False), flush=True)
            elif not is_good:
                print_progress(outcome.detail)
    print_progress(f"{good} of {len(mutants)} {PASSED if arguments.unchanged else CAUGHT}")
    return 0 if mutants and good == len(mutants) else 1


def print_progress(text: str) -> None:
    """Print to standard error; standard output is for JSON."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
