"""The weights of self-attention, recorded during one pass over a source and its target.

    encoder    α_ij    how much position i of the source attends to position j
    decoder    α_tk    how much step t attends to the decoder's input at step k; 0 for k > t

Layers use these weights and return only what they computed from them. Forward hooks, which are removed afterwards, read
the weights of every mechanism in `Encoder.self_attentions` and `Decoder.self_attentions`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.nn.attention import Attention
from regard.nn.normalizers import at_least_float32
from regard.nn.seq2seq import Seq2Seq


@dataclass(frozen=True)
class SelfAttentionMaps:
    """The weights of one source and its target; None for an encoder or a decoder without self-attention.

    Args:
        encoder: [layers, (heads,) positions, positions].
        decoder: [layers, (heads,) steps, steps].
    """

    encoder: Tensor | None
    decoder: Tensor | None


@torch.inference_mode()
def record_self_attention(
    model: Seq2Seq, source: Tensor, source_valid: Tensor, inputs: Tensor, valid: Tensor
) -> list[SelfAttentionMaps]:
    """The weights of each row of a batch on the CPU, without padding.

    Search runs the decoder step by step, which computes the same weights.

    Args:
        model: The model, in evaluation mode.
        source: Source token ids, [batch, positions].
        source_valid: True for tokens, False for padding, [batch, positions].
        inputs: Decoder input token ids, [batch, steps].
        valid: True for tokens, False for padding, [batch, steps].
    """
    with record_weights(model.encoder.self_attentions) as encoder_calls:
        encoding = model.encoder(source, source_valid)
    with record_weights(model.decoder.self_attentions) as decoder_calls:
        model.decoder.forward_steps(inputs, model.decoder.start(encoding))
    encoder = _rows_without_padding(join_layers(encoder_calls, source.shape[1]), source_valid)
    decoder = _rows_without_padding(join_layers(decoder_calls, inputs.shape[1]), valid)
    return [SelfAttentionMaps(*maps) for maps in zip(encoder, decoder, strict=True)]


@contextmanager
def record_weights(attentions: Sequence[Attention]) -> Iterator[list[list[Tensor]]]:
    """A list for each mechanism, to which each of its calls within the block appends its weights.

    Args:
        attentions: The mechanisms.
    """
    calls: list[list[Tensor]] = [[] for _ in attentions]
    with ExitStack() as stack:
        for attention, own in zip(attentions, calls, strict=True):

            def record(module: nn.Module, inputs: tuple[Any, ...], output: Any, own: list[Tensor] = own) -> None:
                own.append(output[1])

            stack.callback(attention.register_forward_hook(record).remove)
        yield calls


def join_layers(calls: Sequence[Sequence[Tensor]], length: int) -> Tensor | None:
    """The weights of all layers, [batch, layers, (heads,) length, length]; None if there are none.

    The weights are averaged over heads if layers have different numbers of them.

    Args:
        calls: For each mechanism the weights of its calls, [batch, (heads,) steps, positions].
        length: Number of positions that attend to each other.
    """
    layers = [layer for weights in calls for layer in _layers_of(weights, length)]
    if len({layer.shape for layer in layers}) > 1:
        layers = [layer.mean(1) if layer.dim() == 4 else layer for layer in layers]
    return torch.stack(layers, 1) if layers else None


def _layers_of(calls: Sequence[Tensor], length: int) -> list[Tensor]:
    """The weights of one mechanism: one layer, or several that share it, each in one call or step by step.

    None of them if a call attends to something else than all positions so far: it is not self-attention.
    """
    layers: list[Tensor] = []
    rows: list[Tensor] = []
    for weights in calls:
        rows.append(weights)
        positions = sum(row.shape[-2] for row in rows)
        if weights.shape[-1] != positions:
            return []
        if positions == length:
            padded = (nn.functional.pad(row, (0, length - row.shape[-1])) for row in rows)
            layers.append(weights if len(rows) == 1 else torch.cat(list(padded), -2))
            rows = []
    return layers


def _rows_without_padding(weights: Tensor | None, valid: Tensor) -> list[Tensor | None]:
    """The weights of each row of a batch, without padding."""
    if weights is None:
        return [None] * len(valid)
    weights, lengths = at_least_float32(weights).cpu(), valid.sum(1).tolist()
    return [row[..., :length, :length].clone() for row, length in zip(weights, lengths, strict=True)]
