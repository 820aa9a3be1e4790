"""The spaces task: remove the spaces of a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from regard.tasks.generated import GeneratedDataset, GeneratedTask
from regard.tasks.random_text import PRINTABLE, RandomTextSection, known_characters, random_sentence
from regard.text import Pair, Tokenization

BLANK = "<blank>"


class SpacesSection(RandomTextSection):
    """Settings of the spaces task.

    Attributes:
        task: Name of the task.
        blank: Whether the decoder generates `<blank>` for each space.
    """

    task: str = "spaces"
    blank: bool = True


class SpacesDataset(GeneratedDataset[SpacesSection]):
    """Random sentences, and the same sentences without spaces.

    Args:
        section: The settings of the task.
    """

    def generate(self, random: Random) -> Pair:
        length = random.randint(self.section.min_length, self.section.max_length)
        source = random_sentence(random, length, wide_gaps=0.4)
        kept = [position for position, character in enumerate(source) if self.section.blank or character != " "]
        alignment = frozenset((position, step) for step, position in enumerate(kept))
        return Pair(source, source.replace(" ", ""), alignment)


@dataclass(frozen=True)
class SpacesTokenization(Tokenization):
    """Each character is a token.

    Args:
        blank: Whether targets have a `<blank>` for each space of the source.
    """

    blank: bool

    def source_tokens(self, text: str) -> list[str]:
        return known_characters(text, PRINTABLE)

    def target_tokens(self, pair: Pair) -> list[str]:
        """The target's characters; the correct target has blanks, any other has none."""
        if self.blank and pair.target == pair.source.replace(" ", ""):
            return [BLANK if character == " " else character for character in pair.source]
        return list(pair.target)

    def target_text(self, tokens: Sequence[str]) -> str:
        return "".join(token for token in tokens if token != BLANK)


class SpacesTask(GeneratedTask[SpacesSection]):
    """`I  am   a student` → `Iamastudent`.

    Shows what it takes to leave something out. A step-aligned decoder attends to one source character per step and
    has to generate a token for each: it cannot skip. A blank symbol, which is removed from the finished text, makes
    this possible. Without it, only a decoder that selects where to attend can learn the task.

    Args:
        section: The settings of the task.
    """

    Section = SpacesSection

    @property
    def dataset(self) -> SpacesDataset:
        return SpacesDataset(self.section)

    @property
    def tokenization(self) -> SpacesTokenization:
        return SpacesTokenization(self.section.blank)
