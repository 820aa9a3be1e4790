"""The sentences that a measurement goes over, and what to say to a model that does not look at them."""

from __future__ import annotations

from itertools import islice

from regard.data import Example
from regard.errors import UserError
from regard.inference.translator import Translator
from regard.tasks import Pair, Split


def has_no_attention(translator: Translator) -> UserError:
    """What to say where attention is asked about that a model does not have."""
    kind = translator.experiment.model.attention.kind
    return UserError(
        f"{translator.runs[0].path}: this model looks nowhere, it has no attention to speak of: "
        f"model.attention.kind is '{kind}'"
    )


def read(translator: Translator, split: Split, limit: int | None) -> tuple[list[Pair], list[Example]]:
    """The first `limit` pairs of a split, or all of them, as texts and in numbers."""
    pairs = list(islice(translator.experiment.data.pairs(split), limit))
    if not pairs:
        raise UserError(f"{translator.runs[0].path}: its {split} split is empty")
    return pairs, translator.codec.examples(pairs)
