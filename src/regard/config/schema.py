"""The settings of one experiment as typed, validated sections: data, model, training, decoding."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, SerializeAsAny, ValidationError, model_validator

from regard import files
from regard.config.base import KeyPath, Section, invalid_combination, prefix_errors
from regard.config.explanations import explain_validation_error
from regard.config.families import SectionOf
from regard.config.kinds import (
    DECODERS,
    ENCODERS,
    MECHANISMS,
    TASKS,
    AttentionSection,
    DataSection,
    DecoderSection,
    EncoderSection,
)
from regard.config.training_section import TrainingSection
from regard.errors import UserError, suggest
from regard.tasks import Task, task_for

SIDES = ("encoder", "decoder")
EMBEDDING_FILES: frozenset[KeyPath] = frozenset(("model", side, "pretrained_embeddings") for side in SIDES)


class ModelSection(Section):
    """The section `model`.

    Attributes:
        encoder: The encoder, of any kind.
        decoder: The decoder, of any kind.
        attention: The attention of the decoder to the encoder's states, of any kind.
        dropout: Dropout probability of all layers, unless one of the following sets another one.
        embedding_dropout: That of the embeddings of both sides; None: `dropout`.
        attention_dropout: That of attention weights, those of self-attention included, by which the context is
            computed; None: they are not dropped.
        readout_dropout: That of the input of the output layer; None: `dropout`.
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
    dropout: float = Field(default=0.0, ge=0, lt=1)
    embedding_dropout: float | None = Field(default=None, ge=0, lt=1)
    attention_dropout: float | None = Field(default=None, ge=0, lt=1)
    readout_dropout: float | None = Field(default=None, ge=0, lt=1)
    share_embeddings: bool = False

    @property
    def has_dropout(self) -> bool:
        """Whether anything is dropped in training."""
        return any((self.dropout, self.embedding_dropout, self.attention_dropout, self.readout_dropout))

    @property
    def embedding_files(self) -> dict[str, Path]:
        """The files of pretrained embeddings, of `encoder`, `decoder` or both."""
        names = {side: getattr(self, side).pretrained_embeddings for side in SIDES}
        return {side: Path(name) for side, name in names.items() if name is not None}

    @model_validator(mode="after")
    def _check_shared_embeddings(self) -> Self:
        sizes = self.encoder.embedding, self.decoder.embedding
        if self.share_embeddings and sizes[0] != sizes[1]:
            raise invalid_combination(
                "share_embeddings", f"the encoder's have size {sizes[0]} and the decoder's {sizes[1]}; make them equal"
            )
        return self

    @model_validator(mode="after")
    def _check_embedding_files(self) -> Self:
        if self.share_embeddings and len(self.embedding_files) > 1:
            raise invalid_combination(
                "decoder.pretrained_embeddings",
                "with share_embeddings: true, both sides have the embeddings of the encoder's file; set it to null",
            )
        return self

    @model_validator(mode="after")
    def _check_attention(self) -> Self:
        with prefix_errors("attention"):
            self.attention.check_sizes(self.decoder.size, self.encoder.state_size)
        return self

    @model_validator(mode="after")
    def _check_decoder(self) -> Self:
        with prefix_errors("decoder"):
            self.decoder.check_encoder(self.encoder)
            self.decoder.check_attention(self.attention)
        return self


class DecodingSection(Section):
    """The section `decoding`. An output has at most `length_factor` · source tokens + `length_extra` tokens.

    Attributes:
        length_factor: The largest number of output tokens for each source token, besides `length_extra`.
        length_extra: The number of output tokens that are allowed besides those of `length_factor`.
        batch_size: Number of sentences that are translated at once.
        length_penalty: α of beam search, unless the search options set one; 0: none.
        copy_unknown: Whether to allow `<unknown>` in outputs, and replace it by the most attended source word.
    """

    length_factor: float = Field(default=2.0, ge=0, le=1_000)
    length_extra: int = Field(default=10, ge=1, le=1_000_000)
    batch_size: int = Field(default=64, ge=1, le=1_000_000)
    length_penalty: float = Field(default=0.0, ge=0, le=10)
    copy_unknown: bool = False


class Experiment(Section):
    """All settings of an experiment.

    Attributes:
        description: One line about the experiment.
        data: What is learned: the settings of a task.
        model: The model.
        training: The training.
        decoding: Limits and defaults of the search.
    """

    description: str = ""
    data: Annotated[SerializeAsAny[DataSection], SectionOf(TASKS)]
    model: ModelSection = Field(default_factory=ModelSection)
    training: TrainingSection = Field(default_factory=TrainingSection)
    decoding: DecodingSection = Field(default_factory=DecodingSection)

    def __init__(self, **values: Any) -> None:
        """Validate the settings; a mistake is a `UserError` that names all of them."""
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise UserError(explain_validation_error(error, type(self), (), _no_origin, values)) from None

    # As in pydantic's own subclasses: `model_validate` need not call this method.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    @classmethod
    def load(
        cls,
        experiment: str | os.PathLike[str] | Mapping[str, Any] | Experiment,
        overrides: Mapping[str, Any] | None = None,
    ) -> Experiment:
        """The experiment of a recipe, a YAML file or a dictionary.

            regard.Experiment.load("multi30k", {"training.epochs": 2, "model.attention.kind": "additive"})

        Args:
            experiment: The name of a recipe, the path of a YAML file, a dictionary of settings (nested, or with keys
                such as `training.seed`; it may extend a recipe or file), or an experiment.
            overrides: Settings that replace those of the experiment, as a dictionary of the same form.

        Raises:
            UserError: A file cannot be read, or a setting is invalid.
        """
        from regard.config.loading import resolve_experiment

        return resolve_experiment(experiment, overrides)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all settings to a YAML file, from which `load` makes an equal experiment.

        Args:
            path: The file.
        """
        files.write_output(files.parse_path(path, "path"), str(self).encode(), "the experiment")

    def diff(self, other: str | os.PathLike[str] | Mapping[str, Any] | Experiment) -> dict[str, tuple[Any, Any]]:
        """The settings that differ: for each key the value here and the value there; None where there is no such key.

            regard.Experiment.load("case").diff("bottleneck")

        Args:
            other: Another experiment, or whatever `load` accepts.
        """
        own, others = flatten_settings(self.model_dump()), flatten_settings(Experiment.load(other).model_dump())
        keys = dict.fromkeys([*own, *others])
        return {key: (own.get(key), others.get(key)) for key in keys if own.get(key) != others.get(key)}

    def of_format(self, format: int) -> Experiment:
        """This experiment with the defaults that it had in run directories of an earlier format.

        Args:
            format: The format of a run directory.
        """
        attention = self.model.attention.of_format(format)
        return self.model_copy(update={"model": self.model.model_copy(update={"attention": attention})})

    def __str__(self) -> str:
        """All settings as YAML."""
        from regard.config.loading import dump_experiment

        return dump_experiment(self)

    @classmethod
    def json_schema(cls) -> dict[str, Any]:
        """The JSON schema of experiment files, with which editors complete and check them."""
        from regard.config.json_schema import experiment_schema

        return experiment_schema()

    def commented_yaml(self) -> str:
        """All settings as YAML, with what each means and its default if that is another value; `load` reads it."""
        from regard.config.commented import format_settings

        return format_settings(self)

    @property
    def path_keys(self) -> set[KeyPath]:
        """The settings that name files."""
        return {("data", key) for key in type(self.data).path_keys} | EMBEDDING_FILES

    @property
    def task(self) -> Task[Any]:
        """The task that `data` describes: its data set and tokenization."""
        return task_for(self.data)

    @model_validator(mode="after")
    def _check_joint_vocabulary(self) -> Self:
        if self.model.share_embeddings and self.task.reads_pictures:
            raise invalid_combination("model.share_embeddings", "true needs tokens on both sides; set it to false")
        if self.model.share_embeddings and not self.task.has_joint_vocabulary:
            raise invalid_combination(
                "model.share_embeddings",
                "true needs the same tokens on both sides, which data.text.joint: true gives; or set it to false",
            )
        return self

    @model_validator(mode="after")
    def _check_embedding_files(self) -> Self:
        if "encoder" in self.model.embedding_files and self.task.reads_pictures:
            raise invalid_combination(
                "model.encoder.pretrained_embeddings", "a picture has no tokens to embed; set it to null"
            )
        return self

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        consistency = self.training.consistency
        if consistency.needs_dropout and not self.model.has_dropout:
            raise invalid_combination(
                "training.consistency.kind",
                f"'{consistency.label}' compares predictions that differ by dropout, and there is none; set "
                "model.dropout, for example to 0.2",
            )
        return self

    @model_validator(mode="after")
    def _check_best(self) -> Self:
        best = self.training.best
        if best != "loss" and best not in (names := [str(each) for each in self.task.metrics]):
            raise invalid_combination(
                "training.best", f"'{best}' is not a metric of this task; {suggest(best, ['loss', *names])}"
            )
        return self

    @model_validator(mode="after")
    def _check_copying(self) -> Self:
        if self.decoding.copy_unknown and self.task.reads_pictures:
            raise invalid_combination("decoding.copy_unknown", "a picture has no words to copy; set it to false")
        if self.decoding.copy_unknown and not self.model.attention.has_scores:
            kind = self.model.attention.kind
            raise invalid_combination("decoding.copy_unknown", f"'{kind}' attention does not select a word to copy")
        return self


def flatten_settings(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings as one dictionary with dotted keys.

    Args:
        tree: The settings.
        prefix: What each key begins with.
    """
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        flat |= flatten_settings(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat


def _no_origin(path: KeyPath) -> str:
    return "Experiment"
