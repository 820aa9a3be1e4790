"""The JSON of a translation, version 1: the one schema of the CLI, the API, saved pages and studies.

`Translation.to_dict` writes it, and docs/translation-json.md describes it. A field may be added without a new version;
a field that changes its meaning, its type or its name needs one.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

SCHEMA_VERSION = 1

Span = tuple[int, int]
AttentionMap = list[list[float]]


class JsonObject(BaseModel):
    """Base class: every field is required and no other is allowed."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class AlternativeSchema(JsonObject):
    """One of the most probable tokens at a position of the output."""

    token: str = Field(description="The token.")
    label: str = Field(description="The token as displayed.")
    probability: float = Field(description="Its probability at this position, given the tokens before it.")


class SelfAttentionSchema(JsonObject):
    """The self-attention weights of an encoder or a decoder."""

    axes: list[Literal["layer", "head"]] = Field(description="The axes of `weights` before the positions.")
    tokens: list[str] = Field(description="The tokens that are attended to: of the source, or the decoder's inputs.")
    labels: list[str] = Field(description="These tokens as displayed.")
    words: list[Span] = Field(description="The tokens of each word, as (first, last + 1).")
    weights: AttentionMap | list[AttentionMap] | list[list[AttentionMap]] = Field(
        description="Weights [attending][attended to], within lists for the layers and heads that `axes` names."
    )


class HypothesisSchema(JsonObject):
    """One output for one source text."""

    text: str = Field(description="The output.")
    score: float = Field(description="Log-probability of all tokens.")
    tokens: list[str] = Field(description="The tokens, `<end>` included unless the output was truncated.")
    labels: list[str] = Field(description="The tokens as displayed.")
    words: list[Span] = Field(description="The tokens of each word, as (first, last + 1).")
    log_probabilities: list[float] = Field(description="Log-probability of each token.")
    finished: bool = Field(description="False if the output was truncated at the maximum length.")
    alignment: list[Span] = Field(
        description="(source, target) pairs of token positions: the source token with the largest attention weight."
    )
    attention: AttentionMap | list[AttentionMap] | list[list[AttentionMap]] | None = Field(
        description="Weights [target][source], within lists for the layers and heads that `axes` names; null if not "
        "requested."
    )
    decoder_attention: SelfAttentionSchema | None = Field(
        description="Self-attention of the decoder: row t is the step that put out token t, column k its input at "
        "step k; null if not requested, or if the decoder has none."
    )
    alternatives: list[list[AlternativeSchema]] | None = Field(
        description="The most probable tokens at each position, best first; null if not requested."
    )


class BeamNodeSchema(JsonObject):
    """A hypothesis that the beam search has considered, named by its last token."""

    length: int = Field(description="Number of tokens, which is the step of the search, counted from 1.")
    parent: int | None = Field(description="Index in this list of the node that it extends; null at the first step.")
    token: str = Field(description="The token.")
    label: str = Field(description="The token as displayed.")
    score: float = Field(description="What the beam ranks by: the sum of log-probabilities, less penalties.")
    fate: Literal["kept", "pruned", "finished", "truncated"] = Field(description="What the search did with it.")
    rank: int | None = Field(description="Its rank among the results, from 1; null if it is not one of them.")


class ImageSchema(JsonObject):
    """A picture as the encoder reads it."""

    width: int = Field(description="Width in pixels.")
    height: int = Field(description="Height in pixels.")
    uri: str = Field(description="A PNG file as a data URI: dark ink on white.")
    boxes: list[tuple[int, int, int, int]] = Field(
        description="The place of each source token but `<end>`, as (left, top, right, bottom) in pixels."
    )


class TranslationSchema(JsonObject):
    """The translation of one text."""

    schema_version: Literal[1] = Field(description="The version of this schema.")
    text: str = Field(description="The best output.")
    score: float = Field(description="Log-probability of the best output.")
    source_tokens: list[str] = Field(description="The tokens that the encoder reads, `<end>` included.")
    source_labels: list[str] = Field(description="The source tokens as displayed.")
    source_image: ImageSchema | None = Field(description="The picture that the encoder reads; null for texts.")
    source_words: list[Span] = Field(description="The tokens of each source word, as (first, last + 1).")
    axes: list[Literal["layer", "head"]] = Field(description="The axes of `attention` before target and source.")
    encoder_attention: SelfAttentionSchema | None = Field(
        description="Self-attention of the encoder; null if not requested, or if the encoder has none."
    )
    n_best: list[HypothesisSchema] = Field(description="The outputs, best first; all texts are different.")
    length_penalty: float | None = Field(
        description="α in score / ((5 + length) / 6)^α, by which `n_best` is ranked; null if unknown."
    )
    tree: list[BeamNodeSchema] | None = Field(
        description="The hypotheses of the beam, parents before children; null if not requested."
    )
