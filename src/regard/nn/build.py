"""Builds the model that the settings describe."""

from __future__ import annotations

from functools import partial

import torch

from regard.config.kinds import DECODERS, ENCODERS, MECHANISMS
from regard.config.schema import Experiment, ModelSection
from regard.images import PatchGrid
from regard.nn.attention import Attention
from regard.nn.dropout import Dropout
from regard.nn.encoder_decoder import Encoder
from regard.nn.patches import PatchProjection
from regard.nn.positions import Embedding
from regard.nn.readout import Readout
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
    seq2seq = Seq2Seq(encoder, decoder)
    set_dropout(seq2seq, model)
    return seq2seq


def set_dropout(seq2seq: Seq2Seq, model: ModelSection) -> None:
    """Replace the dropout of those parts that have a probability of their own.

    Args:
        seq2seq: The model, in which all parts have the dropout `model.dropout`.
        model: The settings.
    """
    for module in list(seq2seq.modules()):
        if isinstance(module, Embedding) and model.embedding_dropout is not None:
            module.dropout = Dropout(model.embedding_dropout)
        if isinstance(module, Attention) and model.attention_dropout is not None:
            module.weight_dropout = Dropout(model.attention_dropout)
        if isinstance(module, Readout) and model.readout_dropout is not None:
            module.dropout = Dropout(model.readout_dropout)


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
