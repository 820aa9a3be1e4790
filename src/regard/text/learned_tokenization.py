"""Tokenizations learned from the training split: characters, words or subwords, joint or separate for each side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from math import ceil
from random import Random
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from regard.config.base import Section, invalid_combination
from regard.text.pairs import Pair
from regard.text.subwords import SubwordTokenizer
from regard.text.tokenization import ReadFile, Tokenization
from regard.text.tokenizers import CharacterTokenizer, Tokenizer, WordTokenizer
from regard.text.vocabulary import Vocabulary

MAX_PAIRS = 100_000  # from which subwords are learned: more cost memory and change little
MAX_CHARACTERS = 30_000_000  # in all of these pairs, approximately
DEFAULT_SIZE = 4_000  # subwords
SIDES = ("source", "target")


class SubwordRegularizationSection(Section):
    """Subword regularization: in training, a text is segmented at random in one of its `best` most likely ways.

    Attributes:
        best: Number of segmentations; 1 means always the most likely one.
        alpha: p ∝ P(segmentation)^alpha: 0 is uniform, 1 is the distribution of the unigram model.
    """

    best: int = Field(1, ge=1, le=512)
    alpha: float = Field(0.2, ge=0)


class TextSection(Section):
    """The section `data.text`: tokens and vocabularies. They are learned from the training split.

    Attributes:
        unit: What a token is: `characters`, `words` or `subwords`.
        joint: Whether both sides have one vocabulary.
        size: Size of a vocabulary; null means 4,000 subwords, or all words.
        min_frequency: Words and characters that are less frequent are unknown.
        lowercase: Whether texts are converted to lower case.
        algorithm: The algorithm of subwords: `unigram` or `bpe`.
        coverage: Share of the characters that subwords cover; rarer ones are unknown.
        regularization: Subword regularization.
    """

    unit: Literal["characters", "words", "subwords"] = "subwords"
    joint: bool = True
    size: int | None = Field(None, ge=1, le=1_000_000)
    min_frequency: int = Field(1, ge=1)
    lowercase: bool = False
    algorithm: Literal["unigram", "bpe"] = "unigram"
    coverage: float = Field(0.9995, ge=0.98, le=1)
    regularization: SubwordRegularizationSection = SubwordRegularizationSection()

    @model_validator(mode="before")
    @classmethod
    def _accept_british_spelling(cls, values: Any) -> Any:
        """Experiments written for 0.5 and earlier spell it `regularisation`."""
        if isinstance(values, dict) and "regularisation" in values and "regularization" not in values:
            return {("regularization" if key == "regularisation" else key): each for key, each in values.items()}
        return values

    @model_validator(mode="after")
    def _check_regularization(self) -> Self:
        if self.regularization.best > 1 and (self.unit, self.algorithm) != ("subwords", "unigram"):
            raise invalid_combination(
                "regularization.best",
                f"{self.regularization.best} segmentations of a text need unigram subwords; "
                "set unit: subwords and algorithm: unigram, or best: 1",
            )
        return self


class LearnedTokenization(Tokenization):
    """Texts as characters, words or subwords; tokens that were not in the training split are `<unknown>`.

    Args:
        settings: The section `data.text`.
        source: The tokenizer of source texts.
        target: The tokenizer of target texts.
    """

    open_vocabulary = True

    def __init__(self, settings: TextSection, source: Tokenizer, target: Tokenizer) -> None:
        self.settings = settings
        self.source, self.target = source, target

    @classmethod
    def learn(cls, settings: TextSection, pairs: Iterable[Pair]) -> LearnedTokenization:
        """The tokenization learned from the training split.

        Args:
            settings: The section `data.text`.
            pairs: The training split; it is iterated over several times.
        """
        if settings.unit in TOKENIZERS:
            return cls(settings, TOKENIZERS[settings.unit], TOKENIZERS[settings.unit])
        if settings.joint:
            both = _learn_subwords(settings, pairs, SIDES)
            return cls(settings, both, both)
        return cls(settings, *(_learn_subwords(settings, pairs, (side,)) for side in SIDES))

    @classmethod
    def load(cls, settings: TextSection, read: ReadFile) -> LearnedTokenization:
        """The tokenization whose `files` a run directory kept.

        Args:
            settings: The section `data.text`.
            read: Reads and parses one of the files.
        """
        if settings.unit in TOKENIZERS:
            return cls(settings, TOKENIZERS[settings.unit], TOKENIZERS[settings.unit])
        names = _model_names(settings)
        models: dict[str, SubwordTokenizer] = {name: read(name, SubwordTokenizer) for name in names}
        return cls(settings, *(models[name] for name in names))

    def matches(self, source: Vocabulary, target: Vocabulary) -> bool:
        sides = ((self.source, source), (self.target, target))
        return all(
            vocabulary == Vocabulary.from_list(side.pieces)
            for side, vocabulary in sides
            if isinstance(side, SubwordTokenizer)
        )

    def files(self) -> dict[str, bytes]:
        sides = zip(_model_names(self.settings), (self.source, self.target), strict=True)
        return {name: side.model for name, side in sides if isinstance(side, SubwordTokenizer)}

    def source_tokens(self, text: str) -> list[str]:
        return self.source.tokenize(self._cased(text.strip()))  # files are read without white space at both ends

    def target_tokens(self, pair: Pair) -> list[str]:
        return self.prefix_tokens(pair.target.strip())

    def prefix_tokens(self, text: str) -> list[str]:
        return self.target.tokenize(self._cased(text))

    def target_text(self, tokens: Sequence[str]) -> str:
        return self.target.detokenize(tokens)

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
        if isinstance(side, SubwordTokenizer):  # all: other segmentations may need subwords that were not counted
            return Vocabulary.from_list(side.pieces)
        return Vocabulary.from_counts(counts, min_frequency=self.settings.min_frequency, size=self.settings.size)

    @property
    def can_resample(self) -> bool:
        return self.settings.regularization.best > 1

    def resample(self, source: Sequence[str], target: Sequence[str], random: Random) -> tuple[list[str], list[str]]:
        return self._resample(self.source, source, random), self._resample(self.target, target, random)

    def _resample(self, side: Tokenizer, tokens: Sequence[str], random: Random) -> list[str]:
        options = self.settings.regularization
        if options.best == 1 or not isinstance(side, SubwordTokenizer):
            return list(tokens)
        return side.sample(tokens, random, alpha=options.alpha, n_best=options.best)

    def _cased(self, text: str) -> str:
        return text.lower() if self.settings.lowercase else text


def _model_names(settings: TextSection) -> tuple[str, str]:
    """The names of the SentencePiece models in a run directory."""
    return ("subwords.model", "subwords.model") if settings.joint else ("source.model", "target.model")


def _learn_subwords(settings: TextSection, pairs: Iterable[Pair], sides: Sequence[str]) -> SubwordTokenizer:
    return SubwordTokenizer.learn(
        _texts_to_learn_from(settings, pairs, sides),
        settings.size or DEFAULT_SIZE,
        algorithm=settings.algorithm,
        coverage=settings.coverage,
    )


def _texts_to_learn_from(settings: TextSection, pairs: Iterable[Pair], sides: Sequence[str]) -> Iterator[str]:
    """The texts of all pairs or, where there are more than the limits above, of every n-th pair."""
    count = characters = 0
    for pair in pairs:
        count += 1
        characters += sum(len(getattr(pair, side)) for side in sides)
    step = max(1, ceil(count / MAX_PAIRS), ceil(characters / MAX_CHARACTERS))
    for pair in islice(pairs, 0, None, step):
        for side in sides:
            text: str = getattr(pair, side)
            yield text.lower() if settings.lowercase else text


# Tokenizers that have nothing to learn.
TOKENIZERS: dict[str, Tokenizer] = {"characters": CharacterTokenizer(), "words": WordTokenizer()}
