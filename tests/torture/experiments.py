"""Hostile experiment files, given to `regard train` and `regard compare`."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import yaml

from torture import hostile, materials, pool, special_files
from torture.hostile_values import ALL_YAML_VALUES
from torture.judging import INPUT, OUTPUT, VICTIM, Attempt
from torture.outcomes import Campaign, Tally

TRIES = 1_600
PRELOAD = ("regard.training.trainer", "regard.studies.parsing", "regard.cli.study", "regard.evaluation.final")
RECIPES = ("case", "clauses-transformer", "multi30k", "g2p", "addition", "spaces", "lookahead", "questions")
COMPARED = "training.clip=1,2"
NAMES = ("a\x1b[31mb.yaml", "\u202eb.yaml", "a\nb.yaml", "-x.yaml", "x" * 300, "caf\udce9.yaml", " .yaml", "~x")


def attack(campaign: Campaign) -> list[Tally]:
    """Try mutated experiment files."""
    return pool.run_tries(campaign, __name__, range(campaign.tries(TRIES)), materials.prepare())


def build(number: int, random: Random, folder: Path, given: Path) -> Attempt:
    """The try with this number."""
    file = folder / INPUT / "experiment.yaml"
    kinds = ("values", "values", "extremes", "extremes", "keys", "lines", "bytes", "extends", "special files")
    kind = kinds[number % len(kinds)]
    if kind == "special files":
        make_special(file, number // len(kinds), random, folder / VICTIM)
    elif kind == "extends":
        make_chain(file, number // len(kinds), random)
    else:
        text = base_text(random, given)
        tree = yaml.safe_load(text)
        content = {
            "values": lambda: hostile.mutate_values(tree, number, ALL_YAML_VALUES, hostile.dump_yaml).encode(),
            "extremes": lambda: hostile.mutate_settings(tree, random, hostile.dump_yaml).encode(),
            "keys": lambda: hostile.mutate_keys(tree, random, hostile.dump_yaml).encode(),
            "lines": lambda: hostile.mutate_lines(text, random).encode(),
            "bytes": lambda: random.choice((hostile.mutate_bytes, hostile.recode))(text.encode(), random),
        }[kind]()
        file.write_bytes(content)
    if kind == "special files" and not os.path.lexists(file):
        file = next((folder / INPUT).iterdir(), file)
    return command_for(f"experiments: {kind}", file, random, folder)


def command_for(kind: str, file: Path, random: Random, folder: Path) -> Attempt:
    """A command that reads an experiment: mostly up to the point where training would begin."""
    draw = random.random()
    if draw < 0.3 or (kind.endswith("extremes") and draw < 0.8):
        return Attempt(kind, ["train", str(file), "--out", "run"], interrupt_after=1.5)
    if draw < 0.7:
        (folder / OUTPUT / "file").write_text("not a run\n")
        return Attempt(kind, ["train", str(file), "--out", "file"])
    return Attempt(kind, ["compare", str(file), "--vary", COMPARED, "--report"])


def base_text(random: Random, given: Path) -> str:
    """A valid experiment: with all settings, as a short file, or one that extends a recipe."""
    if random.random() < 0.6:
        return (given / "letters" / "config.yaml").read_text()
    if random.random() < 0.5:
        return (given / random.choice(("letters.yaml", "subwords.yaml"))).read_text()
    small = "data: {train: 50, validation: 5, test: 5}\nmodel: {encoder: {size: 4}, decoder: {size: 8}}\n"
    return f"extends: {random.choice(RECIPES)}\n{small}training: {{epochs: 1, batch_tokens: 100}}\n"


def make_chain(file: Path, number: int, random: Random) -> None:
    """Files that extend each other: in a circle, in a long chain, or something that is no experiment."""
    here = file.parent
    targets = (
        "experiment.yaml",
        "./experiment.yaml",
        "../input/experiment",
        "missing.yaml",
        ".",
        "/dev/zero" if os.path.exists("/dev/zero") else ".",
        "/dev/stdin",
        "../victim",
        "\x1b[31mcase",
        "case.yaml",
        "[case, copy]",
        "{a: b}",
        "null",
        "''",
        '"\\0"',
        "x" * 5_000,
        "~nobody-of-this-name",
        "\u202ecase",
        "1e999",
        "chain-0.yaml",
        "cases",
    )
    target = targets[number % len(targets)]
    for index in range(length := random.choice((3, 50, 1_500))):
        following = f"chain-{index + 1}.yaml" if index + 1 < length else random.choice(("case", "experiment.yaml"))
        (here / f"chain-{index}.yaml").write_text(f"extends: {following}\n")
        if target != "chain-0.yaml":
            break
    extra = random.choice(("", "training: {epochs: 1}\n", "extends: case\n", "data: 3\n"))
    file.write_text(f"extends: {target}\n{extra}")


def make_special(file: Path, number: int, random: Random, victim: Path) -> None:
    """A path that is no file, or a file with a hostile name."""
    kinds = (*special_files.KINDS, *NAMES)
    kind = kinds[number % len(kinds)]
    if kind in special_files.KINDS:
        special_files.make(kind, file, victim)
        return
    try:
        file.with_name(kind).write_text(random.choice(("extends: cases\n", "data: {task: x}\n", "[", "data: 1\n")))
    except OSError:  # this system does not have such names
        file.write_text("[")
