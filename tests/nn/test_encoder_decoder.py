"""Invariants of every encoder. The properties are defined in `regard.testing`."""

from __future__ import annotations

from regard.testing import encoders


def test_an_encoding_has_the_shapes_that_the_settings_describe(any_model, batch) -> None:
    encoders.check_encoding(any_model.model.encoder, any_model.section.encoder, batch)


def test_padding_changes_neither_valid_states_nor_the_final_state(any_model, batch) -> None:
    encoders.check_encoder_padding(any_model.model.encoder, batch)


def test_encodings_are_permuted_with_the_batch(any_model, batch) -> None:
    encoders.check_encoder_order(any_model.model.encoder, batch)
