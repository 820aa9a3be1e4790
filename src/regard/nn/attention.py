"""Attention: weighted sums of a memory, with weights that depend on a query.

    e_ti = score(s_t, h_i)        α_t = normalizer(e_t)        c_t = Σ_i α_ti v_i

Symbols: s query, h states of the memory, k keys, v values, e scores, α weights, c context.
Shapes: [batch, steps, …] for queries, [batch, positions, …] for the memory; a mechanism with several heads has an
axis `heads` after `batch`. A mechanism defines its score; masking, normalizing and the weighted sum are written once,
in `attend`. The normalizer is softmax unless another is chosen (`regard.nn.normalizers`). The mechanisms are in
`regard.nn.mechanisms`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self, TypedDict

import torch
from torch import Tensor, nn

from regard.config.kinds import AttentionSection
from regard.errors import UserError, suggest
from regard.nn.attention_history import NO_HISTORY, AttentionHistory, QueryHistory
from regard.nn.dropout import Dropout
from regard.nn.normalizers import NORMALIZERS, Normalizer, at_least_float32


@dataclass(frozen=True)
class Memory:
    """Keys and values to attend to. Computed once per source and passed on; no module keeps it.

    Args:
        keys: [batch, (heads,) positions, key].
        values: [batch, (heads,) positions, value].
        valid: [batch, (1,) 1 or steps, positions]; True where a position may receive weight.
    """

    keys: Tensor
    values: Tensor
    valid: Tensor

    def select(self, index: Tensor) -> Memory:
        """The batch rows `index`. Copies nothing if these are all rows in their order.

        Args:
            index: Row indices, [rows].
        """
        if torch.equal(index, torch.arange(len(self.keys), device=index.device)):
            return self
        return Memory(*(part.index_select(0, index) for part in (self.keys, self.values, self.valid)))

    def at_step(self, step: int) -> Memory:
        """The memory of one of several steps, which differ in `valid` only.

        Args:
            step: Index of the step.
        """
        if self.valid.shape[-2] == 1:
            return self
        return Memory(self.keys, self.values, self.valid[..., step : step + 1, :])

    def append_to(self, past: Memory) -> Memory:
        """The positions of `past` followed by these; `valid` of this memory already covers both.

        Args:
            past: The memory of earlier steps.
        """
        keys = torch.cat([past.keys, self.keys], -2)
        values = torch.cat([past.values, self.values], -2)
        return Memory(keys, values, self.valid)


def attend(
    scores: Tensor, memory: Memory, normalizer: Normalizer = "softmax", dropout: Dropout | None = None
) -> tuple[Tensor, Tensor]:
    """α = normalizer(e) over the valid positions, c = Σ_i α_i v_i.

    The weight of an invalid position is exactly 0. If a query has no valid position, all its weights and its context
    are 0.

    Args:
        scores: e, [batch, (heads,) steps, positions].
        memory: The values, and which positions are valid.
        normalizer: How weights follow from scores: "softmax", "sparsemax", "entmax15" or "hard".
        dropout: In training, drops weights of the sum c.

    Returns:
        The context c, [batch, (heads,) steps, value], and the weights α before dropout, [batch, (heads,) steps,
        positions], which are at least float32.
    """
    masked, scores = ~memory.valid, at_least_float32(scores)
    weights = NORMALIZERS[normalizer](scores.masked_fill(masked, torch.finfo(scores.dtype).min))
    weights = weights.masked_fill(masked, 0.0)
    return weighted_sum(weights, memory, dropout), weights


def weighted_sum(weights: Tensor, memory: Memory, dropout: Dropout | None = None) -> Tensor:
    """c = Σ_i α_i v_i, [batch, (heads,) steps, value].

    Args:
        weights: α, [batch, (heads,) steps, positions].
        memory: The values.
        dropout: In training, drops weights.
    """
    weights = weights.to(memory.values.dtype)
    return (weights if dropout is None else dropout(weights)) @ memory.values


Temperature = float | Literal["learned"]
UNIT_NORM_SCALE = 10.0  # 1/τ at the start of training: cosines are at most 1, which softmax hardly distinguishes


def check_temperature(value: Any) -> Any:
    """The value, if it is a temperature: a number from 0.001 to 1000, "learned" or None.

    Args:
        value: The value of an argument or of a setting.

    Raises:
        UserError: If it is something else.
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if (is_number and 0.001 <= value <= 1000) or value in (None, "learned"):
        return value
    raise UserError(f"a temperature is a number from 0.001 to 1000, or 'learned', not {value!r}")


class AttentionOptions(TypedDict, total=False):
    """The options of every mechanism that computes scores, documented in `Attention`."""

    normalizer: Normalizer
    unit_norm: bool
    temperature: Temperature | None
    value_size: int | None


class Attention(nn.Module, ABC):
    """Base class of the mechanisms. A subclass defines `score`, and `project_keys` for what does not need the query.

    Args:
        query_size: Size of a query s_t.
        memory_size: Size of a state h_i of the memory.
        normalizer: How weights follow from scores: "softmax", "sparsemax", "entmax15" (both with weights of exactly 0)
            or "hard" (all weight on the highest score).
        unit_norm: Divide queries and states by their Euclidean norms before scoring.
        temperature: τ, by which scores are divided before they are normalized; "learned": a parameter of the model.
            None: 1, or learned with `unit_norm`, whose scores would otherwise have a small range, so that weights stay
            flat.
        value_size: Size of the values v_i = W_V h_i; None: the values are the states.

    Attributes:
        Section: The settings class of the mechanism.
        weight_axes: Names of the axes of the weights between batch and steps, for example ("head",).
        order_sensitive: Whether the weights depend on the order of the states. Otherwise attention treats them as a
            set: a permutation of the states permutes the weights and leaves the context as it is.
        uses_history: Whether the scores depend on the weights of earlier steps. Steps are then computed one by one.
        exact_history: Whether the weights of earlier steps are passed as they were returned; otherwise, they have the
            type of the query.
        context_size: Size of the context.
        weight_dropout: Drops weights of the sum that is the context; `build_model` sets it.
    """

    Section: ClassVar[type[AttentionSection]] = AttentionSection
    weight_axes: tuple[str, ...] = ()
    order_sensitive: ClassVar[bool] = False
    uses_history: ClassVar[bool] = False
    exact_history: ClassVar[bool] = False

    def __init__(
        self,
        query_size: int,
        memory_size: int,
        *,
        normalizer: Normalizer = "softmax",
        unit_norm: bool = False,
        temperature: Temperature | None = None,
        value_size: int | None = None,
    ) -> None:
        super().__init__()
        self.query_size = query_size
        self.memory_size = memory_size
        if value_size is not None and value_size < 1:
            raise UserError(f"value_size is {value_size}; it can be 1 or more, or None")
        self.context_size = value_size or memory_size
        if normalizer not in NORMALIZERS:
            raise UserError(f"{normalizer!r} is not a normalizer: {suggest(str(normalizer), NORMALIZERS)}")
        self.normalizer = normalizer
        self.weight_dropout: Dropout | None = None
        self.unit_norm = unit_norm
        self.value_layer = nn.Linear(memory_size, value_size, bias=False) if value_size else nn.Identity()  # W_V
        if temperature is None:
            temperature = "learned" if unit_norm else 1.0
        self.temperature: Temperature = check_temperature(temperature)
        if self.temperature == "learned":
            self.log_scale = nn.Parameter(torch.tensor(math.log(UNIT_NORM_SCALE if unit_norm else 1.0)))  # log 1/τ

    @classmethod
    def from_section(cls, section: AttentionSection, query_size: int, memory_size: int) -> Self:
        """The mechanism that the settings describe.

        Args:
            section: Settings of this mechanism.
            query_size: Size of a query.
            memory_size: Size of a state of the memory.
        """
        return cls(query_size, memory_size, **section.options())

    def prepare(self, states: Tensor, valid: Tensor) -> Memory:
        """The memory for queries to these states.

        Args:
            states: h, [batch, positions, memory_size].
            valid: True where weight is allowed, [batch, positions], or [batch, steps, positions] if it differs
                between steps.
        """
        if valid.dim() == 2:
            valid = valid.unsqueeze(1)
        return Memory(self.project_keys(self.normalize(states)), self.project_values(states), valid)

    def prepare_source(self, states: Tensor, valid: Tensor, final_state: Sequence[Tensor]) -> Memory:
        """The memory for queries to an encoded source: `prepare`, unless a mechanism needs the encoder's final state.

        Args:
            states: h, [batch, positions, memory_size].
            valid: True for tokens, False for padding, [batch, positions].
            final_state: The state that the encoder ends with, [layers, batch, memory_size] each.
        """
        return self.prepare(states, valid)

    def forward(self, query: Tensor, memory: Memory, history: AttentionHistory = NO_HISTORY) -> tuple[Tensor, Tensor]:
        """Context and weights: of all steps at once, or one by one if the mechanism `uses_history`.

        The query may have several times as many rows as the memory. Consecutive rows of the query then share a row of
        the memory: they are computed as additional steps, so that the hypotheses of a beam share the encoded source
        without copying it.

        Args:
            query: s, [batch, steps, query_size].
            memory: What `prepare` returned.
            history: The steps before these, what `extend_history` returned for them.

        Returns:
            The context, [batch, steps, context_size], and the weights, [batch, (heads,) steps, positions].
        """
        if not self.uses_history:
            return self._attend_shared(query, memory, history)
        contexts, all_weights = [], []
        for step, one in enumerate(query.split(1, dim=1)):
            context, weights = self._attend_shared(one, memory.at_step(step), history)
            history = history.extend(weights)
            contexts.append(context)
            all_weights.append(weights)
        return torch.cat(contexts, 1), torch.cat(all_weights, -2)

    def extend_history(self, history: AttentionHistory, weights: Tensor) -> AttentionHistory:
        """The history after a call. It has weights only if the mechanism uses them.

        Args:
            history: The history before the call.
            weights: The weights that the call returned, [batch, (heads,) steps, positions].
        """
        return history.extend(weights) if self.uses_history else AttentionHistory(history.steps + weights.shape[-2])

    def _attend_shared(self, query: Tensor, memory: Memory, history: AttentionHistory) -> tuple[Tensor, Tensor]:
        """Context and weights of a query that may have several times as many rows as the memory."""
        share = len(query) // len(memory.keys)
        queries = history.of_queries(query.shape[1], share, None if self.exact_history else query.dtype)
        if share == 1:
            return self.attend_rows(query, memory, queries)
        context, weights = self.attend_rows(query.unflatten(0, (-1, share)).flatten(1, 2), memory, queries)
        context = context.unflatten(1, (share, -1)).flatten(0, 1)
        return context, weights.unflatten(-2, (share, -1)).movedim(-3, 1).flatten(0, 1)

    def attend_rows(self, query: Tensor, memory: Memory, history: QueryHistory) -> tuple[Tensor, Tensor]:
        """Context and weights of a query with as many rows as the memory.

        Args:
            query: s, [batch, queries, query_size].
            memory: What `prepare` returned, with the same batch size.
            history: The steps before these queries.
        """
        return attend(self.scores(query, memory, history), memory, self.normalizer, self.weight_dropout)

    def scores(self, query: Tensor, memory: Memory, history: QueryHistory) -> Tensor:
        """e / τ, from which the weights are computed, [batch, (heads,) queries, positions].

        Args:
            query: s, [batch, queries, query_size].
            memory: What `prepare` returned, with the same batch size.
            history: The steps before these queries.
        """
        return self.scale_scores(self.score_with_history(self.normalize(query), memory, history))

    def score_with_history(self, query: Tensor, memory: Memory, history: QueryHistory) -> Tensor:
        """The scores e: `score`, unless a mechanism depends on earlier steps.

        Args:
            query: s, [batch, queries, query_size].
            memory: What `prepare` returned, with the same batch size.
            history: The steps before these queries.
        """
        return self.score(query, memory.keys)

    def normalize(self, states: Tensor) -> Tensor:
        """`states` divided by their norms if the mechanism has `unit_norm`, otherwise unchanged.

        Args:
            states: [batch, positions or steps, size].
        """
        if not self.unit_norm:
            return states
        # A state may be 0, and so may be the smallest divisor in float16.
        return nn.functional.normalize(at_least_float32(states), dim=-1).to(states.dtype)

    def scale_scores(self, scores: Tensor) -> Tensor:
        """e / τ.

        Args:
            scores: e, [batch, (heads,) steps, positions].
        """
        if self.temperature == "learned":
            return scores * self.log_scale.exp()
        return scores if self.temperature == 1.0 else scores / self.temperature

    def project_keys(self, states: Tensor) -> Tensor:
        """The keys of the states: the part of the score that needs no query.

        Args:
            states: h, [batch, positions, memory_size].
        """
        return states

    def project_values(self, states: Tensor) -> Tensor:
        """The values, whose weighted sum is the context: v_i = W_V h_i, or h_i itself without a `value_size`.

        Args:
            states: h, [batch, positions, memory_size].
        """
        return self.value_layer(states)

    @abstractmethod
    def score(self, query: Tensor, keys: Tensor) -> Tensor:
        """The scores e, [batch, (heads,) steps, positions].

        Args:
            query: s, [batch, steps, query_size].
            keys: What `project_keys` returned.
        """
