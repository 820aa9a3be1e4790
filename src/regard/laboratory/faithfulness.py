"""Agreement of attention with occlusion and gradient × input: does attention explain the output?

Two measures agree at an output step as far as they rank the source positions in the same order (rank correlation).
Occlusion and gradient × input estimate the same quantity, a difference and its first-order approximation, so their
agreement is the reference for the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean
from typing import Any

from torch import Tensor

from regard.data import EncodedSource
from regard.evaluation.correlation import kendall, same_top_position, spearman
from regard.inference.translation import Translation
from regard.inference.translator import ProgressCallback, Translator, no_progress
from regard.laboratory.embeddings import double_precision_copy
from regard.laboratory.importance import MEASURES, Importance, compute_importance
from regard.laboratory.sentences import load_examples, no_attention_error
from regard.laboratory.translation_trace import TracedTranslation
from regard.search import GREEDY
from regard.tasks import Split

PAIRS = tuple(combinations(range(len(MEASURES)), 2))
PAIR_KEYS = ("attention_occlusion", "attention_gradient", "occlusion_gradient")  # of the same pairs, in JSON
COEFFICIENTS = {"spearman": spearman, "kendall": kendall, "same_top": same_top_position}


@dataclass(frozen=True)
class RankAgreement:
    """The agreement of the measures on one output.

    Args:
        steps: For each pair of measures the coefficients of each output step; None where a measure is constant.
        positions: The number of source positions.
    """

    steps: dict[str, list[dict[str, float | None]]]
    positions: int

    @classmethod
    def of_maps(cls, maps: Tensor) -> RankAgreement:
        """The agreement of importance maps.

        Args:
            maps: One map per measure [measures, output, source].
        """
        rows = maps.transpose(0, 1).cpu().numpy()  # [output, measures, source]
        steps = {
            key: [{name: f(row[one], row[other]) for name, f in COEFFICIENTS.items()} for row in rows]
            for key, (one, other) in zip(PAIR_KEYS, PAIRS, strict=True)
        }
        return cls(steps, maps.shape[-1])

    @property
    def length(self) -> int:
        """The number of output steps."""
        return len(self.steps[PAIR_KEYS[0]])

    def mean(self, pair: str, coefficient: str) -> float | None:
        """The mean over the steps at which the coefficient is defined.

        Args:
            pair: One of `PAIR_KEYS`.
            coefficient: One of `COEFFICIENTS`.
        """
        return _mean_of_known([step[coefficient] for step in self.steps[pair]])

    def defined_steps(self, pair: str) -> int:
        """The number of steps at which the correlation is defined.

        Args:
            pair: One of `PAIR_KEYS`.
        """
        return sum(step["spearman"] is not None for step in self.steps[pair])

    def to_dict(self) -> dict[str, Any]:
        """The means as JSON-serializable values."""
        pairs = {
            pair: {**{name: self.mean(pair, name) for name in COEFFICIENTS}, "steps": self.defined_steps(pair)}
            for pair in PAIR_KEYS
        }
        return {"steps": self.length, **pairs, "chance_level": 1 / self.positions}


def top_position_agreement(agreements: Sequence[RankAgreement], pair: str) -> float | None:
    """The share of all steps of all outputs at which two measures have their maximum at the same position.

    Args:
        agreements: The agreement of each output.
        pair: One of `PAIR_KEYS`.
    """
    return _mean_of_known([step["same_top"] for each in agreements for step in each.steps[pair]])


def chance_level(agreements: Sequence[RankAgreement]) -> float:
    """The same share for a position chosen at random.

    Args:
        agreements: The agreement of each output.
    """
    return sum(each.length / each.positions for each in agreements) / sum(each.length for each in agreements)


def sentence_means(agreements: Sequence[RankAgreement], pair: str, coefficient: str) -> list[float]:
    """The mean coefficient of each sentence that has one.

    Args:
        agreements: The agreement of each sentence.
        pair: One of `PAIR_KEYS`.
        coefficient: One of `COEFFICIENTS`.
    """
    return [mean for each in agreements if (mean := each.mean(pair, coefficient)) is not None]


def _mean_of_known(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _require_attention(translator: Translator, translations: Sequence[Translation]) -> None:
    if not any(translation.attention.any() for translation in translations):
        raise no_attention_error(translator)


def measure_text(
    translator: Translator,
    text: str | EncodedSource,
    expect: ProgressCallback = no_progress,
    advance: ProgressCallback = no_progress,
) -> tuple[Translation, Importance]:
    """The greedy translation of a text and its importance maps.

    Args:
        translator: The translator.
        text: The source text.
        expect: Called once with the total number of tokens.
        advance: Called with the number of tokens done.

    Raises:
        UserError: If the text is empty or the model has no attention.
    """
    traced = TracedTranslation.of_text(translator, text, GREEDY)
    _require_attention(translator, [traced.translation])
    expect(len(traced.source_ids) + len(traced.decoder_inputs))
    model = double_precision_copy(translator.model)
    return traced.translation, compute_importance(model, traced.example, advance)


def measure_split(
    translator: Translator,
    split: Split,
    limit: int | None = None,
    expect: ProgressCallback = no_progress,
    advance: ProgressCallback = no_progress,
) -> list[tuple[str, RankAgreement]]:
    """The source text and the agreement of each sentence of a split; sentences without output are skipped.

    Args:
        translator: The translator.
        split: The split of the run's data.
        limit: The maximum number of sentences; None for all.
        expect: Called once with the number of sentences.
        advance: Called with the number of sentences done.

    Raises:
        UserError: If the split is empty or the model has no attention.
    """
    pairs, _ = load_examples(translator, split, limit)
    texts = [pair.source for pair in pairs]
    expect(len(texts))
    sources = [translator.encode(text) for text in texts]
    translations = translator.translate(sources)
    _require_attention(translator, translations)
    model, found = double_precision_copy(translator.model), []
    for source, translation in zip(sources, translations, strict=True):
        if translation.tokens:
            importance = compute_importance(model, translator.encode_translation(source, translation))
            found.append((source.text, RankAgreement.of_maps(importance.maps)))
        advance(1)
    return found
