"""One experiment as typed, checked sections: data, model, training, decoding."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, SerializeAsAny, model_validator

from regard.config.base import Section, invalid_combination
from regard.tasks import DataSection, Task, task_for

Size = Annotated[int, Field(ge=1, le=16_384)]
Count = Annotated[int, Field(ge=1, le=1_024)]


class PositionsSection(Section):
    kind: Literal["none", "one-hot", "sine", "sine-added", "learned"] = "none"
    width: Size = 16  # of `sine`
    longest: Size = 128  # of `one-hot` and `learned`


class CoderSection(Section):
    """What both sides have: each may have its own sizes."""

    embedding: Size = 64
    positions: PositionsSection = PositionsSection()
    cell: Literal["tanh", "gru", "lstm"] = "gru"  # of a recurrent one
    size: Size = 128
    layers: Count = 1
    heads: Count = 4  # of self-attention
    inner_size: Size = 512  # of the feed-forward net behind self-attention


class EncoderSection(CoderSection):
    kind: Literal["recurrent", "self-attention"] = "recurrent"
    bidirectional: bool = True

    @property
    def state_size(self) -> int:
        return self.size * 2 if self.kind == "recurrent" and self.bidirectional else self.size

    @property
    def last_state(self) -> tuple[bool, int, int]:
        """What a copy hands over: is there a memory cell, how many layers, what size."""
        if self.kind == "recurrent":
            return self.cell == "lstm", self.layers, self.state_size
        return False, 1, self.size


class DecoderSection(CoderSection):
    kind: Literal["recurrent", "transformer"] = "recurrent"
    wiring: Literal["before", "after"] = "after"  # does attention come before or after the step?
    start: Literal["copy", "tanh", "relu", "zeros"] = "tanh"
    readout: Literal["direct", "tied"] = "direct"


class AttentionSection(Section):
    kind: Literal["none", "mean", "dot", "scaled-dot", "bilinear", "additive", "multi-head"] = "scaled-dot"
    key_size: Size | None = None  # null: the decoder's size
    heads: Count = 4  # of `multi-head`
    hard: bool = False
    unit_norm: bool = False

    @model_validator(mode="after")
    def _options_need_a_score(self) -> Self:
        for option in ("hard", "unit_norm"):
            if getattr(self, option) and self.kind in ("none", "mean"):
                raise invalid_combination(option, f"true means nothing for kind '{self.kind}', which computes no score")
        return self


class ModelSection(Section):
    encoder: EncoderSection = EncoderSection()
    decoder: DecoderSection = DecoderSection()
    attention: AttentionSection = AttentionSection()
    dropout: float = Field(0.0, ge=0, lt=1)
    share_embeddings: bool = False  # one for both sides, which need a joint vocabulary

    @model_validator(mode="after")
    def _embeddings_fit(self) -> Self:
        sizes = self.encoder.embedding, self.decoder.embedding
        if self.share_embeddings and sizes[0] != sizes[1]:
            raise invalid_combination(
                "share_embeddings", f"the encoder's have size {sizes[0]} and the decoder's {sizes[1]}; make them equal"
            )
        return self

    @model_validator(mode="after")
    def _heads_share_the_size(self) -> Self:
        for name, coder in (("encoder", self.encoder), ("decoder", self.decoder)):
            if coder.kind != "recurrent" and coder.size % coder.heads:
                raise invalid_combination(
                    f"{name}.heads", f"{coder.heads} heads cannot share a size of {coder.size} equally"
                )
        return self

    @model_validator(mode="after")
    def _attention_fits(self) -> Self:
        attention, query, states = self.attention, self.decoder.size, self.encoder.state_size
        if attention.kind == "dot" and query != states:
            raise invalid_combination(
                "attention.kind",
                f"'dot' needs equal sizes, but the decoder's state has {query} and an encoder's state {states} (both "
                "directions count); make them equal, or choose scaled-dot, bilinear, additive or multi-head",
            )
        if attention.kind == "multi-head" and (attention.key_size or query) % attention.heads:
            size = attention.key_size or query
            raise invalid_combination(
                "attention.heads", f"{attention.heads} heads cannot share a key size of {size} equally"
            )
        return self

    @model_validator(mode="after")
    def _copy_fits(self) -> Self:
        decoder = self.decoder
        if decoder.kind == "recurrent" and decoder.start == "copy":
            needed = (decoder.cell == "lstm", decoder.layers, decoder.size)
            if needed != self.encoder.last_state:
                raise invalid_combination(
                    "decoder.start",
                    f"'copy' needs the same on both sides, but the encoder ends with {_words(self.encoder.last_state)} "
                    f"and the decoder begins with {_words(needed)}; choose tanh, relu or zeros, or make them equal",
                )
        return self


def _words(state: tuple[bool, int, int]) -> str:
    memory_cell, layers, size = state
    return f"{layers} layer(s) of {size}{' and memory cells' if memory_cell else ''}"


class OptimizerSection(Section):
    kind: Literal["adam", "adamw"] = "adam"
    weight_decay: float = Field(0.0, ge=0)
    beta1: float = Field(0.9, ge=0, lt=1)
    beta2: float = Field(0.98, ge=0, lt=1)
    epsilon: float = Field(1e-9, gt=0)


class LearningRateSection(Section):
    """The learning rate; see `regard.training.schedules`."""

    kind: Literal["constant", "one-cycle", "inverse-square-root", "plateau"] = "one-cycle"
    peak: float = Field(0.003, gt=0)
    # The share of all steps in which it rises to its peak; null: 0.2, but 0 for `constant` and `plateau`.
    warmup: float | None = Field(None, ge=0, le=1)
    factor: float = Field(0.5, gt=0, lt=1)  # of `plateau`: what it is multiplied with …
    patience: int = Field(2, ge=1)  # … after so many validations without a better loss


class TeacherForcingSection(Section):
    """How often the decoder reads the true token; see `regard.training.schedules`."""

    kind: Literal["constant", "stepped", "linear", "exponential", "inverse-sigmoid"] = "constant"
    ratio: float = Field(1.0, ge=0, le=1)  # of `constant`, and where the others begin
    floor: float = Field(0.0, ge=0, le=1)  # where the others end
    epochs: int = Field(10, ge=1)  # of `stepped`: the length of a step; of `linear`: when it reaches the floor
    decay: float = Field(0.9, gt=0, lt=1)  # of `exponential`: what each epoch multiplies with
    steepness: float = Field(5.0, ge=1)  # of `inverse-sigmoid`: k in k / (k + e^(epoch / k))

    @model_validator(mode="after")
    def _floor_is_below(self) -> Self:
        if self.floor > self.ratio and self.kind != "constant":
            raise invalid_combination("floor", f"{self.floor} is above where the schedule begins, ratio {self.ratio}")
        return self


class TrainingSection(Section):
    seed: int = Field(1, ge=0)
    epochs: int = Field(10, ge=1, le=1_000_000)
    batch_tokens: int = Field(2_000, ge=1, le=10_000_000)  # on the longer side, padding included
    label_smoothing: float = Field(0.0, ge=0, lt=1)
    clip: float = Field(1.0, gt=0)  # the largest norm of the gradient
    optimizer: OptimizerSection = OptimizerSection()
    rate: LearningRateSection = LearningRateSection()
    teacher_forcing: TeacherForcingSection = TeacherForcingSection()
    validate_every: int | None = Field(None, ge=1)  # steps; null: once in an epoch
    patience: int | None = Field(None, ge=1)  # stop after so many validations without a better loss; null: never
    threads: Count = 1  # more help large models only; a setting, because the last bits of a sum depend on it
    save_every: float = Field(30.0, ge=0)  # seconds between two savings of the state to go on from


class DecodingSection(Section):
    """An output has at most `length_factor` times the source's tokens and `length_extra` more."""

    length_factor: float = Field(2.0, ge=0, le=1_000)
    length_extra: int = Field(10, ge=1, le=1_000_000)
    batch_size: int = Field(64, ge=1, le=1_000_000)  # sentences
    length_penalty: float = Field(0.0, ge=0, le=10)  # of beams, unless a search has its own; 0: none
    copy_unknown: bool = False  # say `<unknown>`, and put the most attended source word in its place


class Experiment(Section):
    description: str = ""
    data: SerializeAsAny[DataSection]
    model: ModelSection = ModelSection()
    training: TrainingSection = TrainingSection()
    decoding: DecodingSection = DecodingSection()

    @property
    def task(self) -> Task[Any]:
        """The task that `data` describes: its data set and tokenization."""
        return task_for(self.data)

    @model_validator(mode="after")
    def _embeddings_have_one_vocabulary(self) -> Self:
        if self.model.share_embeddings and not self.task.has_joint_vocabulary:
            raise invalid_combination(
                "model.share_embeddings",
                "true needs the same tokens on both sides, which data.text.joint: true gives; or set it to false",
            )
        return self

    @model_validator(mode="after")
    def _copying_needs_attention(self) -> Self:
        if self.decoding.copy_unknown and self.model.attention.kind in ("none", "mean"):
            raise invalid_combination(
                "decoding.copy_unknown", f"'{self.model.attention.kind}' attention does not say which word to copy"
            )
        return self
