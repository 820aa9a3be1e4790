"""Pretrained embeddings: a new run starts with the vectors of a file, for those tokens that the file has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.config.schema import Experiment
from regard.corpora.word_vectors import WordVector, open_word_vectors
from regard.data import Codec
from regard.errors import UserError
from regard.nn.build import initial_model
from regard.nn.positions import Embedding
from regard.runs import Run, named_weights
from regard.text import SPECIAL, Vocabulary
from regard.training.checkpoints import save_initial_weights

RECORD = "pretrained_embeddings"  # in run.json


@dataclass(frozen=True)
class FoundVectors:
    """The vectors of a file for the tokens of a vocabulary.

    Args:
        path: The file.
        tokens: The number of tokens of the vocabulary, without the special ones.
        ids: The ids of the tokens that the file has, [found].
        vectors: Their vectors, as they are in the file, [found, size].
    """

    path: Path
    tokens: int
    ids: Tensor
    vectors: Tensor

    def record(self) -> dict[str, Any]:
        """What `run.json` records: the file, and the share of the tokens that it has."""
        return {"path": str(self.path), "found": len(self.ids) / self.tokens, "tokens": self.tokens}

    @torch.no_grad()
    def copy_to(self, embedding: Embedding) -> None:
        """Replace the rows of the tokens that were found.

        The layers above expect inputs of variance 1, as the other rows have them, but files differ in their scale. So
        all vectors are multiplied by one number, which changes neither angles nor the ratios of lengths:

            w = v / (scale · rms(v)),    input = scale · w

        Args:
            embedding: The embedding of the encoder or decoder.
        """
        rms = self.vectors.double().square().mean().sqrt()
        rows = self.vectors.double() / (embedding.scale * rms)
        embedding.tokens.weight.index_copy_(0, self.ids, rows.to(embedding.tokens.weight.dtype))


def check_vector_sizes(experiment: Experiment) -> None:
    """Raise a `UserError` unless the vectors of each file have the size of the embeddings.

    Args:
        experiment: The settings.
    """
    for side, path in experiment.model.embedding_files.items():
        size = getattr(experiment.model, side).embedding
        with open_word_vectors(path) as vectors:
            if vectors.size != size:
                raise UserError(
                    f"model.{side}.pretrained_embeddings: the vectors of {path} have size {vectors.size}, and the "
                    f"embeddings size {size}; set model.{side}.embedding to {vectors.size}"
                )


@dataclass(frozen=True)
class PretrainedEmbeddings:
    """The pretrained embeddings of a new run.

    Args:
        experiment: The settings of the run.
        found: The vectors that were found, for `encoder`, `decoder` or both.
    """

    experiment: Experiment
    found: Mapping[str, FoundVectors]

    @classmethod
    def read(cls, experiment: Experiment, codec: Codec) -> PretrainedEmbeddings:
        """Read the files that the settings name, whose sizes have been checked.

        Args:
            experiment: The settings.
            codec: The tokenizers and vocabularies.

        Raises:
            UserError: A file is damaged, or has no token of the vocabulary.
        """
        vocabularies = {"encoder": codec.source_vocabulary, "decoder": codec.target_vocabulary}
        lowercase = codec.tokenization.lowercase
        found = {
            side: find_vectors(path, vocabularies[side], lowercase=lowercase)
            for side, path in experiment.model.embedding_files.items()
        }
        return cls(experiment, found)

    def record(self) -> dict[str, Any]:
        """What `run.json` records, for each side."""
        return {RECORD: {side: found.record() for side, found in self.found.items()}}

    def write_weights(self, draft: Run) -> None:
        """Write the weights that training starts with into the draft of a run directory; all others are drawn.

        Args:
            draft: The run directory.
        """
        model = initial_model(self.experiment, *draft.codec.sizes)
        for side, found in self.found.items():
            found.copy_to(getattr(model, side).embedding)
        save_initial_weights(draft, named_weights(model))


def find_vectors(path: Path, vocabulary: Vocabulary, *, lowercase: bool = False) -> FoundVectors:
    """The vectors of the tokens of a vocabulary; only these are kept in memory.

    Args:
        path: The file.
        vocabulary: The vocabulary.
        lowercase: Whether its tokens are in lower case. A token that the file does not have then has the vector of the
            first word that differs from it in case alone.

    Raises:
        UserError: The file is damaged, has a token twice, or has none of them.
    """
    found: dict[int, WordVector] = {}
    with open_word_vectors(path) as vectors:
        table = torch.zeros(len(vocabulary), vectors.size, device="cpu")
        for vector in vectors:
            token = vector.word if vector.word in vocabulary or not lowercase else vector.word.lower()
            if token not in vocabulary:
                continue
            (index,) = vocabulary.to_ids([token])
            known = found.get(index)
            if known is not None and known.word == vector.word:
                raise UserError(f"{vector.origin}: {token!r} is also in {known.origin}; remove one of these lines")
            if known is None or vector.word == token:
                table[index] = torch.tensor(vector.numbers(), device="cpu")
                found[index] = WordVector(vector.word, b"", vector.origin)
    ids = torch.tensor(sorted(found), dtype=torch.int64, device="cpu")
    if not table.any():
        raise UserError(
            f"{path}: it has no vector, other than zeros, of a token of the vocabulary; is it of another language, "
            "another tokenization (data.text), or in another case (data.text.lowercase)?"
        )
    return FoundVectors(path, len(vocabulary) - len(SPECIAL), ids, table[ids])


def embedding_lines(metadata: Mapping[str, Any]) -> list[str]:
    """How many tokens of a run started with pretrained embeddings, for people: a line for each side.

    Args:
        metadata: The content of its `run.json`.
    """
    record = metadata.get(RECORD)
    sides = record.items() if isinstance(record, dict) else ()
    return [
        f"{side}: {each['found']:.1%} of {each['tokens']:,} tokens have pretrained embeddings, from {each.get('path')}"
        for side, each in sides
        if isinstance(each, dict) and isinstance(each.get("found"), float) and isinstance(each.get("tokens"), int)
    ]
