"""Attention statistics of sentences with teacher forcing: alignment links and measures of each attention map.

Row t of a map is the step that predicts output t; row t + 1 is the next step, whose input is output t.
Shapes: token maps and unit maps as in `aligned_sentences`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import log2
from typing import Self

import numpy as np
from torch import Tensor

from regard.corpora.alignments import Link
from regard.data import Example
from regard.evaluation.alignment import (
    attention_links,
    attention_peaks,
    backward_share,
    coverage,
    entropy,
    teacher_forced_attention,
)
from regard.inference.translation import mean_attention
from regard.inference.translator import ProgressCallback, Translator, no_progress
from regard.laboratory.aligned_sentences import AlignedSentence
from regard.laboratory.sentences import no_attention_error
from regard.reports.example_selection import diagonality, inversion


@dataclass(frozen=True, eq=False)
class ContentAttention:
    """An attention map with and without ends and punctuation, on which models often put leftover weight.

    Args:
        full: The unit map without the target's end.
        content: The same without the source's end and without punctuation.
        links: The links between content units.
    """

    full: Tensor
    content: Tensor
    links: frozenset[Link]

    @classmethod
    def of_map(cls, full: Tensor, links: frozenset[Link], sentence: AlignedSentence) -> Self:
        """Select the content of a unit map.

        Args:
            full: The unit map without the target's end.
            links: The links (source, target) of this map.
            sentence: The sentence.
        """
        outputs, sources = sentence.target.content, sentence.source.content
        kept = frozenset(link for link in links if link[0] in sources and link[1] in outputs)
        return cls(full, full[list(outputs)][:, list(sources)], kept)


@dataclass(frozen=True)
class AttentionMeasure:
    """A measure of an attention map.

    Args:
        title: The title of its column.
        form: The format of its values.
        compute: The function that computes it.
        extreme: The caption of the table of sentences with the most extreme values; empty for no table.
        lowest: True if the lowest values are the extreme ones.
    """

    title: str
    form: str
    compute: Callable[[ContentAttention], float]
    extreme: str
    lowest: bool = False


MEASURES = {
    "entropy": AttentionMeasure(
        "entropy, bits",
        "{:z.2f}",
        lambda attention: entropy(attention.full),
        "Highest entropy, in bits",
    ),
    "entropy_share": AttentionMeasure(
        "of maximum",
        "{:z.1%}",
        lambda attention: entropy(attention.full) / log2(attention.full.shape[1]),
        "",  # mostly the same sentences
    ),
    "coverage": AttentionMeasure(
        "coverage",
        "{:z.1%}",
        lambda attention: coverage(attention.full[:, :-1]),
        "Lowest coverage of the source",
        lowest=True,
    ),
    "monotonicity": AttentionMeasure(
        "monotonicity",
        "{:z.3f}",
        lambda attention: diagonality(attention.content),
        "Lowest monotonicity",
        lowest=True,
    ),
    "backward": AttentionMeasure(
        "backward",
        "{:z.1%}",
        lambda attention: backward_share(attention.links),
        "Highest share of backward steps",
    ),
    "inversion": AttentionMeasure(
        "inversion",
        "{:z.2f}",
        lambda attention: inversion(attention.content),
        "Longest inversion",
    ),
}


@dataclass(frozen=True)
class AttentionStats:
    """The attention of one sentence, in one layer and head or averaged over them.

    Args:
        links: The links (source, target) from each output's own row.
        next_step_links: The links from the row of the next step.
        values: The values by the keys of `MEASURES`; nan where undefined.
    """

    links: frozenset[Link]
    next_step_links: frozenset[Link]
    values: Mapping[str, float]

    @classmethod
    def of_map(cls, weights: Tensor, sentence: AlignedSentence) -> Self:
        """The statistics of a token map.

        Args:
            weights: A token map, both end tokens included.
            sentence: The sentence.
        """
        weights = weights.double()
        own, following = weights[:-1], weights[1:]
        links, next_step_links = (
            attention_links(sentence.unit_map(attention_peaks(rows))) for rows in (own, following)
        )
        attention = ContentAttention.of_map(sentence.unit_map(own), links, sentence)
        return cls(links, next_step_links, {key: each.compute(attention) for key, each in MEASURES.items()})


def collect_attention_stats(
    translator: Translator,
    sentences: Sequence[AlignedSentence],
    examples: Sequence[Example],
    advance: ProgressCallback = no_progress,
) -> dict[str, list[AttentionStats]]:
    """The statistics of each sentence by map name: on average and, if there are several, in each layer and head.

    Args:
        translator: The translator.
        sentences: The sentences in units.
        examples: The same sentences as token ids.
        advance: Called with the number of sentences done.

    Raises:
        UserError: If the model has no attention.
    """
    stats: dict[str, list[AttentionStats]] = {}
    for sentence, weights in zip(sentences, teacher_forced_attention(translator.model, examples), strict=True):
        if not weights.any():
            raise no_attention_error(translator)
        for name, each in named_maps(weights, translator.model.decoder.weight_axes).items():
            stats.setdefault(name, []).append(AttentionStats.of_map(each, sentence))
        advance(1)
    return stats


def named_maps(weights: Tensor, axes: Sequence[str]) -> dict[str, Tensor]:
    """The mean of all maps and each map by name; only "attention" if there is one.

    Args:
        weights: Attention weights [*axes, output, source].
        axes: The names of the leading axes, such as ("layer", "head").
    """
    lead = weights.shape[:-2]
    mean = mean_attention(weights)
    if lead.numel() == 1:
        return {"attention": mean}
    names = [" · ".join(f"{axis} {i + 1}" for axis, i in zip(axes, index, strict=True)) for index in np.ndindex(*lead)]
    return {"mean": mean, **dict(zip(names, weights.flatten(0, -3), strict=True))}
