"""Attention held against the truth: does a word look at the words that it translates?"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.data import Example, collate
from regard.nn import Seq2Seq
from regard.tasks import Notation, Pair

AT_ONCE = 128  # sentences


@torch.no_grad()
def forced_attention(model: Seq2Seq, examples: Sequence[Example]) -> list[Tensor]:
    """For each example [output, source]: where the model looks while it reads the true target.

    Layers and heads are averaged.
    """
    model.eval()
    maps: list[Tensor] = []
    for begin in range(0, len(examples), AT_ONCE):
        some = examples[begin : begin + AT_ONCE]
        batch = collate(some)
        _, weights = model.decoder.unroll(batch.inputs, model.start(batch.source, batch.source_valid))
        mean = weights.flatten(1, -3).mean(1) if weights.dim() > 3 else weights  # [batch, steps, positions]
        maps += [row[: len(e.target) - 1, : len(e.source)] for row, e in zip(mean, some, strict=True)]
    return maps


def share_aligned(
    model: Seq2Seq, notation: Notation, pairs: Sequence[Pair], examples: Sequence[Example]
) -> float | None:
    """The share of content words whose most attended source token is truly aligned; None where no truth is known."""
    hits: list[bool] = []
    if not any(pair.alignment for pair in pairs):
        return None
    for pair, weights in zip(pairs, forced_attention(model, examples), strict=True):
        if not bool(weights.any()):
            return None  # a model without attention looks nowhere
        looked_at = weights.argmax(-1).tolist()
        known = {target for target, _ in pair.alignment}
        for place, token in enumerate(notation.target_tokens(pair)):
            if place in known and token not in notation.function_words:
                hits.append((place, looked_at[place]) in pair.alignment)
    return sum(hits) / len(hits) if hits else None
