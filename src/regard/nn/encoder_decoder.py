"""The interfaces of encoders and decoders, and how a decoder is run.

    text → encoder → Encoding → decoder.start → state → decoder.step → logits, state → …

Shapes: source tokens [batch, positions], target tokens [batch, steps], logits [batch, steps, vocabulary].
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import torch
from torch import Tensor, nn

from regard.config.kinds import DecoderSection, EncoderSection
from regard.nn.attention import Attention
from regard.nn.positions import Embedding
from regard.nn.readout import Readout


@dataclass(frozen=True)
class Encoding:
    """An encoded source.

    Args:
        states: h_i, [batch, positions, size].
        valid: True for tokens, False for padding, [batch, positions].
        final_state: The state that the encoder ends with, [layers, batch, size] each; an LSTM has two tensors.
    """

    states: Tensor
    valid: Tensor
    final_state: tuple[Tensor, ...]


def attentions_in(module: nn.Module) -> list[Attention]:
    """The attention mechanisms inside a module, in the order of their registration; not those inside another one.

    Args:
        module: Any module.
    """
    if isinstance(module, Attention):
        return [module]
    return list(dict.fromkeys(each for child in module.children() for each in attentions_in(child)))


class Encoder(nn.Module, ABC):
    """Base class of the encoders.

    Attributes:
        Section: The settings class of the encoder.
        embedding: The source embedding.
        size: Size of a state h_i.
        max_length: The longest source that can be encoded; None means no limit.
    """

    Section: ClassVar[type[EncoderSection]]
    embedding: Embedding
    size: int
    max_length: int | None = None

    @property
    def self_attentions(self) -> Sequence[Attention]:
        """The mechanisms by which source positions attend to each other, in the order of the layers."""
        return attentions_in(self)

    @classmethod
    @abstractmethod
    def from_section(cls, section: Any, tokens: int, dropout: float) -> Encoder:
        """The encoder that the settings describe.

        Args:
            section: Settings of this kind of encoder.
            tokens: Size of the source vocabulary.
            dropout: Dropout probability.
        """

    @abstractmethod
    def forward(self, tokens: Tensor, valid: Tensor) -> Encoding:
        """The encoded source.

        Args:
            tokens: Token ids, [batch, positions], or the patches of pictures, [batch, positions, pixels].
            valid: True for tokens, False for padding, [batch, positions]. Each row starts with at least one token, and
                padding follows at its end.
        """


class State(Protocol):
    """The state of a decoder between two steps. It is immutable; search reorders it without knowing its content.

    A row is a hypothesis. The hypotheses of one source are consecutive, and every source has the same number of them.
    They share the encoded source.
    """

    @property
    def weights(self) -> Tensor | None:
        """Attention weights of the latest step, [rows, …, positions], with axes for layers and heads if any."""

    def select(self, index: Tensor) -> Self:
        """The rows `index`, as the state of other hypotheses of the same sources.

        Args:
            index: Row indices, [sources, hypotheses] or, for one hypothesis per source, [sources]. A row of `index`
                may name the rows of one source only, in any order and any number of times.
        """


def split_index(index: Tensor, rows: int, sources: int) -> tuple[Tensor, Tensor]:
    """The `index` of `State.select` as an index of rows and an index of sources.

    Args:
        index: Row indices, [sources, hypotheses] or [sources].
        rows: Number of rows of the state.
        sources: Number of sources that these rows share.

    Returns:
        Row indices, [selected rows], and source indices, [selected sources].
    """
    if index.dim() == 1:
        index = index.unsqueeze(1)
    return index.flatten(), index[:, 0] // (rows // sources)


StateType = TypeVar("StateType", bound=State)
# Some of the steps of a batch: a mask, [batch, steps], or their rows and steps, as `mask.nonzero(as_tuple=True)`
# returns them. Selecting by a mask waits for a GPU, which has to count the steps.
SelectedSteps = Tensor | tuple[Tensor, ...]


class Decoder(nn.Module, ABC, Generic[StateType]):
    """Base class of the decoders. Subclasses define `start` and `forward_steps`.

    Attributes:
        Section: The settings class of the decoder.
        embedding: The target embedding.
        readout: The layer between features and logits.
        max_length: The longest target that can be decoded; None means no limit.
        weight_axes: Names of the axes of the attention weights between batch and steps, for example
            ("layer", "head").
    """

    Section: ClassVar[type[DecoderSection]]
    max_length: int | None = None
    weight_axes: tuple[str, ...] = ()
    embedding: Embedding
    readout: Readout

    @classmethod
    @abstractmethod
    def from_section(
        cls, section: Any, tokens: int, dropout: float, make_attention: Callable[[], Attention]
    ) -> Decoder[Any]:
        """The decoder that the settings describe.

        Args:
            section: Settings of this kind of decoder.
            tokens: Size of the target vocabulary.
            dropout: Dropout probability.
            make_attention: Returns a new attention mechanism over the encoder's states.
        """

    @property
    @abstractmethod
    def source_attentions(self) -> Sequence[Attention]:
        """The mechanisms that attend to the source, one for each layer that has one."""

    @property
    def self_attentions(self) -> Sequence[Attention]:
        """The mechanisms by which a step attends to itself and to earlier steps, in the order of the layers."""
        return [each for each in attentions_in(self) if each not in self.source_attentions]

    @abstractmethod
    def start(self, encoding: Encoding) -> StateType:
        """The state before the first step.

        Args:
            encoding: The encoded sources.
        """

    @abstractmethod
    def forward_steps(self, tokens: Tensor, state: StateType) -> tuple[Tensor, Tensor, StateType]:
        """Run the decoder over several steps.

        Args:
            tokens: Input token ids, [batch, steps].
            state: The state before the first of these steps.

        Returns:
            The features, [batch, steps, feature], the attention weights, [batch, …, steps, positions], and the state
            after the last step.
        """

    def decoder_states(self, features: Tensor) -> Tensor:
        """The part of the features that is the decoder's state h_t, [batch, steps, size].

        Args:
            features: What `forward_steps` returned, [batch, steps, feature].
        """
        return features

    def logits(self, features: Tensor) -> Tensor:
        """The logits of the next token, [..., vocabulary].

        Args:
            features: What `forward_steps` returned, [..., feature].
        """
        return self.readout(features)

    def step(self, token: Tensor, state: StateType) -> tuple[Tensor, StateType]:
        """Run the decoder over one step.

        Args:
            token: Input token ids, [batch].
            state: The state before the step.

        Returns:
            The logits of the next token, [batch, vocabulary], and the state after the step.
        """
        features, _, state = self.forward_steps(token.unsqueeze(1), state)
        return self.logits(features.squeeze(1)), state

    def teacher_forced(
        self, tokens: Tensor, state: StateType, valid: SelectedSteps | None = None
    ) -> tuple[Tensor, Tensor]:
        """Run the decoder over given tokens, all steps at once where the wiring allows it.

        Args:
            tokens: Input token ids, [batch, steps].
            state: The state before the first step.
            valid: If given, logits are computed only for these steps. The output layer is most of the computation.

        Returns:
            The logits, [batch, steps, vocabulary] or [valid steps, vocabulary], and the attention weights,
            [batch, …, steps, positions].
        """
        features, weights, _ = self.forward_steps(tokens, state)
        return self.logits(features if valid is None else features[valid]), weights

    def scheduled_sampling(self, tokens: Tensor, state: StateType, teacher_forcing_mask: Tensor) -> Tensor:
        """Run the decoder step by step, over given tokens or over its own most likely ones.

        Args:
            tokens: Token ids of the reference, [batch, steps].
            state: The state before the first step.
            teacher_forcing_mask: True where the input is the reference token, False where it is the most likely token
                of the previous step, [batch, steps]. The first step always has the reference token.

        Returns:
            The logits, [batch, steps, vocabulary].
        """
        logits: list[Tensor] = []
        inputs = zip(tokens.unbind(1), teacher_forcing_mask.unbind(1), strict=True)
        for step, (reference, use_reference) in enumerate(inputs):
            token = torch.where(use_reference, reference, logits[-1].argmax(-1)) if step else reference
            output, state = self.step(token, state)
            logits.append(output)
        return torch.stack(logits, 1)
