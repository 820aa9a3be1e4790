"""What a training works on: both splits in numbers, read, encoded and checked before anything is written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch

from regard.assembly import build_model
from regard.config import Experiment
from regard.data import Codec, Corpus, Example, lengths_of
from regard.errors import UserError
from regard.tasks import Pair, Split

TELL_EVERY = 1_000  # pairs


class Reader(Protocol):
    """Whoever wants to know how reading goes."""

    def reading(self, split: Split, pairs: int) -> None: ...

    def wants_to_stop(self) -> bool: ...


class Stopped(Exception):  # noqa: N818 (nothing went wrong)
    """The observer wanted to stop before training had begun."""


class Watched:
    """Pairs that are counted aloud each time they are gone through."""

    def __init__(self, pairs: Iterable[Pair], split: Split, reader: Reader) -> None:
        self.pairs, self.split, self.reader = pairs, split, reader

    def __iter__(self) -> Iterator[Pair]:
        number = 0
        for number, pair in enumerate(self.pairs, start=1):
            if number % TELL_EVERY == 0:
                self.reader.reading(self.split, number)
                if self.reader.wants_to_stop():
                    raise Stopped
            yield pair
        self.reader.reading(self.split, number)


@dataclass(frozen=True)
class Material:
    codec: Codec
    train: Corpus
    validation: list[Example]


@contextmanager
def gathered(codec: Codec, pairs: Mapping[Split, Iterable[Pair]], folder: Path) -> Iterator[Material]:
    """Both splits in numbers; those of the training split lie in a file on the disk that has `folder`."""
    validation = list(_examples(codec, "validation", pairs["validation"]))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        train = Corpus(_examples(codec, "train", pairs["train"]), folder)
    except OSError as error:
        raise UserError(f"{folder}: cannot be written to: {error.strerror}") from None
    try:
        yield Material(codec, train, validation)
    finally:
        train.close()


def _examples(codec: Codec, split: Split, pairs: Iterable[Pair]) -> Iterator[Example]:
    for pair in pairs:
        try:
            yield codec.example(pair)
        except UserError as error:
            raise UserError(
                f"data.train: too few pairs to know all that the {split} split is made of: {error}"
            ) from None


def check_lengths(experiment: Experiment, material: Material) -> None:
    """Has the model as many positions as the data needs?"""
    with torch.device("meta"):  # only its limits are of interest, not its weights
        model = build_model(experiment.model, *material.codec.sizes)
    lengths = [lengths_of(split).max(0) for split in (material.train, material.validation)]
    sources, targets = (max(both) for both in zip(*lengths, strict=True))
    for side, limit, needed in (
        ("encoder", model.encoder.longest, sources),
        ("decoder", model.decoder.longest, targets - 1),
    ):
        if limit is not None and needed > limit:
            raise UserError(
                f"model.{side}.positions.longest: {limit} positions are too few; the data has sequences of {needed} "
                "tokens, their end included"
            )
