"""The pairs that each task has had since it was added: runs and studies are compared on them, so they never change."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from regard.tasks import SPLITS, TASKS, Pair

SIZES = {"train": 300, "validation": 20, "test": 30}


def digest(pairs: Iterable[Pair]) -> str:
    """A digest of sources, targets, alignments in Moses's format and further targets."""
    lines = (
        "\t".join(
            (
                pair.source,
                pair.target,
                " ".join(f"{source}-{target}" for source, target in sorted(pair.alignment)),
                *pair.other_targets,
            )
        )
        for pair in pairs
    )
    return hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()[:16]


def digests(settings: dict[str, Any]) -> dict[str, str]:
    kind = TASKS[settings["task"]]
    task = kind(kind.Section.model_validate(settings))
    return {split: digest(task.dataset.pairs(split)) for split in SPLITS}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"task": "case"}, ("976af3ac7336fb53", "1965fcb90efa3794", "69c4416bdb1b35b7")),
        ({"task": "case", "prompt": "last"}, ("caa6536240d3816d", "70da6b8266abea7a", "97bedec4589f189b")),
        ({"task": "spaces"}, ("23cd7a5b020172a1", "584840bd7c0e1d90", "dace9cc7b756c938")),
        ({"task": "spaces", "blank": False}, ("4dd2e491491f39df", "c6be418b3b1f1a99", "795868a97b000c62")),
        ({"task": "addition"}, ("fb4485454a8e3a80", "1fe6fd0e31e3fcb8", "16a3a2f633765f6f")),
        ({"task": "reverse"}, ("ed4467a77149bb1f", "2bd8ddc734a0c694", "c6088a2cc63c89d6")),
        ({"task": "copy"}, ("f9c539de440209b1", "e8cb2ee54296b01c", "ff307aa3f38942e1")),
        ({"task": "clauses"}, ("74d4b2b9cd45924e", "71ca6e9b1412391c", "39ada3730afd4666")),
        ({"task": "clauses", "max_clauses": 3}, ("2c898c998e0bdbf3", "9cfc58a82bf1cb20", "d613aba725583949")),
        ({"task": "lookahead"}, ("2213496ea5bda09c", "e8495976080cc037", "b63cbbd00ea8eae5")),
        (
            {"task": "lookahead", "ambiguous": 1, "max_distance": 9},
            ("5e770c7ab6682065", "8996794132ced007", "03bcf3ba791e94bf"),
        ),
        ({"task": "questions"}, ("d07ce89823771f96", "c336053c691d152a", "b8bfe3eb0cc5dfd3")),
        ({"task": "questions", "max_facts": 16}, ("f60da5ee837c79e2", "d116eb3a11f716c3", "30fc042c7c4b676a")),
    ],
    ids=str,
)
def test_generated_pairs(settings: dict[str, Any], expected: tuple[str, ...], monkeypatch: pytest.MonkeyPatch):
    assert digests(SIZES | settings) == dict(zip(SPLITS, expected, strict=True))
    monkeypatch.setattr("regard.tasks.generated.MAX_IN_MEMORY", SIZES["train"] - 1)
    assert digests(SIZES | settings) == dict(zip(SPLITS, expected, strict=True))


def test_pairs_from_a_dictionary(tmp_path: Path):
    lines = [f"{chr(97 + n // 26)}{chr(97 + n % 26)} AA{n % 3} B K{n % 5}\n" for n in range(400)]
    lines += [f"{line[:2]}(2) EH0 {line[3:]}" for line in lines[::7]]
    (tmp_path / "words.dict").write_text("".join(lines))
    assert digests({"task": "g2p", "file": str(tmp_path / "words.dict")}) == {
        "train": "7d2816e75021274f",
        "validation": "e54aba603602585d",
        "test": "127ad0e7ecb675a4",
    }
