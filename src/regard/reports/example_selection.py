"""Selection of example sentences: those whose attention map, or whose score, is extreme by some measure.

Shapes: a map is [output words, source words], where a_ij is the attention of output word i to source word j.
End-of-sentence tokens and punctuation are left out, because models attend to them when no source word is relevant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite, log, nan
from statistics import median

import torch
from torch import Tensor

from regard.text import END, word_boundaries

FEWEST_WORDS = 5  # in shorter sentences, measures of the map mean little


@dataclass(frozen=True, eq=False)  # == of tensors is not a bool
class ExampleSentence:
    """A sentence of the test set with the output of the model.

    Args:
        number: Its number in the test set, from 1.
        source: The source sentence.
        output: The output as text.
        reference: The reference translation.
        tokens: The output tokens, with `<end>` if the search reached it.
        source_tokens: The source tokens.
        starts: Which output tokens begin a word; empty if every token is a word.
        source_starts: The same for the source tokens.
        weights: Attention weights [output, source], averaged over layers and heads.
        score: The score of this sentence, from 0 to 100.
    """

    number: int
    source: str
    output: str
    reference: str
    tokens: tuple[str, ...]
    source_tokens: tuple[str, ...]
    starts: tuple[bool, ...]
    source_starts: tuple[bool, ...]
    weights: Tensor
    score: float

    @property
    def truncated(self) -> bool:
        """True if the search produced tokens but not `<end>`."""
        return bool(self.tokens) and self.tokens[-1] != END

    @property
    def has_attention(self) -> bool:
        """False for the output of a model without attention."""
        return bool(self.weights.any())

    @cached_property
    def map(self) -> Tensor:
        """Attention of words, [output words, source words], without end-of-sentence tokens and punctuation."""
        if not self.has_attention:
            return self.weights.new_zeros(0, 0)
        starts = word_boundaries.word_starts(self.tokens, self.starts)
        source_starts = word_boundaries.word_starts(self.source_tokens, self.source_starts)
        whole = word_boundaries.word_attention(self.weights.detach().double().cpu(), starts, source_starts)
        return whole[_content_words(self.tokens, starts)][:, _content_words(self.source_tokens, source_starts)]


def _content_words(tokens: Sequence[str], starts: Sequence[bool]) -> list[int]:
    """The indices of the words that are neither an end-of-sentence token nor punctuation."""
    spelled = enumerate(word_boundaries.token_text(tokens, starts))
    return [index for index, word in spelled if word != END and not word_boundaries.is_punctuation(word)]


def diagonality(attention: Tensor) -> float:
    """Correlation of output positions and attended source positions, at most 1.

        p_ij = a_ij / Σ a        ρ = cov(i, j) / √(var i · var j)   under p

    1: word for word, in the same order. 0: source and output positions are unrelated.

    Args:
        attention: A map [output words, source words].
    """
    p = attention / attention.sum()
    outputs, sources = (torch.arange(count, dtype=p.dtype, device=p.device) for count in p.shape)
    i = outputs - p.sum(1) @ outputs
    j = sources - p.sum(0) @ sources
    variances = (p.sum(1) @ i**2) * (p.sum(0) @ j**2)
    return float(i @ p @ j / variances.sqrt()) if variances > 0 else nan


def inversion(attention: Tensor) -> float:
    """Largest distance, in source words, by which attention moves back from an earlier to a later output word.

        s_i = argmax_j a_ij      c_i = max_j a_ij      max over i < k of  min(c_i, c_k) · (s_i − s_k)

    The distance is weighted by the smaller of the two weights. It is large where an early English verb attends to the
    end of a German clause, and later words attend to the words before it.

    Args:
        attention: A map [output words, source words].
    """
    if not attention.numel():
        return nan
    largest, position = attention.max(1)
    back = torch.minimum(largest[:, None], largest) * (position[:, None] - position)  # [earlier, later]
    return float(back.triu(diagonal=1).max().clamp(min=0))


def spread(attention: Tensor) -> float:
    """Mean entropy of the attention of a word, as a fraction of the largest possible entropy.

        H = − Σ a_ij log (a_ij / Σ_j a_ij) / Σ a        H / log (number of source words)

    0: each word attends to a single source word. 1: each attends to all of them equally.

    Args:
        attention: A map [output words, source words].
    """
    outputs, sources = attention.shape
    if not outputs or sources < 2:
        return nan
    rows = attention.sum(1, keepdim=True)
    entropy = -torch.xlogy(attention, attention / rows.clamp(min=1e-30))
    return float(entropy.sum() / attention.sum()) / log(sources)


@dataclass(frozen=True)
class SelectionCriterion:
    """A measure, of which the sentences with the largest (or smallest) values are shown.

    Args:
        title: The heading of the sentences that it selects.
        explanation: A paragraph below the heading.
        measure: The value of a sentence.
        value_format: How a value is written, such as "score {:.1f}".
        smallest: Select the smallest values instead of the largest.
        needs_map: Consider only sentences with a map of at least `FEWEST_WORDS` words on both sides.
        better_half: Consider only sentences with a score of at least the median, whose attention is meaningful.
    """

    title: str
    explanation: str
    measure: Callable[[ExampleSentence], float]
    value_format: str
    smallest: bool = False
    needs_map: bool = True
    better_half: bool = False

    def candidates(self, sentences: Sequence[ExampleSentence]) -> list[tuple[float, ExampleSentence]]:
        """Values and sentences, the most extreme first; of equal values first the longer, then the earlier one.

        Args:
            sentences: Sentences to select from.
        """
        if self.needs_map:
            sentences = [sentence for sentence in sentences if min(sentence.map.shape) >= FEWEST_WORDS]
        if self.better_half and sentences:
            middle = median(sentence.score for sentence in sentences)
            sentences = [sentence for sentence in sentences if sentence.score >= middle]
        values = [(self.measure(sentence), sentence) for sentence in sentences]
        sign = 1 if self.smallest else -1
        return sorted(
            [(value, sentence) for value, sentence in values if isfinite(value)],
            key=lambda pair: (sign * pair[0], -len(pair[1].source_tokens), pair[1].number),
        )


@dataclass(frozen=True, eq=False)
class SelectedExample:
    """A sentence that a criterion selected.

    Args:
        criterion: The criterion.
        value: The value of its measure.
        sentence: The sentence.
    """

    criterion: SelectionCriterion
    value: float
    sentence: ExampleSentence

    @property
    def caption(self) -> str:
        """The value of the measure, and the score of the sentence if this is something else."""
        value, score = self.criterion.value_format.format(self.value), f"score {self.sentence.score:.1f}"
        return value if value == score else f"{value} · {score}"

    def to_dict(self) -> dict[str, object]:
        """Why it was selected, the texts and the score, as in JSON."""
        return {
            "criterion": self.criterion.title,
            "value": self.value,
            "number": self.sentence.number,
            "source": self.sentence.source,
            "reference": self.sentence.reference,
            "output": self.sentence.output,
            "truncated": self.sentence.truncated,
            "score": self.sentence.score,
        }


CRITERIA = (
    SelectionCriterion(
        "Word for word",
        "The output follows the source: the attended position moves along with the output position. The measure is "
        "the correlation of the two. Only the better half of the translations, by score, is considered.",
        lambda sentence: diagonality(sentence.map),
        "correlation {:.2f}",
        better_half=True,
    ),
    SelectionCriterion(
        "Reordering",
        "An earlier output word attends far to the right, and a later one back to the left. The measure is the largest "
        "distance back, in words, times the smaller of the two weights. Only the better half of the translations, by "
        "score, is considered.",
        lambda sentence: inversion(sentence.map),
        "{:.1f} words back",
        better_half=True,
    ),
    SelectionCriterion(
        "Focused attention",
        "Each output word attends to hardly more than one source word. The measure is the entropy of a word's "
        "attention as a share of the largest possible one, averaged over the output: 0 % is a single position.",
        lambda sentence: 100 * spread(sentence.map),
        "spread {:.0f} %",
        smallest=True,
    ),
    SelectionCriterion(
        "Diffuse attention",
        "Output words attend to many source words. The measure is the spread of the previous group: 100 % is all "
        "positions equally.",
        lambda sentence: 100 * spread(sentence.map),
        "spread {:.0f} %",
    ),
    SelectionCriterion(
        "Longest sources",
        "The sources with the most words. Without attention, a model must encode all of them in one vector.",
        lambda sentence: sentence.map.shape[1],
        "{:.0f} words",
    ),
    SelectionCriterion(
        "Best scores",
        "The translations that are most similar to their references; of equal scores, the longest.",
        lambda sentence: sentence.score,
        "score {:.1f}",
        needs_map=False,
    ),
    SelectionCriterion(
        "Worst scores",
        "The translations that are least similar to their references. Not all of them are wrong.",
        lambda sentence: sentence.score,
        "score {:.1f}",
        smallest=True,
        needs_map=False,
    ),
)


def select_examples(sentences: Sequence[ExampleSentence], per_criterion: int = 5) -> list[SelectedExample]:
    """Example sentences in the order of `CRITERIA`, none of them twice.

    The criteria select one sentence each per round, so that every criterion gets some of its most extreme ones.

    Args:
        sentences: Sentences to select from.
        per_criterion: The largest number of sentences for each criterion.
    """
    remaining = [iter(criterion.candidates(sentences)) for criterion in CRITERIA]
    groups: list[list[SelectedExample]] = [[] for _ in CRITERIA]
    taken: set[int] = set()
    for _ in range(per_criterion):
        for criterion, candidates, group in zip(CRITERIA, remaining, groups, strict=True):
            for value, candidate in candidates:
                if candidate.number not in taken:
                    taken.add(candidate.number)
                    group.append(SelectedExample(criterion, value, candidate))
                    break
    return [selected for group in groups for selected in group]
