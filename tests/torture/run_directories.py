"""Damaged and malicious run directories: every file, every value in it, and links to what is not theirs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from random import Random

import yaml

from torture import hostile, materials, pool, special_files
from torture.hostile_values import ALL_YAML_VALUES, JSON_VALUES
from torture.judging import INPUT, VICTIM, Attempt
from torture.outcomes import Campaign, Tally

TRIES = 1_900
PRELOAD = (
    "regard.training.trainer",
    "regard.cli.translate",
    "regard.cli.evaluate",
    "regard.cli.show",
    "regard.laboratory.explanation_report",
    "regard.laboratory.tensor_trace_report",
    "matplotlib.figure",
)
RUN = "../input/run"
READERS = {
    "translate": ["translate", RUN, "ab"],
    "json": ["translate", RUN, "--beam", "2", "--json", "ab"],
    "evaluate": ["evaluate", RUN],
    "explain": ["explain", RUN, "ab"],
    "trace": ["trace", RUN, "ab"],
    "show": ["show", RUN, "ab", "--json"],
    "map": ["show", RUN, "ab", "--out", "map.svg"],
    "curves": ["show", RUN, "--curves", "curves.svg"],
    "align": ["align", RUN, "--limit", "3"],
    "clean": ["clean", "../input"],
}
GENERAL = ("translate", "translate", "json", "evaluate", "explain", "trace", "show", "train", "train")
# The commands that read a file, more often the cheap ones.
COMMANDS = {
    "metrics.jsonl": ("curves", "train", "train"),
    "state.safetensors": ("train",),
    "scores.json": ("train", "curves"),
    "examples": ("train", "curves"),
}
FILES = {
    "letters": ("run.json", "config.yaml", "vocabulary.json", "model.safetensors", "metrics.jsonl"),
    "stopped": (
        "run.json",
        "config.yaml",
        "vocabulary.json",
        "model.safetensors",
        "state.safetensors",
        "metrics.jsonl",
    ),
    "subwords": ("run.json", "config.yaml", "vocabulary.json", "subwords.model", "model.safetensors", "scores.json"),
}
HEADER_VALUES = (
    *JSON_VALUES,
    '"F64"',
    '"F16"',
    '"I64"',
    '"BOOL"',
    '"F8_E4M3"',
    '"C64"',
    "[0, 0]",
    "[8, 4]",
    "[-4, 4]",
    "[0, 1e9]",
    "[0, 18446744073709551615]",
    "[0]",
    "[1, 1, 1, 1]",
    "[4294967296, 4294967296]",
    "[" + "1," * 999 + "1]",
)
LENGTHS = (0, 1, 7, 8, 100_000_000, 100_000_001, 1 << 31, 1 << 63, (1 << 64) - 1)
# Names that a run directory may have, or that a process may create in it: links to the victim under each.
TRAPS = (
    ".lock",
    "metrics.jsonl",
    "state.safetensors",
    "model.safetensors",
    "scores.json",
    "examples",
    "evaluations",
    ".state.safetensors.xxxxxxxx",
    ".model.safetensors.00000000",
    ".metrics.jsonl.12345678",
    ".examples.abcdefgh",
    ".scores.json.aaaaaaaa",
    "run.json",
    "config.yaml",
)


def attack(campaign: Campaign) -> list[Tally]:
    """Try damaged run directories."""
    return pool.run_tries(campaign, __name__, range(campaign.tries(TRIES)), materials.prepare())


def build(number: int, random: Random, folder: Path, given: Path) -> Attempt:
    """The try with this number."""
    origin = random.choice(("letters", "stopped", "stopped", "subwords"))
    run = folder / INPUT / "run"
    shutil.copytree(given / origin, run, ignore=shutil.ignore_patterns("*.svg"))
    name = random.choice(FILES[origin])
    kind = ("values", "values", "values", "values", "structure", "bytes", "special files", "traps")[number % 8]
    if kind == "traps":
        name = set_trap(run, number // 8, random, folder / VICTIM)
    elif kind == "special files":
        special_files.make(random.choice(special_files.KINDS), run / name, folder / VICTIM)
    elif kind == "bytes":
        change = random.choice((hostile.mutate_bytes, hostile.mutate_bytes, hostile.recode))
        (run / name).write_bytes(change((run / name).read_bytes(), random))
    else:
        mutate_file(run / name, number, random, values=kind == "values")
    command = random.choice(COMMANDS.get(name, GENERAL))
    if kind == "traps" and random.random() < 0.3:
        command = "clean"
    return command_for(f"run directories: {kind}", command, origin, given)


def command_for(kind: str, command: str, origin: str, given: Path) -> Attempt:
    """A command that opens the run directory."""
    if command == "clean":
        return Attempt(kind, READERS["clean"], may_change=("input/run",))
    if command != "train":
        text = [*READERS[command]] if origin != "subwords" else [a if a != "ab" else "Katze" for a in READERS[command]]
        return Attempt(kind, text)
    experiment = given / ("subwords.yaml" if origin == "subwords" else "letters.yaml")
    return Attempt(kind, ["train", str(experiment), "--out", RUN], may_change=("input/run",), interrupt_after=1.5)


def mutate_file(file: Path, number: int, random: Random, *, values: bool) -> None:
    """Mutate a file according to its format."""
    if file.suffix == ".safetensors":
        content = mutate_tensors(file.read_bytes(), number, random, values=values)
    elif file.suffix == ".yaml":
        tree = yaml.safe_load(file.read_text())
        if values:
            text = hostile.mutate_values(tree, number, ALL_YAML_VALUES, hostile.dump_yaml)
        else:
            text = random.choice((hostile.mutate_keys(tree, random, hostile.dump_yaml), "", "[]", "data: {task: copy}"))
        content = text.encode()
    elif file.suffix == ".jsonl":
        lines = file.read_text().splitlines()
        at = random.randrange(len(lines))
        lines[at] = mutate_json(lines[at], number, random, values=values)
        content = "".join(f"{line}\n" for line in lines).encode()
    elif file.suffix == ".json":
        content = mutate_json(file.read_text(), number, random, values=values).encode()
    else:
        content = mutate_message(file.read_bytes(), random)
    file.write_bytes(content)


def mutate_json(text: str, number: int, random: Random, *, values: bool) -> str:
    """A JSON document with a hostile value, or with other keys."""
    tree = json.loads(text)
    if values:
        return hostile.mutate_values(tree, number, JSON_VALUES, hostile.dump_json)
    return hostile.mutate_keys(tree, random, hostile.dump_json)


def mutate_tensors(content: bytes, number: int, random: Random, *, values: bool) -> bytes:
    """A safetensors file with a hostile header, metadata, length or data."""
    header, data = materials.split_tensors(content)
    if values and random.random() < 0.5:
        metadata = json.loads(header["__metadata__"]["regard"])
        hostile_text = hostile.mutate_values(metadata, number, JSON_VALUES, hostile.dump_json)
        header["__metadata__"]["regard"] = hostile_text
        return materials.join_tensors(json.dumps(header), data)
    if values:
        return materials.join_tensors(hostile.mutate_values(header, number, HEADER_VALUES, json.dumps), data)
    match random.randrange(5):
        case 0:
            length = random.choice((*LENGTHS, len(content) - 8 - len(data) + random.choice((-1, 1)), len(content)))
            return length.to_bytes(8, "little") + content[8:]
        case 1:
            data = random.choice((b"", data[: len(data) // 2], data + b"\0" * 1_000))
        case 2:  # NaN, large numbers, infinity
            data = (random.choice((b"\xff", b"\x7f", b"\x00\x00\x80\x7f")) * len(data))[: len(data)]
        case 3:
            data = random.randbytes(len(data))
        case _:
            return materials.join_tensors(hostile.mutate_keys(header, random, json.dumps), data)
    return materials.join_tensors(json.dumps(header), data)


def mutate_message(content: bytes, random: Random) -> bytes:
    """A SentencePiece model (a protocol buffer) with other lengths, numbers or pieces."""
    data = bytearray(content)
    for _ in range(random.randint(1, 4)):
        at = random.randrange(len(data))
        match random.randrange(4):
            case 0:
                data[at] = random.choice((0, 1, 0x7F, 0x80, 0xFF))
            case 1:
                data[at:at] = b"\xff" * random.randint(1, 9) + b"\x01"  # a long number
            case 2:
                del data[at : at + random.randint(1, 30)]
            case _:
                other = random.randrange(len(data))
                data[at : at + 20] = data[other : other + 20]
    return bytes(data)


def set_trap(run: Path, number: int, random: Random, victim: Path) -> str:
    """Make a link to the victim, or to a folder that is not ours, under a name that a command may write to."""
    name = TRAPS[number % len(TRAPS)]
    outside = victim.with_name(INPUT) / "outside"
    outside.mkdir()
    (outside / "index.html").write_text("mine\n")
    if random.random() < 0.7 or name in ("examples", "evaluations"):
        special_files.make("link to the victim", run / name, victim)
    if name in ("examples", "evaluations", ".examples.abcdefgh") and random.random() < 0.7:
        (run / name).unlink(missing_ok=True)
        (run / name).symlink_to("../outside")
        (run / "scores.json").unlink(missing_ok=True)
    elif not (run / name).is_symlink():
        special_files.make(random.choice(special_files.KINDS), run / name, victim)
    return random.choice(("state.safetensors", "metrics.jsonl", name))
