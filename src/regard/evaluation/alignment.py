"""Attention compared with gold alignments, and other statistics of attention maps.

Symbols: α weights, x source, y output; A predicted links, S sure links, P possible ones, S ⊆ P (Och and Ney 2003).
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

BATCH_SIZE = 128  # sentences
TOLERANCE = 1e-6  # smaller differences of weights are rounding errors


@torch.no_grad()
def teacher_forced_attention(model: Seq2Seq, examples: Sequence[Example]) -> Iterator[Tensor]:
    """The attention of each layer and head under teacher forcing, [..., output, source] for each example.

    Both ends have their row and column. The weights are float32 and on the CPU.

    Args:
        model: The model, which is put into evaluation mode.
        examples: Sources and targets as ids.
    """
    model.eval()
    device = next(model.parameters()).device
    for begin in range(0, len(examples), BATCH_SIZE):
        some = examples[begin : begin + BATCH_SIZE]
        batch = collate(some).to(device)
        # Not `teacher_forced`: its output layer would take most of the time.
        _, weights, _ = model.decoder.forward_steps(batch.inputs, model.start(batch.source, batch.source_valid))
        for row, example in zip(weights.float().cpu(), some, strict=True):
            yield row[..., : len(example.target) - 1, : len(example.source)]


def forced_attention(model: Seq2Seq, examples: Sequence[Example]) -> list[Tensor]:
    """The mean over layers and heads of `teacher_forced_attention`, [output, source] for each example.

    Args:
        model: The model, which is put into evaluation mode.
        examples: Sources and targets as ids.
    """
    return [mean_attention(weights) for weights in teacher_forced_attention(model, examples)]


# --- Links, and their precision and recall ----------------------------------------------------------------


def attention_peaks(weights: Tensor) -> Tensor:
    """The map with zeros in uniform rows, which attend to no position more than to another.

    All rows of `mean` attention are uniform. Their largest weight depends on rounding or, where the weights of
    subwords are summed, on the longest word.

    Args:
        weights: An attention map, [output, source].
    """
    even = weights.amax(-1, keepdim=True) - weights.amin(-1, keepdim=True) < TOLERANCE
    return weights.masked_fill(even, 0.0)


def attention_links(weights: Tensor) -> frozenset[Link]:
    """Each output with its most attended source position, argmax_i α_ti; of equal weights, the first counts.

    The last column is the source's end: an output that attends to it most is not linked, nor is a row of zeros.

    Args:
        weights: An attention map, [output, source].
    """
    if not weights.numel():
        return frozenset()
    largest, positions = weights.max(-1)
    end = weights.shape[-1] - 1
    attended = enumerate(zip(largest.tolist(), positions.tolist(), strict=True))
    return frozenset((position, output) for output, (weight, position) in attended if weight > 0 and position < end)


def diagonal_links(outputs: int, sources: int) -> frozenset[Link]:
    """Each output with the source position at the same relative position: a baseline that needs no model.

    i = ⌊(t + ½) |x| / |y|⌋

    Args:
        outputs: |y|.
        sources: |x|.
    """
    return frozenset(((2 * output + 1) * sources // (2 * outputs), output) for output in range(outputs) if sources)


def best_links(gold: GoldAlignment) -> frozenset[Link]:
    """One gold link for each output that has any, preferably a sure one: the best that one link per output can do.

    Args:
        gold: The gold alignment of a sentence.
    """
    one_each = {output: source for links in (gold.unsure, gold.sure) for source, output in sorted(links)}
    return frozenset((source, output) for output, source in one_each.items())


@dataclass(frozen=True)
class AlignmentCounts:
    """Counts of links in one sentence or, summed, in many, so that every link has the same weight.

    Args:
        found: |A|.
        sure: |S|.
        found_sure: |A ∩ S|.
        found_possible: |A ∩ P|.
    """

    found: int = 0
    sure: int = 0
    found_sure: int = 0
    found_possible: int = 0

    @classmethod
    def between(cls, predicted: Collection[Link], gold: GoldAlignment) -> AlignmentCounts:
        """The counts of one sentence.

        Args:
            predicted: A.
            gold: S and P.
        """
        found = frozenset(predicted)
        return cls(len(found), len(gold.sure), len(found & gold.sure), len(found & gold.possible))

    def __add__(self, other: AlignmentCounts) -> AlignmentCounts:
        return AlignmentCounts(*(one + another for one, another in zip(astuple(self), astuple(other), strict=True)))

    @property
    def precision(self) -> float:
        """|A ∩ P| / |A|."""
        return _ratio_or_nan(self.found_possible, self.found)

    @property
    def recall(self) -> float:
        """|A ∩ S| / |S|."""
        return _ratio_or_nan(self.found_sure, self.sure)

    @property
    def f1(self) -> float:
        """2 · precision · recall / (precision + recall). If all links are sure, it is 1 − AER."""
        if math.isnan(self.precision) or math.isnan(self.recall):
            return math.nan
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0

    @property
    def error_rate(self) -> float:
        """AER = 1 − (|A ∩ S| + |A ∩ P|) / (|A| + |S|), of Och and Ney (2003)."""
        return 1 - _ratio_or_nan(self.found_sure + self.found_possible, self.found + self.sure)


def _ratio_or_nan(part: int, whole: int) -> float:
    return part / whole if whole else math.nan


# --- Statistics that need no gold alignment --------------------------------------------------------------


def entropy(weights: Tensor) -> float:
    """The mean entropy of the rows in bits: −Σ_i α_ti log2 α_ti, at most log2 of the number of columns.

    Args:
        weights: An attention map, [output, source].
    """
    if not weights.numel():
        return math.nan
    return float(-torch.xlogy(weights, weights).sum(-1).mean()) / math.log(2)


def coverage(weights: Tensor) -> float:
    """The share of the source that was attended to: Σ_i min(1, Σ_t α_ti) / |x|.

    Args:
        weights: An attention map without ends, [output, source].
    """
    if not weights.numel():
        return math.nan
    return float(weights.sum(0).clamp(max=1).mean())


def backward_share(links: Collection[Link]) -> float:
    """The share of steps from one linked output to the next at which the source position decreases.

    Args:
        links: At most one for each output.
    """
    positions = [source for source, _ in sorted(links, key=itemgetter(1))]
    steps = [after < before for before, after in pairwise(positions)]
    return _ratio_or_nan(sum(steps), len(steps))


# --- Words between white space ---------------------------------------------------------------------------


def white_space_starts(text: str, tokens: Sequence[str]) -> list[bool] | None:
    """Which tokens begin one of the words of `text.split()`; None if the tokens do not spell these words.

    Tokens may be subwords, characters, or words without their punctuation. A space that is a token belongs to the word
    after it, as does one at the start of a subword.

    Args:
        text: The text.
        tokens: Its tokens, in any tokenization.
    """
    spelled = ["".join(token.strip(JOINER).replace(SPACE, "").split()) for token in tokens]
    for cased in (text, text.lower()):
        words = cased.replace(JOINER, SIMILAR).replace(SPACE, "").split()
        if "".join(spelled) == "".join(words):
            break
    else:
        return None
    word_starts = set(accumulate(map(len, words[:-1]), initial=0))  # in characters
    starts, character = [], 0
    for token in spelled:
        starts.append(character in word_starts)
        word_starts.discard(character)
        character += len(token)
    return starts if sum(starts) == len(text.split()) else None


# --- Numbers for tables of results ------------------------------------------------------------------------


@dataclass(frozen=True)
class AlignmentMetrics:
    """How attention under teacher forcing agrees with gold alignments, averaged over layers and heads.

    Args:
        accuracy: The share of content words whose most attended source token is aligned with them.
        error_rate: AER of the links from each output to its most attended source token, in which all gold links are
            sure.
        entropy: The mean entropy of the weights of a step, in bits.
    """

    accuracy: float
    error_rate: float
    entropy: float


def alignment_metrics(
    model: Seq2Seq, tokenization: Tokenization, pairs: Sequence[Pair], examples: Sequence[Example]
) -> AlignmentMetrics | None:
    """The metrics of sentences with gold alignments; None if no content word has one, or without attention.

    Args:
        model: The model.
        tokenization: How its texts are tokenized.
        pairs: Sentences, with gold alignments of their tokens.
        examples: The same sentences as ids.
    """
    if not any(pair.alignment for pair in pairs):
        return None
    hits: list[bool] = []
    counts, entropies = AlignmentCounts(), []
    for pair, weights in zip(pairs, forced_attention(model, examples), strict=True):
        if not bool(weights.any()):
            return None  # a model without attention
        most_attended = weights.argmax(-1).tolist()
        known = {target for _, target in pair.alignment}
        for position, token in enumerate(tokenization.target_tokens(pair)):
            if position in known and token not in tokenization.function_words:
                hits.append((most_attended[position], position) in pair.alignment)
        links = attention_links(attention_peaks(weights[:-1]))  # without the target's end
        counts += AlignmentCounts.between(links, GoldAlignment(pair.alignment))
        entropies.append(entropy(weights))
    if not hits:
        return None
    return AlignmentMetrics(sum(hits) / len(hits), counts.error_rate, math.fsum(entropies) / len(entropies))
