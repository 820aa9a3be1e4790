"""A worked example of BLEU: one sentence against another, n-gram by n-gram, as sacreBLEU counts them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import asdict
from math import isfinite

from regard.errors import UserError
from regard.evaluation.bleu import BleuScore, bleu, ngrams
from regard.laboratory.formatting import format_number
from regard.laboratory.lab_report import LabReport
from regard.laboratory.worked_steps import count, tell
from regard.plotting.matrix_steps import Grid

# Of the slides. They put P_3 = 0/2 at 0.01; sacreBLEU puts a floor under the count, and 0.02/2 is 0.01.
HYPOTHESIS, REFERENCE = "Le chat sur tapis", "Le chat est sur le tapis"
LONGEST, FLOOR = 3, 0.02
# How the slides read BLEU, from 0 to 1: up to the first limit, up to the second, and so on.
LIMITS = (0.1, 0.3, 0.5)
READINGS = ("useless", "understandable", "good", "very good")

MOST_CHARACTERS = 500
MOST_WORDS = 9  # of an n-gram


def bleu_report(
    hypothesis: str | None, reference: str | None, *, longest: int | None, floor: float | None
) -> LabReport:
    """BLEU = BP · (Π P_n)^(1/N), of the slides' sentences or of two others, which sacreBLEU judges in its own way."""
    slides = hypothesis is None and reference is None
    if slides:
        hypothesis, reference = HYPOTHESIS, REFERENCE
        longest, floor = LONGEST if longest is None else longest, FLOOR if floor is None else floor
    hypothesis, reference = check_sentence("--hypothesis", hypothesis), check_sentence("--reference", reference)
    longest = 4 if longest is None else longest
    check_options(longest, floor)
    result = bleu([hypothesis], [reference], max_ngram_order=longest, floor=floor)

    groups = {
        "N-grams": compare(hypothesis, reference, longest),
        "From precisions to BLEU": score_steps(result, floor),
    }
    value = result.score / 100
    reading = READINGS[bisect_right(LIMITS, value)]
    facts = {
        "said, the hypothesis": hypothesis,
        "wanted, the reference": reference,
        "BLEU": f"{value:.4f}, or {result.score:.2f} of 100",
        "as the slides read it": reading,
        "signature": result.signature,
    }
    lead = "BLEU counts how many n-grams of the hypothesis stand in the reference, and punishes a short hypothesis."
    remarks = {}
    if 0 in result.totals:
        size = result.totals.index(0) + 1
        remarks["Why it is 0"] = (
            f"The hypothesis is too short to have {size}-grams, so P_{size} is 0, and BLEU with it; --longest "
            f"{size - 1} asks for no more than it has."
        )
    elif not any(result.counts):
        remarks["Why it is 0"] = "Nothing of the hypothesis stands in the reference."
    if slides and (longest, floor) == (LONGEST, FLOOR):
        remarks["What the slides print"] = printed(result)
    data = {"hypothesis": hypothesis, "reference": reference, "floor": floor, "reading": reading, **asdict(result)}
    return tell("BLEU, n-gram by n-gram", lead, facts, groups, remarks, data)


def compare(hypothesis: str, reference: str, longest: int) -> list[Grid]:
    """For each n, the n-grams of the hypothesis: one that it has more often than the reference counts only so often."""
    sides = zip(ngrams(hypothesis, max_ngram_order=longest), ngrams(reference, max_ngram_order=longest), strict=True)
    columns = ["said", "wanted", "match"]
    return [
        Grid(
            f"{size}-grams",
            "match = min(said, wanted)",
            [[many, there.get(ngram, 0), min(many, there.get(ngram, 0))] for ngram, many in here.items()],
            list(here),
            columns,
        )
        for size, (here, there) in enumerate(sides, start=1)
        if here
    ]


def score_steps(result: BleuScore, floor: float | None) -> list[Grid]:
    """Precisions, brevity penalty and score. The numbers of a row are of different kinds, so they have no tints."""
    remedy = "1/2, then 1/4, …" if floor is None else format_number(floor)
    zero = f", 0 is put at {remedy}" if 0 in result.counts and any(result.counts) else ""
    precisions = [precision / 100 for precision in result.precisions]
    score, penalty = result.score / 100, result.brevity_penalty
    counted = [list(row) for row in zip(result.counts, result.totals, precisions, strict=True)]
    return [
        untinted("P_n", f"match / said{zero}", counted, count("P", len(counted)), ["match", "said", "P_n"]),
        untinted(
            "BP",
            "exp(1 − r/c) if c < r, else 1",
            [[result.length, result.reference_length, penalty]],
            ["words"],
            ["c, said", "r, wanted", "BP"],
        ),
        untinted(
            "BLEU",
            f"BP · (P_1 · … · P_{len(counted)})^(1/{len(counted)})",
            [[score / penalty, penalty, score, result.score]],
            [""],
            ["mean of P", "BP", "BLEU", "of 100"],
        ),
    ]


def untinted(
    symbol: str, formula: str, numbers: Sequence[Sequence[float]], rows: Sequence[str], columns: Sequence[str]
) -> Grid:
    return Grid(symbol, formula, numbers, rows, columns, tinted=False)


def printed(result: BleuScore) -> str:
    score, penalty = result.score / 100, result.brevity_penalty
    return (
        f"With P_3 put at 0.01, the slides print a geometric mean of 0.22 and a BLEU of 0.13. Right are "
        f"{score / penalty:.4f} and {score:.4f}: (1 · 1/3 · 0.01)^(1/3) = {score / penalty:.4f}, and times "
        f"{penalty:.4f} that is {score:.4f}."
    )


def check_sentence(option: str, text: str | None) -> str:
    if text is None:
        raise UserError(f"{option} is missing: --hypothesis and --reference are given together, or neither")
    if len(text) > MOST_CHARACTERS:
        raise UserError(f"{option} has {len(text):,} characters; there can be up to {MOST_CHARACTERS}")
    if not ngrams(text, max_ngram_order=1)[0]:
        raise UserError(f"{option} has no words; give a sentence of at least one")
    return text


def check_options(longest: int, floor: float | None) -> None:
    if not 1 <= longest <= MOST_WORDS:
        raise UserError(f"--longest is {longest}; it can be from 1 to {MOST_WORDS}")
    if floor is not None and not (isfinite(floor) and 0 < floor <= 1):
        raise UserError(f"--floor is {floor:g}; it must be above 0 and at most 1")
