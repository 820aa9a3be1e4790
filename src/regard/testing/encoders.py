"""Properties of an encoder on its own, and of the length limit that encoders and decoders report.

Each function checks one property, and raises `PropertyError` if it does not hold. The batch has sources of different
lengths, as `sample_batch` returns.
"""

from __future__ import annotations

from typing import Any

import torch

from regard.config.kinds import EncoderDecoderSection, EncoderSection
from regard.data import Batch
from regard.nn import Decoder, Embedding, Encoder
from regard.testing.failures import checks_that, expect, expect_close
from regard.testing.samples import more_padding, row_alone


@checks_that("an encoding has the shapes that the settings describe")
@torch.inference_mode()
def check_encoding(encoder: Encoder, section: EncoderSection, batch: Batch) -> None:
    """States are [batch, positions, size]; `size` and the final state have the shapes that the settings describe.

    Args:
        encoder: The encoder.
        section: Its settings.
        batch: Sources.
    """
    expect(
        isinstance(getattr(encoder, "embedding", None), Embedding),
        "it has no attribute `embedding`",
        "set `self.embedding = Embedding.from_section(section, tokens, dropout)`; shared embeddings need it",
    )
    expect(
        encoder.size == section.state_size,
        f"`size` is {encoder.size}, but `state_size` of its Section is {section.state_size}",
        "both are the size of one state, which attention reads",
    )
    encoding = encoder(batch.source, batch.source_valid)
    expected = [*batch.source_valid.shape, encoder.size]
    expect(
        list(encoding.states.shape) == expected,
        f"the states have the shape {list(encoding.states.shape)} instead of {expected}",
        "they are [batch, positions, size]",
    )
    expect(
        torch.equal(encoding.valid, batch.source_valid),
        "`valid` of the encoding is not the mask that the encoder was given",
        "return `Encoding(states, valid, final_state)`",
    )
    tensors, layers, size = section.final_state
    shapes = [list(part.shape) for part in encoding.final_state]
    expect(
        shapes == [[layers, len(batch.source), size]] * tensors,
        f"the final state has the shapes {shapes}, but `final_state` of its Section describes {section.final_state}",
        "each tensor is [layers, batch, size]; a decoder with `start: copy` relies on it",
    )


@checks_that("padding changes no state of the encoder")
@torch.inference_mode()
def check_encoder_padding(encoder: Encoder, batch: Batch) -> None:
    """Valid states and the final state are the same alone, in a batch, and with more padding.

    Args:
        encoder: The encoder.
        batch: Sources of different lengths.
    """
    advice = (
        "padding is at the end of a row and may have any token ids; mask it with `valid` in attention and in means, "
        "take the last state at `valid.sum(1) - 1`, and count positions from the beginning of a row"
    )
    encoding = encoder(batch.source, batch.source_valid)
    padded = encoder(*more_padding(batch))
    actual, expected = padded.states[padded.valid], encoding.states[encoding.valid]
    expect_close(actual, expected, "more padding changes the states", advice)
    for more, part in zip(padded.final_state, encoding.final_state, strict=True):
        expect_close(more, part, "more padding changes the final state", advice)
    for row, valid in enumerate(batch.source_valid):
        alone = encoder(*row_alone(batch, row))
        problem = "of a source alone and in a batch differ"
        expect_close(alone.states[0], encoding.states[row, valid], f"the states {problem}", advice)
        for own, part in zip(alone.final_state, encoding.final_state, strict=True):
            expect_close(own[:, 0], part[:, row], f"the final states {problem}", advice)


@checks_that("encodings are permuted with the batch")
@torch.inference_mode()
def check_encoder_order(encoder: Encoder, batch: Batch) -> None:
    """The order of the sources in a batch does not matter.

    Args:
        encoder: The encoder.
        batch: Three sources.
    """
    advice = "rows of a batch must not influence each other; if rows are sorted by length, restore their order"
    order = torch.tensor([1, 2, 0], device=batch.source.device)
    encoding = encoder(batch.source, batch.source_valid)
    other = encoder(batch.source[order], batch.source_valid[order])
    actual, expected = other.states[other.valid], encoding.states[order][other.valid]
    expect_close(actual, expected, "the states depend on the order of the batch", advice)
    for own, part in zip(other.final_state, encoding.final_state, strict=True):
        expect_close(own, part[:, order], "the final state depends on the order of the batch", advice)


@checks_that("`max_length` is that of the settings")
def check_length_limit(module: Encoder | Decoder[Any], section: EncoderDecoderSection) -> None:
    """`max_length` is the number of positions in the settings; training refuses longer sequences.

    Args:
        module: An encoder or a decoder.
        section: Its settings.
    """
    limit = section.positions.max_length
    expect(
        module.max_length == limit,
        f"`max_length` is {module.max_length}, but its positions allow {limit}",
        "embed tokens with `Embedding.from_section(section, tokens, dropout)`, and set "
        "`self.max_length = self.embedding.max_length`",
    )
