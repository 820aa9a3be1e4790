"""Does attention explain the output? It is held against occlusion and gradient × input, output step by output step.

Measures agree as far as they put the source positions in the same order: rank correlations. Occlusion and gradient ×
input are meant to tell the same, a change and the slope towards it, so that how far these two agree is the yardstick.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from statistics import fmean
from typing import Any

from torch import Tensor

from regard.evaluation.correlation import kendall, same_top_position, spearman
from regard.evaluation.statistics import summarize
from regard.inference.translation import Translation
from regard.inference.translator import ProgressCallback, Translator, no_progress
from regard.laboratory import sentences
from regard.laboratory.embeddings import precise
from regard.laboratory.formatting import format_number, format_percent
from regard.laboratory.importance import MEASURES, Importance, importance_of
from regard.laboratory.lab_report import LabReport
from regard.laboratory.translation_trace import TracedTranslation
from regard.plotting import attention_map
from regard.plotting.comparison import DotRow, draw_dots
from regard.plotting.figures import message_figure
from regard.reports.report_page import Picture, ReportPage, ReportSection, Table
from regard.search import GREEDY
from regard.tasks import Split

PAIRS = tuple(combinations(range(len(MEASURES)), 2))
NAMES = tuple(f"{MEASURES[one]} – {MEASURES[other]}" for one, other in PAIRS)
KEYS = ("attention_occlusion", "attention_gradient", "occlusion_gradient")  # of the same pairs, for programs
COEFFICIENTS = {"spearman": spearman, "kendall": kendall, "same_first": same_top_position}
QUESTION = "Do they put source positions in the same order?"
NO_ORDER = "There is no order to compare"
LEAD = (
    "Attention beside two measures of what an output token depends on: occlusion, the change of log p(y_t) when the "
    "vector z_i of a source position is put to zero, and gradient × input, the first-order estimate of that change."
)


@dataclass(frozen=True)
class RankAgreement:
    """How far the measures agree on one output; None at a step at which a measure is the same everywhere."""

    steps: dict[str, list[dict[str, float | None]]]  # for each pair of measures, each step's coefficients
    places: int  # in the source

    @classmethod
    def of(cls, maps: Tensor) -> RankAgreement:
        rows = maps.transpose(0, 1).numpy()  # [output, measures, source]
        steps = {
            key: [{name: f(row[one], row[other]) for name, f in COEFFICIENTS.items()} for row in rows]
            for key, (one, other) in zip(KEYS, PAIRS, strict=True)
        }
        return cls(steps, maps.shape[-1])

    @property
    def length(self) -> int:
        return len(self.steps[KEYS[0]])

    def mean(self, key: str, coefficient: str) -> float | None:
        """Over the steps that have one."""
        return _mean([step[coefficient] for step in self.steps[key]])

    def count(self, key: str) -> int:
        """How many steps have one."""
        return sum(step["spearman"] is not None for step in self.steps[key])

    def data(self) -> dict[str, Any]:
        pairs = {key: {name: self.mean(key, name) for name in COEFFICIENTS} for key in KEYS}
        told = {key: {**pairs[key], "steps": self.count(key)} for key in KEYS}
        return {"steps": self.length, **told, "by_chance": 1 / self.places}


def share_of_first(agreements: Sequence[RankAgreement], key: str) -> float | None:
    """How often two measures are highest at the same place, of all steps of all outputs."""
    return _mean([step["same_first"] for each in agreements for step in each.steps[key]])


def share_by_lot(agreements: Sequence[RankAgreement]) -> float:
    """The same for a place that is drawn by lot."""
    return sum(each.length / each.places for each in agreements) / sum(each.length for each in agreements)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _check_looks(translator: Translator, translations: Sequence[Translation]) -> None:
    if not any(translation.attention.any() for translation in translations):
        raise sentences.has_no_attention(translator)


def faithfulness_report(
    translator: Translator, text: str, expect: ProgressCallback = no_progress, advance: ProgressCallback = no_progress
) -> LabReport:
    """All three measures for one text, of which the model makes a translation, greedily."""
    journey = TracedTranslation.plan(translator, text, GREEDY)
    translation = journey.translation
    _check_looks(translator, [translation])
    expect(len(journey.source) + len(journey.read))
    importance = importance_of(precise(translator.model), journey.example, advance)
    agreement = RankAgreement.of(importance.maps)
    facts = {**_facts(translator), "source": text, "output": translation.text}
    sections = (_agreement(agreement), _steps(translation, importance, agreement))
    data = {
        "run": str(translator.runs[0].path),
        "source": text,
        "output": translation.text,
        "source_tokens": translation.source_tokens,
        "tokens": translation.tokens,
        "log_probabilities": importance.log_probabilities.tolist(),
        "agreement": agreement.data(),
        "agreement_by_step": {key: agreement.steps[key] for key in KEYS},
        "attention": importance.maps[0].tolist(),
        "occlusion": importance.maps[1].tolist(),
        "gradient_times_input": importance.maps[2].tolist(),
    }
    return LabReport(ReportPage("Is attention faithful?", LEAD, facts, sections), data)


def _facts(translator: Translator) -> dict[str, str]:
    return {"run": str(translator.runs[0].path), "attention": translator.experiment.model.attention.kind}


def _agreement(agreement: RankAgreement) -> ReportSection:
    rows = tuple(
        (
            name,
            *(_cell(agreement.mean(key, each)) for each in ("spearman", "kendall")),
            format_percent(agreement.mean(key, "same_first")),
            f"{agreement.count(key)}",
        )
        for key, name in zip(KEYS, NAMES, strict=True)
    )
    head = ("", "Spearman's ρ", "Kendall's τ-b", "same first", "steps")
    table = Table(head, rows, f"Means over {agreement.length} output steps")
    return ReportSection(QUESTION, tuple(_findings([agreement])), (table,))


def _findings(agreements: Sequence[RankAgreement]) -> Iterator[str]:
    """In words: how often the maxima agree, and why some steps have no correlation."""
    rate = share_of_first(agreements, KEYS[0])
    if rate is not None:
        yield (
            f"The most attended position is the one whose occlusion changes log p most at {format_percent(rate)} of "
            f"the steps; one drawn by lot would be at {format_percent(share_by_lot(agreements))}."
        )
    steps = sum(each.length for each in agreements)
    attended, others = (sum(each.count(key) for each in agreements) for key in (KEYS[0], KEYS[2]))
    if not attended and others:
        yield "Attention has the same weight everywhere: it puts nothing in order, so that it correlates with nothing."
    elif attended < steps:
        yield f"{NO_ORDER} at {steps - attended:,} of {steps:,} steps: a measure is the same everywhere there."


def _cell(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _steps(translation: Translation, importance: Importance, agreement: RankAgreement) -> ReportSection:
    """The three maps, and where each of them is highest."""
    source = attention_map.piece_labels(translation.source_tokens, translation.source_starts)
    output = attention_map.piece_labels(translation.tokens, translation.starts)
    shares = importance.shares()
    rows = tuple(
        (
            output[step],
            format_number(float(importance.log_probabilities[step])),
            *(f"{source[int(row.argmax())]} {100 * float(row.max()):.0f} %" for row in shares[:, step]),
            _cell(agreement.steps[KEYS[0]][step]["spearman"]),
        )
        for step in range(len(output))
    )
    table = Table(("output", "log p", *MEASURES, "ρ"), rows, "Where each is highest, and its share of the row there")
    figure = attention_map.draw_attention_map(
        shares,
        translation.source_tokens,
        translation.tokens,
        starts=translation.starts,
        source_starts=translation.source_starts,
        names=MEASURES,
        measure="share of a row",
    )
    alt = f"Three maps of output against source tokens, side by side: {', '.join(MEASURES)}."
    text = "In the picture and in this table, each row of a map is divided by its sum; ρ is of attention and occlusion."
    return ReportSection("Step by step", (text,), (Picture(figure, alt), table))


def faithfulness_report_on_split(
    translator: Translator,
    split: Split,
    limit: int | None = None,
    expect: ProgressCallback = no_progress,
    advance: ProgressCallback = no_progress,
) -> LabReport:
    """The agreement of the measures on what a model makes of the first `limit` sentences of a split."""
    pairs, _ = sentences.read(translator, split, limit)
    texts = [pair.source for pair in pairs]
    expect(len(texts))
    translations = translator.translate(texts)
    _check_looks(translator, translations)
    model, found = precise(translator.model), {}
    for place, translation in enumerate(translations):
        if translation.tokens:  # of an empty text, there is nothing to explain
            importance = importance_of(model, translator.example(texts[place], translation))
            found[place] = RankAgreement.of(importance.maps)
        advance(1)
    facts = {**_facts(translator), "sentences": f"{len(found):,} of the {split} split, as the model translates them"}
    page = ReportPage("Is attention faithful?", LEAD, facts, (_over_sentences(list(found.values())),))
    rows = [{"source": texts[place], **agreement.data()} for place, agreement in found.items()]
    return LabReport(page, _summary_data(translator, split, list(found.values())) | {"sentences": rows})


def _means(agreements: Sequence[RankAgreement], key: str, coefficient: str) -> list[float]:
    """Those of the sentences that have one."""
    return [mean for each in agreements if (mean := each.mean(key, coefficient)) is not None]


def _over_sentences(agreements: Sequence[RankAgreement]) -> ReportSection:
    """Mean and spread of what the sentences have, and each of them as a dot."""
    rows, dots = [], []
    for key, name in zip(KEYS, NAMES, strict=True):
        cells = [cell for each in ("spearman", "kendall") for cell in _summary_cells(_means(agreements, key, each))]
        values = _means(agreements, key, "spearman")
        rows.append((name, *cells, format_percent(share_of_first(agreements, key)), f"{len(values):,}"))
        dots.append(DotRow(name, tuple(values), _interval(values)))
    head = ("", "Spearman's ρ", "spread", "Kendall's τ-b", "spread", "same first", "sentences")
    caption = (
        "Correlations: means over the steps of a sentence, their mean and standard deviation over sentences; "
        "same first: the share of all steps at which both are highest at the same place"
    )
    alt = "The mean rank correlation of each sentence, for each pair of measures."
    nothing = not any(row.values for row in dots)
    figure = message_figure(NO_ORDER, None) if nothing else draw_dots(dots, "Spearman's ρ", each="one sentence")
    blocks = (Table(head, tuple(rows), caption), Picture(figure, alt))
    return ReportSection(QUESTION, tuple(_findings(agreements)), blocks)


def _interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Where the mean of ever more sentences would probably lie."""
    summary = summarize(values) if values else None
    return (summary.low, summary.high) if summary and summary.low is not None and summary.high is not None else None


def _summary_cells(values: Sequence[float]) -> tuple[str, str]:
    summary = summarize(values) if values else None
    return (_cell(summary.mean), _cell(summary.deviation)) if summary else ("–", "–")


def _summary_data(translator: Translator, split: Split, agreements: Sequence[RankAgreement]) -> dict[str, Any]:
    def summary(key: str, coefficient: str) -> dict[str, Any] | None:
        values = _means(agreements, key, coefficient)
        return asdict(summarize(values)) if values else None

    return {
        "run": str(translator.runs[0].path),
        "split": split,
        "agreement": {
            key: {
                **{name: summary(key, name) for name in ("spearman", "kendall")},
                "same_first": share_of_first(agreements, key),
            }
            for key in KEYS
        },
        "by_chance": share_by_lot(agreements),
    }
