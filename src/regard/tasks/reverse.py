"""The reverse task: write the source backwards."""

from __future__ import annotations

from random import Random

from regard.tasks.copy import StringSection, StringTokenization, random_string
from regard.tasks.generated import GeneratedDataset, GeneratedTask
from regard.text import Pair


class ReverseSection(StringSection):
    """Settings of the reverse task.

    Attributes:
        task: Name of the task.
    """

    task: str = "reverse"


class ReverseDataset(GeneratedDataset[ReverseSection]):
    """Random strings, and the same strings backwards.

    Args:
        section: The settings of the task.
    """

    def generate(self, random: Random) -> Pair:
        text = random_string(random, self.section)
        last = len(text) - 1
        return Pair(text, text[::-1], frozenset((last - position, position) for position in range(len(text))))


class ReverseTask(GeneratedTask[ReverseSection]):
    """`abc` → `cba`.

    Shows an attention map with a known correct answer, the antidiagonal. Where it begins depends on the length of the
    string, so counting positions from the left is not enough.

    Args:
        section: The settings of the task.
    """

    Section = ReverseSection

    @property
    def dataset(self) -> ReverseDataset:
        return ReverseDataset(self.section)

    @property
    def tokenization(self) -> StringTokenization:
        return StringTokenization(self.section.alphabet)
