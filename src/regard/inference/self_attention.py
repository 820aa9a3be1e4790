"""The self-attention of finished translations, from one pass of the models over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from regard.data import Batch
from regard.inference.translation import SelfAttentionWeights, Translation, mean_attention
from regard.nn import SelfAttentionMaps, Seq2Seq, record_self_attention


def mean_self_attention(models: Sequence[Seq2Seq], batch: Batch) -> list[SelfAttentionMaps]:
    """The weights of each row of a batch: of one model with layers and heads; of several the mean of those with any.

    Args:
        models: The models, in evaluation mode.
        batch: Sources and outputs, on the device of the models.
    """
    recorded = [
        record_self_attention(model, batch.source, batch.source_valid, batch.inputs, batch.valid) for model in models
    ]
    if len(models) == 1:
        return recorded[0]
    return [
        SelfAttentionMaps(_mean([each.encoder for each in row]), _mean([each.decoder for each in row]))
        for row in zip(*recorded, strict=True)
    ]


def _mean(weights: Sequence[Tensor | None]) -> Tensor | None:
    """The mean over models, layers and heads."""
    means = [mean_attention(each) for each in weights if each is not None]
    return torch.stack(means).mean(0) if means else None


def with_self_attention(translation: Translation, start: str, maps: SelfAttentionMaps) -> Translation:
    """A translation with its self-attention.

    Args:
        translation: The translation.
        start: The token that the decoder reads at the first step.
        maps: The weights.
    """
    inputs = (start, *translation.tokens[:-1])  # each step reads what the step before it has put out
    starts = (True, *translation.word_starts[:-1]) if translation.word_starts else ()
    source = translation.source_tokens, translation.source_word_starts
    return replace(
        translation,
        encoder_attention=None if maps.encoder is None else SelfAttentionWeights(maps.encoder, *source),
        decoder_attention=None if maps.decoder is None else SelfAttentionWeights(maps.decoder, inputs, starts),
    )


def regroup(translations: Sequence[Translation], outputs: Sequence[Translation]) -> list[Translation]:
    """The translations, with their hypotheses replaced; all hypotheses of a source share its encoder's attention.

    Args:
        translations: The translations.
        outputs: The new hypotheses of all of them, one after the other.
    """
    rest = iter(outputs)
    regrouped = []
    for translation in translations:
        best, *others = [next(rest) for _ in translation.n_best]
        next_best = tuple(replace(each, encoder_attention=best.encoder_attention) for each in others)
        regrouped.append(replace(best, next_best=next_best))
    return regrouped
