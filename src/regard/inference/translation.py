"""What comes out: a translation with its score and attention, or the score of a text that was given."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from regard.errors import UserError
from regard.inference.schema import SCHEMA_VERSION
from regard.search import BeamNode
from regard.text.word_boundaries import token_labels, word_spans, word_starts


@dataclass(frozen=True)
class Alternative:
    """A token that the model might have produced at a position of the output."""

    token: str
    label: str  # the token as displayed
    log_probability: float

    def to_dict(self) -> dict[str, Any]:
        """An `AlternativeSchema`."""
        probability = round(math.exp(self.log_probability), 6)
        return {"token": self.token, "label": self.label, "probability": probability}


Alternatives = tuple[Alternative, ...]  # at one position, the most probable first


@dataclass(frozen=True)
class Translation:
    """What a model made of one text. `tokens` name the rows of `attention`, `source_tokens` its columns."""

    text: str
    tokens: tuple[str, ...]  # `<end>` included, if it was reached
    source_tokens: tuple[str, ...]  # `<end>` included
    log_probabilities: tuple[float, ...]  # the log-probability of each token
    attention: Tensor  # [output, source], with axes for layers and heads before them where the decoder has any
    finished: bool  # False: cut off at the maximum length
    starts: tuple[bool, ...] = ()  # does a word begin with this token? Where nothing is said, each token is one
    source_starts: tuple[bool, ...] = ()
    axes: tuple[str, ...] = ()  # of `attention`, before the last two: "layer", "head"
    others: tuple[Translation, ...] = ()  # the next best
    length_penalty: float | None = None  # α, by which `n_best` is ranked; None: unknown

    @property
    def score(self) -> float:
        """The log-probability of the whole."""
        return math.fsum(self.log_probabilities)

    @property
    def n_best(self) -> tuple[Translation, ...]:
        """This one and the next best, all of them different texts."""
        return (self, *self.others)

    @property
    def alignment(self) -> list[tuple[int, int]]:
        """(source token, output token), counted from 0: where each output token looked most, layers and heads averaged.

        Ends do not count, and what looked most at the source's end, or nowhere, is aligned to nothing.
        """
        weights = mean_attention(self.attention)
        words = len(self.tokens) - (self.finished and bool(self.tokens))
        looked = [int(row.argmax()) if row.any() else len(row) for row in weights[:words]]
        return [(source, output) for output, source in enumerate(looked) if source < len(self.source_tokens) - 1]

    def to_dict(
        self,
        *,
        attention: bool = True,
        alternatives: Sequence[Sequence[Alternatives]] | None = None,
        tree: Sequence[BeamNode] | None = None,
    ) -> dict[str, Any]:
        """The translation in plain values that `json` can write: a `regard.inference.schema.TranslationSchema`.

        Args:
            attention: Include the attention weights.
            alternatives: What `Translator.alternatives` returns for each of `n_best`.
            tree: What `Translator.tree` returns for the same text and options.
        """
        rows = [None] * len(self.n_best) if alternatives is None else alternatives
        return {
            "schema_version": SCHEMA_VERSION,
            "text": self.text,
            "score": round(self.score, 6),
            "source_tokens": list(self.source_tokens),
            "source_labels": token_labels(self.source_tokens, self.source_starts),
            "source_words": _word_spans(self.source_tokens, self.source_starts),
            "axes": list(self.axes),
            "n_best": [_hypothesis_dict(each, attention, row) for each, row in zip(self.n_best, rows, strict=True)],
            "length_penalty": self.length_penalty,
            "tree": None if tree is None else [asdict(node) | {"score": round(node.score, 6)} for node in tree],
        }

    def _repr_html_(self) -> str:
        """In a notebook: a map that answers to the pointer."""
        from regard.reports import interactive

        view = {"name": "", "about": "", "answer": self.to_dict()}
        return interactive.notebook({"title": "", "views": [view], "state": {}})


def mean_attention(attention: Tensor) -> Tensor:
    """[output, source]: the mean over layers and heads, where there are any."""
    return attention.flatten(0, -3).mean(0) if attention.dim() > 2 else attention


def select_attention(attention: Tensor, axes: Sequence[str], numbers: Mapping[str, int]) -> Tensor:
    """What belongs to the layer or the head with this number, counted from 1; `axes` are the first of `attention`."""
    for axis, number in numbers.items():
        if axis not in axes:
            raise UserError(f"this model's attention has no {axis}s to choose from")
        count = attention.shape[list(axes).index(axis)]
        if not 1 <= number <= count:
            raise UserError(f"{axis} {number}: this model has {axis}s 1 to {count}")
    return attention[tuple(numbers[axis] - 1 if axis in numbers else slice(None) for axis in axes)]


EMPTY_TRANSLATION = Translation("", (), (), (), torch.zeros(0, 0), finished=True)


@dataclass(frozen=True)
class Score:
    """What a model thinks of a text that it was given."""

    log_probabilities: tuple[float, ...]  # the log-probability of each of its tokens, `<end>` included

    @property
    def log_probability(self) -> float:
        return math.fsum(self.log_probabilities)

    @property
    def perplexity(self) -> float:
        """e to the mean surprise of a token; 1 where there is none."""
        return math.exp(min(-self.log_probability / max(len(self.log_probabilities), 1), 700.0))


def rounded(values: Any) -> Any:
    """Numbers in nested lists, rounded to six decimals."""
    return [rounded(value) for value in values] if isinstance(values, list) else round(values, 6)


def _hypothesis_dict(
    translation: Translation, attention: bool, alternatives: Sequence[Alternatives] | None
) -> dict[str, Any]:
    return {
        "text": translation.text,
        "score": round(translation.score, 6),
        "tokens": list(translation.tokens),
        "labels": token_labels(translation.tokens, translation.starts),
        "words": _word_spans(translation.tokens, translation.starts),
        "log_probabilities": rounded(list(translation.log_probabilities)),
        "finished": translation.finished,
        "alignment": [list(pair) for pair in translation.alignment],
        "attention": rounded(translation.attention.tolist()) if attention else None,
        "alternatives": None if alternatives is None else [[each.to_dict() for each in row] for row in alternatives],
    }


def _word_spans(tokens: Sequence[str], starts: Sequence[bool]) -> list[list[int]]:
    """The tokens of each word, as [first, last + 1]."""
    return [[word.start, word.stop] for word in word_spans(word_starts(tokens, starts), len(tokens))]
