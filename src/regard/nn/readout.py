"""The layer between a decoder's features and the logits."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from regard.nn.dropout import Dropout
from regard.nn.positions import Embedding


class Readout(nn.Module, ABC):
    """Base class of the output layers.

    Attributes:
        dropout: Applied within it; `model.readout_dropout` replaces it.
    """

    dropout: nn.Module

    @abstractmethod
    def forward(self, features: Tensor) -> Tensor:
        """The logits, [..., vocabulary].

        Args:
            features: The decoder's features, [..., size].
        """


class DirectReadout(Readout):
    """W x + b.

    Args:
        size: Size of the features.
        embedding: The decoder's embedding, which determines the size of the vocabulary.
        dropout: Dropout probability.
    """

    def __init__(self, size: int, embedding: Embedding, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.output_layer = nn.Linear(size, embedding.tokens.num_embeddings)

    def forward(self, features: Tensor) -> Tensor:
        return self.output_layer(self.dropout(features))


class TiedReadout(Readout):
    """E tanh(W x + b) + b_o, where E are the decoder's embeddings.

    Args:
        size: Size of the features.
        embedding: The decoder's embedding, whose weights serve as the output layer.
        dropout: Dropout probability.
    """

    def __init__(self, size: int, embedding: Embedding, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.embedding = embedding.tokens
        self.small_layer = nn.Linear(size, self.embedding.embedding_dim)
        self.bias = nn.Parameter(torch.zeros(self.embedding.num_embeddings))
        self.dropout = Dropout(dropout)

    def forward(self, features: Tensor) -> Tensor:
        projected = self.dropout(torch.tanh(self.small_layer(features)))
        return nn.functional.linear(projected, self.embedding.weight, self.bias)
