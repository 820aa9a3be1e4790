"""What a training works on: all splits in numbers, read, encoded and checked before anything is written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch

from regard.config.schema import Experiment
from regard.data import Codec, Example, OnDiskExamples
from regard.errors import UserError
from regard.nn.build import build_model
from regard.tasks import Pair, Split

TELL_EVERY = 1_000  # pairs


class ReadObserver(Protocol):
    """Whoever wants to know how reading goes."""

    def reading(self, split: Split, pairs: int) -> None: ...

    def wants_to_stop(self) -> bool: ...


class TrainingStopped(Exception):  # noqa: N818 (nothing went wrong)
    """The observer wanted to stop before training had begun."""


class ProgressIterator:
    """Pairs that are counted aloud each time they are gone through."""

    def __init__(self, pairs: Iterable[Pair], split: Split, reader: ReadObserver) -> None:
        self.pairs, self.split, self.reader = pairs, split, reader

    def __iter__(self) -> Iterator[Pair]:
        number = 0
        for number, pair in enumerate(self.pairs, start=1):
            if number % TELL_EVERY == 0:
                self.reader.reading(self.split, number)
                if self.reader.wants_to_stop():
                    raise TrainingStopped
            yield pair
        self.reader.reading(self.split, number)


@dataclass(frozen=True)
class EncodedSplits:
    codec: Codec
    splits: Mapping[Split, OnDiskExamples]

    @property
    def digests(self) -> dict[Split, str]:
        """They tell whether a run goes on with the texts that it was begun with."""
        return {split: corpus.digest for split, corpus in self.splits.items()}


@contextmanager
def encode_splits(codec: Codec, pairs: Mapping[Split, Iterable[Pair]], path: Path) -> Iterator[EncodedSplits]:
    """All splits in numbers, in files on the disk where `path` is to be.

    The test split, too, although it is not trained on: what is wrong with it is better told now than in an hour.
    """
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    with ExitStack() as stack:
        splits: dict[Split, OnDiskExamples] = {}
        for split in pairs:
            try:
                splits[split] = OnDiskExamples(_examples(codec, split, pairs[split]), folder)
            except OSError as error:
                raise UserError(f"{folder}: cannot be written to: {error.strerror}") from None
            stack.callback(splits[split].close)
        yield EncodedSplits(codec, splits)


def _examples(codec: Codec, split: Split, pairs: Iterable[Pair]) -> Iterator[Example]:
    for pair in pairs:
        try:
            yield codec.example(pair)
        except UserError as error:
            raise UserError(
                f"data.train: too few pairs to know all that the {split} split is made of: {pair.source!r}: {error}"
            ) from None


def check_lengths(experiment: Experiment, material: EncodedSplits) -> None:
    """Has the model as many positions as the data needs?"""
    with torch.device("meta"):  # only its limits are of interest, not its weights
        model = build_model(experiment.model, *material.codec.sizes)
    longest = [corpus.lengths.max(0).tolist() for corpus in material.splits.values()]
    sources, targets = (max(both) for both in zip(*longest, strict=True))
    for side, limit, needed in (
        ("encoder", model.encoder.max_length, sources),
        ("decoder", model.decoder.max_length, targets - 1),
    ):
        if limit is not None and needed > limit:
            raise UserError(
                f"model.{side}.positions.longest: {limit} positions are too few; the data has sequences of {needed} "
                "tokens, their end included"
            )
