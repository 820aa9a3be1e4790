"""How vectors tell positions: sines and one-hot, and how alike the vectors of near and of far positions are.

    PE(t) · PE(t + n) = Σ_k cos(ω_k n)        the distance n alone counts, not the place t

From the discussion sheet and the lecture. Shapes: encodings [positions, size].
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import pi

import torch
from torch import Tensor
from torch.nn.functional import normalize

from regard.errors import UserError
from regard.laboratory.formatting import format_number
from regard.laboratory.lab_report import LabReport
from regard.nn import OneHotPositions, sinusoidal_encoding
from regard.plotting import position_encodings
from regard.plotting.symbols import Formula
from regard.reports.report_page import Picture, ReportPage, ReportSection, Table

MOST = 1000
DISTANCES = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500)
WAVELENGTHS = 8  # in a table
NAMES = ("sine", "one-hot")


@dataclass(frozen=True)
class Alike:
    """The cosine between vectors of positions that are so far apart, over all such pairs."""

    distance: int
    mean: float
    least: float
    greatest: float


def position_report(size: int, length: int) -> LabReport:
    """Both encodings of `length` positions; `size` is that of sines, as one-hot vectors are as long as the text."""
    check(size, length)
    sine = sinusoidal_encoding(0, length, size).double()
    one_hot = OneHotPositions(0, longest=length)(torch.zeros(1, length, 0, dtype=torch.float64))[0]
    vectors = dict(zip(NAMES, (sine, one_hot), strict=True))
    alike = {name: similarities(each) for name, each in vectors.items()}
    waves = wavelengths(size)
    uneven = unevenness(sine)

    picture = Picture(
        position_encodings.draw_position_encodings(
            vectors, {name: [each.mean for each in known] for name, known in alike.items()}
        ),
        alt="the vectors of all positions as rows of cells, and the cosine between vectors over their distance",
        caption="Above, each row is the vector of a position. Below, how alike vectors are, over their distance.",
    )
    sections = (
        ReportSection(
            "How alike positions are", tuple(map(Formula, told(alike, uneven, size))), (picture, distances_table(alike))
        ),
        ReportSection("Wavelengths", (Formula(WAVES),), (wavelengths_table(waves),)),
    )
    facts = {"size of sines": str(size), "size of one-hot vectors, one number a position": str(length)}
    lead = (
        "Sines tell where a token stands by waves of different lengths, one-hot vectors by a place for each position."
    )
    data = {
        "size": size,
        "length": length,
        "wavelengths": waves,
        "largest_deviation": uneven,
        "similarity": {name: [asdict(each) for each in known] for name, known in alike.items()},
        "sine": sine.tolist(),
    }
    return LabReport(ReportPage("How vectors tell positions", lead, facts, sections), data)


WAVES = (
    "Each wave has two numbers, its sine and its cosine. The wavelength of pair k is 2π · 10000^(2k/size), in "
    "positions: a geometric progression from 2π towards 10000 · 2π."
)


def check(size: int, length: int) -> None:
    if not 2 <= size <= MOST or size % 2:
        raise UserError(f"--size is {size:,}; it can be an even number from 2 to {MOST:,}: a sine and a cosine a wave")
    if not 2 <= length <= MOST:
        raise UserError(f"--length is {length:,}; it can be from 2 to {MOST:,}")


def similarities(vectors: Tensor) -> list[Alike]:
    """For each distance n, the cosines x_t · x_{t+n} / (‖x_t‖ ‖x_{t+n}‖) over all t."""
    unit = normalize(vectors, dim=-1)
    cosines = unit @ unit.mT  # [positions, positions]
    known = []
    for distance in range(len(vectors)):
        pairs = cosines.diagonal(distance)
        known.append(Alike(distance, pairs.mean().item(), pairs.min().item(), pairs.max().item()))
    return known


def unevenness(vectors: Tensor) -> float:
    """The most by which x_t · x_{t+n} differs between two places t, at any distance n."""
    products = vectors @ vectors.mT
    ranges = [products.diagonal(n).max() - products.diagonal(n).min() for n in range(len(vectors))]
    return float(torch.stack(ranges).max())


def wavelengths(size: int) -> list[float]:
    """2π / ω_k, where the angle ω_k is read from the vector of position 1: (sin ω_k, cos ω_k)."""
    sine, cosine = sinusoidal_encoding(1, 1, size).double().view(-1, 2).unbind(-1)  # [size / 2]
    return (2 * pi / torch.atan2(sine, cosine)).tolist()


def told(alike: dict[str, list[Alike]], uneven: float, size: int) -> tuple[str, ...]:
    near, far = alike["sine"][1].mean, min(alike["sine"], key=lambda each: each.mean)
    return (
        f"Sines: neighbours have a cosine of {format_number(near)}, and the least alike, {far.distance} apart, one of "
        f"{format_number(far.mean)}. One-hot: any two different positions have 0, neighbours too.",
        f"The product PE(t) · PE(t + n) of sines depends on the distance n alone: over all places t it differs by no "
        f"more than {format_number(uneven)}, where PE(t) · PE(t) is {size // 2}.",
    )


def distances_table(alike: dict[str, list[Alike]]) -> Table:
    sine, one_hot = (alike[name] for name in NAMES)
    rows = [
        (
            str(n),
            format_number(sine[n].mean),
            format_number(sine[n].greatest - sine[n].least),
            format_number(one_hot[n].mean),
        )
        for n in DISTANCES
        if n < len(sine)
    ]
    return Table(("distance", "sine: cosine", "range over places", "one-hot: cosine"), tuple(rows))


def wavelengths_table(waves: list[float]) -> Table:
    """Some of the pairs, evenly spread from the first to the last."""
    last = len(waves) - 1
    shown = sorted({round(last * part / (WAVELENGTHS - 1)) for part in range(WAVELENGTHS)})
    rows = [
        (str(k), f"{2 * k}, {2 * k + 1}", format_number(waves[k]), format_number(waves[k] / (2 * pi))) for k in shown
    ]
    return Table(("pair k", "numbers", "wavelength", "times 2π"), tuple(rows))
