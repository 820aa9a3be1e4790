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
from regard.text.tags import count_tags, split_tags
from regard.text.tokenization import ReadFile, Tokenization
from regard.text.tokenizers import Tokenizer
from regard.text.vocabulary import UNKNOWN, Vocabulary

MAX_PAIRS = 100_000  # from which tokenizers learn: more cost memory and change little
MAX_CHARACTERS = 30_000_000  # in all of these pairs, approximately
SIDES = ("source", "target")


class LearnedTokenization(Tokenization):
    """Texts as the tokens of any tokenizer; tokens that were not in the training split are `<unknown>`.

    Each tag at the beginning of a source is a token that no tokenizer sees. Elsewhere, a tag is text.

    Args:
        settings: The section `data.text`.
        source: The tokenizer of source texts.
        target: The tokenizer of target texts; the same object if both sides have one vocabulary.
        tags: The tags of the task.
    """

    open_vocabulary = True

    def __init__(
        self, settings: TokenizerSection, source: Tokenizer, target: Tokenizer, tags: Sequence[str] = ()
    ) -> None:
        self.settings = settings
        self.lowercase = settings.lowercase
        self.source, self.target = source, target
        self.tags = tuple(tags)

    @classmethod
    def learn(cls, settings: TokenizerSection, pairs: Iterable[Pair], tags: Sequence[str] = ()) -> LearnedTokenization:
        """The tokenization learned from the training split.

        Args:
            settings: The section `data.text`.
            pairs: The training split; it is iterated over several times.
            tags: The tags of the task.
        """
        tokenizer: type[Tokenizer] = TOKENIZERS[settings.unit]
        groups = [SIDES] if settings.joint else [(side,) for side in SIDES]
        texts = _TextsToLearnFrom(pairs, settings.lowercase, tags)
        sides = [tokenizer.from_texts(texts.of(group), settings) for group in groups]
        return cls(settings, sides[0], sides[-1], tags)

    @classmethod
    def load(cls, settings: TokenizerSection, read: ReadFile, tags: Sequence[str] = ()) -> LearnedTokenization:
        """The tokenization whose `files` a run directory kept.

        Args:
            settings: The section `data.text`.
            read: Reads and parses one of the files.
            tags: The tags of the task.
        """
        tokenizer: type[Tokenizer] = TOKENIZERS[settings.unit]

        def parse(model: bytes) -> Tokenizer:
            return tokenizer.from_model(model, settings)

        models = {name: read(name, parse) if tokenizer.has_model else parse(b"") for name in _model_names(settings)}
        source, target = (models[name] for name in _model_names(settings))
        return cls(settings, source, target, tags)

    def matches(self, source: Vocabulary, target: Vocabulary) -> bool:
        sides = zip((self.source, self.target), self._tags_of_sides, (source, target), strict=True)
        fixed = [(side.pieces, tags, vocabulary) for side, tags, vocabulary in sides]
        return all(pieces is None or vocabulary == _tagged(pieces, tags) for pieces, tags, vocabulary in fixed)

    def files(self) -> dict[str, bytes]:
        sides = zip(_model_names(self.settings), (self.source, self.target), strict=True)
        return {name: side.model for name, side in sides if side.has_model}

    def source_tokens(self, text: str) -> list[str]:
        tags, rest = split_tags(text, self.tags)
        return tags + self._tokens(self.source, rest.strip())  # files are read without white space at both ends

    def target_tokens(self, pair: Pair) -> list[str]:
        return self.prefix_tokens(pair.target.strip())

    def prefix_tokens(self, text: str) -> list[str]:
        return self._tokens(self.target, text)

    def _tokens(self, side: Tokenizer, text: str) -> list[str]:
        return self._without_tags(side.tokenize(self._cased(text)))

    def target_text(self, tokens: Sequence[str]) -> str:
        return self.target.detokenize(tokens)

    def source_starts(self, tokens: Sequence[str]) -> list[bool]:
        tags = count_tags(tokens, self.tags)
        return [True] * tags + self.source.starts(tokens[tags:])

    def target_starts(self, tokens: Sequence[str]) -> list[bool]:
        return self.target.starts(tokens)

    @property
    def has_fixed_vocabularies(self) -> bool:
        return self.source.pieces is not None and self.target.pieces is not None

    def vocabularies(self, sources: Counter[str], targets: Counter[str]) -> tuple[Vocabulary, Vocabulary]:
        source_tags, target_tags = self._tags_of_sides
        if self.settings.joint:
            both = self._vocabulary(self.source, sources + targets, source_tags)
            return both, both
        return self._vocabulary(self.source, sources, source_tags), self._vocabulary(self.target, targets, target_tags)

    @property
    def _tags_of_sides(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return self.tags, self.tags if self.settings.joint else ()

    def _vocabulary(self, side: Tokenizer, counts: Counter[str], tags: Sequence[str]) -> Vocabulary:
        if side.pieces is not None:  # all: other segmentations may need subwords that were not counted
            return _tagged(side.pieces, tags)
        texts = {token: count for token, count in counts.items() if token not in tags} if tags else counts
        known = Vocabulary.from_counts(texts, min_frequency=self.settings.min_frequency, size=self.settings.size)
        return _tagged(known.tokens, tags)

    @property
    def can_resample(self) -> bool:
        return self.source.can_resample or self.target.can_resample

    def resample(self, source: Sequence[str], target: Sequence[str], random: Random) -> tuple[list[str], list[str]]:
        tags = count_tags(source, self.tags)
        texts = self.source.resample(source[tags:], random), self.target.resample(target, random)
        return [*source[:tags], *self._without_tags(texts[0])], self._without_tags(texts[1])

    def _without_tags(self, tokens: list[str]) -> list[str]:
        """The tokens of a text, in which a tag would be a part of the text."""
        return [UNKNOWN if token in self.tags else token for token in tokens] if self.tags else tokens

    def _cased(self, text: str) -> str:
        return text.lower() if self.lowercase else text


def _tagged(tokens: Iterable[str], tags: Sequence[str]) -> Vocabulary:
    """The vocabulary of the tags and other tokens, of which one may be spelled like a tag."""
    return Vocabulary.from_list(dict.fromkeys([*tags, *tokens]))


def _model_names(settings: TokenizerSection) -> tuple[str, str]:
    """The names of the tokenizers' files in a run directory."""
    return ("subwords.model", "subwords.model") if settings.joint else ("source.model", "target.model")


class _TextsToLearnFrom:
    """The texts of all pairs or, where there are more than the limits above, of every n-th pair.

    Args:
        pairs: The training split, which is measured once, and not unless a tokenizer learns.
        lowercase: Whether texts are in lower case.
        tags: The tags, which are left out.
    """

    def __init__(self, pairs: Iterable[Pair], lowercase: bool, tags: Sequence[str]) -> None:
        self.pairs, self.lowercase, self.tags = pairs, lowercase, tags

    def of(self, sides: Sequence[str]) -> Iterator[str]:
        """The texts of one or both sides."""
        characters = sum(self._size[side] for side in sides)
        step = max(1, ceil(self._size["pairs"] / MAX_PAIRS), ceil(characters / MAX_CHARACTERS))
        for pair in islice(self.pairs, 0, None, step):
            for side in sides:
                text: str = split_tags(pair.source, self.tags)[1] if side == "source" else pair.target
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
