"""Notations that are learned from training texts: characters, words or subwords, each side's own or joint."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from math import ceil
from random import Random
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from regard.config.base import Section, invalid_combination
from regard.tasks.base import Pair, Read, Tokenization
from regard.text import Characters, Tokenizer, Vocabulary, Words
from regard.text.subwords import Subwords

LEARN_FROM = 100_000  # pairs at most, from which subwords are learned: more cost memory, and change little
MOST_CHARACTERS = 30_000_000  # in all of them, about
SIDES = ("source", "target")


class SubwordRegularizationSection(Section):
    """Subword regularisation: every time a text is read, it is split in one of its `best` likeliest ways."""

    best: int = Field(1, ge=1, le=512)  # 1: always the same way
    alpha: float = Field(0.2, ge=0)  # p ∝ P(pieces)^alpha: 0 is any way, 1 is as the pieces' own model has it


class TextSection(Section):
    """What texts are made of. All of it is learned from the training split, and kept in the run."""

    unit: Literal["characters", "words", "subwords"] = "subwords"
    joint: bool = True  # one vocabulary for both sides
    size: int | None = Field(None, ge=1, le=1_000_000)  # of a vocabulary; null: 4,000 subwords, or all the others
    min_frequency: int = Field(1, ge=1)  # of words and characters; rarer ones are unknown
    lowercase: bool = False
    algorithm: Literal["unigram", "bpe"] = "unigram"  # of subwords
    coverage: float = Field(0.9995, ge=0.98, le=1)  # of subwords: rarer characters are unknown
    regularisation: SubwordRegularizationSection = SubwordRegularizationSection()

    @model_validator(mode="after")
    def _regularisation_needs_unigram(self) -> Self:
        if self.regularisation.best > 1 and (self.unit, self.algorithm) != ("subwords", "unigram"):
            raise invalid_combination(
                "regularisation.best",
                f"{self.regularisation.best} ways to split a text are known to unigram subwords only; "
                "set unit: subwords and algorithm: unigram, or best: 1",
            )
        return self


class LearnedTokenization(Tokenization):
    """Texts as characters, words or subwords; what was never seen is `<unknown>`."""

    is_open: ClassVar[bool] = True

    def __init__(self, settings: TextSection, source: Tokenizer, target: Tokenizer) -> None:
        self.settings = settings
        self.source, self.target = source, target

    @classmethod
    def learn(cls, settings: TextSection, pairs: Iterable[Pair]) -> LearnedTokenization:
        if settings.unit in TOKENIZERS:
            return cls(settings, TOKENIZERS[settings.unit], TOKENIZERS[settings.unit])
        if settings.joint:
            both = _learn_subwords(settings, pairs, SIDES)
            return cls(settings, both, both)
        return cls(settings, *(_learn_subwords(settings, pairs, (side,)) for side in SIDES))

    @classmethod
    def restored(cls, settings: TextSection, read: Read) -> LearnedTokenization:
        if settings.unit in TOKENIZERS:
            return cls(settings, TOKENIZERS[settings.unit], TOKENIZERS[settings.unit])
        models: dict[str, Subwords] = {name: read(name, Subwords) for name in _model_names(settings)}
        return cls(settings, *(models[name] for name in _model_names(settings)))

    def fits(self, source: Vocabulary, target: Vocabulary) -> bool:
        sides = ((self.source, source), (self.target, target))
        return all(
            vocabulary == Vocabulary.listed(side.pieces) for side, vocabulary in sides if isinstance(side, Subwords)
        )

    def files(self) -> dict[str, bytes]:
        names = _model_names(self.settings)
        sides = zip(names, (self.source, self.target), strict=True)
        return {name: side.model for name, side in sides if isinstance(side, Subwords)}

    def source_tokens(self, text: str) -> list[str]:
        return self.source.split(_cased(text.strip(), self.settings))  # as training reads it from a file

    def target_tokens(self, pair: Pair) -> list[str]:
        return self.prefix_tokens(pair.target.strip())

    def prefix_tokens(self, text: str) -> list[str]:
        return self.target.split(_cased(text, self.settings))

    def target_text(self, tokens: Sequence[str]) -> str:
        return self.target.join(tokens)

    def source_starts(self, tokens: Sequence[str]) -> list[bool]:
        return self.source.starts(tokens)

    def target_starts(self, tokens: Sequence[str]) -> list[bool]:
        return self.target.starts(tokens)

    def vocabularies(self, sources: Counter[str], targets: Counter[str]) -> tuple[Vocabulary, Vocabulary]:
        if self.settings.joint:
            both = self._vocabulary(self.source, sources + targets)
            return both, both
        return self._vocabulary(self.source, sources), self._vocabulary(self.target, targets)

    def _vocabulary(self, side: Tokenizer, counts: Counter[str]) -> Vocabulary:
        if isinstance(side, Subwords):  # all pieces: a text may yet be split in ways that were not counted
            return Vocabulary.listed(side.pieces)
        return Vocabulary.counted(counts, min_frequency=self.settings.min_frequency, size=self.settings.size)

    @property
    def varies(self) -> bool:
        return self.settings.regularisation.best > 1

    def resplit(self, source: Sequence[str], target: Sequence[str], random: Random) -> tuple[list[str], list[str]]:
        return self._resplit(self.source, source, random), self._resplit(self.target, target, random)

    def _resplit(self, side: Tokenizer, tokens: Sequence[str], random: Random) -> list[str]:
        way = self.settings.regularisation
        if way.best == 1 or not isinstance(side, Subwords):
            return list(tokens)
        return side.resplit(tokens, random, alpha=way.alpha, best=way.best)


def _cased(text: str, settings: TextSection) -> str:
    return text.lower() if settings.lowercase else text


def _model_names(settings: TextSection) -> tuple[str, str]:
    return ("subwords.model", "subwords.model") if settings.joint else ("source.model", "target.model")


def _learn_subwords(settings: TextSection, pairs: Iterable[Pair], sides: Sequence[str]) -> Subwords:
    return Subwords.learn(
        _some_texts(settings, pairs, sides),
        settings.size or 4_000,
        algorithm=settings.algorithm,
        coverage=settings.coverage,
    )


def _some_texts(settings: TextSection, pairs: Iterable[Pair], sides: Sequence[str]) -> Iterator[str]:
    """The texts of all pairs, or of so many, evenly spread, as is enough."""
    count = characters = 0
    for pair in pairs:
        count += 1
        characters += sum(len(getattr(pair, side)) for side in sides)
    step = max(1, ceil(count / LEARN_FROM), ceil(characters / MOST_CHARACTERS))
    for pair in islice(pairs, 0, None, step):
        yield from (_cased(getattr(pair, side), settings) for side in sides)


# Those that have nothing to learn.
TOKENIZERS: dict[str, Tokenizer] = {"characters": Characters(), "words": Words()}
