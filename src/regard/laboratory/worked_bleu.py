"""A worked example of BLEU for one sentence, n-gram by n-gram, as sacreBLEU computes it.

The example is from the Week 4 slides (docs/sources.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import isfinite

from regard.errors import UserError
from regard.evaluation.bleu import BleuScore, bleu, ngrams
from regard.laboratory.formatting import format_number
from regard.laboratory.lab_report import LabReport
from regard.laboratory.worked_examples import ERRATUM
from regard.laboratory.worked_steps import indexed, steps_report
from regard.plotting.matrix_steps import ColorScale, Grid
from regard.plotting.symbols import Formula
from regard.reports.report_page import ReportSection, Table

# The Week 4 slides replace P_3 = 0/2 by 0.01; sacreBLEU's floor replaces the count: 0.02/2 is 0.01.
HYPOTHESIS, REFERENCE = "Le chat sur tapis", "Le chat est sur le tapis"
ORDER, FLOOR = 3, 0.02
# The interpretation of BLEU in the Week 4 slides.
QUALITY_RANGES = {"useless": "below 0.1", "understandable": "0.1–0.3", "good": "0.3–0.5", "very good": "above 0.5"}
PRINTED_BLEU = 0.13
# Counts that could replace 0: a tenth of that of the Week 4 slides, theirs, sacreBLEU's for `floor`, and 1.
FLOORS = (0.002, FLOOR, 0.1, 1.0)

COUNTS = ColorScale("n-gram counts")
MAX_CHARACTERS = 500
MAX_NGRAM_ORDER = 9


@dataclass(frozen=True)
class FloorScore:
    """A score with a replacement of an n-gram count of 0.

    Args:
        floor: The replacement; None: sacreBLEU's exponential smoothing.
        size: The first n whose count is 0.
        precision: P_n for this n.
        score: BLEU from 0 to 1.
        quality: The interpretation of the score.
    """

    floor: float | None
    size: int
    precision: float
    score: float
    quality: str


def bleu_report(
    hypothesis: str | None, reference: str | None, *, max_ngram_order: int | None, floor: float | None
) -> LabReport:
    """BLEU = BP · (Π P_n)^(1/N), of the sentences of the Week 4 slides or of two others.

    Args:
        hypothesis: The output of a model; None for the example of the Week 4 slides.
        reference: Its reference; given together with the hypothesis.
        max_ngram_order: N; by default 4, or 3 for the example of the Week 4 slides.
        floor: Replaces an n-gram count of 0; by default sacreBLEU's exponential smoothing, or 0.02 for the example of
            the Week 4 slides.
    """
    slides = hypothesis is None and reference is None
    if slides:
        hypothesis, reference = HYPOTHESIS, REFERENCE
        max_ngram_order = ORDER if max_ngram_order is None else max_ngram_order
        floor = FLOOR if floor is None else floor
    hypothesis, reference = _check_sentence("--hypothesis", hypothesis), _check_sentence("--reference", reference)
    max_ngram_order = 4 if max_ngram_order is None else max_ngram_order
    _check_bleu_options(max_ngram_order, floor)
    result = bleu([hypothesis], [reference], max_ngram_order=max_ngram_order, floor=floor)

    groups = {
        "N-grams": ngram_grids(hypothesis, reference, max_ngram_order),
        "From precisions to BLEU": score_grids(result, floor),
    }
    value = result.score / 100
    quality = interpretation(value)
    facts = {
        "hypothesis": hypothesis,
        "reference": reference,
        "BLEU": f"{value:.4f}, or {result.score:.2f} on a scale of 100",
        "interpretation of the Week 4 slides": f"{quality} ({QUALITY_RANGES[quality]})",
        "signature": result.signature,
    }
    lead = "BLEU is the precision of the n-grams of the hypothesis, with a penalty for a short hypothesis."
    remarks = {}
    if 0 in result.totals:
        size = result.totals.index(0) + 1
        remarks["Why the score is 0"] = (
            f"The hypothesis is too short to have {size}-grams, so P_{size} and BLEU are 0; use "
            f"--max-ngram-order {size - 1}."
        )
    elif not any(result.counts):
        remarks["Why the score is 0"] = "No word of the hypothesis is in the reference."
    if slides and (max_ngram_order, floor) == (ORDER, FLOOR):
        remarks[ERRATUM] = _erratum(result)
    zero = 0 in result.counts and any(result.counts) and 0 not in result.totals
    floors = scores_by_floor(hypothesis, reference, max_ngram_order) if zero else []
    sections = [*([_floor_section(floors)] if floors else []), _interpretation_section()]
    data = {"hypothesis": hypothesis, "reference": reference, "floor": floor, "quality": quality, **asdict(result)}
    data |= {"floors": [asdict(each) for each in floors]}
    return steps_report("BLEU, n-gram by n-gram", lead, facts, groups, remarks, data, sections)


def interpretation(score: float) -> str:
    """How the Week 4 slides read a BLEU score. Exactly 0.5 is "good": it is not above 0.5.

    Args:
        score: BLEU from 0 to 1.
    """
    score = round(score, 9)  # sacreBLEU computes with logarithms: 1/2 becomes 0.5000000000000001
    return list(QUALITY_RANGES)[(score >= 0.1) + (score >= 0.3) + (score > 0.5)]


def _interpretation_section() -> ReportSection:
    rows = tuple((limits, quality) for quality, limits in QUALITY_RANGES.items())
    text = (
        "How the Week 4 slides read BLEU. A score of exactly 0.3 is in two of the ranges and is read as good here; "
        "exactly 0.5 is not above 0.5, so it is good, too."
    )
    return ReportSection("Interpretation of the Week 4 slides", (text,), (Table(("BLEU", "interpretation"), rows),))


def scores_by_floor(hypothesis: str, reference: str, max_ngram_order: int) -> list[FloorScore]:
    """The score with several replacements of an n-gram count of 0, the last by sacreBLEU's smoothing.

    Args:
        hypothesis: The hypothesis; for some n, none of its n-grams is in the reference.
        reference: The reference.
        max_ngram_order: The largest n.
    """
    scores = []
    for floor in (*FLOORS, None):
        result = bleu([hypothesis], [reference], max_ngram_order=max_ngram_order, floor=floor)
        size = result.counts.index(0) + 1
        score = result.score / 100
        scores.append(FloorScore(floor, size, result.precisions[size - 1] / 100, score, interpretation(score)))
    return scores


def _floor_section(scores: Sequence[FloorScore]) -> ReportSection:
    size = scores[0].size
    rows = [
        (
            "1/2, 1/4, …: sacreBLEU's smoothing" if each.floor is None else format_number(each.floor),
            format_number(each.precision),
            format_number(each.score),
            each.quality,
        )
        for each in scores
    ]
    text = (
        f"No {size}-gram matches. Without a replacement, P_{size} and BLEU are 0; the replacement of the count 0 is "
        "arbitrary, and the score of a single sentence depends on it."
    )
    head = (Formula("count in place of 0"), Formula(f"P_{size}"), "BLEU", "interpretation")
    return ReportSection("The replacement of 0", (Formula(text),), (Table(head, tuple(rows)),))


def ngram_grids(hypothesis: str, reference: str, max_ngram_order: int) -> list[Grid]:
    """One grid per n: the n-grams of the hypothesis with clipped counts.

    Args:
        hypothesis: The hypothesis.
        reference: The reference.
        max_ngram_order: The largest n.
    """
    sides = zip(*(ngrams(text, max_ngram_order=max_ngram_order) for text in (hypothesis, reference)), strict=True)
    columns = ["hypothesis", "reference", "match"]
    return [
        Grid(
            f"{size}-grams",
            "match = min(hypothesis, reference)",
            [
                [count, reference_counts.get(ngram, 0), min(count, reference_counts.get(ngram, 0))]
                for ngram, count in counts.items()
            ],
            list(counts),
            columns,
            COUNTS,
        )
        for size, (counts, reference_counts) in enumerate(sides, start=1)
        if counts
    ]


def score_grids(result: BleuScore, floor: float | None) -> list[Grid]:
    """Precisions, brevity penalty and score; without colors, because the columns are different quantities.

    Args:
        result: The score.
        floor: The smoothing floor, if any.
    """
    replacement = "1/2, then 1/4, …" if floor is None else format_number(floor)
    zero = f", 0 is replaced by {replacement}" if 0 in result.counts and any(result.counts) else ""
    precisions = [precision / 100 for precision in result.precisions]
    score, penalty = result.score / 100, result.brevity_penalty
    counted = [list(row) for row in zip(result.counts, result.totals, precisions, strict=True)]
    return [
        _uncolored_grid(
            "P_n",
            f"match / hypothesis{zero}",
            counted,
            indexed("P", len(counted)),
            ["match", "hypothesis", "P_n"],
        ),
        _uncolored_grid(
            "BP",
            "exp(1 − r/c) if c < r, else 1",
            [[result.length, result.reference_length, penalty]],
            ["length"],
            ["c, hypothesis", "r, reference", "BP"],
        ),
        _uncolored_grid(
            "BLEU",
            f"BP · (P_1 · … · P_{len(counted)})^(1/{len(counted)})",
            [[score / penalty, penalty, score, result.score]],
            [""],
            ["geometric mean of P_n", "BP", "BLEU", "× 100"],
        ),
    ]


def _uncolored_grid(
    symbol: str, formula: str, numbers: Sequence[Sequence[float]], rows: Sequence[str], columns: Sequence[str]
) -> Grid:
    row_names, column_names = (list(map(Formula, each)) for each in (rows, columns))
    return Grid(Formula(symbol), Formula(formula), numbers, row_names, column_names, scale=None)


def _erratum(result: BleuScore) -> str:
    score, penalty = result.score / 100, result.brevity_penalty
    return (
        f"With P_3 set to 0.01, the Week 4 slides print a geometric mean of 0.22 and a BLEU of 0.13. Correct are "
        f"{score / penalty:.4f} and {score:.4f}: (1 · 1/3 · 0.01)^(1/3) = {score / penalty:.4f}, and multiplied by "
        f"BP = {penalty:.4f} it is {score:.4f}. In the interpretation of the Week 4 slides this is not "
        f"{PRINTED_BLEU}, {interpretation(PRINTED_BLEU)}, but {interpretation(score)}."
    )


def _check_sentence(option: str, text: str | None) -> str:
    if text is None:
        raise UserError(f"{option} is missing: --hypothesis and --reference are given together, or neither")
    if len(text) > MAX_CHARACTERS:
        raise UserError(f"{option} has {len(text):,} characters; the maximum is {MAX_CHARACTERS}")
    if not ngrams(text, max_ngram_order=1)[0]:
        raise UserError(f"{option} has no words; write at least one")
    return text


def _check_bleu_options(max_ngram_order: int, floor: float | None) -> None:
    if not 1 <= max_ngram_order <= MAX_NGRAM_ORDER:
        raise UserError(f"--max-ngram-order is {max_ngram_order}; it can be from 1 to {MAX_NGRAM_ORDER}")
    if floor is not None and not (isfinite(floor) and 0 < floor <= 1):
        raise UserError(f"--floor is {floor:g}; it must be above 0 and at most 1")
