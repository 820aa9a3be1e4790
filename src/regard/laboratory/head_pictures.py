"""The pictures of the experiments with heads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt

import torch
from torch import Tensor

from regard.laboratory.head_experiments import Heads, HeadShares, subset_shares
from regard.laboratory.head_options import KEYS, HeadOptions
from regard.plotting import formula_vs_measured, head_outputs
from regard.plotting.formula_vs_measured import Curve
from regard.plotting.head_outputs import HeadOutputs
from regard.plotting.symbols import Formula
from regard.reports.report_page import Picture

LINE_POINTS = 40


def value_names(options: HeadOptions) -> list[str]:
    """v_1, v_2, … of the values in the subset.

    Args:
        options: The options.
    """
    return [f"v_{index + 1}" for index in options.subset]


def join_names(names: Sequence[str], word: str = "and") -> str:
    """ "v_1, v_2 and v_3", shortened to "v_1, …, v_7" if there are many.

    Args:
        names: The names.
        word: The word before the last.
    """
    if len(names) > 4:
        return f"{names[0]}, …, {names[-1]}"
    *most, last = names
    return f"{', '.join(most)} {word} {last}" if most else last


def scale_picture(heads: Heads, options: HeadOptions, means: Mapping[float, list[float]], unit_scale: float) -> Picture:
    """Measured mean shares over s, and the curves of the closed form.

    Args:
        heads: The heads.
        options: The options.
        means: The mean shares of the subset and of the others by s.
        unit_scale: The s of a query of length 1.
    """
    known = {scale: shares for scale, shares in means.items() if scale > 0}
    low, high = min(known), max(known)
    line = [low * (high / low) ** (step / LINE_POINTS) for step in range(LINE_POINTS + 1)]
    formula = None if options.orientation_noise else torch.stack([_mean_shares(heads, options, s) for s in line])
    count = len(options.subset)
    names = join_names(value_names(options))
    groups: dict[str, slice] = {Formula(f"each of {names}" if count > 1 else names): slice(0, count)}
    if options.keys > count:
        groups["each other value"] = slice(count, count + 1)
    curves = [
        Curve(
            label,
            None if formula is None else (line, formula[:, part].mean(1).tolist()),
            (list(known), [sum(shares[part]) / len(shares[part]) for shares in known.values()]),
        )
        for label, part in groups.items()
    ]
    lines = "" if formula is None else ", lines are the closed form"
    share = "mean share in the outputs" if options.noisy else "share in the output"
    return Picture(
        formula_vs_measured.draw_formula_curves(
            curves, Formula("scale s of the query"), share, [(unit_scale, Formula("‖q‖ = 1"))]
        ),
        alt="the shares of the values in the output over the scale of the query",
        caption=f"Points are measured{lines}. The dotted line marks a query of length 1.",
    )


def _mean_shares(heads: Heads, options: HeadOptions, scale: float) -> Tensor:
    chunks = options.random_keys().lengths()
    weights = torch.cat([heads.closed_form(scale, lengths, options.size) for lengths in chunks])
    return subset_shares(weights, options.subset).mean(0)


def swing_picture(shares: HeadShares, options: HeadOptions) -> Picture:
    """The output of one head between two values, and the sigmoid of the closed form.

    Args:
        shares: The shares of one head.
        options: The options; the subset has two values.
    """
    squared = options.query_from == KEYS
    a, b = options.subset
    powers = [lengths ** (2 if squared else 1) for lengths in options.random_keys().lengths()]
    differences = torch.cat([each[:, a] - each[:, b] for each in powers])
    largest = max(differences.abs().max().item(), 0.1)
    x = torch.linspace(-largest, largest, 10 * LINE_POINTS + 1, dtype=torch.float64, device=differences.device)
    curve = torch.sigmoid(options.scale * x / sqrt(options.size))
    power = "^2" if squared else ""
    difference = f"λ_{a + 1}{power} − λ_{b + 1}{power}"
    first, second = value_names(options)
    label = f"sigmoid(s ({difference}) / √d)"
    noisy = ", which neglects the noise in orientation" if options.orientation_noise else ""
    return Picture(
        head_outputs.draw_swing(
            shares.measured[:, 0],
            differences,
            (x.tolist(), curve.tolist()),
            label,
            (first, second),
            f"difference of {'squared ' if squared else ''}lengths {difference}",
        ),
        alt=f"the share of {first} in the output of one head, draw after draw and over the difference of key lengths",
        caption=Formula(
            f"Left: the share of {first} in the first draws. Right: the same over {difference}, and the sigmoid{noisy}."
        ),
    )


def contrast_picture(shares_by_kind: Mapping[str, HeadShares], options: HeadOptions) -> Picture:
    """The outputs of one head and of one head per value; one head comes first, as in other figures.

    Args:
        shares_by_kind: The shares by configuration of heads.
        options: The options.
    """
    count = len(options.subset)
    kinds = sorted(list(shares_by_kind)[:2], key=lambda kind: kind != "one head")
    outputs = [HeadOutputs(kind, shares_by_kind[kind].measured[:, :count]) for kind in kinds]
    names = value_names(options)
    if count > 2:
        return Picture(
            head_outputs.draw_head_shares(outputs, names),
            alt=f"the shares of {join_names(names)} in the outputs of one head and of {count} heads, draw by draw",
            caption="The composition of the first outputs; each bar is one draw.",
        )
    first, second = names
    return Picture(
        head_outputs.draw_head_contrast(outputs, (first, second)),
        alt=f"how far the outputs of one head and those of two heads spread from {first} to {second}",
        caption=Formula(
            f"Left: each output in the plane of {first} and {second}. Right: the distribution of the share of {first} "
            "over all draws."
        ),
    )
