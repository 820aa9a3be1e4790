"""The reverse task: say what was read, the last character first."""

from __future__ import annotations

from random import Random
from typing import Literal

from regard.tasks.base import Pair
from regard.tasks.copy import StringTask


class Reverse(StringTask):
    """`abc` → `cba`.

    Shows an attention map with a known right answer, the other diagonal. Where it begins depends on the
    length of the string, so counting positions from the left is not enough.
    """

    task: Literal["reverse"] = "reverse"

    def generate(self, random: Random) -> Pair:
        text = self.draw_string(random)
        last = len(text) - 1
        return Pair(text, text[::-1], frozenset((last - position, position) for position in range(len(text))))
