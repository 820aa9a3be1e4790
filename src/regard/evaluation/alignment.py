"""Attention held against the truth: does a word look at the words that it translates?

Symbols: α weights, x source, y output; A links that were found, S sure links, P possible ones, S ⊆ P.
Shapes: a map is [output, source], with axes for layers and heads before them where a decoder has any. A link is
(source, output), counted from 0.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import astuple, dataclass
from itertools import accumulate, pairwise
from operator import itemgetter

import torch
from torch import Tensor

from regard.corpora.alignments import GoldAlignment, Link
from regard.data import Example, collate
from regard.inference.translation import mean_attention
from regard.nn import Seq2Seq
from regard.tasks import Pair, Tokenization
from regard.text import JOINER, SPACE
from regard.text.tokenizers import SIMILAR

AT_ONCE = 128  # sentences
ALIKE = 1e-6  # weights that differ by less differ by rounding


@torch.no_grad()
def teacher_forced_attention(model: Seq2Seq, examples: Sequence[Example]) -> Iterator[Tensor]:
    """For each example [..., output, source]: where each layer and head looks while the model reads the true target.

    Both ends have their row and column.
    """
    model.eval()
    for begin in range(0, len(examples), AT_ONCE):
        some = examples[begin : begin + AT_ONCE]
        batch = collate(some)
        # Not `teacher_forced`, whose output layer would be most of the arithmetic.
        _, weights, _ = model.decoder.forward_steps(batch.inputs, model.start(batch.source, batch.source_valid))
        for row, example in zip(weights, some, strict=True):
            yield row[..., : len(example.target) - 1, : len(example.source)]


def forced_attention(model: Seq2Seq, examples: Sequence[Example]) -> list[Tensor]:
    """The same with layers and heads averaged: for each example [output, source]."""
    return [mean_attention(weights) for weights in teacher_forced_attention(model, examples)]


# --- Links, and how many of them are true ----------------------------------------------------------------


def attention_peaks(weights: Tensor) -> Tensor:
    """The map without the rows that look at all places alike, and so at none: zeros in their place.

    `mean` attention has no others. Which place has the largest weight is a matter of rounding there, or, where the
    weights of pieces are added up, of the longest word.
    """
    even = weights.amax(-1, keepdim=True) - weights.amin(-1, keepdim=True) < ALIKE
    return weights.masked_fill(even, 0.0)


def attention_links(weights: Tensor) -> frozenset[Link]:
    """Each output and the place of the source that it looks at most, argmax_i α_ti; of equal ones, the first.

    The last column is the source's end: what looks there most is linked to nothing, as is a row of zeros.
    """
    if not weights.numel():
        return frozenset()
    most, places = weights.max(-1)
    end = weights.shape[-1] - 1
    looked = enumerate(zip(most.tolist(), places.tolist(), strict=True))
    return frozenset((place, output) for output, (weight, place) in looked if weight > 0 and place < end)


def diagonal_links(outputs: int, sources: int) -> frozenset[Link]:
    """Each output and the place as far along the source as it is along the output: what needs no model.

    i = ⌊(t + ½) |x| / |y|⌋
    """
    return frozenset(((2 * output + 1) * sources // (2 * outputs), output) for output in range(outputs) if sources)


def best_links(truth: GoldAlignment) -> frozenset[Link]:
    """One true link for each output that has any, a sure one where there is: nothing with one link each does better."""
    one_each = {output: source for links in (truth.unsure, truth.sure) for source, output in sorted(links)}
    return frozenset((source, output) for output, source in one_each.items())


@dataclass(frozen=True)
class AlignmentCounts:
    """Counts of links, of one sentence or, added up, of many: so each link counts alike, and not each sentence."""

    found: int = 0  # |A|
    sure: int = 0  # |S|
    found_sure: int = 0  # |A ∩ S|
    found_possible: int = 0  # |A ∩ P|

    @classmethod
    def between(cls, found: Collection[Link], truth: GoldAlignment) -> AlignmentCounts:
        found = frozenset(found)
        return cls(len(found), len(truth.sure), len(found & truth.sure), len(found & truth.possible))

    def __add__(self, other: AlignmentCounts) -> AlignmentCounts:
        return AlignmentCounts(*(one + another for one, another in zip(astuple(self), astuple(other), strict=True)))

    @property
    def precision(self) -> float:
        """|A ∩ P| / |A|: how much of what was found is right."""
        return _share(self.found_possible, self.found)

    @property
    def recall(self) -> float:
        """|A ∩ S| / |S|: how much of what has to be found was found."""
        return _share(self.found_sure, self.sure)

    @property
    def f1(self) -> float:
        """2 · precision · recall / (precision + recall). Where all links are sure, it is 1 − AER."""
        if math.isnan(self.precision) or math.isnan(self.recall):
            return math.nan
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0

    @property
    def error_rate(self) -> float:
        """AER = 1 − (|A ∩ S| + |A ∩ P|) / (|A| + |S|), of Och and Ney (2003)."""
        return 1 - _share(self.found_sure + self.found_possible, self.found + self.sure)


def _share(part: int, whole: int) -> float:
    return part / whole if whole else math.nan


# --- How attention moves, whatever is true ---------------------------------------------------------------


def entropy(weights: Tensor) -> float:
    """How undecided a row is, in bits: −Σ_i α_ti log2 α_ti, averaged over the output. At most log2 of the columns."""
    if not weights.numel():
        return math.nan
    return float(-torch.xlogy(weights, weights).sum(-1).mean()) / math.log(2)


def coverage(weights: Tensor) -> float:
    """How much of the source was looked at: Σ_i min(1, Σ_t α_ti) / |x|, for a map without ends."""
    if not weights.numel():
        return math.nan
    return float(weights.sum(0).clamp(max=1).mean())


def backward_share(found: Collection[Link]) -> float:
    """The share of steps from one linked output to the next at which the place that is looked at goes backwards."""
    places = [source for source, _ in sorted(found, key=itemgetter(1))]
    steps = [after < before for before, after in pairwise(places)]
    return _share(sum(steps), len(steps))


# --- Words between white space ---------------------------------------------------------------------------


def white_space_starts(text: str, tokens: Sequence[str]) -> list[bool] | None:
    """Which tokens begin one of the words of `text.split()`; None if the tokens do not spell these words.

    A text may be split in any way: into pieces, into characters, with its punctuation cut off. A space that is a token
    belongs to the word behind it, as it does where it is the first sign of a piece.
    """
    spelled = ["".join(token.strip(JOINER).replace(SPACE, "").split()) for token in tokens]
    for cased in (text, text.lower()):
        words = cased.replace(JOINER, SIMILAR).replace(SPACE, "").split()
        if "".join(spelled) == "".join(words):
            break
    else:
        return None
    to_come = set(accumulate(map(len, words[:-1]), initial=0))  # where words begin, in characters
    starts, character = [], 0
    for token in spelled:
        starts.append(character in to_come)
        to_come.discard(character)
        character += len(token)
    return starts if sum(starts) == len(text.split()) else None


# --- One number, for tables of results -------------------------------------------------------------------


def alignment_accuracy(
    model: Seq2Seq, tokenization: Tokenization, pairs: Sequence[Pair], examples: Sequence[Example]
) -> float | None:
    """The share of content words whose most attended source token is truly aligned; None where no truth is known."""
    hits: list[bool] = []
    if not any(pair.alignment for pair in pairs):
        return None
    for pair, weights in zip(pairs, forced_attention(model, examples), strict=True):
        if not bool(weights.any()):
            return None  # a model without attention looks nowhere
        looked_at = weights.argmax(-1).tolist()
        known = {target for _, target in pair.alignment}
        for place, token in enumerate(tokenization.target_tokens(pair)):
            if place in known and token not in tokenization.function_words:
                hits.append((looked_at[place], place) in pair.alignment)
    return sum(hits) / len(hits) if hits else None
