"""Tokenizations learned from the training split: any tokenizer, joint or separate for each side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from math import ceil
from random import Random

from regard.config.kinds import TOKENIZERS, TokenizerSection
from regard.text.pairs import Pair
from regard.text.tokenization import ReadFile, Tokenization
from regard.text.tokenizers import Tokenizer
from regard.text.vocabulary import Vocabulary

MAX_PAIRS = 100_000  # from which tokenizers learn: more cost memory and change little
MAX_CHARACTERS = 30_000_000  # in all of these pairs, approximately
SIDES = ("source", "target")


class LearnedTokenization(Tokenization):
    """Texts as the tokens of any tokenizer; tokens that were not in the training split are `<unknown>`.

    Args:
        settings: The section `data.text`.
        source: The tokenizer of source texts.
        target: The tokenizer of target texts; the same object if both sides have one vocabulary.
    """

    open_vocabulary = True

    def __init__(self, settings: TokenizerSection, source: Tokenizer, target: Tokenizer) -> None:
        self.settings = settings
        self.source, self.target = source, target

    @classmethod
    def learn(cls, settings: TokenizerSection, pairs: Iterable[Pair]) -> LearnedTokenization:
        """The tokenization learned from the training split.

        Args:
            settings: The section `data.text`.
            pairs: The training split; it is iterated over several times.
        """
        tokenizer: type[Tokenizer] = TOKENIZERS[settings.unit]
        groups = [SIDES] if settings.joint else [(side,) for side in SIDES]
        texts = _TextsToLearnFrom(pairs, settings.lowercase)
        sides = [tokenizer.from_texts(texts.of(group), settings) for group in groups]
        return cls(settings, sides[0], sides[-1])

    @classmethod
    def load(cls, settings: TokenizerSection, read: ReadFile) -> LearnedTokenization:
        """The tokenization whose `files` a run directory kept.

        Args:
            settings: The section `data.text`.
            read: Reads and parses one of the files.
        """
        tokenizer: type[Tokenizer] = TOKENIZERS[settings.unit]

        def parse(model: bytes) -> Tokenizer:
            return tokenizer.from_model(model, settings)

        models = {name: read(name, parse) if tokenizer.has_model else parse(b"") for name in _model_names(settings)}
        return cls(settings, *(models[name] for name in _model_names(settings)))

    def matches(self, source: Vocabulary, target: Vocabulary) -> bool:
        sides = ((self.source, source), (self.target, target))
        fixed = [(side.pieces, vocabulary) for side, vocabulary in sides]
        return all(pieces is None or vocabulary == Vocabulary.from_list(pieces) for pieces, vocabulary in fixed)

    def files(self) -> dict[str, bytes]:
        sides = zip(_model_names(self.settings), (self.source, self.target), strict=True)
        return {name: side.model for name, side in sides if side.has_model}

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

    @property
    def has_fixed_vocabularies(self) -> bool:
        return self.source.pieces is not None and self.target.pieces is not None

    def vocabularies(self, sources: Counter[str], targets: Counter[str]) -> tuple[Vocabulary, Vocabulary]:
        if self.settings.joint:
            both = self._vocabulary(self.source, sources + targets)
            return both, both
        return self._vocabulary(self.source, sources), self._vocabulary(self.target, targets)

    def _vocabulary(self, side: Tokenizer, counts: Counter[str]) -> Vocabulary:
        if side.pieces is not None:  # all: other segmentations may need subwords that were not counted
            return Vocabulary.from_list(side.pieces)
        return Vocabulary.from_counts(counts, min_frequency=self.settings.min_frequency, size=self.settings.size)

    @property
    def can_resample(self) -> bool:
        return self.source.can_resample or self.target.can_resample

    def resample(self, source: Sequence[str], target: Sequence[str], random: Random) -> tuple[list[str], list[str]]:
        return self.source.resample(source, random), self.target.resample(target, random)

    def _cased(self, text: str) -> str:
        return text.lower() if self.settings.lowercase else text


def _model_names(settings: TokenizerSection) -> tuple[str, str]:
    """The names of the tokenizers' files in a run directory."""
    return ("subwords.model", "subwords.model") if settings.joint else ("source.model", "target.model")


class _TextsToLearnFrom:
    """The texts of all pairs or, where there are more than the limits above, of every n-th pair.

    Args:
        pairs: The training split, which is measured once, and not unless a tokenizer learns.
        lowercase: Whether texts are in lower case.
    """

    def __init__(self, pairs: Iterable[Pair], lowercase: bool) -> None:
        self.pairs, self.lowercase = pairs, lowercase

    def of(self, sides: Sequence[str]) -> Iterator[str]:
        """The texts of one or both sides."""
        characters = sum(self._size[side] for side in sides)
        step = max(1, ceil(self._size["pairs"] / MAX_PAIRS), ceil(characters / MAX_CHARACTERS))
        for pair in islice(self.pairs, 0, None, step):
            for side in sides:
                text: str = getattr(pair, side)
                yield text.lower() if self.lowercase else text

    @cached_property
    def _size(self) -> dict[str, int]:
        """The number of pairs, and of characters of each side."""
        pairs = source = target = 0
        for pair in self.pairs:
            pairs += 1
            source += len(pair.source)
            target += len(pair.target)
        return {"pairs": pairs, "source": source, "target": target}
