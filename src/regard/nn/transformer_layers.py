"""The layers of the Transformer, pre-norm: each part normalizes its input and is added to it.

Shapes: [batch, positions, size] on the source side, [batch, steps, size] on the target side.
"""

from __future__ import annotations

from torch import Tensor, nn

from regard.nn.attention import Attention, Memory
from regard.nn.attention_history import NO_HISTORY, AttentionHistory
from regard.nn.dropout import Dropout
from regard.nn.mechanisms import MultiHeadAttention


class FeedForward(nn.Sequential):
    """W_2 ReLU(W_1 x + b_1) + b_2, at every position alike.

    Args:
        size: Size of x.
        inner_size: Size of the hidden layer.
        dropout: Dropout probability of the hidden layer.
    """

    def __init__(self, size: int, inner_size: int, *, dropout: float = 0.0) -> None:
        super().__init__(nn.Linear(size, inner_size), nn.ReLU(), Dropout(dropout), nn.Linear(inner_size, size))


def projection(input_size: int, size: int) -> nn.Module:
    """A linear layer from `input_size` to `size`, or the identity if they are equal.

    Args:
        input_size: Size of the input.
        size: Size of the output.
    """
    return nn.Identity() if input_size == size else nn.Linear(input_size, size)


class EncoderLayer(nn.Module):
    """x ← x + SelfAttention(norm(x));  x ← x + FeedForward(norm(x)).

    Args:
        size: Size of x.
        heads: Number of attention heads.
        inner_size: Size of the hidden layer of the feed-forward network.
        dropout: Dropout probability.
    """

    def __init__(self, size: int, *, heads: int, inner_size: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(size, size, heads=heads)
        self.feed_forward = FeedForward(size, inner_size, dropout=dropout)
        self.attention_norm = nn.LayerNorm(size)
        self.feed_forward_norm = nn.LayerNorm(size)
        self.dropout = Dropout(dropout)

    def forward(self, states: Tensor, valid: Tensor) -> Tensor:
        """The states after the layer, [batch, positions, size].

        Args:
            states: x, [batch, positions, size].
            valid: True for tokens, False for padding, [batch, positions].
        """
        normed = self.attention_norm(states)
        context, _ = self.attention(normed, self.attention.prepare(normed, valid))
        states = states + self.dropout(context)
        return states + self.dropout(self.feed_forward(self.feed_forward_norm(states)))


class DecoderLayer(nn.Module):
    """x ← x + MaskedSelfAttention(norm(x));  x ← x + Attention(norm(x), h^enc);  x ← x + FeedForward(norm(x)).

    Args:
        cross_attention: Attention to the source; any mechanism, `MultiHeadAttention` in the original Transformer.
        heads: Number of self-attention heads.
        inner_size: Size of the hidden layer of the feed-forward network.
        dropout: Dropout probability.
    """

    def __init__(self, cross_attention: Attention, *, heads: int, inner_size: int, dropout: float = 0.0) -> None:
        super().__init__()
        size = cross_attention.query_size
        self.self_attention = MultiHeadAttention(size, size, heads=heads)
        self.cross_attention = cross_attention
        self.context_layer = projection(cross_attention.context_size, size)
        self.feed_forward = FeedForward(size, inner_size, dropout=dropout)
        self.self_norm = nn.LayerNorm(size)
        self.cross_norm = nn.LayerNorm(size)
        self.feed_forward_norm = nn.LayerNorm(size)
        self.dropout = Dropout(dropout)

    def forward(
        self,
        states: Tensor,
        visible: Tensor,
        past: Memory | None,
        source: Memory,
        history: AttentionHistory = NO_HISTORY,
    ) -> tuple[Tensor, Tensor, Memory]:
        """Run the layer over new steps.

        Args:
            states: x, [batch, steps, size].
            visible: True where a new step may attend to a past or new step, [batch, steps, past and new steps].
            past: Keys and values of the past steps; None at the first step.
            source: Keys and values of the source.
            history: The past steps of the attention to the source.

        Returns:
            The states, [batch, steps, size], the weights of the cross-attention, [batch, (heads,) steps, positions],
            and the keys and values of all steps so far.
        """
        normed = self.self_norm(states)
        steps_so_far = self.self_attention.prepare(normed, visible)
        if past is not None:
            steps_so_far = steps_so_far.append_to(past)
        context, _ = self.self_attention(normed, steps_so_far)
        states = states + self.dropout(context)
        context, weights = self.cross_attention(self.cross_norm(states), source, history)
        states = states + self.dropout(self.context_layer(context))
        states = states + self.dropout(self.feed_forward(self.feed_forward_norm(states)))
        return states, weights, steps_so_far
