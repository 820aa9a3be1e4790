"""The case task: a prompt says whether a sentence is to be written in upper or in lower case."""

from __future__ import annotations

from random import Random
from typing import Literal

from regard.errors import UserError
from regard.tasks.base import Pair
from regard.tasks.random_text import PRINTABLE, TextTask, draw_sentence, split_characters
from regard.text import BEGIN

PROMPTS = {"<U>": str.upper, "<L>": str.lower}


class Case(TextTask):
    """`<U> I am a student` → `I AM A STUDENT`, and `<L> I am a student` → `i am a student`.

    Shows the bottleneck, and attention going round it: without attention, one vector has to carry every
    character of the sentence.

    The prompt is one token, all else is characters. `prompt` says who reads it: the encoder `first` of all or
    `last` of all, or the `decoder`, as its first input. What is typed is the same in all three.
    """

    task: Literal["case"] = "case"
    prompt: Literal["first", "last", "decoder"] = "first"

    def generate(self, random: Random) -> Pair:
        prompt = random.choice(tuple(PROMPTS))
        length = random.randint(self.min_length, self.max_length)
        sentence = draw_sentence(random, length, wide_gaps=0.1)
        shift = 1 if self.prompt == "first" else 0  # the prompt stands before the characters
        alignment = frozenset((position + shift, position) for position in range(length))
        return Pair(f"{prompt} {sentence}", PROMPTS[prompt](sentence), alignment)

    def source_tokens(self, text: str) -> list[str]:
        prompt, sentence = _split_prompt(text)
        characters = split_characters(sentence, PRINTABLE)
        if self.prompt == "first":
            return [prompt, *characters]
        if self.prompt == "last":
            return [*characters, prompt]
        return characters

    def start_token(self, text: str) -> str:
        return self.prompt_token(text) if self.prompt == "decoder" else BEGIN

    def prompt_token(self, text: str) -> str:
        return _split_prompt(text)[0]


def _split_prompt(text: str) -> tuple[str, str]:
    """The prompt and the sentence; one space between them belongs to neither."""
    for prompt in PROMPTS:
        if text.startswith(f"{prompt} "):
            return prompt, text[len(prompt) + 1 :]
    begin = "is empty" if not text else f"begins with '{text[:12]}{'…' if len(text) > 12 else ''}'"
    raise UserError(f"a sentence for the case task begins with '<U> ' or '<L> '; this one {begin}")
