"""Are variances over seeds different? F-tests and Bartlett's test of the table of the CS224n-style homework.

That homework (docs/sources.md) reports the variances of three runs of each setting and concludes that attention has the
lowest. The tests need the variances and the numbers of runs only.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import combinations

from regard.errors import UserError
from regard.evaluation.statistics import CONFIDENCE
from regard.evaluation.variance_tests import (
    MAX_RUNS,
    POWER,
    VarianceTest,
    bartlett_test,
    f_test,
    runs_for_power,
    runs_for_significance,
    significant_ratio,
    variance_interval,
)
from regard.laboratory.formatting import format_number
from regard.laboratory.lab_report import LabReport
from regard.laboratory.matrix_parsing import Matrix
from regard.plotting.interval_plot import IntervalRow, draw_intervals
from regard.plotting.symbols import Formula
from regard.reports.report_page import Picture, ReportPage, ReportSection, Table

# The table of the CS224n-style homework: no attention, mean attention, scaled-dot attention; three runs each.
VARIANCES: Matrix = ((0.106, 0.093, 0.073), (0.0047, 0.0028, 0.0007))
MEASURES, SETTINGS = ("BLEU", "validation loss"), ("none", "mean", "scaled-dot")
RUNS = 3

MIN_VARIANCE = 1e-12
ALPHA = 1 - CONFIDENCE
LEAD = (
    "Is one variance over seeds lower than another? The two-sided F-test compares two variances, Bartlett's test all "
    "of them. Both assume normal scores."
)


@dataclass(frozen=True)
class VariancePair:
    """The F-test of two variances, and how many runs the observed ratio needs.

    Args:
        larger: The setting with the larger variance.
        smaller: The setting with the smaller variance.
        ratio: The ratio of the variances, at least 1.
        p: The two-sided p-value.
        runs_for_significance: The number of runs of each setting at which this ratio is significant; None: too many.
        runs_for_power: The number at which a true ratio of this size is found in 80 % of all cases; None: too many.
    """

    larger: str
    smaller: str
    ratio: float
    p: float
    runs_for_significance: int | None
    runs_for_power: int | None


def variance_report(variances: Matrix = VARIANCES, runs: int = RUNS) -> LabReport:
    """F-tests of all pairs of variances and Bartlett's test, for each row of a table.

    Args:
        variances: One row for each measure, one column for each setting.
        runs: The number of runs of each setting.

    Raises:
        UserError: If there are fewer than two settings, a variance is not above 0, or there are fewer than two runs.
    """
    _check_table(variances, runs)
    homework = variances == VARIANCES
    measures = MEASURES if homework else tuple(f"row {row}" for row in range(1, len(variances) + 1))
    settings = SETTINGS if homework else tuple(f"setting {index}" for index in range(1, len(variances[0]) + 1))
    pairs = {name: _pairs(row, settings, runs) for name, row in zip(measures, variances, strict=True)}
    overall = {name: bartlett_test(row, [runs] * len(row)) for name, row in zip(measures, variances, strict=True)}
    intervals = [
        IntervalRow(setting, value, *variance_interval(value, runs), panel=name)
        for name, row in zip(measures, variances, strict=True)
        for setting, value in zip(settings, row, strict=True)
    ]
    picture = Picture(
        draw_intervals(
            intervals,
            f"variance over {runs:,} runs, with its 95 % confidence interval; each panel has its own axis",
            {name: f"p ≥ {min(pair.p for pair in known):.3g}" for name, known in pairs.items()},
            _conclusion(pairs),
        ),
        alt=f"the variances of each setting with confidence intervals. {_conclusion(pairs)}",
        caption="Each dot is a variance; its bar is the 95 % confidence interval, on a logarithmic axis. p is the "
        "smallest of the F-tests of two settings.",
    )
    critical = significant_ratio(runs)
    sections = [
        ReportSection("Variances", (), (picture, _interval_table(intervals))),
        *(ReportSection(f"F-test: {name}", (), (_pair_table(known, runs),)) for name, known in pairs.items()),
        ReportSection(
            "Result", _variance_result(pairs, overall, critical, runs, homework), (_bartlett_table(overall),)
        ),
    ]
    facts = {
        "numbers": _origin(homework, runs),
        "runs of each setting": str(runs),
        "smallest significant ratio of two variances": format_number(critical),
    }
    data = {
        "runs": runs,
        "significant_ratio": critical,
        "variances": [asdict(interval) for interval in intervals],
        "pairs": {name: [asdict(pair) for pair in known] for name, known in pairs.items()},
        "bartlett": {name: asdict(test) for name, test in overall.items()},
    }
    return LabReport(ReportPage("Variances over seeds", LEAD, facts, tuple(sections)), data)


def _check_table(variances: Matrix, runs: int) -> None:
    if len(variances[0]) < 2:
        raise UserError("--variances has 1 column; a comparison needs the variances of at least two settings in a row")
    smallest = min(map(min, variances))
    if smallest < MIN_VARIANCE:
        raise UserError(f"--variances has {format_number(smallest)}; a variance must be at least {MIN_VARIANCE:g}")
    if not 2 <= runs <= MAX_RUNS:
        raise UserError(f"--runs is {runs:,}; it can be from 2 to {MAX_RUNS:,}")


def _pairs(row: tuple[float, ...], settings: tuple[str, ...], runs: int) -> list[VariancePair]:
    """The F-test of every two settings, the larger variance first."""
    known = []
    for pair in combinations(zip(row, settings, strict=True), 2):
        (larger, first), (smaller, second) = sorted(pair, key=lambda each: -each[0])
        test = f_test(larger, smaller, runs, runs)
        ratio = test.statistic
        known.append(VariancePair(first, second, ratio, test.p, runs_for_significance(ratio), runs_for_power(ratio)))
    return known


def _interval_table(intervals: list[IntervalRow]) -> Table:
    rows = [(each.panel, each.label, *map(format_number, (each.value, each.low, each.high))) for each in intervals]
    return Table(("measure", "setting", "variance", "95 % from", "to"), tuple(rows))


def _pair_table(pairs: list[VariancePair], runs: int) -> Table:
    head = ("variances", "ratio F", "p", "significant", "runs for significance", f"runs for power {POWER:.0%}")
    rows = [
        (
            f"{pair.larger} / {pair.smaller}",
            format_number(pair.ratio),
            f"{pair.p:.3g}",
            "yes" if pair.p < ALPHA else "no",
            *(_count(runs) for runs in (pair.runs_for_significance, pair.runs_for_power)),
        )
        for pair in pairs
    ]
    degrees = f"{runs - 1} and {runs - 1} degrees of freedom"
    return Table(head, tuple(rows), Formula(f"F is the larger variance divided by the smaller one; {degrees}"))


def _bartlett_table(overall: dict[str, VarianceTest]) -> Table:
    rows = [(name, format_number(test.statistic), f"{test.p:.3g}") for name, test in overall.items()]
    return Table(("measure", "statistic", "p"), tuple(rows), "Bartlett's test that all variances are equal")


def _variance_result(
    pairs: dict[str, list[VariancePair]],
    overall: dict[str, VarianceTest],
    critical: float,
    runs: int,
    homework: bool,
) -> tuple[str, ...]:
    tests = [pair for known in pairs.values() for pair in known]
    significant = sum(pair.p < ALPHA for pair in tests)
    together = sum(test.p < ALPHA for test in overall.values())
    text = [
        f"{significant} of {len(tests)} F-tests and {together} of {len(overall)} Bartlett tests are significant at "
        "5 %, without a correction for their number.",
        f"With {runs} runs each, one variance must be {format_number(critical)} times the other to be significant; the "
        f"largest ratio here is {format_number(max(pair.ratio for pair in tests))}.",
    ]
    if homework and runs == RUNS:
        text.append(
            "The CS224n-style homework concludes that attention has the lowest variance. Three runs each do not show "
            "this: if all settings had the same variance, each would have the lowest one third of the time."
        )
    return tuple(text)


def _conclusion(pairs: dict[str, list[VariancePair]]) -> str:
    """How many F-tests are significant, and the smallest p."""
    p_values = [pair.p for known in pairs.values() for pair in known]
    significant = sum(p < ALPHA for p in p_values)
    count = f"{significant or 'None'} of {len(p_values)} F-tests of two variances {'are' if significant > 1 else 'is'}"
    return f"{count} significant at 5 %; smallest p = {min(p_values):.3g}"


def _origin(homework: bool, runs: int) -> str:
    if not homework:
        return "your own"
    table = "the table of the CS224n-style homework"
    return table if runs == RUNS else f"{table}, as if it were of {runs:,} runs; it is of {RUNS}"


def _count(runs: int | None) -> str:
    return f"{runs:,}" if runs is not None else f"more than {MAX_RUNS:,}"
