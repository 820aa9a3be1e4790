"""What encoders and decoders have in common: the two values that pass between them, and how a decoder is driven.

    text → encoder → Encoding → decoder.start → state → decoder.step → logits, state → …

Shapes: source tokens [batch, positions], target tokens [batch, steps], logits [batch, steps, vocabulary].
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, Self, TypeVar

import torch
from torch import Tensor, nn

from regard.nn.attention import Attention
from regard.nn.dropout import Dropout
from regard.nn.positions import Embedding


@dataclass(frozen=True)
class Encoding:
    """What an encoder knows of a source."""

    states: Tensor  # h_i: [batch, positions, size]
    valid: Tensor  # [batch, positions]; True: a real token
    final_state: tuple[Tensor, ...]  # where the encoder ended, [layers, batch, size] each; an LSTM has two parts


class Encoder(nn.Module, ABC):
    """Source tokens in, an `Encoding` out."""

    embedding: Embedding
    size: int  # of a state
    max_length: int | None = None  # the longest source it takes; None: no limit

    @abstractmethod
    def forward(self, tokens: Tensor, valid: Tensor) -> Encoding:
        """`valid` is True on real tokens, which stand first in each row, at least one of them."""


class State(Protocol):
    """What a decoder knows between two steps: a frozen value. Search reorders it and never looks inside.

    A row is a hypothesis. Those of one source stand together, as many for each source, and share what was read of it.
    """

    @property
    def weights(self) -> Tensor | None:
        """Where the latest step looked: [rows, …, positions], with axes for layers and heads where there are."""

    def select(self, index: Tensor) -> Self:
        """The rows `index` [sources, hypotheses of each]; a row of it names rows of one source, in any order and
        number. An `index` [sources] has one hypothesis for each.
        """


def split_index(index: Tensor, rows: int, sources: int) -> tuple[Tensor, Tensor]:
    """The `index` of `State.select` as two: into the `rows` of a state, and into the `sources` that they share."""
    if index.dim() == 1:
        index = index.unsqueeze(1)
    return index.flatten(), index[:, 0] // (rows // sources)


StateType = TypeVar("StateType", bound=State)


class Decoder(nn.Module, ABC, Generic[StateType]):
    """Subclasses say how to begin (`start`) and how to run over some tokens (`forward_steps`); the rest follows."""

    max_length: int | None = None  # the longest target it can produce; None: no limit
    weight_axes: tuple[str, ...] = ()  # the axes of the weights between batch and steps, e.g. ("layer", "head")
    embedding: Embedding
    readout: Readout

    @property
    @abstractmethod
    def source_attentions(self) -> Sequence[Attention]:
        """The mechanisms that look at the source, one for each layer that has one."""

    @abstractmethod
    def start(self, encoding: Encoding) -> StateType:
        """The state before the first step."""

    @abstractmethod
    def forward_steps(self, tokens: Tensor, state: StateType) -> tuple[Tensor, Tensor, StateType]:
        """Read `tokens`: features [batch, steps, feature], weights [batch, …, steps, positions] and the new state."""

    def decoder_states(self, features: Tensor) -> Tensor:
        """The part of the features of `forward_steps` that is the decoder's own state h_t: [batch, steps, size]."""
        return features

    def step(self, token: Tensor, state: StateType) -> tuple[Tensor, StateType]:
        """One token a row: logits [batch, vocabulary] of the next, and the state to go on from."""
        features, _, state = self.forward_steps(token.unsqueeze(1), state)
        return self.readout(features.squeeze(1)), state

    def teacher_forced(self, tokens: Tensor, state: StateType, valid: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Teacher forcing, every step at once where the wiring allows: logits and weights.

        With `valid` [batch, steps] only the positions where it is True go through the output layer, which is most
        of the arithmetic: logits are then [real positions, vocabulary].
        """
        features, weights, _ = self.forward_steps(tokens, state)
        return self.readout(features if valid is None else features[valid]), weights

    def scheduled_sampling(self, tokens: Tensor, state: StateType, teacher_forcing_mask: Tensor) -> Tensor:
        """Step by step; where the mask is False the model reads its own likeliest token in place of the true one."""
        logits: list[Tensor] = []
        for step, (true_token, use_true) in enumerate(
            zip(tokens.unbind(1), teacher_forcing_mask.unbind(1), strict=True)
        ):
            token = torch.where(use_true, true_token, logits[-1].argmax(-1)) if step else true_token
            output, state = self.step(token, state)
            logits.append(output)
        return torch.stack(logits, 1)


class Readout(nn.Module, ABC):
    """From a decoder's features to one logit for each token of the vocabulary."""

    @abstractmethod
    def forward(self, features: Tensor) -> Tensor: ...


class DirectReadout(Readout):
    """W x + b."""

    def __init__(self, size: int, embedding: Embedding, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.output_layer = nn.Linear(size, embedding.tokens.num_embeddings)

    def forward(self, features: Tensor) -> Tensor:
        return self.output_layer(self.dropout(features))


class TiedReadout(Readout):
    """E tanh(W x + b) + b_o: a small layer, then the decoder's own embeddings as the output layer."""

    def __init__(self, size: int, embedding: Embedding, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.embedding = embedding.tokens
        self.small_layer = nn.Linear(size, self.embedding.embedding_dim)
        self.bias = nn.Parameter(torch.zeros(self.embedding.num_embeddings))
        self.dropout = Dropout(dropout)

    def forward(self, features: Tensor) -> Tensor:
        small = self.dropout(torch.tanh(self.small_layer(features)))
        return nn.functional.linear(small, self.embedding.weight, self.bias)


READOUTS: dict[str, Callable[..., Readout]] = {"direct": DirectReadout, "tied": TiedReadout}
