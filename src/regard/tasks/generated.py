"""Tasks that make their own texts: settings, and a way to make one pair."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from random import Random

from pydantic import Field

from regard.errors import UserError
from regard.tasks.base import SPLITS, Pair, Split, Task

# How often in a row a task may repeat itself before we conclude that it has nothing new to say.
PATIENCE = 1000


class Generated(Task):
    """The settings that all generated tasks share; each adds its own and says how to make one pair."""

    train: int = Field(20_000, ge=1)
    validation: int = Field(500, ge=1)
    test: int = Field(1_000, ge=1)
    seed: int = Field(1, ge=0)

    @abstractmethod
    def generate(self, random: Random) -> Pair:
        """One pair, drawn with nothing but `random`."""

    def splits(self) -> dict[Split, list[Pair]]:
        """All pairs. No source stands twice, be it in one split or in two."""
        return dict(self._drawn())

    def pairs(self, split: Split) -> list[Pair]:
        return next(pairs for drawn, pairs in self._drawn() if drawn == split)

    def _drawn(self) -> Iterator[tuple[Split, list[Pair]]]:
        """One split after the other; whoever needs the test set alone need not wait for the rest.

        The test set is drawn first and each split has its own random numbers, so a larger training set leaves
        the sentences on which results are compared as they were.
        """
        seen: set[str] = set()
        for split in reversed(SPLITS):
            yield split, self._draw(split, seen)

    def _draw(self, split: Split, seen: set[str]) -> list[Pair]:
        random = Random(f"{self.seed}/{split}")
        pairs: list[Pair] = []
        wanted: int = getattr(self, split)
        failures = 0
        while len(pairs) < wanted:
            pair = self.generate(random)
            if pair.source not in seen:
                seen.add(pair.source)
                pairs.append(pair)
                failures = 0
            elif (failures := failures + 1) == PATIENCE:
                raise UserError(
                    f"data.{split}: {wanted} pairs were asked for, but this task ran out of new ones after "
                    f"{len(seen)} in all splits; ask for fewer, or make the task larger"
                )
        return pairs
