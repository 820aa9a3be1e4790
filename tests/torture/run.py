"""A bounded campaign of attacks: damaged and malicious input, killed processes, missing resources, a hostile network.

    python tests/torture/run.py [--only NAME] [--scale 0.1] [--seed N] [--try N] [--json FILE]

No attack may cause a traceback, a hang, a large use of memory, a changed file that is not its own, a damaged run, or an
exit code without a message. Inputs depend on the seed and on the number of the try alone.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from torture.outcomes import Campaign, Tally

ATTACKS = (
    "archives",
    "texts",
    "arguments",
    "experiments",
    "run-directories",
    "studies",
    "kills",
    "resources",
    "server",
)
SHOWN = 3  # failures of one cause that are printed; --json has all


def module_name(attack: str) -> str:
    """The module of an attack."""
    return f"torture.{attack.replace('-', '_')}"


def available(only: str) -> list[str]:
    """The attacks with this text in their name."""
    here = Path(__file__).parent
    return [name for name in ATTACKS if only in name and (here / f"{name.replace('-', '_')}.py").exists()]


def run_attack(name: str, campaign: Campaign, number: int | None) -> list[Tally]:
    """Run one attack, or its try with this number."""
    if number is None:
        return import_module(module_name(name)).attack(campaign)
    from torture import materials, pool

    return pool.run_tries(campaign, module_name(name), [number], materials.prepare())


def print_table(tallies: Iterable[Tally], seconds: Mapping[str, float]) -> None:
    """Print tries, survivors, failures and measured extremes."""
    rows = [("attack", "tries", "survived", "failed", "worst")]
    for tally in tallies:
        worst = ", ".join(f"{name} {value:,.4g}" for name, value in tally.worst.items())
        failed = len(tally.failures)
        rows.append((tally.name, f"{tally.tries:,}", f"{tally.tries - failed:,}", f"{failed:,}", worst))
    tries, failed = sum(tally.tries for tally in tallies), sum(len(tally.failures) for tally in tallies)
    rows.append(("all", f"{tries:,}", f"{tries - failed:,}", f"{failed:,}", f"{sum(seconds.values()):,.0f} s"))
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    for row in rows:
        name, *numbers, worst = (
            cell.ljust(width) if column in (0, 4) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        print("  ".join((name, *numbers, worst)).rstrip())


def print_failures(tallies: Iterable[Tally]) -> None:
    """Print failures by cause, with what reproduces them."""
    causes: dict[tuple[str, str], list[str]] = defaultdict(list)
    for tally in tallies:
        for failure in tally.failures:
            cause, _, reproduction = failure.partition(" | ")
            causes[tally.name, cause].append(reproduction)
    for (name, cause), reproductions in causes.items():
        print(f"\nFAILED {name}: {cause} ({len(reproductions)})")
        for reproduction in reproductions[:SHOWN]:
            print(f"    {reproduction}")


def main() -> int:
    parser = argparse.ArgumentParser(description="Attack Regard, and check that it survives.")
    parser.add_argument("--only", default="", help="only attacks with this text in their name")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full number of tries")
    parser.add_argument("--seed", type=int, default=1, help="seed of everything random")
    parser.add_argument("--try", type=int, dest="number", help="only the try with this number")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    arguments = parser.parse_args()
    names = available(arguments.only)
    if not names:
        parser.error(f"--only {arguments.only}: there is no such attack; choices: {', '.join(ATTACKS)}")
    root = Path(tempfile.mkdtemp(prefix="regard-torture-")).resolve()
    tallies: list[Tally] = []
    seconds: dict[str, float] = {}
    for name in names:
        began = time.monotonic()
        (root / name).mkdir()
        campaign = Campaign(root / name, arguments.seed, arguments.scale, print_progress)
        tallies += run_attack(name, campaign, arguments.number)
        seconds[name] = round(time.monotonic() - began, 1)
        print_progress(f"{name}: {seconds[name]:.0f} s")
    print_table(tallies, seconds)
    print_failures(tallies)
    if arguments.json:
        results = {"seed": arguments.seed, "scale": arguments.scale, "seconds": seconds}
        text = json.dumps(results | {"attacks": [asdict(tally) for tally in tallies]}, indent=2)
        arguments.json.write_text(text, encoding="utf-8")
    failed = any(tally.failures for tally in tallies)
    if failed:
        print(f"\nThe inputs that failed are kept in {root}")
    else:
        shutil.rmtree(root, ignore_errors=True)
    return 1 if failed else 0


def print_progress(line: str) -> None:
    """Print to standard error; standard output is for the table."""
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
