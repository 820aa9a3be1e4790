"""The addition task: the sum of two numbers, digit by digit."""

from __future__ import annotations

import re
from dataclasses import dataclass
from random import Random

from pydantic import Field

from regard.errors import UserError
from regard.tasks.generated import GeneratedDataset, GeneratedSection, GeneratedTask
from regard.text import Pair, Tokenization

NUMBER = "(0|[1-9][0-9]*)"
SUM = re.compile(rf"{NUMBER}\+{NUMBER}")


class AdditionSection(GeneratedSection):
    """Settings of the addition task.

    Attributes:
        task: Name of the task.
        digits: Largest number of digits of a number.
    """

    task: str = "addition"
    digits: int = Field(default=3, ge=1, le=12)


class AdditionDataset(GeneratedDataset[AdditionSection]):
    """Sums of two numbers. No sum of the test set is in the training set, but `58+27` may be if `27+58` is tested.

    Args:
        section: The settings of the task.
    """

    def generate(self, random: Random) -> Pair:
        first, second = self._number(random), self._number(random)
        return Pair(f"{first}+{second}", str(first + second))

    def _number(self, random: Random) -> int:
        # If all numbers were equally likely, hardly any would be short. If all lengths were, the test set would use up
        # the few short sums that exist. So a length is drawn with a probability proportional to itself.
        lengths = range(1, self.section.digits + 1)
        length = random.choices(lengths, weights=lengths)[0]
        return random.randrange(10 ** (length - 1) if length > 1 else 0, 10**length)


@dataclass(frozen=True)
class AdditionTokenization(Tokenization):
    """Each digit is a token."""

    def source_tokens(self, text: str) -> list[str]:
        if not SUM.fullmatch(text):
            raise UserError(
                f"the addition task takes two numbers with a '+' between them, such as 27+58, "
                f"without spaces, signs or leading zeros; this is {text!r}"
            )
        return list(text)


class AdditionTask(GeneratedTask[AdditionSection]):
    """`27+58` → `85`.

    Shows characters in, characters out, with carries: the first output digit may depend on the last input digit.
    Which digits correspond is a matter of definition, so no alignment is given.

    Args:
        section: The settings of the task.
    """

    Section = AdditionSection

    @property
    def dataset(self) -> AdditionDataset:
        return AdditionDataset(self.section)

    @property
    def tokenization(self) -> AdditionTokenization:
        return AdditionTokenization()
