"""The case task: a prompt selects whether to write a sentence in upper or in lower case."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Literal

from regard.errors import UserError
from regard.tasks.generated import GeneratedDataset, GeneratedTask
from regard.tasks.random_text import PRINTABLE, RandomTextSection, known_characters, random_sentence
from regard.text import BEGIN, Pair, Tokenization

PROMPTS = {"<U>": str.upper, "<L>": str.lower}
PromptPosition = Literal["first", "last", "decoder"]


class CaseSection(RandomTextSection):
    """Settings of the case task.

    Attributes:
        task: Name of the task.
        prompt: Where the model reads the prompt: as the `first` or the `last` token of the encoder's input, or as the
            first input of the `decoder`. The text that a user types is the same in all three cases.
    """

    task: str = "case"
    prompt: PromptPosition = "first"


class CaseDataset(GeneratedDataset[CaseSection]):
    """Random sentences with a random prompt.

    Args:
        section: The settings of the task.
    """

    def generate(self, random: Random) -> Pair:
        prompt = random.choice(tuple(PROMPTS))
        length = random.randint(self.section.min_length, self.section.max_length)
        sentence = random_sentence(random, length, wide_gaps=0.1)
        shift = 1 if self.section.prompt == "first" else 0  # the prompt comes before the characters
        alignment = frozenset((position + shift, position) for position in range(length))
        return Pair(f"{prompt} {sentence}", PROMPTS[prompt](sentence), alignment)


@dataclass(frozen=True)
class CaseTokenization(Tokenization):
    """The prompt is one token, and so is each character.

    Args:
        prompt: Where the model reads the prompt.
    """

    prompt: PromptPosition

    def source_tokens(self, text: str) -> list[str]:
        prompt, sentence = _split_prompt(text)
        characters = known_characters(sentence, PRINTABLE)
        if self.prompt == "first":
            return [prompt, *characters]
        if self.prompt == "last":
            return [*characters, prompt]
        return characters

    def start_token(self, text: str) -> str:
        return self.prompt_token(text) if self.prompt == "decoder" else BEGIN

    def prompt_token(self, text: str) -> str:
        return _split_prompt(text)[0]


class CaseTask(GeneratedTask[CaseSection]):
    """`<U> I am a student` → `I AM A STUDENT`, and `<L> I am a student` → `i am a student`.

    Shows the bottleneck, and how attention bypasses it: without attention, one vector has to carry every character
    of the sentence.

    Args:
        section: The settings of the task.
    """

    Section = CaseSection

    @property
    def dataset(self) -> CaseDataset:
        return CaseDataset(self.section)

    @property
    def tokenization(self) -> CaseTokenization:
        return CaseTokenization(self.section.prompt)


def _split_prompt(text: str) -> tuple[str, str]:
    """The prompt and the sentence, without the space between them."""
    for prompt in PROMPTS:
        if text.startswith(f"{prompt} "):
            return prompt, text[len(prompt) + 1 :]
    begin = "is empty" if not text else f"begins with '{text[:12]}{'…' if len(text) > 12 else ''}'"
    raise UserError(f"a sentence for the case task begins with '<U> ' or '<L> '; this one {begin}")
