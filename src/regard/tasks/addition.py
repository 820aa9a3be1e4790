"""The addition task: the sum of two numbers, digit by digit."""

from __future__ import annotations

import re
from random import Random
from typing import Literal

from pydantic import Field

from regard.errors import UserError
from regard.tasks.base import Pair
from regard.tasks.generated import Generated

NUMBER = "(0|[1-9][0-9]*)"
SUM = re.compile(rf"{NUMBER}\+{NUMBER}")


class Addition(Generated):
    """`27+58` → `85`, numbers of up to `digits` digits.

    Shows characters in, characters out, with carries: the first digit that is written may depend on the last
    one that was read. Which digits belong together is a matter of opinion, so no alignment is given.

    No sum of the test set is among those trained on, but `58+27` may be when `27+58` is tested.
    """

    task: Literal["addition"] = "addition"
    digits: int = Field(default=3, ge=1, le=12)

    def generate(self, random: Random) -> Pair:
        first, second = self._number(random), self._number(random)
        return Pair(f"{first}+{second}", str(first + second))

    def source_tokens(self, text: str) -> list[str]:
        if not SUM.fullmatch(text):
            raise UserError(
                f"the addition task takes two numbers with a '+' between them, such as 27+58, "
                f"without spaces, signs or leading zeros; this is {text!r}"
            )
        return list(text)

    def _number(self, random: Random) -> int:
        # If all numbers were equally likely, hardly one would be short. If all lengths were, the test set would
        # use up the few short sums that exist. So a length is drawn in proportion to itself.
        lengths = range(1, self.digits + 1)
        length = random.choices(lengths, weights=lengths)[0]
        return random.randrange(10 ** (length - 1) if length > 1 else 0, 10**length)
