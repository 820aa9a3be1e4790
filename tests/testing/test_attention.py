"""Every mechanism passes, and a class that breaks one property is reported with that property and the mistake."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest
import torch
from torch import Tensor

import regard
from regard import nn
from regard.config import kinds
from regard.config.base import invalid_combination
from regard.config.kinds import AttentionSection
from regard.errors import UserError
from regard.nn.attention_history import NO_HISTORY
from regard.testing import check_attention
from regard.testing.building import attention_recipe
from regard.testing.samples import sample_batch


@pytest.mark.parametrize("kind", kinds.MECHANISMS)
def test_every_mechanism_passes(kind: str) -> None:
    check_attention(kinds.MECHANISMS[kind])


@pytest.mark.parametrize(
    ("mechanism", "options"),
    [
        (nn.ScaledDotAttention, {"normalizer": "hard", "key_size": 5}),
        (nn.AdditiveAttention, {"unit_norm": True}),
        (nn.LocationAttention, {"filters": 3, "width": 5, "normalizer": "sparsemax"}),
        (nn.CoverageAttention, {"max_fertility": None, "key_size": 7}),
        (nn.LocalAttention, {"center": "monotonic", "window": 2}),
        (nn.LocalAttention, {"center": "predictive", "window": 3, "value_size": 9}),
        (nn.MonotonicAttention, {"key_size": 5, "noise": 0.0}),
        (nn.MultiHeadAttention, {"heads": 5, "normalizer": "entmax15"}),
        (nn.BilinearAttention, {"temperature": 0.5, "value_size": 3}),
        (nn.DotAttention, {"temperature": "learned", "value_size": 17}),
        (nn.MultiHeadAttention, {"heads": 5, "unit_norm": True, "value_size": 35}),
    ],
)
def test_options_are_those_of_the_settings(mechanism: type[nn.Attention], options: dict[str, Any]) -> None:
    check_attention(mechanism, **options)


def test_the_package_has_the_checks() -> None:
    assert regard.testing.check_attention is check_attention


class TemperedAttention(nn.Attention):
    """A mechanism without a Section of its own, whose constructor has an option."""

    def __init__(self, query_size: int, memory_size: int, *, temperature: float = 1.0) -> None:
        super().__init__(query_size, memory_size)
        self.temperature = temperature
        self.layer = torch.nn.Linear(query_size, memory_size, bias=False)

    def score(self, query: Tensor, keys: Tensor) -> Tensor:
        return self.layer(query) @ keys.transpose(-1, -2) / self.temperature


def test_a_class_without_a_section_passes_with_options_of_its_constructor() -> None:
    check_attention(TemperedAttention, temperature=2.0)


def test_an_unknown_option_is_refused_with_the_nearest() -> None:
    with pytest.raises(
        UserError, match=r"TemperedAttention has no option temperatur; did you mean 'temperature'\? choices: temp"
    ):
        check_attention(TemperedAttention, temperatur=2.0)


def test_an_invalid_option_is_refused_with_its_value() -> None:
    with pytest.raises(UserError, match=r"MultiHeadAttention with .*'heads': 0.*: heads: Input should be greater"):
        check_attention(nn.MultiHeadAttention, heads=0)


def test_sizes_are_equal_only_if_the_mechanism_needs_it() -> None:
    sizes = {
        kind: (recipe.query_size, recipe.memory_size)
        for kind in kinds.MECHANISMS
        for recipe in [attention_recipe(kinds.MECHANISMS[kind], {})]
    }
    assert sizes.pop("dot") == (11, 11)
    assert sizes.pop("multi-head") == (12, 11)
    assert set(sizes.values()) == {(13, 11)}


class StartsAsMean(TemperedAttention):
    """Its first layer has no gradient until the second one is not 0."""

    def __init__(self, query_size: int, memory_size: int) -> None:
        super().__init__(query_size, memory_size)
        self.gate = torch.nn.Parameter(torch.zeros(()))

    def score(self, query: Tensor, keys: Tensor) -> Tensor:
        return super().score(query, keys) * self.gate


def test_weights_that_start_as_zeros_pass() -> None:
    check_attention(StartsAsMean)


def test_rows_of_the_sample_have_different_lengths() -> None:
    batch = sample_batch(5)
    assert batch.source_valid.sum(1).tolist() == [7, 1, 4]
    assert batch.valid.sum(1).tolist() == [3, 5, 1]
    assert not torch.equal(batch.source, sample_batch(6).source)


# Classes that break one property each


class SoftmaxOverPadding(TemperedAttention):
    def attend_rows(self, query: Tensor, memory: nn.Memory, history: nn.QueryHistory) -> tuple[Tensor, Tensor]:
        weights = self.score(query, memory.keys).softmax(-1)
        return weights @ memory.values, weights


class SoftmaxOverSteps(TemperedAttention):
    def attend_rows(self, query: Tensor, memory: nn.Memory, history: nn.QueryHistory) -> tuple[Tensor, Tensor]:
        weights = self.score(query, memory.keys).softmax(-2).masked_fill(~memory.valid, 0.0)
        return weights @ memory.values, weights


class NegativeWeights(TemperedAttention):
    def attend_rows(self, query: Tensor, memory: nn.Memory, history: nn.QueryHistory) -> tuple[Tensor, Tensor]:
        context, weights = super().attend_rows(query, memory, history)
        return context, 2 * weights - memory.valid / memory.valid.sum(-1, keepdim=True)


class HardIgnored(TemperedAttention):
    def __init__(self, query_size: int, memory_size: int, *, normalizer: str = "softmax") -> None:
        super().__init__(query_size, memory_size)


class ContextOverPadding(TemperedAttention):
    def attend_rows(self, query: Tensor, memory: nn.Memory, history: nn.QueryHistory) -> tuple[Tensor, Tensor]:
        context, weights = super().attend_rows(query, memory, history)
        return context + memory.values.mean(1, keepdim=True), weights


class NormOverPositions(TemperedAttention):
    def project_keys(self, states: Tensor) -> Tensor:
        return torch.nn.functional.normalize(states, dim=1)


class PositionsFromTheEnd(TemperedAttention):
    """Prefers early positions, but counts them from the end of the batch."""

    def score(self, query: Tensor, keys: Tensor) -> Tensor:
        return super().score(query, keys) * torch.arange(keys.shape[1], 0, -1, device=keys.device)


class BatchCentered(TemperedAttention):
    def score(self, query: Tensor, keys: Tensor) -> Tensor:
        return super().score(query - query.mean(0), keys)


class StepsCentered(TemperedAttention):
    def score(self, query: Tensor, keys: Tensor) -> Tensor:
        return super().score(query - query.mean(1, keepdim=True), keys)


class RepeatedMemory(TemperedAttention):
    """The memories of hypotheses are in the wrong order."""

    def forward(
        self, query: Tensor, memory: nn.Memory, history: nn.AttentionHistory = NO_HISTORY
    ) -> tuple[Tensor, Tensor]:
        share = len(query) // len(memory.keys)
        parts = (part.repeat(share, 1, 1) for part in (memory.keys, memory.values, memory.valid))
        return self.attend_rows(query, nn.Memory(*parts), history.of_queries(query.shape[1], 1))


class UnsharedMemory(TemperedAttention):
    def forward(
        self, query: Tensor, memory: nn.Memory, history: nn.AttentionHistory = NO_HISTORY
    ) -> tuple[Tensor, Tensor]:
        return self.attend_rows(query, memory, history.of_queries(query.shape[1], 1))


class KeepsKeys(TemperedAttention):
    def project_keys(self, states: Tensor) -> Tensor:
        self.keys = states
        return states


class CountsCalls(TemperedAttention):
    def __init__(self, query_size: int, memory_size: int) -> None:
        super().__init__(query_size, memory_size)
        self.register_buffer("calls", torch.zeros(1))

    def score(self, query: Tensor, keys: Tensor) -> Tensor:
        self.calls += 1
        return super().score(query, keys)


class NoisyScores(TemperedAttention):
    def score(self, query: Tensor, keys: Tensor) -> Tensor:
        return super().score(query, keys) + torch.rand(keys.shape[1], device=keys.device) * 1e-5


class ModifiesQuery(TemperedAttention):
    def score(self, query: Tensor, keys: Tensor) -> Tensor:
        return super().score(query.mul_(1.0 - 1e-6), keys)


class ModifiesMemory(TemperedAttention):
    def score(self, query: Tensor, keys: Tensor) -> Tensor:
        keys.mul_(0.5)
        return super().score(query, keys)

    def project_keys(self, states: Tensor) -> Tensor:
        return states.clone()


class SoftmaxByHand(TemperedAttention):
    def attend_rows(self, query: Tensor, memory: nn.Memory, history: nn.QueryHistory) -> tuple[Tensor, Tensor]:
        powers = self.score(query, memory.keys).exp() * memory.valid
        weights = powers / powers.sum(-1, keepdim=True)
        return weights @ memory.values, weights


class RootOfZero(TemperedAttention):
    def project_keys(self, states: Tensor) -> Tensor:
        return states * states.square().sum(-1, keepdim=True).sqrt()


class OnTheProcessor(TemperedAttention):
    def score(self, query: Tensor, keys: Tensor) -> Tensor:
        return super().score(query, keys) + torch.zeros(keys.shape[1], device="cpu")


class DotOfAnySize(nn.Attention):
    def score(self, query: Tensor, keys: Tensor) -> Tensor:
        return query @ keys.transpose(-1, -2)


class OtherContextSize(TemperedAttention):
    def attend_rows(self, query: Tensor, memory: nn.Memory, history: nn.QueryHistory) -> tuple[Tensor, Tensor]:
        context, weights = super().attend_rows(query, memory, history)
        return torch.cat([context, context], -1), weights


class UnnamedHeads(nn.MultiHeadAttention):
    weight_axes = ()


class TunedSection(AttentionSection):
    tuning: int = 1


class TunedAttention(TemperedAttention):
    """Its constructor lacks the setting of its Section."""

    Section = TunedSection


class PickySection(AttentionSection):
    def check_sizes(self, query_size: int, memory_size: int) -> None:
        raise invalid_combination("kind", "sizes must be multiples of 1000")


class PickyAttention(TemperedAttention):
    Section = PickySection


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (SoftmaxOverPadding, r"padding gets attention weight \(up to .*\): .*must be exactly 0; compute them with `re"),
        (SoftmaxOverSteps, r"do not sum to 1 \(by up to .*\): normalize over the last axis, the positions"),
        (NegativeWeights, r"attention weights are negative"),
        (ContextOverPadding, r"padding changes the result: other states at padding change the context .*`valid` is F"),
        (NormOverPositions, r"padding changes the result: .*change the weights .*: .*norms over positions"),
        (PositionsFromTheEnd, r"padding changes the result: more padding changes the weights .*without their number"),
        (BatchCentered, r"of a row alone differ from those of the same row in a batch .*over the batch axis"),
        (StepsCentered, r"of a step alone differ from those of the same step among others .*over the steps"),
        (RepeatedMemory, r"hypotheses that share a memory differ .*`repeat_interleave\(share, 0\)`, not `repeat`"),
        (UnsharedMemory, r"hypotheses of a beam cannot share a memory \(RuntimeError: .*override `attend_rows` rather"),
        (KeepsKeys, r"a call stores `keys` on the module: .*keep what belongs to one call in the `Memory`"),
        (CountsCalls, r"a call changes the weights calls: weights change only in training"),
        (NoisyScores, r"the same query to the same memory gets another context.*no random numbers in evaluation mode"),
        (ModifiesQuery, r"the query or the states are modified: do not use operations in place"),
        (ModifiesMemory, r"gets another context the second time: .*neither change the memory"),
        (SoftmaxByHand, r"context or weights are not finite if queries and states are multiplied by 100: .*`attend`"),
        (RootOfZero, r"the gradient of states is not finite if queries and states are multiplied by 0: .*small number"),
        (OnTheProcessor, r"a tensor of another device than its inputs .*`device=query.device`.*does not run on a GPU"),
        (DotOfAnySize, r"cannot compute with a query of size 13 and states of size 11 .*`check_sizes` of its Section"),
        (OtherContextSize, r"the context has the shape \[2, 3, 22\] instead of \[2, 3, 11\].*set `self.context_size`"),
        (UnnamedHeads, r"the weights have the shape \[2, 4, 3, 5\], but `weight_axes` is \(\)"),
        (
            TunedAttention,
            r"cannot be constructed from its settings \(TypeError: .*'tuning'.*\): every setting of its Se",
        ),
        (PickyAttention, r"refuses all sizes .*, 13 and 11, .* \(sizes must be multiples of 1000\)"),
    ],
)
def test_a_broken_mechanism_is_reported(broken: type[nn.Attention], message: str, failure: Any) -> None:
    reported = failure(check_attention, broken)
    assert re.search(message, reported), reported
    assert "in a model" not in reported, "properties of the mechanism alone have more specific messages"


def test_an_option_without_effect_is_reported(failure: Any) -> None:
    assert "weights other than 0 and 1 in spite of `normalizer='hard'`" in failure(
        check_attention, HardIgnored, normalizer="hard"
    )


# Classes whose mistake shows in a whole model


class CreatesFloat32(TemperedAttention):
    def score(self, query: Tensor, keys: Tensor) -> Tensor:
        return super().score(query + torch.zeros(query.shape[-1]), keys)


class SumsInBfloat16(TemperedAttention):
    def attend_rows(self, query: Tensor, memory: nn.Memory, history: nn.QueryHistory) -> tuple[Tensor, Tensor]:
        _, weights = super().attend_rows(query, memory, history)
        weights = (weights.to(memory.values.dtype) + 60) - 60
        return weights @ memory.values, weights


class CountsInBfloat16(TemperedAttention):
    def score(self, query: Tensor, keys: Tensor) -> Tensor:
        return (super().score(query, keys) + 300) - 300


class ContextInFloat32(TemperedAttention):
    def attend_rows(self, query: Tensor, memory: nn.Memory, history: nn.QueryHistory) -> tuple[Tensor, Tensor]:
        context, weights = super().attend_rows(query, memory, history)
        return context.float(), weights


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (CreatesFloat32, r": it cannot compute converted to bfloat16 .*: create tensors like the inputs"),
        (SumsInBfloat16, r": converted to bfloat16, the sums of the weights change .*: normalize scores in float32"),
        (CountsInBfloat16, r": under autocast, the weights of most steps change by .*: bfloat16 has 8 bits"),
        (ContextInFloat32, r": converted to bfloat16, the context is torch.float32 .*: a context has the type of the"),
    ],
)
def test_a_mistake_that_shows_in_bfloat16_is_reported(broken: type[nn.Attention], message: str, failure: Any) -> None:
    assert re.match(message, failure(check_attention, broken))


class UnusedParameter(TemperedAttention):
    def __init__(self, query_size: int, memory_size: int) -> None:
        super().__init__(query_size, memory_size)
        self.unused = torch.nn.Parameter(torch.ones(3))


class DetachedScores(TemperedAttention):
    def score(self, query: Tensor, keys: Tensor) -> Tensor:
        return super().score(query, keys).detach()


class RandomConstant(nn.Attention):
    """Its random projection is no parameter, so that it is not saved."""

    def __init__(self, query_size: int, memory_size: int) -> None:
        super().__init__(query_size, memory_size)
        self.register_buffer("matrix", torch.randn(query_size, memory_size))

    def score(self, query: Tensor, keys: Tensor) -> Tensor:
        return query @ self.matrix @ keys.transpose(-1, -2)


class ReadsInitialWeights(TemperedAttention):
    def __init__(self, query_size: int, memory_size: int) -> None:
        super().__init__(query_size, memory_size)
        self.scale = float(self.layer.weight.detach().norm())


class NoiseOfPython(TemperedAttention):
    def score(self, query: Tensor, keys: Tensor) -> Tensor:
        return super().score(query, keys) * (random.random() if self.training else 1.0)


class GradientOfPadding(TemperedAttention):
    """Padding does not change the context, but its gradient."""

    def attend_rows(self, query: Tensor, memory: nn.Memory, history: nn.QueryHistory) -> tuple[Tensor, Tensor]:
        context, weights = super().attend_rows(query, memory, history)
        padding = memory.values.masked_fill(memory.valid.transpose(-1, -2), 0.0).sum(1, keepdim=True)
        return context + (padding - padding.detach()), weights


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (UnusedParameter, r"parameter decoder.attention.unused does not affect the loss: use it in `forward`"),
        (DetachedScores, r"parameter decoder.attention.layer.weight does not affect the loss: .*without `detach`"),
        (RandomConstant, r"a model with the same parameters computes something else .*`nn.Parameter`"),
        (ReadsInitialWeights, r"cannot be built on the `meta` device .*: .*read no values of tensors in `__init__`"),
        (NoiseOfPython, r"other outputs with the same seed, in training mode: draw all random numbers from PyTorch"),
        (GradientOfPadding, r"more padding changes the gradient of .*: mask positions where `valid` is False"),
    ],
)
def test_a_mistake_that_shows_in_a_model_is_reported(broken: type[nn.Attention], message: str, failure: Any) -> None:
    reported = failure(check_attention, broken)
    assert reported.startswith(" in a model of ")
    assert broken.__name__ in reported.partition(":")[0]
    assert re.search(message, reported), reported
