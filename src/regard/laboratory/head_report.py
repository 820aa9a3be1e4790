"""The report of an experiment with heads: what their output is made of, over all draws and for several β."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import isfinite, sqrt

import torch

from regard.errors import UserError
from regard.laboratory.formatting import format_number
from regard.laboratory.head_experiments import ONE_HEAD, A, B, HeadExperiment, HeadOutcome, Keys, closed_form
from regard.laboratory.lab_report import LabReport
from regard.plotting import formula_vs_measured, head_outputs
from regard.plotting.formula_vs_measured import Curve
from regard.plotting.head_outputs import HeadOutputs
from regard.plotting.symbols import Formula
from regard.reports.report_page import Picture, ReportPage, ReportSection, Table

BETAS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0)
SHARES = (Formula("v_a"), Formula("v_b"), "each other value")
LINE_POINTS = 40
FIRST_DRAWS = 6  # in a table
MOST_KEYS, MOST_DRAWS, LARGEST = 50, 1_000_000, 1e6
MOST_NUMBERS = 50_000_000  # in the keys of all draws, so that nobody waits for hours


@dataclass(frozen=True)
class ShareSummary:
    """The shares of v_a, of v_b and of each other value, over all draws."""

    mean: list[float]
    deviation: list[float]
    least: list[float]
    greatest: list[float]
    closed_form: list[float]  # its mean
    largest_difference: float  # from the closed form, of any share in any draw
    largest_difference_without_others: float  # the same, if the closed form leaves the other keys out

    @classmethod
    def of(cls, outcome: HeadOutcome) -> ShareSummary:
        shares = outcome.measured
        return cls(
            mean=shares.mean(0).tolist(),
            deviation=shares.std(0, correction=0).tolist(),
            least=shares.amin(0).tolist(),
            greatest=shares.amax(0).tolist(),
            closed_form=outcome.exact.mean(0).tolist(),
            largest_difference=(shares - outcome.exact).abs().max().item(),
            largest_difference_without_others=(shares - outcome.near).abs().max().item(),
        )


Summaries = Mapping[str, ShareSummary]  # of each kind of heads
ByBeta = Mapping[float, Summaries]


def head_report(
    experiment: HeadExperiment, *, beta: float | None, sigma: float | None, keys: int, draws: int, seed: int
) -> LabReport:
    """The experiment with its own β and σ, or with others."""
    beta = experiment.beta if beta is None else beta
    sigma = experiment.sigma if sigma is None else sigma
    check(beta, sigma, keys, draws, seed)
    drawn = Keys(keys, sigma, draws if sigma else 1, seed)  # without σ, all draws are the same
    outcomes = {kind: HeadOutcome.of(heads, beta, drawn) for kind, heads in experiment.asked.items()}
    summaries = {kind: ShareSummary.of(outcome) for kind, outcome in outcomes.items()}
    others = {unit_length(experiment), *BETAS} - {beta}
    by_beta = {beta: summaries} | {
        each: {kind: ShareSummary.of(HeadOutcome.of(heads, each, drawn)) for kind, heads in experiment.asked.items()}
        for each in others
    }
    by_beta = dict(sorted(by_beta.items()))
    swings = len(outcomes) > 1
    if not swings:
        picture = picture_over_beta(experiment, by_beta, drawn)
    elif experiment.asked[(kind := next(iter(outcomes)))] == ONE_HEAD:
        picture = picture_of_swing(outcomes[kind], beta, drawn)
    else:
        picture = picture_of_contrast(outcomes)
    sections = [
        ReportSection("What the output is made of", said(summaries, experiment), (picture, table_of_shares(summaries))),
        ReportSection("Longer queries", *(swings_over_beta(by_beta) if swings else growth(experiment, by_beta, keys))),
    ]
    if sigma:
        sections.insert(1, ReportSection("The first draws", (), (table_of_draws(outcomes, drawn),)))
    facts = {
        Formula("β"): f"{beta:g}",
        Formula("σ"): f"{sigma:g}",
        "keys": str(keys),
        "draws": f"{draws:,}",
        "seed": str(seed),
    }
    if not sigma:
        facts["draws"] += ", all the same without σ"
    data = {
        "experiment": experiment.name,
        **{"beta": beta, "sigma": sigma, "keys": keys, "draws": draws, "seed": seed},
        "heads": {kind: asdict(summary) for kind, summary in summaries.items()},
        "by_beta": [
            {"beta": each, "heads": {kind: asdict(summary) for kind, summary in row.items()}}
            for each, row in by_beta.items()
        ],
        "first_draws": {
            kind: outcome.measured[: head_outputs.MAX_DRAWS_IN_ORDER, A].tolist() for kind, outcome in outcomes.items()
        },
        "histogram": {
            kind: head_outputs.share_histogram(outcome.measured[:, A]).tolist() for kind, outcome in outcomes.items()
        },
    }
    return LabReport(ReportPage(experiment.title, Formula(experiment.lead), facts, tuple(sections)), data)


def check(beta: float, sigma: float, keys: int, draws: int, seed: int) -> None:
    for option, value in (("--beta", beta), ("--sigma", sigma)):
        if not (isfinite(value) and 0 <= value <= LARGEST):
            raise UserError(f"{option} is {value:g}; it can be from 0 to {LARGEST:,.0f}")
    if not 3 <= keys <= MOST_KEYS:
        raise UserError(f"--keys is {keys:,}; it can be from 3, two and one other, to {MOST_KEYS}")
    most = min(MOST_DRAWS, MOST_NUMBERS // keys**2)
    if not 1 <= draws <= most:
        raise UserError(f"--draws is {draws:,}; of {keys} keys it can be from 1 to {most:,}")
    if seed < 0:
        raise UserError(f"--seed is {seed}; it can be 0 or more")


def unit_length(experiment: HeadExperiment) -> float:
    """The β of a query of length 1: ‖β (μ_a + μ_b)‖ = β √2."""
    heads, *_ = experiment.asked.values()
    return 1 / sqrt(len(heads[0]))


def said(summaries: Summaries, experiment: HeadExperiment) -> tuple[str, ...]:
    """How well the closed form fits, and what it is without the other keys."""
    most = max(summary.largest_difference for summary in summaries.values())
    texts = [f"No share differs from its closed form by more than {format_number(most)} in any draw."]
    for kind, heads in experiment.asked.items():
        between = A in heads[0] and B in heads[0]
        simple = "sigmoid(β (λ_a − λ_b) / √d)" if between else "1" if len(heads) == 1 else "1/2"
        off = summaries[kind].largest_difference_without_others
        texts.append(
            f"Without the other keys, {kind} would give v_a a share of {simple}; no share differs from what it would "
            f"be then by more than {format_number(off)}."
        )
    return tuple(map(Formula, texts))


def table_of_shares(summaries: Summaries) -> Table:
    rows: list[tuple[str, ...]] = []
    for kind, summary in summaries.items():
        columns = (summary.mean, summary.deviation, summary.least, summary.greatest, summary.closed_form)
        rows += [
            (Formula(f"{share}, {kind}"), *map(format_number, row))
            for share, *row in zip(SHARES, *columns, strict=True)
        ]
    return Table(("share of", "mean", "deviation", "least", "greatest", "closed form"), tuple(rows))


def table_of_draws(outcomes: Mapping[str, HeadOutcome], drawn: Keys) -> Table:
    """Beside each measured share of v_a, its closed form with and without the other keys."""
    columns = [next(drawn.lengths())[:, A], next(drawn.lengths())[:, B]]
    head = ["draw", "λ_a", "λ_b"]
    for kind, outcome in outcomes.items():
        columns += [outcome.measured[:, A], outcome.exact[:, A], outcome.near[:, A]]
        head += [f"v_a, {kind}", "closed form", "without others"]
    shown = torch.stack([column[:FIRST_DRAWS] for column in columns], -1)  # [draws, columns]
    rows = [(str(place), *map(format_number, row)) for place, row in enumerate(shown.tolist(), start=1)]
    return Table(tuple(map(Formula, head)), tuple(rows))


def growth(experiment: HeadExperiment, by_beta: ByBeta, keys: int) -> tuple[tuple[str, ...], tuple[Table, ...]]:
    """How the shares of one kind of heads grow with the query."""
    ((kind, _),) = experiment.asked.items()
    short = by_beta[unit_length(experiment)][kind]
    text = (
        f"A query of length 1 gives v_a a share of {format_number(short.mean[A])}; one that says nothing would give it "
        f"1/{keys} = {format_number(1 / keys)}. The right direction is not enough: the scale matters."
    )
    head = ("β", "length of q", *SHARES, "closed form of v_a", "largest difference")
    rows = [
        (
            format_number(beta),
            format_number(beta / unit_length(experiment)),
            *map(format_number, row[kind].mean),
            format_number(row[kind].closed_form[A]),
            format_number(row[kind].largest_difference),
        )
        for beta, row in by_beta.items()
    ]
    return (Formula(text),), (Table(tuple(map(Formula, head)), tuple(rows)),)


def swings_over_beta(by_beta: ByBeta) -> tuple[tuple[str, ...], tuple[Table, ...]]:
    """How the share of v_a comes to swing, or to hold still."""
    kinds = list(next(iter(by_beta.values())))
    text = (
        "One head swings the more, the longer its query. Two heads hold still once their queries are long enough to "
        "copy, as long as no key comes near to a length of zero."
    )
    rows = [
        (
            format_number(beta),
            *(f"{format_number(row[kind].mean[A])} ± {format_number(row[kind].deviation[A])}" for kind in kinds),
        )
        for beta, row in by_beta.items()
    ]
    head = ("β", *(f"v_a, {kind}" for kind in kinds))
    return (Formula(text),), (Table(tuple(map(Formula, head)), tuple(rows)),)


def picture_of_contrast(outcomes: Mapping[str, HeadOutcome]) -> Picture:
    """How much the outputs of one head and of two spread. One head comes first, as in the legend of other figures."""
    measured = [(kind, outcomes[kind].measured) for kind in sorted(outcomes)]
    kinds = [HeadOutputs(kind, shares[:, A], shares[:, B]) for kind, shares in measured]
    return Picture(
        head_outputs.draw_head_contrast(kinds),
        alt="the outputs of one head spread from v_a to v_b, those of two heads stay at their mean",
        caption=Formula(
            "Left: each output in the plane of v_a and v_b. Right: the distribution of the share of v_a over all draws."
        ),
    )


def picture_of_swing(outcome: HeadOutcome, beta: float, drawn: Keys) -> Picture:
    """How the output of one head swings between v_a and v_b, and the sigmoid of the closed form."""
    differences = torch.cat([lengths[:, A] - lengths[:, B] for lengths in drawn.lengths()])
    most = max(differences.abs().max().item(), 0.1)
    x = torch.linspace(-most, most, 10 * LINE_POINTS + 1, dtype=torch.float64, device=differences.device)
    curve = torch.sigmoid(beta * x / sqrt(drawn.count))
    return Picture(
        head_outputs.draw_swing(
            outcome.measured[:, A], differences, (x.tolist(), curve.tolist()), "sigmoid(β (λ_a − λ_b) / √d)"
        ),
        alt="the share of v_a in the output of one head, draw after draw and over the difference of key lengths",
        caption=Formula("Left: the share of v_a swings from draw to draw. Right: it follows the sigmoid of λ_a − λ_b."),
    )


def picture_over_beta(experiment: HeadExperiment, by_beta: ByBeta, drawn: Keys) -> Picture:
    """What was measured, on the lines of the closed form."""
    ((kind, heads),) = experiment.asked.items()
    known = {beta: row[kind] for beta, row in by_beta.items() if beta > 0}
    low, high = min(known), max(known)
    line = [low * (high / low) ** (step / LINE_POINTS) for step in range(LINE_POINTS + 1)]
    formula = torch.stack(  # [points, shares]
        [torch.cat([closed_form(heads, beta, lengths) for lengths in drawn.lengths()]).mean(0) for beta in line]
    )
    shown = [share for share in range(len(SHARES)) if len(heads[0]) > 1 or share != B]  # v_b is like any other
    curves = [
        Curve(SHARES[share], (line, formula[:, share].tolist()), (list(known), [s.mean[share] for s in known.values()]))
        for share in shown
    ]
    return Picture(
        formula_vs_measured.draw_formula_curves(
            curves, Formula("β"), "share in the output", [(unit_length(experiment), Formula("‖q‖ = 1"))]
        ),
        alt="the shares of the values in the output over β, measured and in closed form",
        caption="Points are measured, lines are the closed form. The dotted line marks a query of length 1.",
    )
