"""The report of an experiment with heads: the composition of their output, over all draws and for several scales."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from math import log, sqrt
from typing import Any

import torch

from regard.laboratory.formatting import format_number
from regard.laboratory.head_experiments import HeadExperiment, Heads, HeadShares, ShareSummary
from regard.laboratory.head_options import KEYS, HeadOptions, head_count
from regard.laboratory.head_pictures import contrast_picture, join_names, scale_picture, swing_picture, value_names
from regard.laboratory.lab_report import LabReport
from regard.plotting import head_outputs
from regard.plotting.symbols import Formula
from regard.reports.report_page import Picture, ReportPage, ReportSection, Table

SCALES = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0)
TABLE_DRAWS = 6  # the first draws, in a table
TABLE_VALUES = 4  # columns for the values of the subset, in a table
OURS = "The closed forms are derivations of Regard, not of the CS224n-style homework."


Summaries = Mapping[str, ShareSummary]  # by configuration of heads
ByScale = Mapping[float, Summaries]


def head_report(experiment: HeadExperiment, options: HeadOptions) -> LabReport:
    """The composition of the output over all draws, compared with its closed form.

    Args:
        experiment: The experiment.
        options: Its options.
    """
    configurations = options.configurations(experiment)
    shares = {kind: _measure(heads, options.scale, options) for kind, heads in configurations.items()}
    summaries = {kind: ShareSummary.of_shares(each) for kind, each in shares.items()}
    by_scale: dict[float, Summaries] = {
        scale: {kind: ShareSummary.of_shares(_measure(heads, scale, options)) for kind, heads in configurations.items()}
        for scale in {_unit_scale(options.subset), *SCALES} - {options.scale}
    }
    by_scale = dict(sorted((by_scale | {options.scale: summaries}).items()))
    growth = len(shares) == 1
    sections = [
        ReportSection(
            "Composition of the output",
            _closed_form_text(summaries, configurations, options),
            (_head_picture(configurations, options, shares, by_scale), _share_table(summaries, options)),
        ),
        ReportSection("Effect of the scale", *(_growth_table if growth else _variation_table)(by_scale, options)),
    ]
    if options.noisy:
        sections.insert(1, ReportSection("The first draws", (), (_draw_table(shares, options),)))
    heads = head_count(len(options.subset)).capitalize()
    page = ReportPage(
        experiment.title.format(heads=heads), _lead(experiment, options), _facts(options), tuple(sections)
    )
    return LabReport(page, _data(experiment, options, shares, by_scale))


def _measure(heads: Heads, scale: float, options: HeadOptions) -> HeadShares:
    return HeadShares.of_heads(heads, scale, options.random_keys(), options.subset)


def _spread(summary: ShareSummary) -> str:
    """Mean, standard deviation and range of the first share."""
    mean, std, low, high = (format_number(each[0]) for each in (summary.mean, summary.std, summary.min, summary.max))
    return f"{mean} ± {std}, from {low} to {high}"


def _unit_scale(head: tuple[int, ...]) -> float:
    """The s of a query of length 1: ‖s Σ μ_i‖ = s √|S|."""
    return 1 / sqrt(len(head))


def _lead(experiment: HeadExperiment, options: HeadOptions) -> Formula:
    """What the experiment shows, with the symbols of the subset."""
    letter = "k" if options.query_from == KEYS else "μ"
    vectors = [f"{letter}_{index + 1}" for index in options.subset]
    values = value_names(options)
    queries = [f"q_{head} = s {vector}" for head, vector in enumerate(vectors, start=1)]
    return Formula(
        experiment.lead.format(
            query=f"q = s {_sum(vectors)}",
            queries=join_names(queries),
            average=_sum(values) + (f"/{len(values)}" if len(values) > 1 else ""),
            values=join_names(values),
        )
    )


def _sum(names: list[str]) -> str:
    if len(names) == 1:
        return names[0]
    return f"({' + '.join(names if len(names) <= TABLE_VALUES else [names[0], '…', names[-1]])})"


def _facts(options: HeadOptions) -> dict[str, str]:
    return {
        Formula("scale s"): f"{options.scale:g}",
        Formula("noise β"): f"{options.noise:g}",
        Formula("noise in orientation ε"): f"{options.orientation_noise:g}",
        "queries from": options.query_from,
        "keys": str(options.keys),
        Formula("size d"): str(options.size),
        "subset": ", ".join(str(index + 1) for index in options.subset),
        "draws": f"{options.draws:,}" + ("" if options.noisy else ", all equal without noise"),
        "seed": str(options.seed),
    }


def _data(
    experiment: HeadExperiment, options: HeadOptions, shares: Mapping[str, HeadShares], by_scale: ByScale
) -> dict[str, Any]:
    """Options, summaries, first draws and histograms of the first value as JSON-serializable values."""
    measured = {kind: each.measured for kind, each in shares.items()}
    return {
        "experiment": experiment.name,
        **asdict(options),
        "subset": [index + 1 for index in options.subset],
        "unit_scale": _unit_scale(options.subset),
        "heads": {kind: asdict(summary) for kind, summary in by_scale[options.scale].items()},
        "by_scale": [
            {"scale": scale, "heads": {kind: asdict(summary) for kind, summary in row.items()}}
            for scale, row in by_scale.items()
        ],
        "first_draws": {kind: each[: head_outputs.MAX_DRAWS_IN_ORDER].tolist() for kind, each in measured.items()},
        "histogram": {kind: head_outputs.share_histogram(each[:, 0]).tolist() for kind, each in measured.items()},
    }


def _head_picture(
    configurations: Mapping[str, Heads], options: HeadOptions, shares: Mapping[str, HeadShares], by_scale: ByScale
) -> Picture:
    """The effect of the scale on one configuration of heads, the output of a single head, or the contrast of two."""
    (kind, heads), *more = configurations.items()
    if not more:
        means = {scale: row[kind].mean for scale, row in by_scale.items()}
        return scale_picture(heads, options, means, _unit_scale(options.subset))
    if heads.keys == (options.subset,) and len(options.subset) == 2:
        return swing_picture(shares[kind], options)
    return contrast_picture(shares, options)


def _closed_form_text(
    summaries: Summaries, configurations: Mapping[str, Heads], options: HeadOptions
) -> tuple[str, ...]:
    """The error of the closed form, with and without the other keys, or the effect of noise in orientation."""
    if options.orientation_noise:
        return tuple(map(Formula, _orientation_text(configurations, options)))
    error = max(summary.max_error or 0 for summary in summaries.values())
    texts = [f"No share differs from its closed form by more than {format_number(error)} in any draw. {OURS}"]
    for kind, heads in configurations.items():
        neglected = summaries[kind].max_error_without_others or 0
        texts.append(
            f"Without the other keys, the share of {value_names(options)[0]} with {kind} would be "
            f"{_simple_form(heads)}; no share differs from this approximation by more than {format_number(neglected)}."
        )
    if options.query_from == KEYS:
        texts.append("The score of a key in its query is s λ_i^2 / √d; with a query from means it is s λ_i / √d.")
    return tuple(map(Formula, texts))


def _simple_form(heads: Heads) -> str:
    """The share of the first value without other keys: a sigmoid for one head and two keys."""
    power = "^2" if heads.from_keys else ""
    lengths = [f"λ_{index + 1}{power}" for index in heads.keys[0]]
    if len(lengths) == 1:
        return "1" if len(heads.keys) == 1 else f"1/{len(heads.keys)}"
    if len(lengths) == 2:
        return f"sigmoid(s ({lengths[0]} − {lengths[1]}) / √d)"
    return f"the softmax of s λ_i{power} / √d over the subset"


def _orientation_text(configurations: Mapping[str, Heads], options: HeadOptions) -> list[str]:
    """Noise in orientation has no closed form in the lengths; for queries from means its effect on scores is known."""
    texts = ["With noise in orientation, the shares have no closed form in the lengths of keys."]
    for kind, heads in configurations.items():
        if not heads.from_keys:
            count = len(heads.keys[0])
            noise = sqrt(options.noise**2 + count * options.orientation_noise**2 / options.size)
            factor = f"{count} " if count > 1 else ""
            texts.append(
                f"With {kind}, the scores of the keys in a query vary as if their lengths had a noise of "
                f"√(β^2 + {factor}ε^2 / d) = {format_number(noise)}."
            )
    return texts


def _share_names(options: HeadOptions) -> list[str]:
    others = ["each other value"] if options.keys > len(options.subset) else []
    return value_names(options) + others


def _share_table(summaries: Summaries, options: HeadOptions) -> Table:
    rows: list[tuple[str, ...]] = []
    for kind, summary in summaries.items():
        columns = [summary.mean, summary.std, summary.min, summary.max]
        columns += [summary.closed_form] if summary.closed_form else []
        rows += [
            (Formula(f"{share}, {kind}"), *map(format_number, row))
            for share, *row in zip(_share_names(options), *columns, strict=True)
        ]
    head = ("share of", "mean", "std", "min", "max", "closed form")
    return Table(head[: len(rows[0])], tuple(rows))


def _draw_table(shares_by_kind: Mapping[str, HeadShares], options: HeadOptions) -> Table:
    """The first draws: the measured share of the first value and its closed form with and without the other keys."""
    lengths = next(options.random_keys().lengths())
    shown = options.subset[:TABLE_VALUES]
    columns = [lengths[:, index] for index in shown]
    head = ["draw", *(Formula(f"λ_{index + 1}") for index in shown)]
    first = value_names(options)[0]
    for kind, shares in list(shares_by_kind.items())[:2]:
        head.append(Formula(f"{first}, {kind}"))
        columns.append(shares.measured[:, 0])
        if shares.exact is not None and shares.approximate is not None:
            head += ["closed form", "without others"]
            columns += [shares.exact[:, 0], shares.approximate[:, 0]]
    rows = torch.stack([column[:TABLE_DRAWS] for column in columns], -1).tolist()  # [draws, columns]
    return Table(tuple(head), tuple((str(draw), *map(format_number, row)) for draw, row in enumerate(rows, start=1)))


def _growth_table(by_scale: ByScale, options: HeadOptions) -> tuple[tuple[str, ...], tuple[Table, ...]]:
    """The shares of one head for several scales."""
    names, count = _share_names(options), len(options.subset)
    shown = [index for index, _ in enumerate(names) if index < TABLE_VALUES or index == count]
    unit = _unit_scale(options.subset)
    rows = []
    for scale, summaries in by_scale.items():
        (summary,) = summaries.values()
        row = [scale, scale / unit, *(summary.mean[index] for index in shown)]
        row += [summary.closed_form[0], summary.max_error or 0] if summary.closed_form else []
        rows.append(tuple(map(format_number, row)))
    head = ["s", "length of q", *(names[index] for index in shown), f"closed form of {names[0]}", "max error"]
    if options.query_from == KEYS:
        head[1] = "length of q without noise"
    table = Table(tuple(map(Formula, head[: len(rows[0])])), tuple(rows))
    return tuple(map(Formula, _growth_text(by_scale, options))), (table,)


def _growth_text(by_scale: ByScale, options: HeadOptions) -> list[str]:
    """The weights of a query of length 1, and the scale that is large enough."""
    names, count = _share_names(options), len(options.subset)
    unit = _unit_scale(options.subset)
    (short,) = by_scale[unit].values()
    weights = [f"{format_number(short.mean[index])} for {names[index]}" for index in {0, len(names) - 1}]
    texts = [
        f"With a query of length 1 (s = {format_number(unit)}), the weight is {' and '.join(weights)}; uniform weights "
        f"would be 1/{options.keys} = {format_number(1 / options.keys)}."
    ]
    others = options.keys - count
    if others:
        enough = max(0.0, sqrt(options.size) * log(99 * others / count))
        texts.append(
            f"The right direction is not enough: with keys of length 1, {join_names(value_names(options))} "
            f"{'gets' if count == 1 else 'together get'} 99 % of the weight from s = √d log(99 (n − m) / m) = "
            f"{format_number(enough)} on, where m = {count} of n = {options.keys} values are in the subset."
        )
    return texts


def _variation_table(by_scale: ByScale, options: HeadOptions) -> tuple[tuple[str, ...], tuple[Table, ...]]:
    """Mean and standard deviation of the share of the first value for several scales."""
    kinds = list(next(iter(by_scale.values())))
    first, unit = value_names(options)[0], _unit_scale(options.subset)
    length = "of length 1 without noise" if options.query_from == KEYS else "of length 1"
    texts = [
        f"With a query {length} (s = {format_number(unit)}), the share of {first} with one head is "
        f"{_spread(by_scale[unit]['one head'])}; uniform weights would give it {format_number(1 / options.keys)}. With "
        f"s = {format_number(options.scale)} it is {_spread(by_scale[options.scale]['one head'])}."
    ]
    if options.noisy:
        texts.append(
            f"The output of one head varies more, the larger s is. The output of {head_count(len(options.subset))} is "
            "stable once s is large enough to copy, as long as no key has a length near zero."
        )
    rows = [
        (
            format_number(scale),
            *(f"{format_number(row[kind].mean[0])} ± {format_number(row[kind].std[0])}" for kind in kinds),
        )
        for scale, row in by_scale.items()
    ]
    head = tuple(map(Formula, ("s", *(f"{first}, {kind}" for kind in kinds))))
    return tuple(map(Formula, texts)), (Table(head, tuple(rows)),)
