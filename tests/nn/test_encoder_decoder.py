"""Invariants of every encoder."""

from __future__ import annotations

import torch

from regard import nn

CLOSE = {"rtol": 1e-5, "atol": 1e-5}


@torch.inference_mode()
def test_padding_changes_neither_valid_states_nor_the_final_state(any_model, data) -> None:
    encoder: nn.Encoder = any_model.model.encoder
    encoding, padded = encoder(data.source, data.valid), encoder(*data.padded(5))
    assert encoding.states.shape == (*data.source.shape, encoder.size)
    torch.testing.assert_close(padded.states[padded.valid], encoding.states[encoding.valid], **CLOSE)
    torch.testing.assert_close(padded.final_state, encoding.final_state, **CLOSE)
    for row in range(len(data.source)):
        alone = encoder(*data.row(row))
        torch.testing.assert_close(alone.states[0], encoding.states[row, data.valid[row]], **CLOSE)
        torch.testing.assert_close(
            [part[:, 0] for part in alone.final_state], [part[:, row] for part in encoding.final_state], **CLOSE
        )


@torch.inference_mode()
def test_encodings_are_permuted_with_the_batch(any_model, data) -> None:
    encoder: nn.Encoder = any_model.model.encoder
    order = torch.tensor([1, 2, 0])
    encoding, other = encoder(data.source, data.valid), encoder(data.source[order], data.valid[order])
    torch.testing.assert_close(other.states[other.valid], encoding.states[order][other.valid], **CLOSE)
    torch.testing.assert_close(other.final_state, tuple(part[:, order] for part in encoding.final_state), **CLOSE)
