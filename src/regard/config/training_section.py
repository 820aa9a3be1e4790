"""The section `training` of an experiment."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, SerializeAsAny, field_validator

from regard.config.base import Count, DeviceName, Section
from regard.config.families import NameOf, SectionOf
from regard.config.kinds import (
    CONSISTENCIES,
    LEARNING_RATES,
    OPTIMIZERS,
    TEACHER_FORCING_SCHEDULES,
    ConsistencySection,
    LearningRateSection,
    TeacherForcingSection,
)
from regard.errors import suggest

LOGS = ("jsonl", "tensorboard")
ParameterKind = Literal["biases", "norms", "embeddings"]


class OptimizerSection(Section):
    """The section `training.optimizer`, with the arguments of the optimizers of PyTorch.

    Attributes:
        kind: `adam` or `adamw`.
        weight_decay: Weight decay λ.
        weight_decay_exclude: Parameters without weight decay: `biases`, `norms` (those of normalizations) or
            `embeddings` (those of tokens and of learned positions).
        beta1: Decay of the running mean of the gradient.
        beta2: Decay of the running mean of its square.
        epsilon: Added to the denominator.
    """

    kind: Annotated[str, NameOf(OPTIMIZERS)] = OPTIMIZERS.default
    weight_decay: float = Field(default=0.0, ge=0)
    weight_decay_exclude: list[ParameterKind] = Field(default=[])
    beta1: float = Field(default=0.9, ge=0, lt=1)
    beta2: float = Field(default=0.98, ge=0, lt=1)
    epsilon: float = Field(default=1e-9, gt=0)


class TrainingSection(Section):
    """The section `training`.

    Attributes:
        seed: Seed of the initial weights, the order of the batches, dropout and scheduled sampling.
        epochs: Number of passes over the training split.
        max_steps: The largest number of steps; None: as many as the epochs have.
        batch_tokens: Tokens per batch on its longer side, padding included.
        gradient_accumulation: Number of batches of a step, whose gradient is that of one large batch.
        label_smoothing: Probability mass that is spread over all target tokens.
        consistency: What predictions are compared with, besides the reference: consistency regularization, of any kind.
        clip: The largest norm of the gradient.
        ema_decay: Decay of the exponential moving average of the weights, which is validated and saved in place of the
            weights, for example 0.999; None: no average.
        optimizer: The optimizer.
        rate: The learning-rate schedule, of any kind.
        teacher_forcing: The teacher-forcing schedule, of any kind.
        validate_every: Steps between two validations; None: one validation per epoch.
        patience: Stop after this number of validations in a row that are not better by `best`; None: never.
        best: Which validation is the best one, whose weights are kept: `loss`, or a metric of the task, such as `bleu`.
        validation_sentences: Number of validation sentences that are translated, evenly spread; None: all.
        log: Where the training is recorded: `jsonl` (`metrics.jsonl`, always) and `tensorboard`.
        device: `auto` (a GPU if there is one: CUDA, then MPS; else the CPU), `cpu`, `mps`, `cuda` or `cuda:N`.
        precision: In which type of numbers matrix products are computed: `float32`, `bfloat16`, `float16` (on a GPU
            only), or `auto`: bfloat16 for models of a million parameters or more on hardware that has it, else
            float32.
        compile: Compile the model by `torch.compile`, which needs a C++ compiler.
        threads: Threads of PyTorch. It is a setting because the last bits of a sum depend on it.
        save_every: Seconds between two checkpoints.
        keep_checkpoints: The weights of this number of validations, the latest ones, are kept in `checkpoints/`.
        average: At the end, the model becomes the mean of the weights of this number of validations, the latest ones;
            None: it has the best weights.
    """

    seed: int = Field(default=1, ge=0)
    epochs: int = Field(default=10, ge=1, le=1_000_000)
    max_steps: int | None = Field(default=None, ge=1)
    batch_tokens: int = Field(default=2_000, ge=1, le=10_000_000)
    gradient_accumulation: int = Field(default=1, ge=1, le=1_000_000)
    label_smoothing: float = Field(default=0.0, ge=0, lt=1)
    consistency: Annotated[SerializeAsAny[ConsistencySection], SectionOf(CONSISTENCIES)] = Field(
        default_factory=CONSISTENCIES.default_section
    )
    clip: float = Field(default=1.0, gt=0)
    ema_decay: float | None = Field(default=None, ge=0, lt=1)
    optimizer: OptimizerSection = Field(default_factory=OptimizerSection)
    rate: Annotated[SerializeAsAny[LearningRateSection], SectionOf(LEARNING_RATES)] = Field(
        default_factory=LEARNING_RATES.default_section
    )
    teacher_forcing: Annotated[SerializeAsAny[TeacherForcingSection], SectionOf(TEACHER_FORCING_SCHEDULES)] = Field(
        default_factory=TEACHER_FORCING_SCHEDULES.default_section
    )
    validate_every: int | None = Field(default=None, ge=1)
    patience: int | None = Field(default=None, ge=1)
    best: str = "loss"
    validation_sentences: int | None = Field(default=None, ge=1)
    log: list[str] = Field(default=["jsonl"])
    device: DeviceName = "auto"
    precision: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    compile: bool = False
    threads: Count = 1
    save_every: float = Field(default=30.0, ge=0)
    keep_checkpoints: int = Field(default=0, ge=0, le=1_000)
    average: int | None = Field(default=None, ge=2, le=1_000)

    @field_validator("log")
    @classmethod
    def _check_log(cls, names: list[str]) -> list[str]:
        for name in names:
            if name not in LOGS:
                raise ValueError(f"{name!r} is not a log; {suggest(name, LOGS)}")
        if "jsonl" not in names:
            raise ValueError("jsonl cannot be left out: progress is shown, and training continues, with its rows")
        return names
