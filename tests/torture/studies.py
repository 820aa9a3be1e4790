"""Hostile study files and damaged folders of studies, given to `regard compare`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from random import Random

import yaml

from torture import hostile, materials, pool, run_directories, special_files
from torture.hostile_values import ALL_YAML_VALUES, JSON_VALUES
from torture.judging import INPUT, VICTIM, Attempt
from torture.outcomes import Campaign, Tally

TRIES = 500
PRELOAD = (
    "regard.cli.study",
    "regard.studies.report",
    "regard.studies.results",
    "regard.studies.tables",
    "regard.training.trainer",
)
RENDERED = 0.1  # share of the reports whose pictures are rendered, which takes most of the time
STUDY = "../input/study/study.yaml"
REPORT = ["compare", "--config", STUDY, "--report"]
TRAPS = (
    "index.html",
    "report.md",
    "pictures",
    "runs.csv",
    ".index.html.12345678",
    ".lock",
    "study.yaml",
    "results.json",
)
LOGS = (
    b"",
    b"Traceback (most recent call last):\n  x\nE: \x1b[31m\n",
    b"\xff\xfe\n",
    "\u202ex\n".encode(),
    b"a\n" * 99_999,
)


def attack(campaign: Campaign) -> list[Tally]:
    """Try hostile studies."""
    return pool.run_tries(campaign, __name__, range(campaign.tries(TRIES)), materials.prepare())


def prepare_worker() -> None:
    """Let `build` choose whether pictures are rendered; they are always drawn."""
    from regard.plotting import figures

    render = figures.render_figure
    figures.render_figure = lambda *both: render(*both) if switches["render"] else b"<svg/>"


switches = {"render": True}


def build(number: int, random: Random, folder: Path, given: Path) -> Attempt:
    """The try with this number. A whole report takes half a second, so most tries are of the definition."""
    kinds = (
        "file: values",
        "file: values",
        "file: values",
        "file: keys",
        "file: bytes",
        "results",
        "runs",
        "traps and logs",
    )
    kind = kinds[number % len(kinds)]
    if kind.startswith("file"):
        return build_file(kind, number, random, folder / INPUT, given)
    return build_folder(kind, number, random, folder, given)


def build_file(kind: str, number: int, random: Random, here: Path, given: Path) -> Attempt:
    """A study file that is read, and then not run, because there is no study to report on."""
    text = (given / "study.yaml").read_text()
    tree = yaml.safe_load(text)
    if kind == "file: values":
        text = hostile.mutate_values(tree, number, ALL_YAML_VALUES, hostile.dump_yaml)
    elif kind == "file: keys":
        text = hostile.mutate_keys(tree, random, hostile.dump_yaml)
    content = text.encode()
    if kind == "file: bytes":
        change = random.choice((hostile.mutate_bytes, hostile.recode))
        content = change(content, random) if random.random() < 0.6 else hostile.mutate_lines(text, random).encode()
    shutil.copy(given / "letters.yaml", here)
    (here / "x.yaml").write_bytes(content)
    return Attempt(f"studies: {kind}", ["compare", "--config", "../input/x.yaml", "--report"], codes=(0, 1, 2))


def build_folder(kind: str, number: int, random: Random, folder: Path, given: Path) -> Attempt:
    """A report on a study of which something is damaged."""
    here, victim = folder / INPUT, folder / VICTIM
    switches["render"] = random.random() < RENDERED
    shutil.copytree(given / "runs", here / "runs", ignore=shutil.ignore_patterns("*.safetensors"))
    (here / "study").mkdir()
    shutil.copy(given / "study" / "study.yaml", here / "study")
    runs = sorted((here / "runs").glob("*/run.json"))
    if kind == "results":
        for run in runs if random.random() < 0.2 else [random.choice(runs)]:
            damage_result(random.choice(sorted(run.parent.glob("evaluations/*"))), number, random, victim)
    elif kind == "runs":
        file = random.choice(runs).parent / random.choice(("run.json", "config.yaml", "metrics.jsonl", "metrics.jsonl"))
        if random.random() < 0.8:
            run_directories.mutate_file(file, number, random, values=random.random() < 0.8)
        else:
            special_files.make(random.choice(special_files.KINDS), file, victim)
    elif random.random() < 0.4:
        run = random.choice(runs).parent
        shutil.rmtree(run / "evaluations")
        run.with_name(f"{run.name}.log").write_bytes(random.choice(LOGS))
    else:
        kinds = ("link to the victim", *special_files.KINDS)
        special_files.make(random.choice(kinds), here / "study" / random.choice(TRAPS), victim)
    arguments = [*REPORT, *random.choice(([], ["--json"]))]
    return Attempt(f"studies: {kind}", arguments, codes=(0, 1, 2), may_change=("input/study",))


def damage_result(file: Path, number: int, random: Random, victim: Path) -> None:
    """Damage the stored result of an evaluation."""
    draw = random.random()
    if draw < 0.7:
        tree = json.loads(file.read_text())
        del tree["translations"]  # not read by reports
        file.write_text(hostile.mutate_values(tree, number, JSON_VALUES, hostile.dump_json))
    elif draw < 0.85:
        file.write_bytes(hostile.mutate_bytes(file.read_bytes(), random))
    else:
        special_files.make(random.choice(special_files.KINDS), file, victim)
