"""Hostile text files: damaged bytes, encodings, line ends, compression, columns, and gold alignments."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path
from random import Random

from torture import hostile, materials, pool, special_files
from torture.judging import INPUT, VICTIM, Attempt
from torture.outcomes import Campaign, Tally

TRIES = 1_600
PRELOAD = (
    "regard.cli.translate",
    "regard.corpora.check",
    "regard.laboratory.alignment_report",
    "regard.corpora.check_text",
)
LETTERS = "abc\nde\nedcba\naaaa\nb\n" * 4
ALIGNMENT_TOKENS = ("0-0", "0p0")
HOSTILE_TOKENS = (
    "-1-0",
    "0--1",
    "0",
    "-",
    "a-b",
    "0-0-0",
    "9" * 400 + "-0",
    "0-99999999999999999999",
    "1e3-0",
    "0.5-1",
    "٣-٣",
    "0?0",
    "0-0\x00",
    "\x1b[31m0-0",
    "\u202e0-0",
    "x" * 50_000,
    "0x1-0",
    "+1-0",
    "1_0-0",
)
BOMB = gzip.compress(gzip.compress(b"\n" * (1 << 22), 9, mtime=0), 9, mtime=0)


def attack(campaign: Campaign) -> list[Tally]:
    """Try hostile texts."""
    return pool.run_tries(campaign, __name__, range(campaign.tries(TRIES)), materials.prepare())


def build(number: int, random: Random, folder: Path, given: Path) -> Attempt:
    """The try with this number."""
    here = folder / INPUT
    kinds = ("check", "check", "check", "table", "compressed", "standard input", "score", "alignments", "special files")
    kind = kinds[number % len(kinds)]
    if kind in ("standard input", "score", "alignments"):
        shutil.copytree(given / "letters", here / "run")
    builders = {
        "check": build_check,
        "table": build_table,
        "compressed": build_compressed,
        "standard input": build_input,
        "score": build_score,
        "alignments": build_alignments,
        "special files": build_special,
    }
    arguments, stdin = builders[kind](number // len(kinds), random, here, given)
    return Attempt(f"texts: {kind}", arguments, stdin)


Built = tuple[list[str], bytes]


def hostile_text(content: bytes, random: Random) -> bytes:
    """A text with damaged bytes, other lines or another encoding."""
    draw = random.random()
    if draw < 0.4:
        return hostile.mutate_bytes(content, random)
    if draw < 0.7:
        return hostile.recode(content, random)
    return hostile.mutate_lines(content.decode(), random).encode(errors="surrogatepass")


def build_check(number: int, random: Random, here: Path, given: Path) -> Built:
    """`regard data check` on two files, one or both of them mutated."""
    for side in ("de", "en"):
        content = (given / "corpus" / f"train.{side}").read_bytes()
        (here / f"x.{side}").write_bytes(hostile_text(content, random) if random.random() < 0.7 else content)
    command = ["data", "check", "--source", "../input/x.de", "--target", "../input/x.en"]
    if random.random() < 0.3:
        command += ["--test-source", "../input/x.de", "--test-target", "../input/x.en"]
    return [*command, *random.choice(([], ["--json"]))], b""


def build_table(number: int, random: Random, here: Path, given: Path) -> Built:
    """`regard data check` on a file with columns."""
    sides = [(given / "corpus" / f"test.{side}").read_text().splitlines() for side in ("de", "en")]
    rows = ["\t".join(row) for row in zip(*sides, strict=True)]
    at = random.randrange(len(rows))
    rows[at] = random.choice(
        ("", "\t", "a", "a\tb\tc", "\t\t\t", "a\t", "\tb", "a\x00\tb", '"a\tb', "a\tb" * 9_000, "\x1b\tb")
    )
    content = "\n".join(rows).encode() + b"\n"
    (here / "x.tsv").write_bytes(hostile_text(content, random) if random.random() < 0.5 else content)
    return ["data", "check", "--source", "../input/x.tsv"], b""


def build_compressed(number: int, random: Random, here: Path, given: Path) -> Built:
    """`regard data check` on compressed files: damaged, truncated, repeated, bombs."""
    content = (given / "corpus" / "train.de").read_bytes()
    packed = gzip.compress(content, mtime=0)
    bomb = random.choice(
        (BOMB, gzip.compress(b"\n" * 1_000_000, mtime=0), gzip.compress(b"a" * 50_000_000, 1, mtime=0))
    )
    hostile_files = (
        lambda: hostile.mutate_bytes(packed, random),
        lambda: packed[: random.randrange(len(packed))],
        lambda: packed + random.randbytes(50),
        lambda: packed * 3,
        lambda: content,
        lambda: b"",
        lambda: gzip.compress(hostile_text(content, random), mtime=0),
        lambda: bomb if number % 4 == 0 else packed[:-4] + b"\xff\xff\xff\xff",
    )
    (here / "x.de.gz").write_bytes(hostile_files[number % len(hostile_files)]())
    shutil.copy(given / "corpus" / "train.en", here / "x.en")
    return ["data", "check", "--source", "../input/x.de.gz", "--target", "../input/x.en"], b""


def build_input(number: int, random: Random, here: Path, given: Path) -> Built:
    """`regard translate` on standard input."""
    text = hostile_text(LETTERS.encode(), random)
    options = random.choice(([], ["--json"], ["--beam", "2"], ["--alignments", "moses"], ["--sample", "--n-best", "2"]))
    return ["translate", "../input/run", *options], text[:20_000]


def build_score(number: int, random: Random, here: Path, given: Path) -> Built:
    """`regard score` on two files."""
    for name in ("source", "target"):
        content = LETTERS.encode()
        (here / name).write_bytes((hostile_text(content, random) if random.random() < 0.6 else content)[:20_000])
    return ["score", "../input/run", "--source", "../input/source", "--target", "../input/target"], b""


def build_alignments(number: int, random: Random, here: Path, given: Path) -> Built:
    """`regard align --gold` on hostile alignments of the 12 sentences of the test set."""
    lines = [" ".join(random.choices(ALIGNMENT_TOKENS, k=2)) for _ in range(12)]
    at = random.randrange(12)
    lines[at] = " ".join([lines[at], HOSTILE_TOKENS[number % len(HOSTILE_TOKENS)]][random.randrange(2) :])
    content = "\n".join(lines).encode() + b"\n"
    if random.random() < 0.4:
        content = hostile_text(content, random)
    (here / "gold").write_bytes(content)
    return ["align", "../input/run", "--gold", "../input/gold", *random.choice(([], ["--limit", "3"]))], b""


def build_special(number: int, random: Random, here: Path, given: Path) -> Built:
    """A file that is none, for every command that reads texts."""
    file = here / random.choice(("x.de", "x.tsv", "x.de.gz", "\x1b[31mx.de", "\u202ex.de"))
    special_files.make(special_files.KINDS[number % len(special_files.KINDS)], file, here.parent / VICTIM)
    shutil.copy(given / "corpus" / "train.en", here / "x.en")
    if random.random() < 0.5:
        return ["data", "check", "--source", str(file), "--target", "../input/x.en"], b"eins\n"
    shutil.copytree(given / "letters", here / "run")
    if random.random() < 0.5:
        return ["align", "../input/run", "--gold", str(file)], b"0-0\n"
    return ["score", "../input/run", "--source", str(file), "--target", str(file)], b"abc\n"
