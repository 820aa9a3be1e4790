"""The pairs of files, with the tag and the weight of each file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.corpora.limits import NO_LIMITS, PairLimits
from regard.corpora.parallel_text import read_pairs
from regard.text import Pair


@dataclass(frozen=True)
class FilePairs(Iterable[Pair]):
    """The pairs of a corpus. Each iteration reads its files again.

    Args:
        source: The file of the sources, or of both sides, or a pattern of shards, or a folder.
        target: The file of the targets, or a pattern; None if `source` has both.
        columns: The names of source and target, in files that name their columns.
        tag: Is put in front of each source.
        weight: The weight of each pair.
        skip: Whether to leave out invalid pairs instead of raising a `UserError`.
        limits: Pairs that exceed these are left out.
    """

    source: Path
    target: Path | None
    columns: tuple[str, str] | None = None
    tag: str | None = None
    weight: float = 1.0
    skip: bool = False
    limits: PairLimits = NO_LIMITS

    def __iter__(self) -> Iterator[Pair]:
        return self.read(Counter())

    def read(self, left_out: Counter[str]) -> Iterator[Pair]:
        """Iterate over the pairs.

        Args:
            left_out: Counts pairs that are left out, by the reason.
        """
        texts = read_pairs(
            self.source, self.target, self.columns, skip=self.skip, limits=self.limits, left_out=left_out
        )
        for source, target in texts:
            yield Pair(f"{self.tag} {source}" if self.tag else source, target, weight=self.weight)


class JoinedPairs(Iterable[Pair]):
    """The pairs of several corpora, one after the other.

    Args:
        corpora: The corpora.

    Attributes:
        left_out: How many pairs the last iteration has left out, by the reason.
    """

    def __init__(self, corpora: Sequence[FilePairs]) -> None:
        self.corpora = corpora
        self.left_out: Counter[str] = Counter()

    def __iter__(self) -> Iterator[Pair]:
        left_out: Counter[str] = Counter()  # of this iteration: others may run at the same time
        self.left_out = left_out
        for corpus in self.corpora:
            yield from corpus.read(left_out)
