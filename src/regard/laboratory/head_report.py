"""The report of an experiment with heads: the composition of their output, over all draws and for several β."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import isfinite, sqrt
from typing import Any

import torch

from regard.errors import UserError
from regard.laboratory.formatting import format_number
from regard.laboratory.head_experiments import ONE_HEAD, A, B, HeadExperiment, HeadShares, RandomKeys, closed_form
from regard.laboratory.lab_report import LabReport
from regard.plotting import formula_vs_measured, head_outputs
from regard.plotting.formula_vs_measured import Curve
from regard.plotting.head_outputs import HeadOutputs
from regard.plotting.symbols import Formula
from regard.reports.report_page import Picture, ReportPage, ReportSection, Table

BETAS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0)
SHARES = (Formula("v_a"), Formula("v_b"), "each other value")
LINE_POINTS = 40
TABLE_DRAWS = 6  # the first draws, in a table
MAX_KEYS, MAX_DRAWS, MAX_PARAMETER = 50, 1_000_000, 1e6
MAX_ELEMENTS = 50_000_000  # in the keys of all draws, which bounds the running time


@dataclass(frozen=True)
class ShareSummary:
    """The shares of v_a, of v_b and of each other value, over all draws.

    Args:
        mean: The mean of each share.
        std: Its standard deviation.
        min: Its minimum.
        max: Its maximum.
        closed_form: The mean of its closed form.
        max_error: The largest difference from the closed form, of any share in any draw.
        max_error_without_others: The same for the closed form without the other keys.
    """

    mean: list[float]
    std: list[float]
    min: list[float]
    max: list[float]
    closed_form: list[float]
    max_error: float
    max_error_without_others: float

    @classmethod
    def of_shares(cls, found: HeadShares) -> ShareSummary:
        """Summarize all draws.

        Args:
            found: The shares of each draw.
        """
        shares = found.measured
        return cls(
            mean=shares.mean(0).tolist(),
            std=shares.std(0, correction=0).tolist(),
            min=shares.amin(0).tolist(),
            max=shares.amax(0).tolist(),
            closed_form=found.exact.mean(0).tolist(),
            max_error=(shares - found.exact).abs().max().item(),
            max_error_without_others=(shares - found.approximate).abs().max().item(),
        )


Summaries = Mapping[str, ShareSummary]  # by configuration of heads
ByBeta = Mapping[float, Summaries]


def head_report(
    experiment: HeadExperiment, *, beta: float | None, sigma: float | None, keys: int, draws: int, seed: int
) -> LabReport:
    """The composition of the output over all draws, compared with its closed form.

    Args:
        experiment: The experiment.
        beta: β; None for the experiment's own.
        sigma: σ; None for the experiment's own.
        keys: The number of keys.
        draws: The number of draws.
        seed: The seed of the draws.

    Raises:
        UserError: If an argument is out of range.
    """
    beta = experiment.beta if beta is None else beta
    sigma = experiment.sigma if sigma is None else sigma
    _check_head_options(beta, sigma, keys, draws, seed)
    random_keys = RandomKeys(keys, sigma, draws if sigma else 1, seed)  # without σ, all draws are equal
    shares = {kind: HeadShares.of_heads(heads, beta, random_keys) for kind, heads in experiment.configurations.items()}
    summaries = {kind: ShareSummary.of_shares(each) for kind, each in shares.items()}
    by_beta = _measure_betas(experiment, random_keys, {_unit_length_beta(experiment), *BETAS} - {beta})
    by_beta = dict(sorted((by_beta | {beta: summaries}).items()))
    effect = _variation_table(by_beta) if len(shares) > 1 else _growth_table(experiment, by_beta, keys)
    picture = _head_picture(experiment, beta, random_keys, shares, by_beta)
    sections = [
        ReportSection(
            "Composition of the output", _closed_form_text(summaries, experiment), (picture, _share_table(summaries))
        ),
        ReportSection("Effect of β", *effect),
    ]
    if sigma:
        sections.insert(1, ReportSection("The first draws", (), (_draw_table(shares, random_keys),)))
    facts = {
        Formula("β"): f"{beta:g}",
        Formula("σ"): f"{sigma:g}",
        "keys": str(keys),
        "draws": f"{draws:,}" if sigma else f"{draws:,}, all equal without σ",
        "seed": str(seed),
    }
    data = {
        "experiment": experiment.name,
        **{"beta": beta, "sigma": sigma, "keys": keys, "draws": draws, "seed": seed},
        **_share_data(shares, by_beta, beta),
    }
    return LabReport(ReportPage(experiment.title, Formula(experiment.lead), facts, tuple(sections)), data)


def _measure_betas(experiment: HeadExperiment, random_keys: RandomKeys, betas: set[float]) -> dict[float, Summaries]:
    return {
        beta: {
            kind: ShareSummary.of_shares(HeadShares.of_heads(heads, beta, random_keys))
            for kind, heads in experiment.configurations.items()
        }
        for beta in betas
    }


def _head_picture(
    experiment: HeadExperiment, beta: float, random_keys: RandomKeys, shares: Mapping[str, HeadShares], by_beta: ByBeta
) -> Picture:
    """The effect of β on one configuration of heads, the swings of a single head, or the contrast of two."""
    if len(shares) == 1:
        return _beta_picture(experiment, by_beta, random_keys)
    kind = next(iter(shares))
    if experiment.configurations[kind] == ONE_HEAD:
        return _swing_picture(shares[kind], beta, random_keys)
    return _contrast_picture(shares)


def _share_data(shares: Mapping[str, HeadShares], by_beta: ByBeta, beta: float) -> dict[str, Any]:
    """The summaries, the first draws and the histograms as JSON-serializable values."""
    of_a = {kind: each.measured[:, A] for kind, each in shares.items()}
    return {
        "heads": {kind: asdict(summary) for kind, summary in by_beta[beta].items()},
        "by_beta": [
            {"beta": each, "heads": {kind: asdict(summary) for kind, summary in row.items()}}
            for each, row in by_beta.items()
        ],
        "first_draws": {kind: each[: head_outputs.MAX_DRAWS_IN_ORDER].tolist() for kind, each in of_a.items()},
        "histogram": {kind: head_outputs.share_histogram(each).tolist() for kind, each in of_a.items()},
    }


def _check_head_options(beta: float, sigma: float, keys: int, draws: int, seed: int) -> None:
    for option, value in (("--beta", beta), ("--sigma", sigma)):
        if not (isfinite(value) and 0 <= value <= MAX_PARAMETER):
            raise UserError(f"{option} is {value:g}; it can be from 0 to {MAX_PARAMETER:,.0f}")
    if not 3 <= keys <= MAX_KEYS:
        raise UserError(f"--keys is {keys:,}; it can be from 3 to {MAX_KEYS}")
    max_draws = min(MAX_DRAWS, MAX_ELEMENTS // keys**2)
    if not 1 <= draws <= max_draws:
        raise UserError(f"--draws is {draws:,}; for {keys} keys it can be from 1 to {max_draws:,}")
    if seed < 0:
        raise UserError(f"--seed is {seed}; it can be 0 or more")


def _unit_length_beta(experiment: HeadExperiment) -> float:
    """The β of a query of length 1: ‖β (μ_a + μ_b)‖ = β √2."""
    heads, *_ = experiment.configurations.values()
    return 1 / sqrt(len(heads[0]))


def _closed_form_text(summaries: Summaries, experiment: HeadExperiment) -> tuple[str, ...]:
    """The error of the closed form, with and without the other keys."""
    error = max(summary.max_error for summary in summaries.values())
    texts = [Formula(f"No share differs from its closed form by more than {format_number(error)} in any draw.")]
    for kind, heads in experiment.configurations.items():
        between = A in heads[0] and B in heads[0]
        simple = "sigmoid(β (λ_a − λ_b) / √d)" if between else "1" if len(heads) == 1 else "1/2"
        error = summaries[kind].max_error_without_others
        texts.append(
            Formula(
                f"Without the other keys, the share of v_a with {kind} would be {simple}; no share differs from this "
                f"approximation by more than {format_number(error)}."
            )
        )
    return tuple(texts)


def _share_table(summaries: Summaries) -> Table:
    rows: list[tuple[str, ...]] = []
    for kind, summary in summaries.items():
        columns = (summary.mean, summary.std, summary.min, summary.max, summary.closed_form)
        rows += [
            (Formula(f"{share}, {kind}"), *map(format_number, row))
            for share, *row in zip(SHARES, *columns, strict=True)
        ]
    return Table(("share of", "mean", "std", "min", "max", "closed form"), tuple(rows))


def _draw_table(shares_by_kind: Mapping[str, HeadShares], random_keys: RandomKeys) -> Table:
    """The first draws: the measured share of v_a and its closed form with and without the other keys."""
    columns = [next(random_keys.lengths())[:, A], next(random_keys.lengths())[:, B]]
    head = ["draw", Formula("λ_a"), Formula("λ_b")]
    for kind, shares in shares_by_kind.items():
        columns += [shares.measured[:, A], shares.exact[:, A], shares.approximate[:, A]]
        head += [Formula(f"v_a, {kind}"), "closed form", "without others"]
    shown = torch.stack([column[:TABLE_DRAWS] for column in columns], -1)  # [draws, columns]
    rows = [(str(index), *map(format_number, row)) for index, row in enumerate(shown.tolist(), start=1)]
    return Table(tuple(head), tuple(rows))


def _growth_table(experiment: HeadExperiment, by_beta: ByBeta, keys: int) -> tuple[tuple[str, ...], tuple[Table, ...]]:
    """The shares of one configuration for several β."""
    ((kind, _),) = experiment.configurations.items()
    short = by_beta[_unit_length_beta(experiment)][kind]
    text = (
        f"A query of length 1 gives v_a a share of {format_number(short.mean[A])}; uniform weights would give it "
        f"1/{keys} = {format_number(1 / keys)}. The right direction is not enough: the scale matters."
    )
    head = ("β", "length of q", *SHARES, Formula("closed form of v_a"), "max error")
    rows = [
        (
            format_number(beta),
            format_number(beta / _unit_length_beta(experiment)),
            *map(format_number, row[kind].mean),
            format_number(row[kind].closed_form[A]),
            format_number(row[kind].max_error),
        )
        for beta, row in by_beta.items()
    ]
    return (Formula(text),), (Table(tuple(map(Formula, head)), tuple(rows)),)


def _variation_table(by_beta: ByBeta) -> tuple[tuple[str, ...], tuple[Table, ...]]:
    """Mean and standard deviation of the share of v_a for several β."""
    kinds = list(next(iter(by_beta.values())))
    text = (
        "The output of one head varies more, the larger β is. The output of two heads is stable once β is large enough "
        "to copy, as long as no key has a length near zero."
    )
    rows = [
        (
            format_number(beta),
            *(f"{format_number(row[kind].mean[A])} ± {format_number(row[kind].std[A])}" for kind in kinds),
        )
        for beta, row in by_beta.items()
    ]
    return (text,), (Table((Formula("β"), *(Formula(f"v_a, {kind}") for kind in kinds)), tuple(rows)),)


def _contrast_picture(shares_by_kind: Mapping[str, HeadShares]) -> Picture:
    """The spread of the outputs of one head and of two; one head comes first, as in other figures."""
    measured = [(kind, shares_by_kind[kind].measured) for kind in sorted(shares_by_kind)]
    kinds = [HeadOutputs(kind, shares[:, A], shares[:, B]) for kind, shares in measured]
    return Picture(
        head_outputs.draw_head_contrast(kinds),
        alt="the outputs of one head spread from v_a to v_b, those of two heads stay at their mean",
        caption=Formula(
            "Left: each output in the plane of v_a and v_b. Right: the distribution of the share of v_a over all draws."
        ),
    )


def _swing_picture(shares: HeadShares, beta: float, random_keys: RandomKeys) -> Picture:
    """The output of one head between v_a and v_b, and the sigmoid of the closed form."""
    differences = torch.cat([lengths[:, A] - lengths[:, B] for lengths in random_keys.lengths()])
    largest = max(differences.abs().max().item(), 0.1)
    x = torch.linspace(-largest, largest, 10 * LINE_POINTS + 1, dtype=torch.float64, device=differences.device)
    curve = torch.sigmoid(beta * x / sqrt(random_keys.count))
    return Picture(
        head_outputs.draw_swing(
            shares.measured[:, A], differences, (x.tolist(), curve.tolist()), "sigmoid(β (λ_a − λ_b) / √d)"
        ),
        alt="the share of v_a in the output of one head, draw after draw and over the difference of key lengths",
        caption=Formula("Left: the share of v_a in the first draws. Right: it follows the sigmoid of λ_a − λ_b."),
    )


def _beta_picture(experiment: HeadExperiment, by_beta: ByBeta, random_keys: RandomKeys) -> Picture:
    """Measured shares over β, and the curves of the closed form."""
    ((kind, heads),) = experiment.configurations.items()
    known = {beta: row[kind] for beta, row in by_beta.items() if beta > 0}
    low, high = min(known), max(known)
    line = [low * (high / low) ** (step / LINE_POINTS) for step in range(LINE_POINTS + 1)]
    formula = torch.stack(  # [points, shares]
        [torch.cat([closed_form(heads, beta, lengths) for lengths in random_keys.lengths()]).mean(0) for beta in line]
    )
    shown = [
        share for share in range(len(SHARES)) if len(heads[0]) > 1 or share != B
    ]  # for a copy, v_b is one of the others
    curves = [
        Curve(SHARES[share], (line, formula[:, share].tolist()), (list(known), [s.mean[share] for s in known.values()]))
        for share in shown
    ]
    return Picture(
        formula_vs_measured.draw_formula_curves(
            curves, Formula("β"), "share in the output", [(_unit_length_beta(experiment), Formula("‖q‖ = 1"))]
        ),
        alt="the shares of the values in the output over β, measured and in closed form",
        caption="Points are measured, lines are the closed form. The dotted line marks a query of length 1.",
    )
