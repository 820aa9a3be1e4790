"""Multi-head attention of a sequence to itself, in which relative positions act."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from regard.nn.attention import Memory
from regard.nn.mechanisms import MultiHeadAttention
from regard.nn.positions import RelativePositions


class SelfAttention(MultiHeadAttention):
    """Multi-head attention in which queries, keys and values are projections of the same states.

    The states of a call are the last of the positions that the memory covers: all of them in an encoder, the new steps
    in a decoder. So the numbers of states and of positions give the position of each query and of each key.

    Args:
        size: Size of the states.
        heads: Number of heads.
        positions: What acts on queries, keys and scores; nothing if None.
    """

    def __init__(self, size: int, *, heads: int, positions: RelativePositions | None = None) -> None:
        super().__init__(size, size, heads=heads)
        self.positions = positions or RelativePositions(size)
        self.positions.check_heads(heads, size)

    def prepare(self, states: Tensor, valid: Tensor) -> Memory:
        """The keys and values of these states.

        Args:
            states: x, [batch, steps, size].
            valid: True where weight is allowed, [batch, positions] or [batch, steps, positions]; the steps are the last
                of the positions.
        """
        memory = super().prepare(states, valid)
        offset = valid.shape[-1] - states.shape[1]
        return replace(memory, keys=self.positions.rotate(memory.keys, offset))

    def score_heads(self, queries: Tensor, keys: Tensor) -> Tensor:
        offset = keys.shape[-2] - queries.shape[-2]
        return self.positions.add_bias(super().score_heads(self.positions.rotate(queries, offset), keys))
