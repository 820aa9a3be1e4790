"""The gradient of the loss at each source position, through the bottleneck and through attention.

                  ┌─ last ─── bottleneck ──┐
    z_i → encoder ┤                        ├ decoder → loss
                  └─ states ─ attention ───┘

A decoder depends on the source through two paths only: the encoder's final state, from which its initial state is
computed (and which is the context of `last` attention), and the encoder states, to which it attends. The gradient at
z_i, the embedding of source position i, is therefore a sum of two:

    g_i = ∂loss/∂z_i = g_i^bottleneck + g_i^attention

Where a path does not exist (no attention; a Transformer, or a decoder that starts from zeros), its part is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from regard.data import Batch, Example, collate
from regard.inference.translator import ProgressCallback, no_progress
from regard.laboratory.embeddings import double_precision_copy, encode_embeddings, model_device, source_embeddings
from regard.nn import Encoding, Seq2Seq

Part = Literal["total", "bottleneck", "attention"]
PARTS: tuple[Part, ...] = ("total", "bottleneck", "attention")
BATCH_SIZE = 32  # sentences
RARE = 10  # positions that fewer than one in `RARE` sentences have are not shown


@dataclass(frozen=True)
class InputGradients:
    """Loss and gradients of a batch; gradients at padding are zero.

    Args:
        loss: The loss of each sentence [batch].
        bottleneck: g^bottleneck [batch, positions, size].
        attention: g^attention [batch, positions, size].
    """

    loss: Tensor
    bottleneck: Tensor
    attention: Tensor

    @property
    def norms(self) -> Tensor:
        """‖g_i‖ of the total and of both parts: [batch, parts, positions]."""
        return torch.stack([self.bottleneck + self.attention, self.bottleneck, self.attention], 1).norm(dim=-1)


def input_gradients(model: Seq2Seq, batch: Batch) -> InputGradients:
    """The gradient of each sentence's loss −Σ_t log p(y_t | y_<t, x), in nats, at its own source positions.

    The graph is cut at both paths; the gradient of each is propagated through the encoder separately.

    Args:
        model: The model.
        batch: Sources and reference targets.
    """
    embeddings = source_embeddings(model.encoder, batch.source).requires_grad_()
    encoding = encode_embeddings(model.encoder, batch.source, batch.source_valid, embeddings)
    states = encoding.states.detach().requires_grad_()
    last = tuple(part.detach().requires_grad_() for part in encoding.final_state)
    losses = sentence_losses(model, batch, Encoding(states, encoding.valid, last))
    at_states, *at_last = torch.autograd.grad(losses.sum(), (states, *last), materialize_grads=True)
    (attention,) = torch.autograd.grad(encoding.states, embeddings, at_states, retain_graph=True)
    (bottleneck,) = torch.autograd.grad(encoding.final_state, embeddings, at_last)
    return InputGradients(losses.detach(), bottleneck, attention)


def sentence_losses(model: Seq2Seq, batch: Batch, encoding: Encoding) -> Tensor:
    """−Σ_t log p(y_t | y_<t, x) of each sentence, with teacher forcing: [batch].

    Args:
        model: The model.
        batch: Sources and reference targets.
        encoding: The encoded sources.
    """
    logits, _ = model.decoder.teacher_forced(batch.inputs, model.decoder.start(encoding), batch.valid)
    losses = cross_entropy(logits, batch.outputs[batch.valid], reduction="none")
    return torch.stack([row.sum() for row in losses.split(batch.valid.sum(1).tolist())])


@dataclass(frozen=True)
class GradientProfile:
    """Losses and gradient norms of many sentences.

    Args:
        tokens: The number of target tokens of all sentences, end tokens included.
        losses: The loss of each sentence.
        norms: The norms of each sentence [parts, positions].
    """

    tokens: int
    losses: list[float]
    norms: list[Tensor]

    def at_position(self, index: int) -> dict[Part, float]:
        """Mean norms over the sentences that have this position.

        Args:
            index: The position, from 0; from the end, −1 is the last.
        """
        have = [norms[:, index] for norms in self.norms if -norms.shape[1] <= index < norms.shape[1]]
        return self._by_part(torch.stack(have).mean(0))

    def at_middle(self) -> dict[Part, float]:
        """Mean norms at the middle position of each sentence."""
        return self._by_part(torch.stack([norms[:, norms.shape[1] // 2] for norms in self.norms]).mean(0))

    def first_last_ratio(self) -> float | None:
        """The median over sentences of ‖g_1‖ / ‖g_n‖; short sentences would dominate a mean."""
        ratios = [float(total[0] / total[-1]) for total, *_ in self.norms if total[-1]]
        return median(ratios) if ratios else None

    def share(self, part: Part) -> float | None:
        """Σ ‖g_i^part‖ / Σ ‖g_i‖ over all positions of all sentences.

        Args:
            part: The path whose share is computed.
        """
        sums = self._by_part(torch.cat(self.norms, 1).sum(1))
        return sums[part] / sums["total"] if sums["total"] else None

    def sentences_with(self, index: int) -> int:
        """The number of sentences that have this position.

        Args:
            index: The position, from 0.
        """
        return sum(norms.shape[1] > index for norms in self.norms)

    @property
    def positions(self) -> range:
        """All positions, from 0."""
        return range(max(norms.shape[1] for norms in self.norms))

    @property
    def common_positions(self) -> list[int]:
        """The positions that at least a tenth of the sentences have."""
        return [index for index in self.positions if RARE * self.sentences_with(index) >= len(self.norms)]

    @staticmethod
    def _by_part(norms: Tensor) -> dict[Part, float]:
        return dict(zip(PARTS, norms.tolist(), strict=True))


def gradient_profile(
    model: Seq2Seq, examples: Sequence[Example], advance: ProgressCallback = no_progress
) -> GradientProfile:
    """Losses and gradient norms of the examples, in double precision, shortest source first.

    Args:
        model: The model.
        examples: The sentences as token ids.
        advance: Called with the number of sentences done.
    """
    model = double_precision_copy(model)
    losses: list[float] = []
    norms: list[Tensor] = []
    ordered = by_source_length(examples)
    for begin in range(0, len(ordered), BATCH_SIZE):
        some = ordered[begin : begin + BATCH_SIZE]
        found = input_gradients(model, collate(some).to(model_device(model)))
        losses += found.loss.tolist()
        norms += [row[:, : len(e.source)] for row, e in zip(found.norms, some, strict=True)]
        advance(len(some))
    return GradientProfile(sum(len(example.target) - 1 for example in examples), losses, norms)


def by_source_length(examples: Sequence[Example]) -> list[Example]:
    """The examples, shortest source first, so that batches have little padding.

    Args:
        examples: The sentences as token ids.
    """
    return sorted(examples, key=lambda example: len(example.source))
