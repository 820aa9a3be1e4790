"""Embeddings of pictures."""

from __future__ import annotations

import pytest
import torch

from regard import nn
from regard.config.schema import ModelSection
from regard.images import PatchGrid
from regard.nn.build import build_model

GRID = PatchGrid(height=3, max_width=10, patch_height=3, patch_width=1)


def test_projection_by_hand() -> None:
    """z = W p + b: black is 1, 51 is a fifth of it."""
    projection = nn.PatchProjection(3, 2)
    with torch.no_grad():
        projection.linear.weight.copy_(torch.tensor([[1.0, 2.0, 5.0], [0.0, -1.0, 10.0]]))
        projection.linear.bias.copy_(torch.tensor([0.5, 0.25]))
    patches = torch.tensor([[[255, 0, 51], [0, 0, 0]]], dtype=torch.uint8)
    expected = torch.tensor([[[1 + 5 / 5 + 0.5, 10 / 5 + 0.25], [0.5, 0.25]]])
    torch.testing.assert_close(projection(patches), expected)
    assert projection.double()(patches).dtype == torch.float64


def test_embeddings_of_patches_have_the_variance_of_those_of_tokens() -> None:
    torch.manual_seed(1)
    patches = torch.zeros(1, 1, 4_000, dtype=torch.uint8)
    patches[..., :500] = 255  # an eighth of the pixels is ink
    assert nn.PatchProjection(4_000, 1_000)(patches).var().item() == pytest.approx(1 / 1_000, rel=0.2)


def test_only_the_embedding_of_an_encoder_depends_on_what_it_reads() -> None:
    section = ModelSection.model_validate({"encoder": {"embedding": 5, "positions": {"kind": "learned", "longest": 7}}})
    of_text, of_pictures = build_model(section, 11, 13), build_model(section, GRID, 13)
    names = [{name for name, _ in model.named_parameters()} for model in (of_text, of_pictures)]
    assert names[0] - names[1] == {"encoder.embedding.tokens.weight"}
    assert names[1] - names[0] == {"encoder.embedding.tokens.linear.weight", "encoder.embedding.tokens.linear.bias"}
    assert of_pictures.encoder.max_length == 7
