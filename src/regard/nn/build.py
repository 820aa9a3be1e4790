"""From settings to a model. What the settings name is looked up in the tables of `regard.nn`."""

from __future__ import annotations

from inspect import signature
from typing import Any

import torch

from regard import nn
from regard.config.schema import (
    AttentionSection,
    CoderSection,
    DecoderSection,
    EncoderSection,
    Experiment,
    ModelSection,
)
from regard.seeding import seed_for


def initial_model(experiment: Experiment, source_tokens: int, target_tokens: int) -> nn.Seq2Seq:
    """The model as its training begins: with weights drawn from the experiment's seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_for(experiment.training.seed, "weights"))
        return build_model(experiment.model, source_tokens, target_tokens)


def build_model(model: ModelSection, source_tokens: int, target_tokens: int) -> nn.Seq2Seq:
    """The model, with weights drawn from torch's current random state."""
    encoder = ENCODERS[model.encoder.kind](model.encoder, source_tokens, model.dropout)
    decoder = DECODERS[model.decoder.kind](model, encoder.size, target_tokens)
    if model.share_embeddings:
        encoder.embedding.tokens = decoder.embedding.tokens
    return nn.Seq2Seq(encoder, decoder)


def build_embedding(section: CoderSection, tokens: int, dropout: float) -> nn.Embedding:
    kind = nn.POSITIONS[section.positions.kind]
    options = section.positions.model_dump(exclude={"kind"})
    positions = kind(section.embedding, **_accepted(kind, options))
    return nn.Embedding(tokens, section.embedding, positions=positions, dropout=dropout)


def build_attention(section: AttentionSection, query_size: int, memory_size: int) -> nn.Attention:
    mechanism = nn.MECHANISMS[section.kind]
    options = section.model_dump(exclude={"kind"})
    return mechanism(query_size, memory_size, **_accepted(mechanism, options))


def _accepted(kind: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Those of the options that this kind takes: it has no use for the others."""
    return {name: value for name, value in options.items() if name in signature(kind).parameters}


def _recurrent_encoder(section: EncoderSection, tokens: int, dropout: float) -> nn.Encoder:
    embedding = build_embedding(section, tokens, dropout)
    cell = nn.CELLS[section.cell](
        embedding.size, section.size, layers=section.layers, bidirectional=section.bidirectional, dropout=dropout
    )
    return nn.RecurrentEncoder(embedding, cell)


def _self_attention_encoder(section: EncoderSection, tokens: int, dropout: float) -> nn.Encoder:
    return nn.SelfAttentionEncoder(
        build_embedding(section, tokens, dropout),
        section.size,
        layers=section.layers,
        heads=section.heads,
        inner_size=section.inner_size,
        dropout=dropout,
    )


def _recurrent_decoder(model: ModelSection, memory_size: int, tokens: int) -> nn.Decoder[Any]:
    section: DecoderSection = model.decoder
    return nn.WIRINGS[section.wiring](
        build_embedding(section, tokens, model.dropout),
        build_attention(model.attention, section.size, memory_size),
        cell=nn.CELLS[section.cell],
        layers=section.layers,
        start=nn.STARTS[section.start],
        readout=nn.READOUTS[section.readout],
        dropout=model.dropout,
    )


def _transformer_decoder(model: ModelSection, memory_size: int, tokens: int) -> nn.Decoder[Any]:
    section: DecoderSection = model.decoder
    return nn.TransformerDecoder(
        build_embedding(section, tokens, model.dropout),
        [build_attention(model.attention, section.size, memory_size) for _ in range(section.layers)],
        heads=section.heads,
        inner_size=section.inner_size,
        readout=nn.READOUTS[section.readout],
        dropout=model.dropout,
    )


ENCODERS = {"recurrent": _recurrent_encoder, "self-attention": _self_attention_encoder}
DECODERS = {"recurrent": _recurrent_decoder, "transformer": _transformer_decoder}
