"""How much of a prediction comes from the source, and how much from the previous outputs.

The decoder predicts y_t from the source x and the prefix y_<t. Here it reads others, and is scored on the same y_t:

    reference        −log p(y_t | y_<t, x)      teacher forcing
    other_source     −log p(y_t | y_<t, x′)     x′ is the source of another sentence of the same or a similar length
    random_prefix    −log p(y_t | y′_<t, x)     y′ are outputs of all sentences, in random order
    neither          −log p(y_t | y′_<t, x′)
    free_running     −log p(y_t | ŷ_<t, x)      ŷ are the model's own outputs, as at inference
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Literal, get_args

from regard.data import Batch, Example, collate
from regard.evaluation.losses import LossMetrics, compute_losses
from regard.inference.translator import ProgressCallback, no_progress
from regard.laboratory.embeddings import double_precision_copy
from regard.laboratory.gradients import BATCH_SIZE, by_source_length
from regard.nn import Seq2Seq

Condition = Literal["reference", "other_source", "random_prefix", "neither", "free_running"]
CONDITIONS: tuple[Condition, ...] = get_args(Condition)
SEED = 1  # of the random order


def measured_conditions(sentences: int) -> tuple[Condition, ...]:
    """The conditions that `sequence_losses` measures: a single sentence has no other source and no random prefix.

    Args:
        sentences: The number of sentences.
    """
    return CONDITIONS if sentences > 1 else ("reference", "free_running")


def sequence_losses(
    model: Seq2Seq, examples: Sequence[Example], advance: ProgressCallback = no_progress
) -> dict[Condition, LossMetrics]:
    """Loss per token, token accuracy and exact match under each condition, in double precision.

    The conditions are those of `measured_conditions`.

    Args:
        model: The model.
        examples: The sentences as token ids.
        advance: Called with the number of sentences done, under each condition.
    """
    model = double_precision_copy(model)
    own = by_source_length(examples)
    read: dict[Condition, list[Example]] = {"reference": own, "free_running": own}
    conditions = measured_conditions(len(own))
    if "other_source" in conditions:
        read["other_source"] = with_other_sources(own)
        read["random_prefix"] = with_random_prefixes(own)
        read["neither"] = with_random_prefixes(read["other_source"])

    def batches(read: Sequence[Example]) -> Iterator[Batch]:
        for begin in range(0, len(own), BATCH_SIZE):
            some = slice(begin, begin + BATCH_SIZE)
            yield replace(collate(read[some]), outputs=collate(own[some]).outputs)
            advance(len(own[some]))

    return {
        condition: compute_losses(model, batches(read[condition]), teacher=condition != "free_running")
        for condition in conditions
    }


def with_other_sources(examples: Sequence[Example]) -> list[Example]:
    """Each example with the source of the next one; the last, with that of the one before.

    Args:
        examples: At least two, ordered by the length of their sources.
    """
    others = [*examples[1:], examples[-2]]
    return [Example(other.source, own.target) for own, other in zip(examples, others, strict=True)]


def with_random_prefixes(examples: Sequence[Example]) -> list[Example]:
    """The examples with the outputs of all of them in random order. First inputs, end tokens and lengths stay.

    Args:
        examples: The examples.
    """
    outputs = [token for example in examples for token in example.target[1:-1]]
    Random(SEED).shuffle(outputs)
    drawn = iter(outputs)
    return [
        Example(source, (target[0], *(next(drawn) for _ in target[1:-1]), target[-1]))
        for source, target in ((example.source, example.target) for example in examples)
    ]
