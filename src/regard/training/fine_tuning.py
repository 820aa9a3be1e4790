"""Fine-tuning: a new run that starts with the weights of another one."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from regard import files
from regard.config.schema import EMBEDDING_FILES, Experiment
from regard.data import Codec, OnDiskExamples
from regard.data.examples import is_patches
from regard.errors import UserError
from regard.images import PatchGrid
from regard.nn.build import build_model, initial_model
from regard.runs import MODEL, Run, expected_shapes, named_weights
from regard.tasks.parallel import ParallelSection
from regard.text import Vocabulary
from regard.training.checkpoints import save_initial_weights

NOTICEABLE = 0.005  # share of unknown tokens
MAY_DIFFER = ("dropout", "pretrained_embeddings")  # endings of keys of the model that change no shape
SEGMENTATION = "data.text.regularization."  # may differ: other segmentations into the same subwords


def known_tags(experiment: Experiment) -> list[str]:
    """The tags that are tokens of the vocabulary; only parallel text has some.

    Args:
        experiment: The settings.
    """
    return experiment.data.known_tags if isinstance(experiment.data, ParallelSection) else []


def with_tags(experiment: Experiment) -> Experiment:
    """The same settings, with the tags of the training corpora as those of the vocabulary.

    Args:
        experiment: The settings of a run whose vocabulary is reused, perhaps for a corpus without tags.
    """
    tags = known_tags(experiment)
    return (
        experiment.model_copy(update={"data": experiment.data.model_copy(update={"tags": tags})})
        if tags
        else experiment
    )


def without_embedding_files(experiment: Experiment) -> Experiment:
    """The settings of a run without its pretrained embeddings, which its weights have replaced.

    Args:
        experiment: The settings.
    """
    return Experiment.load(experiment, {".".join(key): None for key in EMBEDDING_FILES})


@dataclass(frozen=True)
class Pretrained:
    """A run whose weights a new run starts with.

    Args:
        run: The run directory.
        reuse_vocabulary: True: the new run has its tokenization and vocabularies. False: it learns its own ones, and
            of the embeddings and outputs, only those of tokens that both have are copied.
    """

    run: Run
    reuse_vocabulary: bool = True

    def check_settings(self, experiment: Experiment) -> None:
        """Raise a `UserError` that lists all settings of the model, and of a reused tokenization, that differ.

        Args:
            experiment: The settings of the new run.
        """
        for side in experiment.model.embedding_files:
            raise UserError(
                f"model.{side}.pretrained_embeddings: the new run starts with the embeddings of {self.run.path} "
                "(--from); set it to null"
            )
        sections = ("model.", "data.text.") if self.reuse_vocabulary else ("model.",)
        differing = {
            key: values
            for key, values in self.run.experiment.diff(experiment).items()
            if key.startswith(sections) and not key.endswith(MAY_DIFFER) and not key.startswith(SEGMENTATION)
        }
        self.check_tags(experiment)
        if differing:
            lines = [f"  {key} = {old!r}, not {new!r}" for key, (old, new) in differing.items()]
            remedy = "set them as in that run (without them, they are)"
            if self.reuse_vocabulary and all(key.startswith("data.") for key in differing):
                remedy += ", or learn a new vocabulary (--reuse-vocabulary no)"
            raise UserError("\n".join([f"{self.run.path}: its weights need these settings:", *lines, remedy]))

    def check_tags(self, experiment: Experiment) -> None:
        """Raise a `UserError` unless a reused vocabulary has the tags of the new run, and no others.

        Args:
            experiment: The settings of the new run.
        """
        old, new = known_tags(self.run.experiment), known_tags(experiment)
        if self.reuse_vocabulary and old != new:
            listed = ", ".join(old) or "none"
            raise UserError(
                f"{self.run.path}: its vocabulary has other tags ({listed}) than these settings "
                f"({', '.join(new) or 'none'}); set data.tags to [{', '.join(old)}] and use no others, or learn a new "
                "vocabulary (--reuse-vocabulary no)"
            )

    def record(self) -> dict[str, Any]:
        """What `run.json` of the new run records: where the run was, and a digest of its weights."""
        with self.run.open_tensors(MODEL):
            pass  # a file that is missing or damaged has been reported
        digest = hashlib.sha256()
        with files.open_regular(self.run.path / MODEL) as file:
            while block := file.read(1 << 20):
                digest.update(block)
        vocabulary = {"reuse_vocabulary": self.reuse_vocabulary}
        return {"path": str(self.run.path.absolute()), "weights": digest.hexdigest(), **vocabulary}

    def check_started(self, run: Run) -> None:
        """Raise a `UserError` unless a run that exists was started with these weights.

        Args:
            run: The run directory that training would continue in.
        """
        known, own = run.metadata.get("from"), self.record()
        if not isinstance(known, dict):
            raise UserError(f"{run.path}: this run was started without --from; choose another run directory (--out)")
        if any(known.get(key) != own[key] for key in ("weights", "reuse_vocabulary")):
            raise UserError(
                f"{run.path}: this run was started from other weights than those of {self.run.path}, or with another "
                f"--reuse-vocabulary; choose another run directory (--out), or continue it by 'regard train {run.path}'"
            )

    def write_weights(self, draft: Run) -> None:
        """Write the weights that training starts with into the draft of a run directory.

        Args:
            draft: The run directory.
        """
        weights = self._reused() if self.reuse_vocabulary else self._with_vocabulary(draft.experiment, draft.codec)
        build = partial(build_model, draft.experiment.model, *draft.codec.sizes)
        shapes = {name: tuple(weight.shape) for name, weight in weights.items()}
        if shapes != expected_shapes(build):
            raise UserError(
                f"{self.run.path}: its weights do not fit this experiment, whose pictures have another size"
            )
        save_initial_weights(draft, weights)

    def _reused(self) -> dict[str, Tensor]:
        with self.run.open_tensors(MODEL) as file:
            return {name: file.tensor(name) for name in file.shapes}

    @torch.no_grad()
    def _with_vocabulary(self, experiment: Experiment, codec: Codec) -> dict[str, Tensor]:
        """New weights for the tokens that only the new vocabularies have; all others are copied."""
        old = self.run.codec
        rows = {
            "source": common_rows(old.source_vocabulary, codec.source_vocabulary),
            "target": common_rows(old.target_vocabulary, codec.target_vocabulary),
        }
        axes = vocabulary_axes(experiment, codec.sizes)
        weights = named_weights(initial_model(experiment, *codec.sizes))
        with self.run.open_tensors(MODEL) as file:
            file.check_weights(expected_shapes(partial(build_model, self.run.experiment.model, *old.sizes)))
            for name, weight in weights.items():
                if name not in axes:
                    weight.copy_(file.tensor(name))
                    continue
                axis, side = axes[name]
                old_rows, new_rows = rows[side]
                weight.index_copy_(axis, new_rows, file.tensor(name).index_select(axis, old_rows))
        return weights


def common_rows(old: Vocabulary, new: Vocabulary) -> tuple[Tensor, Tensor]:
    """The ids of the tokens that two vocabularies have, special ones included: in the first and in the second.

    Args:
        old: A vocabulary.
        new: Another one.
    """
    ids = {token: index for index, token in enumerate(old.tokens)}
    common = [(ids[token], index) for index, token in enumerate(new.tokens) if token in ids]
    first, second = torch.tensor(common, device="cpu").unbind(1)
    return first, second


def vocabulary_axes(experiment: Experiment, sizes: tuple[int | PatchGrid, int]) -> dict[str, tuple[int, str]]:
    """The parameters that have an axis over a vocabulary: the axis, and the side of the vocabulary.

    It is the axis that grows with the vocabulary, whatever the kinds of encoder and decoder.

    Args:
        experiment: The settings.
        sizes: The size of the source vocabulary, or the patches of pictures; and that of the target vocabulary.
    """
    source, target = sizes
    larger = {"target": (source, target + 1)}
    if isinstance(source, int):
        larger["source"] = (source + 1, target)
    shapes = expected_shapes(partial(build_model, experiment.model, *sizes))
    found: dict[str, tuple[int, str]] = {}
    for side, grown in larger.items():
        for name, shape in expected_shapes(partial(build_model, experiment.model, *grown)).items():
            for axis, (before, after) in enumerate(zip(shapes[name], shape, strict=True)):
                if before != after:
                    found[name] = axis, side
    return found


def unknown_share(examples: OnDiskExamples) -> float:
    """The share of tokens that are unknown, of both sides.

    Args:
        examples: A split as token ids.
    """
    unknown = tokens = 0
    for example in examples:
        for row in (example.target[1:], () if is_patches(example.source) else example.source):
            tokens += len(row)
            unknown += row.count(Vocabulary.unknown)
    return unknown / max(1, tokens)


def origin_line(metadata: Mapping[str, Any]) -> str:
    """Where the weights of a run came from, for people; empty if they were drawn at random.

    Args:
        metadata: The content of its `run.json`.
    """
    origin = metadata.get("from")
    if not isinstance(origin, dict):
        return ""
    share = origin.get("unknown_tokens")
    noticeable = isinstance(share, float) and share >= NOTICEABLE
    unknown = f"; {share:.1%} of the training tokens are not in its vocabulary" if noticeable else ""
    return f"starting with the weights of {origin.get('path')}{unknown}"
