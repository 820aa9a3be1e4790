"""The layers of the Transformer: parts F, each of which is added to its input.

    pre-norm   x ← x + F(norm(x))        post-norm   x ← norm(x + F(x))

Post-norm is that of Vaswani et al. (2017). Pre-norm layers leave x itself without normalization, so a stack of them
ends with one of its own.

Shapes: [batch, positions, size] on the source side, [batch, steps, size] on the target side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from regard.errors import UserError
from regard.nn.attention import Attention, Memory
from regard.nn.attention_history import NO_HISTORY, AttentionHistory
from regard.nn.dropout import Dropout
from regard.nn.positions import RelativePositions
from regard.nn.self_attention import SelfAttention

NormPosition = Literal["pre", "post"]
Norm = Literal["layer", "rms"]
Activation = Literal["relu", "gelu"]
NORM_POSITIONS: tuple[NormPosition, ...] = ("pre", "post")
ACTIVATIONS: dict[Activation, type[nn.Module]] = {"relu": nn.ReLU, "gelu": nn.GELU}


class RMSNorm(nn.RMSNorm):
    """PyTorch's RMSNorm, computed in the type of its weight: PyTorch warns if autocast gives it another one."""

    def forward(self, x: Tensor) -> Tensor:
        """The normalized vectors.

        Args:
            x: Vectors, [..., size].
        """
        return super().forward(x.to(self.weight.dtype))


NORMS: dict[Norm, type[nn.Module]] = {"layer": nn.LayerNorm, "rms": RMSNorm}


@dataclass(frozen=True)
class LayerOptions:
    """The options of Transformer layers.

    Args:
        heads: Number of self-attention heads.
        inner_size: Size of the hidden layer of the feed-forward network.
        norm_position: "pre": norm(x) is the input of each part; "post": norm(x + F(x)) is its result.
        norm: "layer": LayerNorm; "rms": RMSNorm (Zhang and Sennrich 2019), g · x / √(mean of x² + ε), which subtracts
            no mean and adds no bias.
        activation: φ of the feed-forward network: "relu", or "gelu" (Hendrycks and Gimpel 2016), x · Φ(x) with the
            standard normal distribution function Φ.
        dropout: Dropout probability.

    Raises:
        UserError: If an option is none of its values.
    """

    heads: int
    inner_size: int
    norm_position: NormPosition = "pre"
    norm: Norm = "layer"
    activation: Activation = "relu"
    dropout: float = 0.0

    def __post_init__(self) -> None:
        choices = {"norm_position": NORM_POSITIONS, "norm": NORMS, "activation": ACTIVATIONS}
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise UserError(f"{name} is {getattr(self, name)!r}; it can be {' or '.join(allowed)}")

    def new_norm(self, size: int) -> nn.Module:
        """A normalization.

        Args:
            size: Size of x.
        """
        return NORMS[self.norm](size)

    def final_norm(self, size: int) -> nn.Module:
        """What follows the last layer: a normalization after pre-norm layers, nothing after post-norm layers.

        Args:
            size: Size of x.
        """
        return self.new_norm(size) if self.norm_position == "pre" else nn.Identity()


class FeedForward(nn.Sequential):
    """W_2 φ(W_1 x + b_1) + b_2, at every position alike.

    Args:
        size: Size of x.
        inner_size: Size of the hidden layer.
        activation: φ, "relu" or "gelu".
        dropout: Dropout probability of the hidden layer.
    """

    def __init__(self, size: int, inner_size: int, *, activation: Activation = "relu", dropout: float = 0.0) -> None:
        hidden = nn.Linear(size, inner_size)
        super().__init__(hidden, ACTIVATIONS[activation](), Dropout(dropout), nn.Linear(inner_size, size))


def projection(input_size: int, size: int) -> nn.Module:
    """A linear layer from `input_size` to `size`, or the identity if they are equal.

    Args:
        input_size: Size of the input.
        size: Size of the output.
    """
    return nn.Identity() if input_size == size else nn.Linear(input_size, size)


class ResidualLayer(nn.Module):
    """Base class of the layers: how a part F is applied to x.

    Args:
        options: Those of the layer.
    """

    def __init__(self, options: LayerOptions) -> None:
        super().__init__()
        self.is_pre_norm = options.norm_position == "pre"
        self.dropout = Dropout(options.dropout)

    def part_input(self, states: Tensor, norm: nn.Module) -> Tensor:
        """The input of a part: norm(x) in pre-norm, x in post-norm.

        Args:
            states: x, [batch, steps, size].
            norm: The normalization that belongs to the part.
        """
        return norm(states) if self.is_pre_norm else states

    def add(self, states: Tensor, output: Tensor, norm: nn.Module) -> Tensor:
        """The result of a part: x + F in pre-norm, norm(x + F) in post-norm.

        Args:
            states: x, [batch, steps, size].
            output: F, what the part returned, of the same shape.
            norm: The normalization that belongs to the part.
        """
        states = states + self.dropout(output)
        return states if self.is_pre_norm else norm(states)


class EncoderLayer(ResidualLayer):
    """x ← x + SelfAttention(norm(x));  x ← x + FeedForward(norm(x)).

    In post-norm:  x ← norm(x + SelfAttention(x));  x ← norm(x + FeedForward(x)).

    Args:
        size: Size of x.
        options: Those of the layer.
        positions: Relative positions, if any.
    """

    def __init__(self, size: int, options: LayerOptions, positions: RelativePositions | None = None) -> None:
        super().__init__(options)
        self.attention = SelfAttention(size, heads=options.heads, positions=positions)
        self.feed_forward = FeedForward(
            size, options.inner_size, activation=options.activation, dropout=options.dropout
        )
        self.attention_norm = options.new_norm(size)
        self.feed_forward_norm = options.new_norm(size)

    def forward(self, states: Tensor, valid: Tensor) -> Tensor:
        """The states after the layer, [batch, positions, size].

        Args:
            states: x, [batch, positions, size].
            valid: True for tokens, False for padding, [batch, positions].
        """
        inputs = self.part_input(states, self.attention_norm)
        context, _ = self.attention(inputs, self.attention.prepare(inputs, valid))
        states = self.add(states, context, self.attention_norm)
        output = self.feed_forward(self.part_input(states, self.feed_forward_norm))
        return self.add(states, output, self.feed_forward_norm)


class DecoderLayer(ResidualLayer):
    """x ← x + MaskedSelfAttention(norm(x));  x ← x + Attention(norm(x), h^enc);  x ← x + FeedForward(norm(x)).

    In post-norm:  x ← norm(x + MaskedSelfAttention(x));  x ← norm(x + Attention(x, h^enc));
    x ← norm(x + FeedForward(x)).

    Args:
        cross_attention: Attention to the source; any mechanism, `MultiHeadAttention` in the original Transformer.
        options: Those of the layer.
        positions: Relative positions of the self-attention, if any.
    """

    def __init__(
        self, cross_attention: Attention, options: LayerOptions, positions: RelativePositions | None = None
    ) -> None:
        super().__init__(options)
        size = cross_attention.query_size
        self.self_attention = SelfAttention(size, heads=options.heads, positions=positions)
        self.cross_attention = cross_attention
        self.context_layer = projection(cross_attention.context_size, size)
        self.feed_forward = FeedForward(
            size, options.inner_size, activation=options.activation, dropout=options.dropout
        )
        self.self_norm = options.new_norm(size)
        self.cross_norm = options.new_norm(size)
        self.feed_forward_norm = options.new_norm(size)

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
        inputs = self.part_input(states, self.self_norm)
        steps_so_far = self.self_attention.prepare(inputs, visible)
        if past is not None:
            steps_so_far = steps_so_far.append_to(past)
        context, _ = self.self_attention(inputs, steps_so_far)
        states = self.add(states, context, self.self_norm)
        context, weights = self.cross_attention(self.part_input(states, self.cross_norm), source, history)
        states = self.add(states, self.context_layer(context), self.cross_norm)
        output = self.feed_forward(self.part_input(states, self.feed_forward_norm))
        return self.add(states, output, self.feed_forward_norm), weights, steps_so_far
