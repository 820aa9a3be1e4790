"""Builds the model that the settings describe."""

from __future__ import annotations

from functools import partial

import torch

from regard.config.kinds import DECODERS, ENCODERS, MECHANISMS
from regard.config.schema import Experiment, ModelSection
from regard.nn.seq2seq import Seq2Seq
from regard.seeding import seed_for


def initial_model(experiment: Experiment, source_tokens: int, target_tokens: int) -> Seq2Seq:
    """The model at the start of training, with weights drawn from the experiment's seed.

    Args:
        experiment: The settings.
        source_tokens: Size of the source vocabulary.
        target_tokens: Size of the target vocabulary.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_for(experiment.training.seed, "weights"))
        return build_model(experiment.model, source_tokens, target_tokens)


def build_model(model: ModelSection, source_tokens: int, target_tokens: int) -> Seq2Seq:
    """The model, with weights drawn from torch's current random state.

    Args:
        model: The settings.
        source_tokens: Size of the source vocabulary.
        target_tokens: Size of the target vocabulary.
    """
    encoder = ENCODERS[model.encoder.kind].from_section(model.encoder, source_tokens, model.dropout)
    make_attention = partial(
        MECHANISMS[model.attention.kind].from_section, model.attention, model.decoder.size, encoder.size
    )
    decoder = DECODERS[model.decoder.kind].from_section(model.decoder, target_tokens, model.dropout, make_attention)
    if model.share_embeddings:
        encoder.embedding.tokens = decoder.embedding.tokens
    return Seq2Seq(encoder, decoder)
