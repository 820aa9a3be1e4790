"""Trains with a mechanism, a task and a metric of its own, loads the run, and includes it in a study.

    python examples/own_parts.py FOLDER

Regard finds the classes of this file by its path, in this process and in others: the runs of the study, or
`regard serve FOLDER/runs/doubling --trust-code` afterwards.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random

from pydantic import Field
from torch import Tensor, nn

import regard
from regard.config.kinds import AttentionSection
from regard.evaluation import Metric, SentenceStatistics, mean_statistics
from regard.tasks import GeneratedDataset, GeneratedSection, GeneratedTask, Pair, Tokenization


class CosineSection(AttentionSection):
    """Settings of `CosineAttention`."""

    sharpness: float = Field(10.0, gt=0)


class CosineAttention(regard.nn.Attention):
    """e_ti = sharpness · cos(W s_t, h_i)."""

    Section = CosineSection

    def __init__(self, query_size: int, memory_size: int, *, sharpness: float = 10.0) -> None:
        super().__init__(query_size, memory_size)
        self.sharpness = sharpness
        self.query_layer = nn.Linear(query_size, memory_size, bias=False)  # W

    def score(self, query: Tensor, keys: Tensor) -> Tensor:
        query = nn.functional.normalize(self.query_layer(query), dim=-1)
        return self.sharpness * query @ nn.functional.normalize(keys, dim=-1).transpose(-1, -2)


def count_doubled(outputs: Sequence[str], references: Sequence[Sequence[str]]) -> SentenceStatistics:
    """For each output, the share of letters at even places that are repeated at the next."""
    pairs = [list(zip(output[::2], output[1::2], strict=False)) for output in outputs]
    return mean_statistics([sum(a == b for a, b in each) / max(1, len(each)) for each in pairs])


doubled = Metric("doubled letters", "{:.1%}", statistics=count_doubled)


class DoublingSection(GeneratedSection):
    """Settings of `DoublingTask`."""

    alphabet: str = "abcdef"
    max_length: int = Field(5, ge=1)


class DoublingDataset(GeneratedDataset[DoublingSection]):
    """Random letters, and each of them twice."""

    def generate(self, random: Random) -> Pair:
        lengths = range(1, self.section.max_length + 1)
        source = "".join(random.choices(self.section.alphabet, k=random.choices(lengths, weights=lengths)[0]))
        alignment = frozenset((place // 2, place) for place in range(2 * len(source)))
        return Pair(source, "".join(2 * letter for letter in source), alignment)


class DoublingTask(GeneratedTask[DoublingSection]):
    """`abc` → `aabbcc`."""

    Section = DoublingSection
    metrics = (doubled, "exact_match")

    @property
    def dataset(self) -> DoublingDataset:
        return DoublingDataset(self.section)

    @property
    def tokenization(self) -> Tokenization:
        return Tokenization()  # every character is a token


SETTINGS = {
    "data": {"task": DoublingTask, "train": 1500, "validation": 100, "test": 100},
    "model": {
        "attention": {"kind": CosineAttention, "sharpness": 8.0},
        "encoder": {"size": 24, "embedding": 16, "positions": {"kind": "sine", "width": 8}},
        "decoder": {"size": 48, "embedding": 16, "positions": {"kind": "sine", "width": 8}},
    },
    "training": {"epochs": 6, "batch_tokens": 500, "rate": {"peak": 0.02}},
}


def main(folder: Path) -> None:
    regard.testing.check_attention(CosineAttention)
    regard.testing.check_task(DoublingTask)
    run = regard.train(SETTINGS, out=folder / "runs" / "doubling", progress=False)
    translator = regard.load(run)
    (translation,) = translator.translate(["cafe"])
    print(f"cafe → {translation.text}, log-probability {translation.score!r}")
    print(regard.evaluate(translator, progress=False))
    study = regard.compare(
        SETTINGS,
        vary={"model.attention.kind": ["none", CosineAttention]},
        seeds=1,
        metrics=["exact_match", f"{Path(__file__).resolve()}:doubled"],
        out=folder / "studies" / "doubling",
        progress=False,
    )
    print(study.table("runs"))


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
