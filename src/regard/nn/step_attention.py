"""Attention modules of the CS224n-style homework (docs/sources.md) as mechanisms of Regard, and the reverse.

The modules of that homework attend one step at a time, and have no mask:

    attended_val, alpha = module(hidden, encoder_outputs)

Shapes: hidden [batch, dec_hid_dim], encoder_outputs [src_len, batch, 2 · enc_hid_dim], attended_val
[batch, 2 · enc_hid_dim], alpha [batch, src_len].
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from regard.errors import UserError
from regard.nn.attention import Attention, Memory
from regard.nn.attention_history import NO_HISTORY, QueryHistory


class StepAttention(Attention):
    """A mechanism from a module that attends one step at a time. A subclass names the module's class:

        class MyAttention(StepAttention):
            module_class = SingleQueryScaledDotProductAttention

    The module is called once for all queries with the same valid positions, of all rows and steps, and gets these
    positions only. So padding never receives weight, whatever the module computes. Weights that are set to 0 and
    normalized again afterwards would be right for a softmax, but not for a mean, and the context is known only to the
    module.

    Args:
        query_size: Size of a query, `dec_hid_dim`.
        memory_size: Size of a state of the memory, 2 · `enc_hid_dim`.
        **options: The settings of its Section, passed on to `make_module`.

    Attributes:
        module_class: Called as `module_class(enc_hid_dim, dec_hid_dim, **options)`.
        module: The module.
    """

    module_class: ClassVar[Callable[..., nn.Module] | None] = None

    def __init__(self, query_size: int, memory_size: int, **options: Any) -> None:
        super().__init__(query_size, memory_size)
        if memory_size % 2:
            raise UserError(
                f"{type(self).__name__} needs states of an even size, 2 · enc_hid_dim, as a bidirectional encoder has "
                f"them; these have {memory_size}"
            )
        self.module = self.make_module(memory_size // 2, query_size, **options)

    def make_module(self, enc_hid_dim: int, dec_hid_dim: int, **options: Any) -> nn.Module:
        """A new module; override it if the constructor has other parameters.

        Args:
            enc_hid_dim: Size of the encoder's states in one direction.
            dec_hid_dim: Size of the decoder's state.
            **options: The settings of its Section.
        """
        make = type(self).module_class
        if make is None:
            raise UserError(f"{type(self).__name__}: set module_class to a class, or define make_module")
        try:
            return make(enc_hid_dim, dec_hid_dim, **options)
        except TypeError as error:
            raise UserError(
                f"{type(self).__name__}: module_class(enc_hid_dim, dec_hid_dim{', **options' * bool(options)}) failed: "
                f"{error}; define make_module if the constructor has other parameters"
            ) from error

    def attend_rows(self, query: Tensor, memory: Memory, history: QueryHistory) -> tuple[Tensor, Tensor]:
        batch, steps, _ = query.shape
        hidden = query.flatten(0, 1)  # [queries, query_size]
        valid = memory.valid.expand(batch, steps, -1).flatten(0, 1)  # [queries, positions]
        context, weights = hidden.new_zeros(len(hidden), self.context_size), hidden.new_zeros(valid.shape)
        masks, groups = valid.unique(dim=0, return_inverse=True)
        for group, mask in enumerate(masks):
            queries, positions = (groups == group).nonzero()[:, 0], mask.nonzero()[:, 0]
            if len(positions):
                outputs = memory.values[queries[:, None] // steps, positions].transpose(0, 1)
                attended, alpha = self._checked(self.module(hidden[queries], outputs), outputs)
                context[queries] = attended.to(context)
                weights[queries[:, None], positions] = alpha.to(weights)
        return context.unflatten(0, (batch, steps)), weights.unflatten(0, (batch, steps))

    def _checked(self, result: Any, outputs: Tensor) -> tuple[Tensor, Tensor]:
        """What the module returned, if it has the right shapes."""
        positions, batch, size = outputs.shape
        expected = [[batch, size], [batch, positions]]
        is_pair = isinstance(result, tuple | list) and all(isinstance(each, Tensor) for each in result)
        shapes = [list(each.shape) for each in result] if is_pair else type(result).__name__
        if shapes != expected:
            raise UserError(
                f"{type(self.module).__name__} returned {shapes} instead of attended_val [batch, 2 · enc_hid_dim] and "
                f"alpha [batch, src_len], here {expected[0]} and {expected[1]}; a squeeze() without an axis, for "
                "example, removes a batch of one, too"
            )
        attended, alpha = result
        return attended, alpha

    def score(self, query: Tensor, keys: Tensor) -> Tensor:
        """e = log α: a module returns no scores, and these have the same softmax as its own.

        Args:
            query: s, [batch, steps, query_size].
            keys: The states of the memory.
        """
        everywhere = keys.new_ones(len(keys), 1, keys.shape[1], dtype=torch.bool)
        _, weights = self.attend_rows(query, Memory(keys, keys, everywhere), NO_HISTORY.of_queries(query.shape[1], 1))
        return weights.clamp_min(torch.finfo(weights.dtype).tiny).log()


class StepModule(nn.Module):
    """A mechanism of Regard as a module that attends one step at a time, for the decoder of that homework.

    Args:
        attention: The mechanism. Its `query_size` is `dec_hid_dim` and its `memory_size` 2 · `enc_hid_dim`. It must not
            be `order_sensitive`, as `last` and `aligned` are, nor use its history, as `coverage` does: the module knows
            neither the steps before nor the final state.
    """

    def __init__(self, attention: Attention) -> None:
        super().__init__()
        if attention.order_sensitive or attention.uses_history:
            reason = "the order of the states" if attention.order_sensitive else "the weights of earlier steps"
            raise UserError(
                f"{type(attention).__name__} depends on {reason}; a module that attends one step at a time knows "
                "neither the steps before nor the encoder's final state"
            )
        self.attention = attention

    def forward(self, hidden: Tensor, encoder_outputs: Tensor, valid: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """`attended_val`, [batch, context_size], and `alpha`, [batch, src_len], the mean over the heads.

        Args:
            hidden: The decoder's state, [batch, query_size].
            encoder_outputs: The encoder's states, [src_len, batch, memory_size].
            valid: True for tokens, False for padding, [batch, src_len]; all positions if None.
        """
        query_size, memory_size = self.attention.query_size, self.attention.memory_size
        batch = hidden.shape[:1]
        if hidden.shape != (*batch, query_size) or encoder_outputs.shape != (
            *encoder_outputs.shape[:1],
            *batch,
            memory_size,
        ):
            raise UserError(
                f"hidden {list(hidden.shape)} and encoder_outputs {list(encoder_outputs.shape)} should be "
                f"[batch, {query_size}] and [src_len, batch, {memory_size}]"
            )
        states = encoder_outputs.transpose(0, 1)
        if valid is None:
            valid = states.new_ones(states.shape[:2], dtype=torch.bool)
        if valid.shape != states.shape[:2] or valid.dtype != torch.bool:
            raise UserError(
                f"valid {list(valid.shape)} of {valid.dtype} should be [batch, src_len] of torch.bool, here "
                f"{list(states.shape[:2])}"
            )
        context, weights = self.attention(hidden.unsqueeze(1), self.attention.prepare(states, valid))
        return context.squeeze(1), weights.reshape(len(weights), -1, weights.shape[-1]).mean(1)
