"""The mechanisms whose weights do not depend on the query. Symbols and shapes as in `regard.nn.attention`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from regard.config.kinds import AttentionSection
from regard.nn.attention import Attention, Memory, attend
from regard.nn.attention_history import QueryHistory
from regard.nn.normalizers import at_least_float32


class UnscoredAttentionSection(AttentionSection):
    """Settings of a mechanism whose weights do not depend on the query: it has no options."""

    @property
    def has_scores(self) -> bool:
        return False


class UnscoredAttention(Attention):
    """Base class of the mechanisms whose weights do not depend on the query: e_ti = 0.

    Args:
        query_size: Size of a query.
        memory_size: Size of a state of the memory.
    """

    Section = UnscoredAttentionSection

    def __init__(self, query_size: int, memory_size: int) -> None:
        super().__init__(query_size, memory_size)

    def score(self, query: Tensor, keys: Tensor) -> Tensor:
        return query.new_zeros(len(query), query.shape[1], keys.shape[1])


class NoAttention(UnscoredAttention):
    """No attention: all weights and the context are 0, so that only the encoder's final state is passed on.

    Args:
        query_size: Size of a query.
        memory_size: Size of a state of the memory.
    """

    def attend_rows(self, query: Tensor, memory: Memory, history: QueryHistory) -> tuple[Tensor, Tensor]:
        context = query.new_zeros(len(query), query.shape[1], self.context_size)
        return context, self.score(query, memory.keys)


class MeanAttention(UnscoredAttention):
    """Uniform weights over the valid positions.

    Args:
        query_size: Size of a query.
        memory_size: Size of a state of the memory.
    """


class LastAttention(UnscoredAttention):
    """c_t = h_T: the encoder's final state is the context of every step, the bottleneck as an input of each step.

    All weight is on the last valid position, whose value is replaced by the encoder's final state: h_T of the last
    layer; [→h_T ; ←h_1] of a bidirectional encoder; the mean of the states of an encoder that has no last step. Only in
    the first case is this the state of that position.

    Args:
        query_size: Size of a query.
        memory_size: Size of a state of the memory.
    """

    order_sensitive = True

    def prepare_source(self, states: Tensor, valid: Tensor, final_state: Sequence[Tensor]) -> Memory:
        memory = self.prepare(states, valid)
        is_last = torch.arange(states.shape[1], device=states.device) == valid.sum(1, keepdim=True) - 1
        summary = final_state[0][-1].unsqueeze(1)  # [batch, 1, memory_size]
        return replace(memory, values=torch.where(is_last.unsqueeze(-1), summary, memory.values))

    def score(self, query: Tensor, keys: Tensor) -> Tensor:
        # e_ti = i, of which `attend_rows` takes the highest.
        positions = torch.arange(keys.shape[1], device=keys.device).to(at_least_float32(query))
        return positions.expand(len(query), query.shape[1], -1)

    def attend_rows(self, query: Tensor, memory: Memory, history: QueryHistory) -> tuple[Tensor, Tensor]:
        return attend(self.score(query, memory.keys), memory, "hard")


class AlignedAttention(UnscoredAttention):
    """c_t = h_t: step t reads source position t, and nothing after the end of the source.

    What a recurrent network without attention would do that reads an input and writes an output at each step. It
    cannot skip, insert or reorder.

    Args:
        query_size: Size of a query.
        memory_size: Size of a state of the memory.
    """

    order_sensitive = True

    def attend_rows(self, query: Tensor, memory: Memory, history: QueryHistory) -> tuple[Tensor, Tensor]:
        steps = history.step_numbers(query.device).unsqueeze(1)
        is_aligned = steps == torch.arange(memory.keys.shape[1], device=query.device)  # [queries, positions]
        weights = (is_aligned & memory.valid).to(query.dtype)
        return weights @ memory.values, weights
