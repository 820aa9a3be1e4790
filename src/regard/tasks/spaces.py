"""The spaces task: write a sentence again without its spaces."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Literal

from regard.tasks.base import Pair
from regard.tasks.random_text import PRINTABLE, TextTask, draw_sentence, split_characters

BLANK = "<blank>"


class Spaces(TextTask):
    """`I  am   a student` → `Iamastudent`.

    Shows what it takes to leave something out. A step-aligned decoder looks at one source character a step
    and has to say something about each: it cannot skip. A blank symbol lets it: with `blank`, a space becomes
    `<blank>`, which is removed from the finished text. Without, only a decoder that chooses where to look can
    do the task.
    """

    task: Literal["spaces"] = "spaces"
    blank: bool = True

    def generate(self, random: Random) -> Pair:
        length = random.randint(self.min_length, self.max_length)
        source = draw_sentence(random, length, wide_gaps=0.4)
        kept = [position for position, character in enumerate(source) if self.blank or character != " "]
        alignment = frozenset((position, step) for step, position in enumerate(kept))
        return Pair(source, source.replace(" ", ""), alignment)

    def source_tokens(self, text: str) -> list[str]:
        return split_characters(text, PRINTABLE)

    def target_tokens(self, pair: Pair) -> list[str]:
        """In the right answer a blank stands for each space; any other answer has no blanks."""
        if self.blank and pair.target == pair.source.replace(" ", ""):
            return [BLANK if character == " " else character for character in pair.source]
        return list(pair.target)

    def target_text(self, tokens: Sequence[str]) -> str:
        return "".join(token for token in tokens if token != BLANK)
