"""The reports of `regard faithful`: attention compared with occlusion and gradient × input, for a text or a split."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from torch import Tensor

from regard.data import EncodedSource
from regard.evaluation.statistics import summarize
from regard.images import source_label
from regard.inference.translation import Translation
from regard.inference.translator import ProgressCallback, Translator, no_progress
from regard.laboratory.faithfulness import (
    PAIR_KEYS,
    PAIRS,
    RankAgreement,
    chance_level,
    measure_split,
    measure_text,
    sentence_means,
    top_position_agreement,
)
from regard.laboratory.formatting import format_decimal, format_number, format_percent
from regard.laboratory.importance import MEASURES, Importance
from regard.laboratory.lab_report import LabReport
from regard.plotting import attention_map
from regard.plotting.dot_plot import DotRow, draw_dots
from regard.plotting.figures import message_figure
from regard.reports.report_page import Picture, ReportPage, ReportSection, Table
from regard.tasks import Split

PAIR_NAMES = tuple(f"{MEASURES[one]} – {MEASURES[other]}" for one, other in PAIRS)
TITLE = "Is attention faithful?"
HEADING = "Do the measures rank source positions alike?"
CONSTANT = "No ranking to compare"
LEAD = (
    "Attention and two measures of what an output token depends on: occlusion, the change of log p(y_t) when the "
    "embedding z_i of a source position is set to zero, and gradient × input, the first-order estimate of that change."
)


def faithfulness_report(
    translator: Translator,
    text: str | EncodedSource,
    expect: ProgressCallback = no_progress,
    advance: ProgressCallback = no_progress,
) -> LabReport:
    """The three measures for one text and its greedy translation.

    Args:
        translator: The translator.
        text: The source text.
        expect: Called once with the total number of tokens.
        advance: Called with the number of tokens done.
    """
    source = translator.encode(text)
    translation, importance = measure_text(translator, source, expect, advance)
    agreement = RankAgreement.of_maps(importance.maps)
    facts = {**_run_facts(translator), "source": source_label(source.text), "output": translation.text}
    sections = (_text_agreement(agreement), _step_section(translation, importance, agreement))
    data = {
        "run": str(translator.runs[0].path),
        "source": source.text,
        "output": translation.text,
        "source_tokens": translation.source_tokens,
        "tokens": translation.tokens,
        "log_probabilities": importance.log_probs.tolist(),
        "agreement": agreement.to_dict(),
        "agreement_by_step": {pair: agreement.steps[pair] for pair in PAIR_KEYS},
        "attention": importance.maps[0].tolist(),
        "occlusion": importance.maps[1].tolist(),
        "gradient_times_input": importance.maps[2].tolist(),
    }
    return LabReport(ReportPage(TITLE, LEAD, facts, sections), data)


def faithfulness_report_on_split(
    translator: Translator,
    split: Split,
    limit: int | None = None,
    expect: ProgressCallback = no_progress,
    advance: ProgressCallback = no_progress,
) -> LabReport:
    """The agreement of the measures over the greedy translations of a split.

    Args:
        translator: The translator.
        split: The split of the run's data.
        limit: The maximum number of sentences; None for all.
        expect: Called once with the number of sentences.
        advance: Called with the number of sentences done.
    """
    found = measure_split(translator, split, limit, expect, advance)
    agreements = [agreement for _, agreement in found]
    facts = {**_run_facts(translator), "sentences": f"{len(found):,} of the {split} split, translated greedily"}
    page = ReportPage(TITLE, LEAD, facts, (_split_agreement(agreements),))
    rows = [{"source": text, **agreement.to_dict()} for text, agreement in found]
    return LabReport(page, _split_data(translator, split, agreements) | {"sentences": rows})


def _run_facts(translator: Translator) -> dict[str, str]:
    return {"run": str(translator.runs[0].path), "attention": translator.experiment.model.attention.label}


def _text_agreement(agreement: RankAgreement) -> ReportSection:
    rows = tuple(
        (
            name,
            *(format_decimal(agreement.mean(pair, each)) for each in ("spearman", "kendall")),
            format_percent(agreement.mean(pair, "same_top")),
            f"{agreement.defined_steps(pair)}",
        )
        for pair, name in zip(PAIR_KEYS, PAIR_NAMES, strict=True)
    )
    head = ("", "Spearman's ρ", "Kendall's τ-b", "same top", "steps")
    table = Table(head, rows, f"Means over {agreement.length} output steps")
    return ReportSection(HEADING, tuple(_agreement_text([agreement])), (table,))


def _agreement_text(agreements: Sequence[RankAgreement]) -> Iterator[str]:
    """How often the maxima coincide, and why some steps have no correlation."""
    rate = top_position_agreement(agreements, PAIR_KEYS[0])
    if rate is not None:
        yield (
            f"The most attended position is the one whose occlusion changes log p most at {format_percent(rate)} of "
            f"the steps; a position chosen at random would be at {format_percent(chance_level(agreements))}."
        )
    steps = sum(each.length for each in agreements)
    attended, others = (sum(each.defined_steps(pair) for each in agreements) for pair in (PAIR_KEYS[0], PAIR_KEYS[2]))
    if not attended and others:
        yield "Attention has the same weight at all positions: it ranks nothing, so no correlation is defined."
    elif attended < steps:
        yield f"{CONSTANT} at {steps - attended:,} of {steps:,} steps: a measure has the same value at all positions."


def _step_section(translation: Translation, importance: Importance, agreement: RankAgreement) -> ReportSection:
    """The three maps, and the maximum of each at every step."""
    source = attention_map.piece_labels(translation.source_tokens, translation.source_word_starts)
    output = attention_map.piece_labels(translation.tokens, translation.word_starts)
    shares = importance.shares()
    rows = tuple(
        (
            output[step],
            format_number(float(importance.log_probs[step])),
            *(_maximum(row, source) for row in shares[:, step]),
            format_decimal(agreement.steps[PAIR_KEYS[0]][step]["spearman"]),
        )
        for step in range(len(output))
    )
    caption = "The position with the maximum of each measure, and its share of the row"
    table = Table(("output", "log p", *MEASURES, "ρ"), rows, caption)
    figure = attention_map.draw_attention_map(
        shares,
        translation.source_tokens,
        translation.tokens,
        starts=translation.word_starts,
        source_starts=translation.source_word_starts,
        names=MEASURES,
        measure="share of a row",
    )
    alt = f"Three maps of output against source tokens, side by side: {', '.join(MEASURES)}."
    text = "In the picture and in this table, each row of a map is divided by its sum; ρ: attention and occlusion."
    return ReportSection("Step by step", (text,), (Picture(figure, alt), table))


def _maximum(row: Tensor, labels: Sequence[str]) -> str:
    """The position with the largest share and that share; "–" for a row of zeros, such as no attention at a step."""
    return f"{labels[int(row.argmax())]} {100 * float(row.max()):.0f} %" if row.any() else "–"


def _split_agreement(agreements: Sequence[RankAgreement]) -> ReportSection:
    """Mean and standard deviation over sentences, and one dot per sentence."""
    rows, dots = [], []
    for pair, name in zip(PAIR_KEYS, PAIR_NAMES, strict=True):
        cells = [
            cell
            for coefficient in ("spearman", "kendall")
            for cell in _mean_and_deviation(sentence_means(agreements, pair, coefficient))
        ]
        values = sentence_means(agreements, pair, "spearman")
        rows.append((name, *cells, format_percent(top_position_agreement(agreements, pair)), f"{len(values):,}"))
        dots.append(DotRow(name, tuple(values), _confidence_interval(values)))
    head = ("", "Spearman's ρ", "std", "Kendall's τ-b", "std", "same top", "sentences")
    caption = (
        "Correlations: mean over the steps of a sentence, then mean and standard deviation over sentences; "
        "same top: the share of all steps at which both measures have their maximum at the same position"
    )
    alt = "The mean rank correlation of each sentence, for each pair of measures."
    undefined = not any(row.values for row in dots)
    figure = message_figure(CONSTANT, None) if undefined else draw_dots(dots, "Spearman's ρ", each="one sentence")
    blocks = (Table(head, tuple(rows), caption), Picture(figure, alt))
    return ReportSection(HEADING, tuple(_agreement_text(agreements)), blocks)


def _confidence_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """The 95 % confidence interval of the mean over sentences; None if there are too few."""
    summary = summarize(values) if values else None
    return (summary.low, summary.high) if summary and summary.low is not None and summary.high is not None else None


def _mean_and_deviation(values: Sequence[float]) -> tuple[str, str]:
    summary = summarize(values) if values else None
    return (format_decimal(summary.mean), format_decimal(summary.deviation)) if summary else ("–", "–")


def _split_data(translator: Translator, split: Split, agreements: Sequence[RankAgreement]) -> dict[str, Any]:
    def summary(pair: str, coefficient: str) -> dict[str, Any] | None:
        values = sentence_means(agreements, pair, coefficient)
        return asdict(summarize(values)) if values else None

    return {
        "run": str(translator.runs[0].path),
        "split": split,
        "agreement": {
            pair: {
                **{name: summary(pair, name) for name in ("spearman", "kendall")},
                "same_top": top_position_agreement(agreements, pair),
            }
            for pair in PAIR_KEYS
        },
        "chance_level": chance_level(agreements),
    }
