"""Small models around a class that is checked. No name has to be registered: classes are built from their Sections."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from inspect import Parameter, signature
from itertools import product
from typing import Any

import torch
from pydantic import BaseModel, ValidationError
from torch import nn

from regard.config.kinds import AttentionSection, DecoderSection, EncoderSection
from regard.errors import UserError, suggest
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
from regard.testing.failures import PropertyError, describe_error
from regard.testing.samples import SOURCE_TOKENS, TARGET_TOKENS

# Sizes of query and memory, from the most telling to the most accommodating: different primes, a query that heads can
# share, equal sizes.
ATTENTION_SIZES = ((13, 11), (12, 11), (60, 11), (60, 24), (11, 11), (12, 12), (60, 60), (64, 64))
STATE_SIZES = (11, 12, 60, 64)
POSITIONS_SECTION = {"kind": "learned", "longest": 13}


def make_section(kind: type[Any], options: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The settings of a class, and those options that are parameters of its constructor only.

    Args:
        kind: The class, with its attribute `Section`.
        options: Settings, or keyword arguments of the constructor.

    Raises:
        UserError: If an option is unknown, or invalid.
    """
    fields = kind.Section.model_fields
    values = {name: value for name, value in options.items() if name in fields}
    rest = {name: value for name, value in options.items() if name not in fields}
    keywords = constructor_keywords(kind)
    for name in rest:
        if keywords is not None and name not in keywords:
            known = sorted({*fields, *keywords} - {"kind"})
            raise UserError(f"{kind.__name__} has no option {name}; {suggest(name, known)}")
    if "kind" in fields and fields["kind"].is_required():
        values["kind"] = kind.__name__
    return validated(kind.Section, values, kind.__name__), rest


def constructor_keywords(kind: type) -> set[str] | None:
    """The keyword-only parameters of a class; None if it takes any.

    Args:
        kind: The class.
    """
    parameters = signature(kind).parameters.values()
    if any(each.kind == Parameter.VAR_KEYWORD for each in parameters):
        return None
    return {each.name for each in parameters if each.kind == Parameter.KEYWORD_ONLY or each.default is not each.empty}


def validated(section: type[BaseModel], values: Mapping[str, Any], name: str) -> Any:
    """A section with these settings.

    Args:
        section: The class of the section.
        values: The settings.
        name: The class that has these settings, for the message.

    Raises:
        UserError: If a setting is invalid.
    """
    try:
        return section(**values)
    except ValidationError as error:
        problems = (f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        raise UserError(f"{name} with {dict(values)}: {'; '.join(problems)}") from None


def seeded(build: Callable[[], nn.Module], seed: int) -> Any:
    """A module with weights drawn from a seed, in evaluation mode.

    Noise is added to all weights, as training would: weights that start as zeros would hide mistakes.

    Args:
        build: Returns the module.
        seed: The seed.
    """
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        module = build()
        for weight in module.parameters():
            weight.add_(torch.randn_like(weight), alpha=0.1)
    return module.eval()


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
        return bool({**self.section.options(), **self.rest}.get("hard", False))

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
        f"it refuses all sizes of query and memory that were tried, {tried} ({refusal}): pass options that allow one of "
        "them, for example a number of heads that divides the size",
    )


def construction_failure(kind: type, error: Exception) -> PropertyError:
    """The failure of a class that cannot be constructed.

    Args:
        kind: The class.
        error: What its constructor raised.
    """
    return PropertyError(
        kind.__name__,
        f"it cannot be constructed from its settings ({describe_error(error)}): every setting of its Section but `kind` "
        "is passed to the constructor as a keyword argument; add the missing ones to either, or override `from_section`",
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
    decoder: type[Decoder[Any]]
    decoder_section: DecoderSection
    attention: AttentionRecipe

    def build_parts(self) -> tuple[Encoder, Decoder[Any]]:
        """A new encoder and a new decoder."""
        encoder = self.built(self.encoder, partial(self.encoder.from_section, self.encoder_section, SOURCE_TOKENS, 0.0))
        make = partial(self.decoder.from_section, self.decoder_section, TARGET_TOKENS, 0.0, self.attention.build)
        return encoder, self.built(self.decoder, make)

    def build(self) -> Seq2Seq:
        """A new model, with weights drawn from PyTorch's random state."""
        return Seq2Seq(*self.build_parts())

    def build_with_seed(self, seed: int) -> Seq2Seq:
        """A new model with weights drawn from a seed, in evaluation mode.

        Args:
            seed: The seed.
        """
        model: Seq2Seq = seeded(self.build, seed)
        return model

    def built(self, kind: type[Any], make: Callable[[], Any]) -> Any:
        """What `make` returns, if it is an instance of a class.

        Args:
            kind: The class.
            make: Calls its `from_section`.
        """
        try:
            made = make()
        except Exception as error:
            raise construction_failure(kind, error) from error
        if not isinstance(made, kind):
            problem = f"`from_section` returns a {type(made).__name__}: it should return an instance of its own class"
            raise PropertyError(kind.__name__, problem)
        return made

    @property
    def parts(self) -> str:
        """The classes of the model's parts."""
        return f"{self.encoder.__name__}, {self.decoder.__name__} and {self.attention.kind.__name__}"


def coder_section(kind: type[Any], options: Mapping[str, Any], size: int | None = None) -> Any:
    """The settings of an encoder or a decoder, with the first size that it does not refuse.

    Args:
        kind: The class.
        options: Its settings.
        size: The size of its state; None for any.

    Raises:
        UserError: If no size is accepted, or an option is invalid.
    """
    refusal = UserError(f"{kind.__name__} has no settings")
    sizes = STATE_SIZES if size is None else (size,)
    # Two layers show more than one, but not every class has them.
    for layers, each in product((2, 1), sizes):
        values = {"embedding": 5, "size": each, "layers": layers, "positions": POSITIONS_SECTION, **options}
        try:
            section, rest = make_section(kind, values)
        except UserError as error:
            refusal = error
            continue
        if rest:
            raise UserError(f"{kind.__name__}: {', '.join(rest)} is not in its Section, which `from_section` reads")
        return section
    raise refusal


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
    for size, decoder, own, mechanism, heads in (
        (13, RecurrentDecoder, {"wiring": "after"}, ScaledDotAttention, {}),
        (12, TransformerDecoder, {"heads": 2, "inner_size": 23}, MultiHeadAttention, {"heads": 3}),
    ):
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
