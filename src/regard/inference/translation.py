"""Translations with scores and attention, and scores of given translations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from regard.errors import UserError
from regard.images import SourceImage
from regard.inference.schema import SCHEMA_VERSION
from regard.search import BeamNode
from regard.text.word_boundaries import token_labels, word_spans, word_starts


@dataclass(frozen=True)
class Alternative:
    """One of the most probable tokens at a position of the output.

    Args:
        token: The token.
        label: The token as displayed.
        log_probability: Its log-probability, given the source and the tokens before it.
    """

    token: str
    label: str
    log_probability: float

    def to_dict(self) -> dict[str, Any]:
        """Plain values: a `regard.inference.schema.AlternativeSchema`."""
        probability = round(math.exp(self.log_probability), 6)
        return {"token": self.token, "label": self.label, "probability": probability}


Alternatives = tuple[Alternative, ...]  # at one position, the most probable first


@dataclass(frozen=True)
class SelfAttentionWeights:
    """The self-attention weights of an encoder or a decoder.

    Args:
        weights: [positions, positions]: how much the position of a row attends to that of a column. After axes for
            layers and heads where there are any: one model has an axis of layers, an ensemble has neither.
        tokens: The tokens that are attended to, which name the columns: those of the source, or the decoder's inputs.
        word_starts: True for tokens that begin a word; () if every token is a word.
    """

    weights: Tensor
    tokens: tuple[str, ...]
    word_starts: tuple[bool, ...] = ()

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes of `weights` before the positions: "layer", "head"."""
        return ("layer", "head")[: self.weights.dim() - 2]

    def to_dict(self) -> dict[str, Any]:
        """Plain values: a `regard.inference.schema.SelfAttentionSchema`."""
        return {
            "axes": list(self.axes),
            "tokens": list(self.tokens),
            "labels": token_labels(self.tokens, self.word_starts),
            "words": _word_spans(self.tokens, self.word_starts),
            "weights": rounded(self.weights.tolist()),
        }


@dataclass(frozen=True)
class Translation:
    """The translation of one text.

    Args:
        text: The output.
        tokens: Its tokens, `<end>` included unless it was truncated; they name the rows of `attention`.
        source_tokens: The source tokens, `<end>` included; they name the columns of `attention`.
        log_probabilities: The log-probability of each token.
        attention: [target, source] weights, after the axes for layers and heads that `axes` names.
        finished: False if the output was truncated at the maximum length.
        word_starts: True for tokens that begin a word; () if every token is a word.
        source_word_starts: The same for the source tokens.
        axes: The axes of `attention` before target and source: "layer", "head".
        next_best: The next best translations, all of them different texts.
        length_penalty: α, by which `n_best` is ranked; None if unknown.
        encoder_attention: Self-attention of the encoder: source tokens attend to source tokens. None if it was not
            requested, for an encoder without self-attention, and for an empty text.
        decoder_attention: Self-attention of the decoder, or None: row t is the step that put out `tokens[t]`, and
            column k the token that the decoder read at step k.
        source_image: The picture that was read; None if the source is a text.
    """

    text: str
    tokens: tuple[str, ...]
    source_tokens: tuple[str, ...]
    log_probabilities: tuple[float, ...]
    attention: Tensor
    finished: bool
    word_starts: tuple[bool, ...] = ()
    source_word_starts: tuple[bool, ...] = ()
    axes: tuple[str, ...] = ()
    next_best: tuple[Translation, ...] = ()
    length_penalty: float | None = None
    encoder_attention: SelfAttentionWeights | None = None
    decoder_attention: SelfAttentionWeights | None = None
    source_image: SourceImage | None = None

    @property
    def score(self) -> float:
        """The log-probability of all tokens."""
        return math.fsum(self.log_probabilities)

    @property
    def n_best(self) -> tuple[Translation, ...]:
        """This translation and the next best, all of them different texts."""
        return (self, *self.next_best)

    @property
    def alignment(self) -> list[tuple[int, int]]:
        """(source, target) pairs of token indices: the source token with the largest weight, over layers and heads.

        `<end>` is not aligned, on either side, nor is a target token without attention.
        """
        weights = mean_attention(self.attention)
        length = len(self.tokens) - (self.finished and bool(self.tokens))
        sources = [int(row.argmax()) if row.any() else len(row) for row in weights[:length]]
        return [(source, target) for target, source in enumerate(sources) if source < len(self.source_tokens) - 1]

    def to_dict(
        self,
        *,
        attention: bool = True,
        alternatives: Sequence[Sequence[Alternatives]] | None = None,
        tree: Sequence[BeamNode] | None = None,
    ) -> dict[str, Any]:
        """The translation in plain values that `json` can write: a `regard.inference.schema.TranslationSchema`.

        Args:
            attention: Include the weights of the attention to the source. Self-attention is included if this
                translation has it.
            alternatives: What `Translator.alternatives` returns for each of `n_best`.
            tree: What `Translator.tree` returns for the same text and options.
        """
        rows = [None] * len(self.n_best) if alternatives is None else alternatives
        return {
            "schema_version": SCHEMA_VERSION,
            "text": self.text,
            "score": round(self.score, 6),
            "source_tokens": list(self.source_tokens),
            "source_labels": token_labels(self.source_tokens, self.source_word_starts),
            "source_image": None if self.source_image is None else self.source_image.to_dict(),
            "source_words": _word_spans(self.source_tokens, self.source_word_starts),
            "axes": list(self.axes),
            "encoder_attention": _self_attention_dict(self.encoder_attention),
            "n_best": [_hypothesis_dict(each, attention, row) for each, row in zip(self.n_best, rows, strict=True)],
            "length_penalty": self.length_penalty,
            "tree": None if tree is None else [asdict(node) | {"score": round(node.score, 6)} for node in tree],
        }

    def _repr_html_(self) -> str:
        """In a notebook: an interactive attention map."""
        from regard.reports import interactive

        view = {"name": "", "about": "", "translation": self.to_dict()}
        return interactive.notebook({"title": "", "views": [view], "state": {}})


def mean_attention(attention: Tensor) -> Tensor:
    """The mean over layers and heads, [target, source].

    Args:
        attention: [target, source], after any number of other axes.
    """
    return attention.flatten(0, -3).mean(0) if attention.dim() > 2 else attention


def select_attention(attention: Tensor, axes: Sequence[str], numbers: Mapping[str, int]) -> Tensor:
    """The weights of one layer or head.

    Args:
        attention: [..., target, source].
        axes: The names of the first axes: "layer", "head".
        numbers: The number of the layer or the head, from 1, by the name of the axis.

    Raises:
        UserError: If the model has no such axis, layer or head.
    """
    for axis, number in numbers.items():
        if axis not in axes:
            raise UserError(f"this model's attention has no {axis}s to choose from")
        count = attention.shape[list(axes).index(axis)]
        if not 1 <= number <= count:
            raise UserError(f"{axis} {number}: this model has {axis}s 1 to {count}")
    return attention[tuple(numbers[axis] - 1 if axis in numbers else slice(None) for axis in axes)]


EMPTY_TRANSLATION = Translation("", (), (), (), torch.zeros(0, 0, device="cpu"), finished=True)


@dataclass(frozen=True)
class Score:
    """The score of a given translation.

    Args:
        log_probabilities: The log-probability of each token, `<end>` included.
    """

    log_probabilities: tuple[float, ...]

    @property
    def log_probability(self) -> float:
        """The log-probability of all tokens."""
        return math.fsum(self.log_probabilities)

    @property
    def perplexity(self) -> float:
        """exp of the mean negative log-probability of a token; 1 if there are none."""
        return math.exp(min(-self.log_probability / max(len(self.log_probabilities), 1), 700.0))


def rounded(values: Any) -> Any:
    """Numbers in nested lists, rounded to six decimals.

    Args:
        values: A number, or nested lists of numbers.
    """
    return [rounded(value) for value in values] if isinstance(values, list) else round(values, 6)


def _hypothesis_dict(
    translation: Translation, attention: bool, alternatives: Sequence[Alternatives] | None
) -> dict[str, Any]:
    return {
        "text": translation.text,
        "score": round(translation.score, 6),
        "tokens": list(translation.tokens),
        "labels": token_labels(translation.tokens, translation.word_starts),
        "words": _word_spans(translation.tokens, translation.word_starts),
        "log_probabilities": rounded(list(translation.log_probabilities)),
        "finished": translation.finished,
        "alignment": [list(pair) for pair in translation.alignment],
        "attention": rounded(translation.attention.tolist()) if attention else None,
        "decoder_attention": _self_attention_dict(translation.decoder_attention),
        "alternatives": None if alternatives is None else [[each.to_dict() for each in row] for row in alternatives],
    }


def _self_attention_dict(attention: SelfAttentionWeights | None) -> dict[str, Any] | None:
    return None if attention is None else attention.to_dict()


def _word_spans(tokens: Sequence[str], starts: Sequence[bool]) -> list[list[int]]:
    """The tokens of each word, as [first, last + 1]."""
    return [[word.start, word.stop] for word in word_spans(word_starts(tokens, starts), len(tokens))]
