"""The settings of one experiment as typed, validated sections: data, model, training, decoding."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, SerializeAsAny, model_validator

from regard.config.base import Count, Section, SectionOf, invalid_combination, prefix_errors
from regard.config.kinds import (
    DECODERS,
    ENCODERS,
    MECHANISMS,
    AttentionSection,
    DecoderSection,
    EncoderSection,
)
from regard.tasks import DataSection, Task, task_for


class ModelSection(Section):
    """The section `model`.

    Attributes:
        encoder: The encoder, of any kind.
        decoder: The decoder, of any kind.
        attention: The attention of the decoder to the encoder's states, of any kind.
        dropout: Dropout probability of all layers.
        share_embeddings: Whether both sides have the same embeddings, which needs a joint vocabulary.
    """

    encoder: Annotated[SerializeAsAny[EncoderSection], SectionOf(ENCODERS)] = Field(
        default_factory=ENCODERS.default_section
    )
    decoder: Annotated[SerializeAsAny[DecoderSection], SectionOf(DECODERS)] = Field(
        default_factory=DECODERS.default_section
    )
    attention: Annotated[SerializeAsAny[AttentionSection], SectionOf(MECHANISMS)] = Field(
        default_factory=MECHANISMS.default_section
    )
    dropout: float = Field(0.0, ge=0, lt=1)
    share_embeddings: bool = False

    @model_validator(mode="after")
    def _check_shared_embeddings(self) -> Self:
        sizes = self.encoder.embedding, self.decoder.embedding
        if self.share_embeddings and sizes[0] != sizes[1]:
            raise invalid_combination(
                "share_embeddings", f"the encoder's have size {sizes[0]} and the decoder's {sizes[1]}; make them equal"
            )
        return self

    @model_validator(mode="after")
    def _check_attention(self) -> Self:
        with prefix_errors("attention"):
            self.attention.check_sizes(self.decoder.size, self.encoder.state_size)
        return self

    @model_validator(mode="after")
    def _check_start(self) -> Self:
        with prefix_errors("decoder"):
            self.decoder.check_encoder(self.encoder)
        return self


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
    model: ModelSection = Field(default_factory=ModelSection)
    training: TrainingSection = Field(default_factory=TrainingSection)
    decoding: DecodingSection = Field(default_factory=DecodingSection)

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
        if self.decoding.copy_unknown and not self.model.attention.has_scores:
            kind = self.model.attention.kind
            raise invalid_combination("decoding.copy_unknown", f"'{kind}' attention does not select a word to copy")
        return self
