"""Builds the model that the settings describe."""

from __future__ import annotations

from functools import partial

import torch

from regard.config.kinds import DECODERS, ENCODERS, MECHANISMS
from regard.config.schema import Experiment, ModelSection
from regard.images import PatchGrid
from regard.nn.encoder_decoder import Encoder
from regard.nn.patches import PatchProjection
from regard.nn.seq2seq import Seq2Seq
from regard.seeding import seed_for


def initial_model(experiment: Experiment, source: int | PatchGrid, target_tokens: int) -> Seq2Seq:
    """The model at the start of training, with weights drawn from the experiment's seed.

    Args:
        experiment: The settings.
        source: Size of the source vocabulary, or the patches of pictures.
        target_tokens: Size of the target vocabulary.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_for(experiment.training.seed, "weights"))
        return build_model(experiment.model, source, target_tokens)


def build_model(model: ModelSection, source: int | PatchGrid, target_tokens: int) -> Seq2Seq:
    """The model, with weights drawn from torch's current random state.

    Args:
        model: The settings.
        source: Size of the source vocabulary, or the patches of pictures: any encoder reads either.
        target_tokens: Size of the target vocabulary.
    """
    encoder = build_encoder(model, source)
    make_attention = partial(
        MECHANISMS[model.attention.kind].from_section, model.attention, model.decoder.size, encoder.size
    )
    decoder = DECODERS[model.decoder.kind].from_section(model.decoder, target_tokens, model.dropout, make_attention)
    if model.share_embeddings:
        encoder.embedding.tokens = decoder.embedding.tokens
    return Seq2Seq(encoder, decoder)


def build_encoder(model: ModelSection, source: int | PatchGrid) -> Encoder:
    """The encoder. One of pictures has a projection of patches in place of its table of embeddings.

    Args:
        model: The settings.
        source: Size of the source vocabulary, or the patches of pictures.
    """
    kind = ENCODERS[model.encoder.kind]
    if isinstance(source, int):
        return kind.from_section(model.encoder, source, model.dropout)
    encoder: Encoder = kind.from_section(model.encoder, 1, model.dropout)
    # `register_module`, because the attribute is declared as a table.
    encoder.embedding.register_module("tokens", PatchProjection(source.pixels, model.encoder.embedding))
    return encoder
