"""Sentences of a run's data splits, as texts and token ids."""

from __future__ import annotations

from itertools import islice

from regard.data import Example
from regard.errors import UserError
from regard.inference.translator import Translator
from regard.tasks import Pair, Split


def no_attention_error(translator: Translator) -> UserError:
    """The error for a measurement of attention on a model that has none.

    Args:
        translator: The translator whose model has no attention.
    """
    kind = translator.experiment.model.attention.kind
    return UserError(f"{translator.runs[0].path}: this model has no attention: model.attention.kind is '{kind}'")


def load_examples(translator: Translator, split: Split, limit: int | None) -> tuple[list[Pair], list[Example]]:
    """The first `limit` pairs of a split, as texts and as token ids.

    Args:
        translator: The translator; its experiment defines the data and its codec the ids.
        split: The split to read.
        limit: The maximum number of pairs; None for all.

    Raises:
        UserError: If the split is empty.
    """
    pairs = list(islice(translator.experiment.task.dataset.pairs(split), limit))
    if not pairs:
        raise UserError(f"{translator.runs[0].path}: its {split} split is empty")
    return pairs, translator.codec.examples(pairs)
