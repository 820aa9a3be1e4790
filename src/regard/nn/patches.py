"""The embedding of a picture: a projection of its patches, as in a Vision Transformer (Dosovitskiy et al. 2021).

Shapes: patches [batch, positions, pixels], vectors [batch, positions, size].
"""

from __future__ import annotations

from torch import Tensor, nn

WHITE = 255.0  # the largest value of a pixel


class PatchProjection(nn.Module):
    """z_i = W p_i + b, where p_i are the pixels of patch i as numbers from 0 to 1.

    It takes the place of the table of token embeddings (`regard.nn.Embedding.tokens`), so any encoder reads pictures.

    Args:
        pixels: Number of pixels of a patch.
        size: Size of an embedding.
    """

    def __init__(self, pixels: int, size: int) -> None:
        super().__init__()
        self.linear = nn.Linear(pixels, size)
        # An eighth of the pixels being ink, the embeddings have variance 1/size, as those of tokens.
        nn.init.normal_(self.linear.weight, std=(pixels / 8 * size) ** -0.5)
        nn.init.zeros_(self.linear.bias)

    def forward(self, patches: Tensor) -> Tensor:
        """The embeddings, [batch, positions, size].

        Args:
            patches: Pixels from 0 to 255, [batch, positions, pixels].
        """
        return self.linear(patches.to(self.linear.weight.dtype) / WHITE)
