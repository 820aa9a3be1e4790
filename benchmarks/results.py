"""Trains recipes with several seeds, scores them, and writes the tables of docs/results.md.

    python benchmarks/results.py [NAME ...] [--seeds 3] [--out runs/results]
    python benchmarks/results.py --table            # only rewrite the tables

What is measured is kept in benchmarks/results/NAME.json. A training whose settings and seed are recorded there is not
repeated, and one that was stopped continues, so the command can be run again at any time. Time is that of the training;
memory is the peak of the whole command.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple

import torch

import regard
from regard import files
from regard.config.loading import load_experiment

ROOT = Path(__file__).parent.parent
RECORDS, PAGE = ROOT / "benchmarks" / "results", ROOT / "docs" / "results.md"
SEARCHES = {"greedy": regard.Search(), "beam 5": regard.Search(beam=5)}
Record = dict[str, Any]


class Column(NamedTuple):
    """A column: its title, the keys that lead to the value in a record, its format, and what it is multiplied by."""

    title: str
    keys: tuple[str, ...]
    format: str = "{:.2f}"
    factor: float = 1.0


@dataclass(frozen=True)
class Recipe:
    """A row of a table: an experiment that is trained with several seeds.

    Args:
        name: The name of the row and of its records.
        experiment: The name of a recipe or the path of an experiment file.
        overrides: Changed settings, as `data.source=en`.
    """

    name: str
    experiment: str
    overrides: Sequence[str] = ()

    @property
    def digest(self) -> str:
        """A digest of the settings that are not defaults, so that new settings of later versions do not change it.

        Neither does what may differ between runs of the same experiment.
        """
        settings = load_experiment(self.experiment, self.overrides).model_dump(exclude_defaults=True)
        settings.pop("description", None)
        for key in ("seed", "threads", "save_every"):
            settings.get("training", {}).pop(key, None)
        return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]

    def run_path(self, folder: Path, seed: int) -> Path:
        """The run directory of a seed; settings that have changed get another one."""
        return folder / f"{self.name}-{self.digest}-{seed}"

    def read(self, kind: str) -> list[Record]:
        """The records of these settings: `trainings`, one for each seed, or `ensembles`."""
        return [each for each in self._read_all()[kind] if each["settings"] == self.digest]

    def add(self, kind: str, record: Record) -> None:
        """Write a record."""
        content = self._read_all()
        content[kind].append(record)
        RECORDS.mkdir(parents=True, exist_ok=True)
        files.write_atomic(self._path, f"{json.dumps(content, indent=1, ensure_ascii=False)}\n".encode())

    @property
    def _path(self) -> Path:
        return RECORDS / f"{self.name}.json"

    def _read_all(self) -> dict[str, list[Record]]:
        empty: dict[str, list[Record]] = {"trainings": [], "ensembles": []}
        return json.loads(self._path.read_text(encoding="utf-8")) if self._path.exists() else empty


class Table(NamedTuple):
    """A table: for each row a recipe and changed settings, and the columns of scores."""

    rows: dict[str, tuple[str, ...]]
    columns: tuple[Column, ...]

    def recipes(self) -> list[Recipe]:
        """The rows."""
        return [Recipe(name, experiment, overrides) for name, (experiment, *overrides) in self.rows.items()]


# In docs/results.md, each table is between `<!-- table: NAME -->` and `<!-- end -->`.
TABLES = {
    "translation": Table(
        rows={
            "multi30k": ("multi30k",),
            "multi30k-en-de": ("multi30k", "data.source=en", "data.target=de"),
            "multi30k-homework": ("multi30k-homework",),
            "multi30k-slides": ("multi30k-slides",),
            "multi30k-bahdanau": ("multi30k-bahdanau",),
            "multi30k-transformer": ("multi30k-transformer",),
        },
        columns=(
            Column("BLEU, greedy", ("test", "greedy", "bleu_lc")),
            Column("BLEU, beam 5", ("test", "beam 5", "bleu_lc")),
            Column("cased, beam 5", ("test", "beam 5", "bleu")),
            Column("chrF2, beam 5", ("test", "beam 5", "chrf")),
            Column("perplexity", ("test", "greedy", "perplexity")),
        ),
    ),
    "phonemes": Table(
        rows={"g2p": ("g2p",)},
        columns=(
            Column("word error rate, greedy, %", ("test", "greedy", "word_error"), factor=100),
            Column("beam 5, %", ("test", "beam 5", "word_error"), factor=100),
            Column("phoneme error rate, greedy, %", ("test", "greedy", "phoneme_error"), factor=100),
        ),
    ),
    "generated": Table(
        rows={name: (name,) for name in ("case", "reverse", "copy", "spaces", "addition", "clauses")},
        columns=(Column("exact match, greedy, %", ("test", "greedy", "exact_match"), factor=100),),
    ),
}
COSTS = (Column("minutes", ("seconds",), "{:.1f}", 1 / 60), Column("memory, MB", ("peak_memory_mb",), "{:,.0f}"))


def train(recipe: Recipe, seed: int, path: Path) -> float | None:
    """Train in a process of its own, or continue; the peak memory in megabytes, where the system reports it."""
    settings = [f"--set={each}" for each in (*recipe.overrides, f"training.seed={seed}")]
    process = subprocess.Popen([sys.executable, "-m", "regard", "train", recipe.experiment, "--out", path, *settings])
    if not hasattr(os, "wait4"):
        code, memory = process.wait(), None
    else:
        _, status, usage = os.wait4(process.pid, 0)
        code = process.returncode = os.waitstatus_to_exitcode(status)
        memory = usage.ru_maxrss / (1e6 if sys.platform == "darwin" else 1e6 / 1024)
    if code:
        sys.exit(abs(code))
    return memory


def scores(translator: regard.Translator, split: Any, names: Sequence[str]) -> dict[str, Record]:
    """The metrics of a split, with signatures, by the name of the search."""
    return {name: regard.evaluate(translator, split=split, search=SEARCHES[name]).to_dict() for name in names}


def measure(recipe: Recipe, seed: int, folder: Path) -> Record:
    """Train and score one seed."""
    path = recipe.run_path(folder, seed)
    memory = train(recipe, seed, path)
    translator = regard.load(path, device="cpu")
    progress, training = translator.runs[0].progress, translator.experiment.training
    validation = scores(translator, "validation", ["greedy"])
    return {
        "settings": recipe.digest,
        "seed": seed,
        "parameters": sum(each.numel() for each in translator.model.parameters()),
        "validation_loss": validation["greedy"]["loss"],
        "validation": validation,
        "test": scores(translator, "test", list(SEARCHES)),
        "seconds": progress.seconds,
        "peak_memory_mb": memory,
        "threads": training.threads,
        "precision": translator.runs[0].precision,
        "torch": torch.__version__,
        "cpu": cpu_name(),
    }


def measure_ensemble(recipe: Recipe, seeds: Sequence[int], folder: Path) -> Record:
    """Score the models of several seeds as an ensemble."""
    translator = regard.load(*[recipe.run_path(folder, seed) for seed in seeds], device="cpu")
    return {"settings": recipe.digest, "seeds": list(seeds), "test": scores(translator, "test", list(SEARCHES))}


def cpu_name() -> str:
    """The name of the processor."""
    info = Path("/proc/cpuinfo")
    found = re.search(r"model name\s*: (.*)", info.read_text()) if info.exists() else None
    return found[1] if found else platform.processor()


def format_values(records: Sequence[Record], column: Column) -> str:
    """Mean and standard deviation over seeds."""
    values = []
    for record in records:
        value: Any = record
        for key in column.keys:
            value = value.get(key) if isinstance(value, dict) else None
        if value is not None:
            values.append(value * column.factor)
    if not values:
        return "–"
    text = column.format.format(mean(values))
    return f"{text} ± {column.format.format(stdev(values))}" if len(values) > 1 else text


def table_lines(table: Table) -> Iterator[str]:
    """A table in Markdown, with a row for each recipe and each ensemble that have records; nothing without records."""
    rows, footnotes = [], set()
    for recipe in table.recipes():
        trainings = recipe.read("trainings")
        footnotes |= {note for record in trainings for note in list_footnotes(record)}
        if trainings:
            size = f"{trainings[0]['parameters'] / 1e6:.1f} M"
            cells = [format_values(trainings, column) for column in (*table.columns, *COSTS)]
            rows.append([f"`{recipe.name}`", str(len(trainings)), size, *cells])
        for each in recipe.read("ensembles"):
            cells = [format_values([each], column) for column in (*table.columns, *COSTS)]
            rows.append([f"`{recipe.name}`, ensemble", str(len(each["seeds"])), "–", *cells])
    if rows:
        titles = ["recipe", "seeds", "parameters", *(column.title for column in (*table.columns, *COSTS))]
        yield from (f"| {' | '.join(row)} |" for row in [titles, ["---"] * len(titles), *rows])
        yield ""
        yield f"Mean ± standard deviation over seeds. {' '.join(sorted(footnotes))}"


def list_footnotes(record: Record) -> Iterator[str]:
    """sacreBLEU's signatures, and where a training ran."""
    for name, value in record["test"]["greedy"].items():
        if name.endswith("_signature"):
            yield f"{name.removesuffix('_signature')}: `{value}`."
    yield f"Trained on {record['cpu']} with PyTorch {record['torch']} in {record['precision']}."


def write_tables(page: Path) -> None:
    """Rewrite each table of a page that has records."""
    text = page.read_text(encoding="utf-8")
    for name, table in TABLES.items():
        if lines := list(table_lines(table)):
            begin, end = f"<!-- table: {name} -->\n", "<!-- end -->"
            before, found, rest = text.partition(begin)
            if not found:
                sys.exit(f"{page}: there is no line {begin.strip()}")
            new = "\n".join(lines)
            text = f"{before}{begin}\n{new}\n\n{end}{rest.partition(end)[2]}"
    files.write_atomic(page, text.encode())


def main() -> None:
    known = {recipe.name: recipe for table in TABLES.values() for recipe in table.recipes()}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"rows of the tables: {', '.join(known)}")
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds (default: 3)")
    parser.add_argument("--out", type=Path, default=Path("runs/results"), help="folder of the run directories")
    parser.add_argument("--table", action="store_true", help="only rewrite the tables")
    options = parser.parse_args()
    if unknown := set(options.names) - known.keys():
        parser.error(f"{', '.join(sorted(unknown))}: choose from {', '.join(known)}")
    recipes = [] if options.table else [known[name] for name in options.names or known]
    for seed in range(1, options.seeds + 1):
        for recipe in recipes:
            if all(record["seed"] != seed for record in recipe.read("trainings")):
                recipe.add("trainings", measure(recipe, seed, options.out))
                write_tables(PAGE)
    seeds = list(range(1, options.seeds + 1))
    for recipe in recipes:
        if len(seeds) > 1 and all(record["seeds"] != seeds for record in recipe.read("ensembles")):
            recipe.add("ensembles", measure_ensemble(recipe, seeds, options.out))
    write_tables(PAGE)


if __name__ == "__main__":
    main()
