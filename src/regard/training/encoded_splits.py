"""The data of a training: all splits as token ids, read, encoded and checked before anything is written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from regard.config.schema import Experiment
from regard.data import Codec, Example, OnDiskExamples
from regard.errors import UserError
from regard.files import NEW, existing_folder, scratch_folder
from regard.images import source_label
from regard.tasks import SPLITS, Pair, Split
from regard.training.callbacks import Callback

REPORT_EVERY = 1_000  # pairs


class ProgressIterator:
    """Iterates over pairs and reports progress to a callback, each time anew.

    Args:
        pairs: The pairs of one split.
        split: Its name.
        callback: Its `on_examples_read` is called every `REPORT_EVERY` pairs and at the end.
    """

    def __init__(self, pairs: Iterable[Pair], split: Split, callback: Callback) -> None:
        self.pairs, self.split, self.callback = pairs, split, callback

    def __iter__(self) -> Iterator[Pair]:
        count = 0
        for count, pair in enumerate(self.pairs, start=1):
            if count % REPORT_EVERY == 0:
                self.callback.on_examples_read(self.split, count)
            yield pair
        self.callback.on_examples_read(self.split, count)


@dataclass(frozen=True)
class EncodedSplits:
    """The splits of an experiment as token ids.

    Args:
        codec: The codec that encoded them, with the length of the longest training source.
        splits: The examples of each split.
        folder: The folder of their files.
    """

    codec: Codec
    splits: Mapping[Split, OnDiskExamples]
    folder: Path

    @property
    def digests(self) -> dict[Split, str]:
        """A digest of each split, to check that a run continues with the data that it started with."""
        return {split: examples.digest for split, examples in self.splits.items()}


@contextmanager
def encode_splits(
    codec: Codec, pairs: Mapping[Split, Iterable[Pair]], path: Path, vocabulary_of: Path | None = None
) -> Iterator[EncodedSplits]:
    """All splits as token ids, in files. The test split is encoded too, so that its errors appear early.

    Args:
        codec: The codec that encodes the pairs.
        pairs: The pairs of each split.
        path: The run directory, which need not exist. The files are in a scratch folder next to it.
        vocabulary_of: The run that the codec was taken over from, for messages.
    """
    try:
        with ExitStack() as stack:
            stack.enter_context(existing_folder(path.absolute().parent))
            folder = stack.enter_context(scratch_folder(path)) / NEW
            for split in pairs:
                OnDiskExamples.write(_encode_examples(codec, split, pairs[split], vocabulary_of), folder / split)
            release = stack.pop_all()
    except OSError as error:
        raise UserError(f"{path.parent}: cannot be written to: {error.strerror}") from None
    with release, open_splits(codec, folder) as encoded:
        yield encoded


@contextmanager
def open_splits(codec: Codec, folder: Path) -> Iterator[EncodedSplits]:
    """Open the splits that this process or another one has encoded.

    Args:
        codec: The codec that has encoded them.
        folder: The folder of their files.
    """
    with ExitStack() as stack:
        found = [split for split in SPLITS if (folder / split).is_dir()]
        splits = {split: stack.enter_context(closing(OnDiskExamples.open(folder / split))) for split in found}
        longest = int(splits["train"].lengths[:, 0].max())
        yield EncodedSplits(replace(codec, longest_source=longest), splits, folder)


def _encode_examples(
    codec: Codec, split: Split, pairs: Iterable[Pair], vocabulary_of: Path | None
) -> Iterator[Example]:
    for pair in pairs:
        try:
            yield codec.example(pair)
        except UserError as error:
            text = f"lacks tokens of the {split} split: {source_label(pair.source)!r}: {error}"
            if vocabulary_of is None:
                raise UserError(f"data.train: the training split is too small: it {text}") from None
            raise UserError(
                f"{vocabulary_of}: its vocabulary {text}; learn a new vocabulary (--reuse-vocabulary no)"
            ) from None


def check_sequence_lengths(experiment: Experiment, encoded: EncodedSplits) -> None:
    """Raise a `UserError` if the model has fewer positions than the longest sequence needs.

    Args:
        experiment: The experiment, for the settings of the model.
        encoded: The data.
    """
    model = experiment.model
    longest = [examples.lengths.max(0).tolist() for examples in encoded.splits.values()]
    sources, targets = (max(both) for both in zip(*longest, strict=True))
    for side, limit, needed in (
        ("encoder", model.encoder.positions.max_length, sources),
        ("decoder", model.decoder.positions.max_length, targets - 1),
    ):
        if limit is not None and needed > limit:
            raise UserError(
                f"model.{side}.positions.longest: {limit} positions are too few; the data has sequences of {needed} "
                "tokens, including the end token"
            )
