"""Hostile arguments of every command but `serve`: options, numbers, texts, settings, names of files."""

from __future__ import annotations

import re
import shutil
from functools import cache
from pathlib import Path
from random import Random

from torture import hostile, materials, pool
from torture.hostile_values import ALL_YAML_VALUES, EXTREMES
from torture.judging import INPUT, Attempt
from torture.outcomes import Campaign, Tally

TRIES = 2_000
PRELOAD = (
    "regard.training.trainer",
    "regard.cli.translate",
    "regard.cli.study",
    "regard.cli.show",
    "regard.laboratory.explanation_report",
    "regard.laboratory.head_report",
    "matplotlib.figure",
)
RUN, EXPERIMENT = "../input/run", "../input/letters.yaml"
COMMANDS = (
    f"translate {RUN} abc",
    f"translate {RUN} --beam 3 --n-best 2 --length-penalty 0.6 abc",
    f"translate {RUN} --sample --temperature 0.8 --top-k 3 --top-p 0.9 --seed 7 --n-best 2 abc",
    f"translate {RUN} --prefix a --min-length 2 --block-ngrams 2 --repetition-penalty 1.2 --alignments moses abc",
    f"translate {RUN} {RUN} --json abc cba",
    f"score {RUN} --source ../input/source.txt --target ../input/target.txt --json",
    f"evaluate {RUN} {RUN} --split validation --beam 1,2 --length-penalty 0.5 --json",
    f"evaluate {RUN} --source ../input/source.txt --reference ../input/target.txt --metric chrf --beam 1,2",
    f"show {RUN} abc --beam 3 --rank 2 --prefix a --length-penalty 0.5 --json",
    f"explain {RUN} abc --beam 2 --length-penalty 0.1 --json",
    f"translate {RUN} --beam 2 --n-best 2 --self-attention --json abc",
    f"show {RUN} abc --attention decoder --layer 1 --head 1 --out map.png",
    f"explain {RUN} abc --layer 1 --head 1",
    f"trace {RUN} abc --json",
    f"align {RUN} --split test --limit 3 --sentence 1 --json",
    f"gradients {RUN} --split test --limit 3 --from-end --untrained --json",
    f"faithful {RUN} ab --split test --limit 2 --json",
    f"train {EXPERIMENT} --set training.epochs=1 --set model.decoder.size=12 --out run",
    f"compare {EXPERIMENT} --vary model.attention.kind=none,dot --test beam=1,2 --set training.epochs=1 --seeds 2 "
    "--baseline model.attention.kind=none --metric exact_match --method bootstrap --jobs 1 --runs runs --report",
    "study prompt-placement --seeds 1 --set training.epochs=1 --method bootstrap --jobs 1 --report",
    "study list",
    "recipes",
    "data check --source ../input/source.txt --target ../input/target.txt --test-source ../input/source.txt "
    "--test-target ../input/target.txt --json",
    "data get multi30k --from ../input",
    "clean ../input ../input/run",
    "lab",
    "lab qkv --states 1,2;3,4 --query-weights 1,0;0,1 --key-weights 1,0;0,1 --value-weights 1,0;0,1 --scaled --hard "
    "--json",
    "lab softmax --scores 1,2;3,4 --json",
    "lab context --weights 0.5,0.5 --values 1,2;3,4 --json",
    "lab bleu --hypothesis a --reference b --max-ngram-order 3 --floor 0.1 --json",
    "lab encoder --cell gru --words a;b --embeddings 1,2,3 --bias 0,0,0,0,0,0 --json",
    "lab decoder --prefix Le --states 1,2;3,4 --output-bias 1,2,3,4,5 --json",
    "lab teacher-forcing --target chat --embeddings 1,2;3,4;5,6;7,8;9,1 --json",
    "lab set --states 1,2;3,4;5,6 --permutation 2,0,1 --seed 2 --json",
    "lab variance --variances 1,2;3,4 --runs 5 --json",
    "lab copy --scale 3 --keys 4 --size 6 --subset 2 --json",
    "lab noisy-average --scale 3 --noise 0.2 --orientation-noise 0.1 --query-from keys --keys 4 --draws 50 --seed 2 "
    "--json",
    "lab positions --size 8 --length 9 --json",
    "--version",
    "--help",
)
TEXTS = (
    "",
    " ",
    "-",
    "--",
    "-1",
    "0",
    "1",
    "2",
    "0.5",
    "-0.0",
    "1e999",
    "-1e999",
    "nan",
    "inf",
    "1e-320",
    "1000000000",
    "2147483648",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551616",
    "9" * 400,
    "9" * 5_000,
    "١٢٣",
    "1_000",
    "0x10",
    "1,2,3",
    "1,,2",
    ",",
    ";",
    "1;2,3",
    "1,2;3",
    ",".join(["1"] * 3_000),
    "1,2;" * 3_000,
    "=",
    "a=b=c",
    "==",
    "\x1b[31m\x1b]0;title\x07",
    "\u202eabc\u2066",
    "\x00",
    "a\nb",
    "a\tb",
    "\u2028",
    "\udcff\udcfe",
    "a" * 20_000,
    "ab " * 20_000,
    "é",
    "🙂",
    "é" * 3_000,
    "<U>",
    "<unknown>",
    "[",
    "{{7*7}}",
    "%s%n",
    "$(id)",
    "../input",
    ".",
    "..",
    "nothing-here",
    "nothing-here/x/y",
    "x.png",
    "x.html",
    "--json",
    "--help",
    "--set",
    "--beam",
    "--no-such-option",
    "--out",
    "none",
    "null",
    "true",
    "[1]",
    "{a: 1}",
    "*a",
    "&a [*a]",
)


def attack(campaign: Campaign) -> list[Tally]:
    """Try mutated command lines."""
    return pool.run_tries(campaign, __name__, range(campaign.tries(TRIES)), materials.prepare())


@cache
def setting_keys(given: Path) -> tuple[str, ...]:
    """All keys of an experiment, with dots."""
    import yaml

    tree = yaml.safe_load((given / "letters" / "config.yaml").read_text())
    return tuple(".".join(path) for path in hostile.places(tree) if path)


def build(number: int, random: Random, folder: Path, given: Path) -> Attempt:
    """The try with this number."""
    make_input(folder / INPUT, given)
    if number % 4 == 0:
        return build_setting(number // 4, random, given)
    command = random.choice(COMMANDS).split(" ")
    if number % 4 == 1:
        values = [at for at in range(2, len(command)) if command[at - 1].startswith("--") and command[at][:2] != "--"]
        if values:
            command[random.choice(values)] = random.choice(EXTREMES)
        return Attempt("arguments: extremes", safe(command), b"abc\n", **rules(command))
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        command = mutate(command, random)
    return Attempt("arguments: options and texts", safe(command), b"abc\n", **rules(command))


def make_input(folder: Path, given: Path) -> None:
    """The files that the commands name."""
    shutil.copytree(given / "letters", folder / "run")
    shutil.copy(given / "letters.yaml", folder)
    (folder / "source.txt").write_text("abc\nde\n")
    (folder / "target.txt").write_text("abc\ned\n")


def rules(command: list[str]) -> dict[str, object]:
    """What a command may do: documented exit codes, files it may write, when it is interrupted."""
    if "clean" in command:
        return {"may_change": ("input/run",)}
    if "train" in command:
        return {"may_change": ("input/run",), "interrupt_after": 1.5}
    if "compare" in command or "study" in command:
        return {"codes": (0, 1, 2), "interrupt_after": 1.5}
    if "lab" in command:  # a million draws
        return {"interrupt_after": 5.0}
    return {}


def build_setting(number: int, random: Random, given: Path) -> Attempt:
    """A hostile `--set`: each key with each hostile value, in a mixed order."""
    keys = setting_keys(given)
    index = number * 7_919 % (len(keys) * len(ALL_YAML_VALUES))
    key = keys[index % len(keys)]
    if random.random() < 0.1:
        key = random.choice(("", ".", "..", "a", f"{key}.x", key.upper(), f".{key}", "\x1b[31m", "\u202e", "x" * 9_999))
    value = ALL_YAML_VALUES[index // len(keys)] if random.random() < 0.6 else random.choice(EXTREMES)
    name = random.choice(("train", "train", "compare"))
    command = [name, EXPERIMENT, "--set", f"{key}={value}"]
    command += ["--out", "run"] if name == "train" else ["--vary", "training.clip=1,2", "--report"]
    return Attempt("arguments: --set", safe(command), **rules(command))


def mutate(command: list[str], random: Random) -> list[str]:
    """Replace, remove, repeat, swap or add an argument."""
    command = [*command]
    at = random.randrange(len(command))
    match random.randrange(10):
        case 0:
            del command[at]
        case 1:
            command.insert(at, command[random.randrange(len(command))])
        case 2:
            other = random.randrange(len(command))
            command[at], command[other] = command[other], command[at]
        case 3:
            command.insert(at, random.choice(TEXTS))
        case 4:
            command[at] = command[at][: random.randrange(len(command[at]) + 1)] + random.choice(TEXTS)
        case _:  # mostly the value of an option, or a text
            values = [place for place in range(1, len(command)) if not command[place].startswith("--")]
            if values:
                command[random.choice(values)] = random.choice(TEXTS)
    return command or ["--help"]


def safe(command: list[str]) -> list[str]:
    """The arguments as a process could receive them: without NUL. `serve` would not end."""
    return [re.sub("\0", "", argument) for argument in command if argument != "serve"]
