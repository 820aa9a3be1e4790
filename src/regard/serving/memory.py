"""Upper bounds on the memory that a request needs, computed from the sizes of the model's modules.

The bounds are close where a request is large. Search and scoring hold tensors of these sizes (4 bytes a number, or
less in bfloat16 and float16):

    encoder            texts × source × (3 · encoder size + projected size + source · self-attention heads)
    search             texts × width × (target × (source · cross-attention maps + cache per step) + one step)
    teacher forcing    texts × target × (one step + cache per step)
    self-attention     texts × (source² · maps of the encoder + target² · maps of the decoder), if it is returned
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from regard.inference.translator import Translator
from regard.nn import AdditiveAttention, Attention, MultiHeadAttention

FLOAT_BYTES = 4
LIST_ITEM_BYTES = 64  # a number in a Python list and in JSON
TOKEN_BYTES = 550  # a token with its label, log-probability and alignment
NODE_BYTES = 1_000  # a node of a beam tree
COPIES = 2  # the result of a step exists next to the result of the step before


@dataclass(frozen=True)
class MemoryEstimator:
    """Upper bounds, in bytes, on the memory that one model needs.

    Lengths (`source`, `target`) are in tokens, of the longest text of a batch, because a batch is padded to it.

    Args:
        cross_attention_maps: Attention weights for each pair of target and source token, over all layers and heads.
        cross_score_size: Numbers needed to compute the scores of one such pair, in the largest layer.
        projected_size: Numbers of the projected keys and values of one source token, over all layers.
        encoder_size: Size of an encoder state.
        encoder_heads: Self-attention heads of an encoder layer; 0 without self-attention.
        decoder_heads: Self-attention heads of a decoder layer; 0 without self-attention.
        encoder_maps: Self-attention weights for each pair of source tokens, over all layers and heads.
        decoder_maps: The same for each pair of decoder steps.
        cache_per_step: Numbers that each step adds to the decoder's cache of keys and values.
        vocabulary_size: Size of the target vocabulary.
    """

    cross_attention_maps: int
    cross_score_size: int
    projected_size: int
    encoder_size: int
    encoder_heads: int
    decoder_heads: int
    encoder_maps: int
    decoder_maps: int
    cache_per_step: int
    vocabulary_size: int

    @classmethod
    def from_translator(cls, translator: Translator) -> MemoryEstimator:
        """The estimator for a translator's model.

        Args:
            translator: A translator of one run.
        """
        encoder, decoder = translator.model.encoder, translator.model.decoder
        cross_attentions = decoder.source_attentions
        return cls(
            cross_attention_maps=sum(map(count_maps, cross_attentions)),
            cross_score_size=max(map(score_size, cross_attentions)),
            projected_size=sum(map(projected_size, cross_attentions)),
            encoder_size=encoder.size,
            encoder_heads=max(map(count_maps, encoder.self_attentions), default=0),
            decoder_heads=max(map(count_maps, decoder.self_attentions), default=0),
            encoder_maps=sum(map(count_maps, encoder.self_attentions)),
            decoder_maps=sum(map(count_maps, decoder.self_attentions)),
            cache_per_step=sum(map(projected_size, decoder.self_attentions)),
            vocabulary_size=len(translator.codec.target_vocabulary),
        )

    def encoder_bytes(self, texts: int, source: int) -> int:
        """The encoder's states, the keys and values that the decoder attends to, and the scores of self-attention."""
        states = 3 * self.encoder_size + self.projected_size
        return COPIES * FLOAT_BYTES * texts * source * (states + source * self.encoder_heads)

    def search_bytes(self, texts: int, width: int, source: int, target: int) -> int:
        """The attention weights and cache of every hypothesis, and the logits of its next token."""
        history = target * (source * self.cross_attention_maps + self.cache_per_step)
        step = source * self.cross_score_size + self.vocabulary_size
        return self.encoder_bytes(texts, source) + COPIES * FLOAT_BYTES * texts * width * (history + step)

    def teacher_forcing_bytes(self, texts: int, source: int, target: int) -> int:
        """The same for all steps of a given target at once."""
        scores = source * (self.cross_attention_maps + self.cross_score_size) + target * self.decoder_heads
        step = scores + self.vocabulary_size + self.cache_per_step
        return self.encoder_bytes(texts, source) + COPIES * FLOAT_BYTES * texts * target * step

    def response_bytes(self, outputs: int, source: int, target: int, *, attention: bool, alternatives: int) -> int:
        """Outputs as Python objects and as JSON."""
        weights = LIST_ITEM_BYTES * source * self.cross_attention_maps if attention else 0
        return outputs * target * (TOKEN_BYTES * (1 + alternatives) + weights)

    def self_attention_bytes(self, texts: int, sources: int, outputs: int, source: int, target: int) -> int:
        """Self-attention weights: of a batch of `texts`, of all outputs, and as Python objects and as JSON."""
        encoder, decoder = source**2 * self.encoder_maps, target**2 * self.decoder_maps
        tensors = FLOAT_BYTES * (COPIES * texts + outputs) * (encoder + decoder)
        return tensors + LIST_ITEM_BYTES * (sources * encoder + outputs * decoder)

    def tree_bytes(self, texts: int, width: int, target: int) -> int:
        """Beam trees as Python objects and as JSON."""
        return NODE_BYTES * texts * target * (width + 3)


def projected_size(attention: Attention) -> int:
    """The numbers that the keys and values of one position have, apart from the states themselves."""
    layers = (getattr(attention, name, None) for name in ("key_layer", "value_layer"))
    return sum(layer.out_features for layer in layers if isinstance(layer, nn.Linear))


def count_maps(attention: Attention) -> int:
    """The number of weights that a query gives to one source position."""
    return attention.heads if isinstance(attention, MultiHeadAttention) else 1


def score_size(attention: Attention) -> int:
    """The numbers that computing the score of a query and one source position needs.

    Additive attention holds a vector of the key size for every pair, before w_2 makes one number of it.
    """
    return attention.key_size if isinstance(attention, AdditiveAttention) else count_maps(attention)
