"""Small models around a class that is checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from regard.config.kinds import AttentionSection, DecoderSection, EncoderSection
from regard.errors import UserError
from regard.nn import (
    Attention,
    Decoder,
    Encoder,
    MultiHeadAttention,
    RecurrentDecoder,
    RecurrentEncoder,
    ScaledDotAttention,
    SelfAttentionEncoder,
    Seq2Seq,
    TransformerDecoder,
)
from regard.testing.failures import PropertyError
from regard.testing.samples import SOURCE_TOKENS, TARGET_TOKENS
from regard.testing.sections import coder_section, construction_failure, make_section, seeded

# Sizes of query and memory, from the most telling to the most accommodating: different primes, a query that heads can
# share, equal sizes.
ATTENTION_SIZES = ((13, 11), (12, 11), (60, 11), (60, 24), (11, 11), (12, 12), (60, 60), (64, 64))


@dataclass(frozen=True)
class AttentionRecipe:
    """How to build a mechanism.

    Args:
        kind: The class.
        section: Its settings.
        rest: Keyword arguments of the constructor that are no settings.
        query_size: Size of a query.
        memory_size: Size of a state of the memory.
    """

    kind: type[Attention]
    section: AttentionSection
    rest: Mapping[str, Any]
    query_size: int
    memory_size: int

    @property
    def hard(self) -> bool:
        """Whether it is set to put all weight on one position."""
        return {**self.section.options(), **self.rest}.get("normalizer") == "hard"

    def build(self) -> Attention:
        """A new mechanism, with weights drawn from PyTorch's random state."""
        if self.rest:
            return self.kind(self.query_size, self.memory_size, **self.section.options(), **self.rest)
        return self.kind.from_section(self.section, self.query_size, self.memory_size)


def attention_recipe(
    kind: type[Attention], options: Mapping[str, Any], sizes: tuple[tuple[int, int], ...] = ATTENTION_SIZES
) -> AttentionRecipe:
    """The recipe with the first sizes that the mechanism does not refuse.

    Args:
        kind: The class of the mechanism.
        options: Its settings.
        sizes: Sizes of query and memory to try.
    """
    section, rest = make_section(kind, options)
    refusal: Exception | None = None
    for query_size, memory_size in sizes:
        recipe = AttentionRecipe(kind, section, rest, query_size, memory_size)
        try:
            section.check_sizes(query_size, memory_size)
            recipe.build()
        except (ValueError, AssertionError) as error:  # UserError and invalid_combination are ValueErrors
            refusal = error
        except Exception as error:
            raise construction_failure(kind, error) from error
        else:
            return recipe
    tried = ", ".join(f"{query} and {memory}" for query, memory in sizes)
    raise PropertyError(
        kind.__name__,
        f"it refuses all sizes of query and memory that were tried, {tried} ({refusal}): pass options that allow one "
        "of them, for example a number of heads that divides the size",
    )


@dataclass(frozen=True)
class ModelRecipe:
    """How to build a model of an encoder, a decoder and a mechanism.

    Args:
        encoder: Class of the encoder.
        encoder_section: Its settings.
        decoder: Class of the decoder.
        decoder_section: Its settings.
        attention: The mechanism, with the sizes of the decoder and of the encoder's states.
    """

    encoder: type[Encoder]
    encoder_section: EncoderSection
    decoder: type[Any]
    decoder_section: DecoderSection
    attention: AttentionRecipe

    def build_encoder(self) -> Encoder:
        """A new encoder."""
        return self.encoder.from_section(self.encoder_section, SOURCE_TOKENS, 0.0)

    def build_decoder(self) -> Decoder[Any]:
        """A new decoder with its attention."""
        decoder: Decoder[Any] = self.decoder.from_section(
            self.decoder_section, TARGET_TOKENS, 0.0, self.attention.build
        )
        return decoder

    def build(self) -> Seq2Seq:
        """A new model, with weights drawn from PyTorch's random state."""
        return Seq2Seq(self.build_encoder(), self.build_decoder())

    def build_with_seed(self, seed: int) -> Seq2Seq:
        """A new model with weights drawn from a seed, in evaluation mode.

        Args:
            seed: The seed.
        """
        model: Seq2Seq = seeded(self.build, seed)
        return model

    def check_construction(self) -> None:
        """Raise `PropertyError` unless both classes build instances of themselves from their settings."""
        for kind, make in ((self.encoder, self.build_encoder), (self.decoder, self.build_decoder)):
            try:
                built: object = make()
            except Exception as error:
                raise construction_failure(kind, error) from error
            if not isinstance(built, kind):
                problem = f"`from_section` returns a {type(built).__name__}: it returns an instance of its own class"
                raise PropertyError(kind.__name__, problem)

    @property
    def parts(self) -> str:
        """The classes of the model's parts."""
        return f"{self.encoder.__name__}, {self.decoder.__name__} and {self.attention.kind.__name__}"


def models_around_attention(recipe: AttentionRecipe) -> Iterator[ModelRecipe]:
    """Recurrent models that attend before and after the step, and a Transformer.

    Args:
        recipe: The mechanism.
    """
    for wiring in ("before", "after"):
        yield ModelRecipe(
            RecurrentEncoder,
            coder_section(RecurrentEncoder, {"bidirectional": False}, recipe.memory_size),
            RecurrentDecoder,
            coder_section(RecurrentDecoder, {"wiring": wiring, "cell": "lstm"}, recipe.query_size),
            recipe,
        )
    small = {"heads": 1, "inner_size": 23}
    encoder = coder_section(SelfAttentionEncoder, small, recipe.memory_size)
    decoder = coder_section(TransformerDecoder, small, recipe.query_size)
    yield ModelRecipe(SelfAttentionEncoder, encoder, TransformerDecoder, decoder, recipe)


def models_around_encoder(encoder: type[Encoder], options: Mapping[str, Any]) -> Iterator[ModelRecipe]:
    """A recurrent decoder and a Transformer decoder that attend to the encoder's states.

    Args:
        encoder: Class of the encoder.
        options: Its settings.
    """
    section = coder_section(encoder, options)
    choices: tuple[tuple[int, type[Any], dict[str, Any], type[Attention], dict[str, Any]], ...] = (
        (13, RecurrentDecoder, {"wiring": "after"}, ScaledDotAttention, {}),
        (12, TransformerDecoder, {"heads": 2, "inner_size": 23}, MultiHeadAttention, {"heads": 3}),
    )
    for size, decoder, own, mechanism, heads in choices:
        attention = attention_recipe(mechanism, heads, ((size, section.state_size),))
        yield ModelRecipe(encoder, section, decoder, coder_section(decoder, own, size), attention)


def models_around_decoder(decoder: type[Decoder[Any]], options: Mapping[str, Any]) -> Iterator[ModelRecipe]:
    """A decoder after a recurrent encoder, with one head and with several.

    Args:
        decoder: Class of the decoder.
        options: Its settings.
    """
    for mechanism, own in ((ScaledDotAttention, {}), (MultiHeadAttention, {"key_size": 9, "heads": 3})):
        section = coder_section(decoder, options)
        encoder = encoder_before(section)
        attention = attention_recipe(mechanism, own, ((section.size, encoder.state_size),))
        yield ModelRecipe(RecurrentEncoder, encoder, decoder, section, attention)


def encoder_before(decoder: DecoderSection) -> EncoderSection:
    """Settings of a recurrent encoder from whose final state a decoder can start, of another size if possible.

    Args:
        decoder: The settings of the decoder.
    """
    cells = dict.fromkeys((getattr(decoder, "cell", "gru"), "gru", "lstm"))
    refusal = ValueError("no encoder was tried")
    for size, cell in product((7, decoder.size), cells):
        options = {"bidirectional": False, "cell": cell, "layers": decoder.layers}
        encoder: EncoderSection = coder_section(RecurrentEncoder, options, size)
        try:
            decoder.check_encoder(encoder)
        except ValueError as error:
            refusal = error
        else:
            return encoder
    raise UserError(f"the decoder refuses every encoder that was tried: {refusal}")
