"""Every encoder and decoder passes, and a class that breaks one property is reported with it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor

from regard import nn
from regard.config import kinds
from regard.errors import UserError
from regard.nn.attention_history import NO_HISTORY
from regard.nn.recurrent import RecurrentState
from regard.testing import check_decoder, check_encoder
from regard.testing.samples import more_padding, sample_batch


@pytest.mark.parametrize("kind", kinds.ENCODERS)
def test_every_encoder_passes(kind: str) -> None:
    check_encoder(kinds.ENCODERS[kind])


@pytest.mark.parametrize("kind", kinds.DECODERS)
def test_every_decoder_passes(kind: str) -> None:
    check_decoder(kinds.DECODERS[kind])


def test_options_are_those_of_the_settings() -> None:
    check_encoder(nn.RecurrentEncoder, cell="lstm", bidirectional=False, layers=1)
    check_encoder(nn.RecurrentSelfAttentionEncoder, cell="lstm", bidirectional=False, self_attention_layers=2)
    check_decoder(nn.RecurrentDecoder, cell="lstm", start="copy", readout="tied", positions={"kind": "sine-added"})


@pytest.mark.parametrize("positions", ["rotary", "alibi"])
def test_relative_positions_and_the_options_of_layers_pass(positions: str) -> None:
    options: dict[str, Any] = {"norm_position": "post", "norm": "rms", "activation": "gelu"}
    options["positions"] = {"kind": positions}
    check_encoder(nn.SelfAttentionEncoder, **options)
    check_encoder(nn.RecurrentSelfAttentionEncoder, **options)
    check_decoder(nn.TransformerDecoder, **options)


@pytest.mark.parametrize("layers", [0, 1, 3])
def test_plain_attention_passes_with_any_number_of_layers(layers: int) -> None:
    check_encoder(nn.PlainAttentionEncoder, layers=layers)


def test_a_wiring_is_a_decoder() -> None:
    check_decoder(nn.AttendBeforeDecoder)


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(UserError, match=r"RecurrentEncoder has no option sell; did you mean 'cell'\?"):
        check_encoder(nn.RecurrentEncoder, sell="gru")
    with pytest.raises(UserError, match=r"TransformerDecoder with .*heads"):
        check_decoder(nn.TransformerDecoder, heads=7)


def test_padding_of_the_sample_has_other_tokens() -> None:
    batch = sample_batch()
    source, valid = more_padding(batch, 5)
    assert source.shape == valid.shape == (3, 12)
    assert torch.equal(source[valid], batch.source[batch.source_valid])
    assert (source[:, :7] != batch.source)[~batch.source_valid].all()


# Encoders that break one property each


class AttendsToPadding(nn.SelfAttentionEncoder):
    def forward(self, tokens: Tensor, valid: Tensor) -> nn.Encoding:
        encoding = super().forward(tokens, torch.ones_like(valid))
        return nn.Encoding(encoding.states, valid, encoding.final_state)


class EndsWithPadding(nn.RecurrentEncoder):
    def forward(self, tokens: Tensor, valid: Tensor) -> nn.Encoding:
        states, final_state = self.cell(self.embedding(tokens))
        return nn.Encoding(states, valid, final_state)


class PositionsFromTheEndOfTheBatch(nn.RecurrentEncoder):
    def forward(self, tokens: Tensor, valid: Tensor) -> nn.Encoding:
        encoding = super().forward(tokens, valid)
        steps = torch.arange(tokens.shape[1], 0, -1).view(1, -1, 1)
        return nn.Encoding(encoding.states * steps, valid, encoding.final_state)


class SortsByLength(nn.RecurrentEncoder):
    """A batch of several rows keeps the order of their lengths."""

    def forward(self, tokens: Tensor, valid: Tensor) -> nn.Encoding:
        encoding = super().forward(tokens, valid)
        order = valid.sum(1).argsort(descending=True)
        final_state = tuple(part[:, order] for part in encoding.final_state)
        return nn.Encoding(encoding.states[order], valid, final_state)


class LongestFirst(nn.RecurrentEncoder):
    """Returns rows in the order of their lengths if the first one is not the longest."""

    def forward(self, tokens: Tensor, valid: Tensor) -> nn.Encoding:
        encoding, lengths = super().forward(tokens, valid), valid.sum(1)
        order = lengths.argsort(descending=True) if lengths.argmax() else torch.arange(len(tokens))
        final_state = tuple(part[:, order] for part in encoding.final_state)
        return nn.Encoding(encoding.states[order], valid, final_state)


class OtherSize(nn.RecurrentEncoder):
    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.size += 1


class OneDirectionOfStates(nn.RecurrentEncoder):
    def forward(self, tokens: Tensor, valid: Tensor) -> nn.Encoding:
        encoding = super().forward(tokens, valid)
        return nn.Encoding(encoding.states.chunk(2, -1)[0], valid, encoding.final_state)


class LastLayerOnly(nn.RecurrentEncoder):
    def forward(self, tokens: Tensor, valid: Tensor) -> nn.Encoding:
        encoding = super().forward(tokens, valid)
        return nn.Encoding(encoding.states, valid, tuple(part[-1:] for part in encoding.final_state))


class NoMask(nn.RecurrentEncoder):
    def forward(self, tokens: Tensor, valid: Tensor) -> nn.Encoding:
        encoding = super().forward(tokens, valid)
        return nn.Encoding(encoding.states, torch.ones_like(valid), encoding.final_state)


class NoLimit(nn.RecurrentEncoder):
    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.max_length = None


class UnnamedEmbedding(nn.RecurrentEncoder):
    def __init__(self, embedding: nn.Embedding, cell: nn.RecurrentLayers) -> None:
        super().__init__(embedding, cell)
        self.embed = embedding
        del self.embedding

    def forward(self, tokens: Tensor, valid: Tensor) -> nn.Encoding:
        states, final_state = self.cell(self.embed(tokens), lengths=valid.sum(1))
        return nn.Encoding(states, valid, final_state)


class KeepsStates(nn.RecurrentEncoder):
    def forward(self, tokens: Tensor, valid: Tensor) -> nn.Encoding:
        self.encoding = super().forward(tokens, valid)
        return self.encoding


class NoSection(nn.Encoder):
    pass


class BuildsItsBase(nn.RecurrentEncoder):
    @classmethod
    def from_section(cls, section: Any, tokens: int, dropout: float) -> nn.RecurrentEncoder:
        return nn.RecurrentEncoder.from_section(section, tokens, dropout)


class NeedsMore(nn.RecurrentEncoder):
    def __init__(self, embedding: nn.Embedding, cell: nn.RecurrentLayers, width: int) -> None:
        super().__init__(embedding, cell)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (AttendsToPadding, r"^: more padding changes the states \(by up to .*\): .*mask it with `valid` in attention"),
        (EndsWithPadding, r"^: more padding changes the .*take the last state at `valid.sum\(1\) - 1`"),
        (PositionsFromTheEndOfTheBatch, r"^: more padding changes the states .*count positions from the beginning"),
        (SortsByLength, r"^: the states of a source alone and in a batch differ"),
        (LongestFirst, r"^: the states depend on the order of the batch .*if rows are sorted by length, restore"),
        (OtherSize, r"^: `size` is 23, but `state_size` of its Section is 22"),
        (OneDirectionOfStates, r"^: the states have the shape \[3, 7, 11\] instead of \[3, 7, 22\]"),
        (
            LastLayerOnly,
            r"^: the final state has the shapes \[\[1, 3, 22\]\], but .* describes 2 layer\(s\) of 22: .*copy",
        ),
        (NoMask, r"^: `valid` of the encoding is not the mask"),
        (NoLimit, r"^: `max_length` is None, but its positions allow 13: .*`Embedding.from_section"),
        (UnnamedEmbedding, r"^: it has no attribute `embedding`: .*shared embeddings need it"),
        (KeepsStates, r"^ in a model .*: a call stores `encoder.encoding` on the module: .*the `Encoding`"),
        (NoSection, r"^: it has no `Section`: name its settings class"),
        (BuildsItsBase, r"^: `from_section` returns a RecurrentEncoder: it returns an instance of its own class"),
        (NeedsMore, r"^: it cannot be constructed from its settings \(TypeError: .*'width'"),
    ],
)
def test_a_broken_encoder_is_reported(broken: type[nn.Encoder], message: str, failure: Any) -> None:
    reported = failure(check_encoder, broken)
    assert re.search(message, reported), reported


# Decoders that break one property each


class After(nn.AttendAfterDecoder):
    """The decoder that most of the broken ones change; it keeps all properties."""


class PositionsFromTheCall(After):
    def forward_steps(self, tokens: Tensor, state: RecurrentState) -> tuple[Tensor, Tensor, RecurrentState]:
        features, weights, end = super().forward_steps(tokens, replace(state, history=NO_HISTORY))
        return features, weights, end


class SeesTheFuture(nn.TransformerDecoder):
    def forward_steps(self, tokens: Tensor, state: Any) -> tuple[Tensor, Tensor, Any]:
        features, weights, end = super().forward_steps(tokens, state)
        return features + features.mean(1, keepdim=True), weights, end


class IgnoresTokens(After):
    def forward_steps(self, tokens: Tensor, state: RecurrentState) -> tuple[Tensor, Tensor, RecurrentState]:
        return super().forward_steps(torch.zeros_like(tokens), state)


class NoWeights(After):
    def forward_steps(self, tokens: Tensor, state: RecurrentState) -> tuple[Tensor, Tensor, RecurrentState]:
        features, weights, end = super().forward_steps(tokens, state)
        return features, weights, replace(end, weights=None)


class WeightsOfTheFirstStep(After):
    def forward_steps(self, tokens: Tensor, state: RecurrentState) -> tuple[Tensor, Tensor, RecurrentState]:
        features, weights, end = super().forward_steps(tokens, state)
        return features, weights, replace(end, weights=weights.select(-2, 0))


class ModifiesState(After):
    def forward_steps(self, tokens: Tensor, state: RecurrentState) -> tuple[Tensor, Tensor, RecurrentState]:
        features, weights, end = super().forward_steps(tokens, state)
        for old, new in zip(state.hidden, end.hidden, strict=True):
            old.copy_(new)
        return features, weights, end


class ForgetsCells(After):
    """The state of the first layer is lost between two calls."""

    def forward_steps(self, tokens: Tensor, state: RecurrentState) -> tuple[Tensor, Tensor, RecurrentState]:
        features, weights, end = super().forward_steps(tokens, state)
        return features, weights, replace(end, hidden=tuple(part.clone().fill_(0.0) for part in end.hidden))


class ValidStepsReversed(After):
    def teacher_forced(self, tokens: Tensor, state: Any, valid: Tensor | None = None) -> tuple[Tensor, Tensor]:
        logits, weights = super().teacher_forced(tokens, state, valid)
        return logits if valid is None else logits.flip(0), weights


class AlwaysSamples(After):
    def scheduled_sampling(self, tokens: Tensor, state: Any, teacher_forcing_mask: Tensor) -> Tensor:
        return super().scheduled_sampling(tokens, state, torch.zeros_like(teacher_forcing_mask))


class NeverSamples(After):
    def scheduled_sampling(self, tokens: Tensor, state: Any, teacher_forcing_mask: Tensor) -> Tensor:
        return super().scheduled_sampling(tokens, state, torch.ones_like(teacher_forcing_mask))


class OtherState(After):
    """A decoder with a state of its own class, whose `select` is broken in subclasses."""

    state_class: type[RecurrentState]

    def start(self, encoding: nn.Encoding) -> RecurrentState:
        state = super().start(encoding)
        return self.state_class(state.hidden, state.memory)

    def forward_steps(self, tokens: Tensor, state: RecurrentState) -> tuple[Tensor, Tensor, RecurrentState]:
        features, weights, end = super().forward_steps(tokens, state)
        return features, weights, self.state_class(end.hidden, end.memory, end.history, end.weights)


@dataclass(frozen=True)
class KeepsWeightsState(RecurrentState):
    def select(self, index: Tensor) -> RecurrentState:
        rows = torch.arange(index.numel()) % self.hidden[0].shape[1]
        return replace(super().select(index), weights=None if self.weights is None else self.weights[rows])


@dataclass(frozen=True)
class KeepsHiddenState(RecurrentState):
    def select(self, index: Tensor) -> RecurrentState:
        rows = torch.arange(index.numel()) % self.hidden[0].shape[1]
        return replace(super().select(index), hidden=tuple(part[:, rows] for part in self.hidden))


@dataclass(frozen=True)
class TransposedState(RecurrentState):
    """Takes the hypotheses of a beam in the order of their ranks."""

    def select(self, index: Tensor) -> RecurrentState:
        rows = index.t().flatten()
        return replace(super().select(index), hidden=tuple(part[:, rows] for part in self.hidden))


@dataclass(frozen=True)
class LazyState(RecurrentState):
    """Remembers the latest selection only."""

    origin: RecurrentState | None = None

    def select(self, index: Tensor) -> RecurrentState:
        origin = self.origin or self
        rows = index.flatten() % origin.hidden[0].shape[1]
        hidden = tuple(part[:, rows] for part in origin.hidden)
        return replace(super().select(index), hidden=hidden, origin=origin)


class WeightsStayBehind(OtherState):
    state_class = KeepsWeightsState


class HiddenStaysBehind(OtherState):
    state_class = KeepsHiddenState


class RanksFirst(OtherState):
    state_class = TransposedState


class LatestSelection(OtherState):
    state_class = LazyState


class HidesItsAttention(After):
    @property
    def source_attentions(self) -> Sequence[nn.Attention]:
        return ()


class OtherAttention(After):
    def forward_steps(self, tokens: Tensor, state: RecurrentState) -> tuple[Tensor, Tensor, RecurrentState]:
        features, weights, end = super().forward_steps(tokens, state)
        shifted = weights.roll(1, 1) if weights.dim() == 4 else weights[..., :1] * 0 + weights.detach()
        return features, shifted, replace(end, weights=shifted.select(-2, -1))


class AllFeatures(After):
    def decoder_states(self, features: Tensor) -> Tensor:
        return features


class NamesAnAxis(After):
    def __init__(self, *parts: Any, **options: Any) -> None:
        super().__init__(*parts, **options)
        self.weight_axes = ("layer", *self.weight_axes)


class NoTargetLimit(After):
    def __init__(self, *parts: Any, **options: Any) -> None:
        super().__init__(*parts, **options)
        self.max_length = None


class Uphill(After):
    """Gradients have the wrong sign."""

    def teacher_forced(self, tokens: Tensor, state: Any, valid: Tensor | None = None) -> tuple[Tensor, Tensor]:
        logits, weights = super().teacher_forced(tokens, state, valid)
        return logits + 2 * (logits.detach() - logits), weights


class RaisesAnError(After):
    def start(self, encoding: nn.Encoding) -> RecurrentState:
        raise KeyError("nothing")


def test_the_decoder_that_broken_ones_change_passes() -> None:
    check_decoder(After)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (PositionsFromTheCall, r"logits of single steps differ from those of all .*count positions from `state.pos"),
        (ForgetsCells, r"logits of single steps differ from those of all .*carry everything that a later step needs"),
        (SeesTheFuture, r"a later token changes earlier logits .*mask later steps"),
        (IgnoresTokens, r"the logits of a step do not depend on its input token"),
        (NoWeights, r"the state after a step has no attention weights"),
        (WeightsOfTheFirstStep, r"`state.weights` differs from the weights of the last step"),
        (ModifiesState, r"the same step from the same state gives another result.*do not change its tensors in place"),
        (ValidStepsReversed, r"with `valid`, `teacher_forced` returns other results"),
        (AlwaysSamples, r"scheduled sampling with reference tokens only differs from teacher forcing"),
        (NeverSamples, r"scheduled sampling differs from teacher forcing with the tokens that it should read"),
        (WeightsStayBehind, r"`select` leaves the weights of the latest step in their old order"),
        (HiddenStaysBehind, r"rows \[2, 0, 1\] continue differently after `select` in their logits .*every tensor"),
        (RanksFirst, r"hypotheses that share 3 sources differ from copies of the sources .*`split_index`"),
        (LatestSelection, r"three selections in a row differ from one selection of the same rows"),
        (HidesItsAttention, r"0 of 0 `source_attentions` were called"),
        (OtherAttention, r"the weights of `forward_steps` are not those of `source_attentions`"),
        (AllFeatures, r"`decoder_states` has the shape \[3, 5, \d+\] instead of \[3, 5, 11\]"),
        (NamesAnAxis, r"the weights have the shape \[3, 5, 7\], but `weight_axes` is \('layer',\)"),
        (NoTargetLimit, r"^: `max_length` is None, but its positions allow 13"),
        (Uphill, r"the loss of a batch rises from .* in four small steps: gradients do not lead downhill"),
        (RaisesAnError, r"an error occurred while checking that attention weights are .*: KeyError: 'nothing'"),
    ],
)
def test_a_broken_decoder_is_reported(broken: type[nn.Decoder[Any]], message: str, failure: Callable[..., str]) -> None:
    reported = failure(check_decoder, broken)
    assert re.search(message, reported), reported
