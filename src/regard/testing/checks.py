"""The checks of classes that extend a model: attention mechanisms, encoders and decoders."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from regard.data import Batch
from regard.nn import Attention, Decoder, Encoder, Seq2Seq
from regard.testing import beams, encoders, mechanisms, models, modules
from regard.testing.building import (
    AttentionRecipe,
    ModelRecipe,
    attention_recipe,
    models_around_attention,
    models_around_decoder,
    models_around_encoder,
)
from regard.testing.failures import reported_for
from regard.testing.samples import AttentionInputs, sample_batch
from regard.testing.sections import seeded

SEEDS = (1, 2, 3)
ModelCheck = Callable[[Seq2Seq, Batch], None]
# From the most specific message to the most general.
MODEL_PROPERTIES: tuple[ModelCheck, ...] = (
    modules.check_stateless,
    modules.check_determinism,
    models.check_padding,
    models.check_latest_weights,
    beams.check_state_unchanged,
    models.check_causality,
    models.check_steps,
    models.check_chunks,
    models.check_valid_steps,
    models.check_full_mask,
    models.check_own_predictions,
    partial(beams.check_selection, before=0),
    beams.check_selection,
    partial(beams.check_beams, before=0),
    beams.check_beams,
    beams.check_repeated_selections,
    modules.check_source_attentions,
    modules.check_padding_gradients,
)
AttentionCheck = Callable[[Attention, AttentionInputs], None]
ATTENTION_PROPERTIES: tuple[AttentionCheck, ...] = (
    mechanisms.check_no_stored_memory,
    mechanisms.check_pure,
    mechanisms.check_finite,
    mechanisms.check_padded_states,
    mechanisms.check_rows,
    mechanisms.check_single_steps,
    mechanisms.check_permutation,
    mechanisms.check_shared_memory,
    mechanisms.check_bfloat16,
)


def check_attention(attention: type[Attention], **options: Any) -> None:
    """Check an attention mechanism: on its own, in recurrent models and in a Transformer.

    Args:
        attention: The class. Its name need not be registered.
        **options: Settings of its Section, or keyword arguments of its constructor.

    Raises:
        PropertyError: A property does not hold; the message names it and the likely mistake.
    """
    recipe = attention_recipe(attention, options)
    total = _check_mechanism(recipe)
    for number, model in enumerate(models_around_attention(recipe)):
        complete = recipe.section.has_scores
        check_model(model, attention, seed=SEEDS[number], total=total, hard=recipe.hard, complete=complete)


def _check_mechanism(recipe: AttentionRecipe) -> float | None:
    """Check a mechanism on its own; returns the sum of its weights, or None if it is 1 at some steps and 0 at others.

    Only a mechanism without scores may have steps without weights: it does not select positions.
    """
    total: float | None = 1.0
    for seed in SEEDS:
        attention: Attention = seeded(recipe.build, seed)
        inputs = AttentionInputs.draw(attention, seed)
        mechanisms.check_shapes(attention, inputs)
        if not recipe.section.has_scores:
            has_weights = mechanisms.attend_to(attention, inputs)[1].any(-1)
            total = 1.0 if has_weights.all() else None if has_weights.any() else 0.0
        mechanisms.check_distribution(attention, inputs, total=total, hard=recipe.hard)
        for check in ATTENTION_PROPERTIES:
            check(attention, inputs)
    mechanisms.check_devices(attention, inputs)
    return total


def check_encoder(encoder: type[Encoder], **options: Any) -> None:
    """Check an encoder: on its own, and with a recurrent and a Transformer decoder.

    Args:
        encoder: The class. Its name need not be registered.
        **options: Settings of its Section.

    Raises:
        PropertyError: A property does not hold; the message names it and the likely mistake.
    """
    for number, recipe in enumerate(models_around_encoder(encoder, options)):
        recipe.check_construction()
        for seed in SEEDS:
            own, batch = recipe.build_with_seed(seed).encoder, sample_batch(seed)
            encoders.check_encoding(own, recipe.encoder_section, batch)
            encoders.check_encoder_padding(own, batch)
            encoders.check_encoder_order(own, batch)
        encoders.check_length_limit(own, recipe.encoder_section)
        check_model(recipe, encoder, seed=SEEDS[number])


def check_decoder(decoder: type[Decoder[Any]], **options: Any) -> None:
    """Check a decoder after a recurrent encoder, with attention of one and of several heads.

    Args:
        decoder: The class. Its name need not be registered.
        **options: Settings of its Section.

    Raises:
        PropertyError: A property does not hold; the message names it and the likely mistake.
    """
    for number, recipe in enumerate(models_around_decoder(decoder, options)):
        recipe.check_construction()
        encoders.check_length_limit(recipe.build_with_seed(1).decoder, recipe.decoder_section)
        check_model(recipe, decoder, seed=SEEDS[number])


def check_model(
    recipe: ModelRecipe, kind: type, *, seed: int, total: float | None = 1.0, hard: bool = False, complete: bool = True
) -> None:
    """Check all properties of a small model.

    Args:
        recipe: How to build the model.
        kind: The class that failures are reported for.
        seed: Seed of the weights.
        total: The expected sum of the attention weights; 0 without attention, None if it is 1 at some steps and 0 at
            others.
        hard: Whether all weight is on one position.
        complete: Whether all parameters must affect the loss.
    """
    model, batch = recipe.build_with_seed(seed), sample_batch(seed)
    with reported_for(kind, f"in a model of {recipe.parts}"):
        models.check_weights(model, batch, total=total, hard=hard)
        for check in MODEL_PROPERTIES:
            check(model, batch)
        modules.check_gradients(model, batch, complete=complete)
        modules.check_saved_weights(model, partial(recipe.build_with_seed, seed + 1), batch)
        modules.check_meta_device(model, recipe.build)
        modules.check_training_step(model, batch)
