"""Position encodings: sinusoidal and one-hot, and the similarity of the vectors of near and far positions.

    PE(t) · PE(t + n) = Σ_k cos(ω_k n)        depends on the distance n alone, not on the position t

From EECS 182 Discussion 8 (docs/sources.md). Shapes: encodings [positions, size].
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
from regard.nn.positions import FirstFrequency
from regard.plotting import position_encodings
from regard.plotting.symbols import Formula
from regard.reports.report_page import Picture, ReportPage, ReportSection, Table

MAX_SIZE = MAX_LENGTH = 1000
DISTANCES = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500)
TABLE_WAVELENGTHS = 8
FIRST: tuple[FirstFrequency, ...] = (0, 1)
SINUSOIDAL, ONE_HOT = "sine", "one-hot"
LEAD = "Sinusoidal encodings represent a position by waves of different lengths, one-hot encodings by one element each."
WAVELENGTHS = Formula(
    "Each wave has two elements, its sine and its cosine. The wavelength of pair k is 2π · 10000^(2k/size), in "
    "positions: a geometric progression."
)
RANGES = Formula(
    "EECS 182 states that it goes from 2π to 10000 · 2π. Neither numbering of the pairs has both ends: with k from 0, "
    "as in the Transformer, the last is 10000^(1−2/size) · 2π; with k from 1, as EECS 182 prints the formula, the "
    "first is 10000^(2/size) · 2π."
)


@dataclass(frozen=True)
class DistanceSimilarity:
    """The cosine similarity of all pairs of positions at one distance.

    Args:
        distance: The distance n.
        mean: The mean over all positions t.
        min: The minimum.
        max: The maximum.
    """

    distance: int
    mean: float
    min: float
    max: float


Similarities = dict[str, list[DistanceSimilarity]]


def position_report(size: int, length: int, first_frequency: int = 0) -> LabReport:
    """Sinusoidal and one-hot encodings and their similarity by distance.

    Args:
        size: The size of a sinusoidal encoding; a one-hot encoding has `length` elements.
        length: The number of positions.
        first_frequency: The number k of the first wave, 0 or 1.

    Raises:
        UserError: If an argument is out of range.
    """
    first = _check_position_options(size, length, first_frequency)
    sine = sinusoidal_encoding(0, length, size, first).double()
    nothing = torch.zeros(1, length, 0, dtype=torch.float64, device=sine.device)
    one_hot = OneHotPositions(0, max_length=length)(nothing)[0]
    vectors = {SINUSOIDAL: sine, ONE_HOT: one_hot}
    similarities = {name: similarity_by_distance(each) for name, each in vectors.items()}
    waves = wavelengths(size, first)
    ranges = {each: (known[0], known[-1]) for each in FIRST for known in [wavelengths(size, each)]}
    deviation = product_deviation(sine)

    sections = (
        ReportSection(
            "Similarity by distance",
            _similarity_text(similarities, deviation, size),
            (_encoding_picture(vectors, similarities), _distance_table(similarities)),
        ),
        ReportSection("Wavelengths", (WAVELENGTHS, _frequency_text(sine)), (_wavelength_table(waves, first),)),
        ReportSection("First and last wavelength", (RANGES,), (_range_table(ranges, size),)),
        ReportSection("What is learned", _learning_text(size, length), ()),
    )
    facts = {
        "size of sinusoidal vectors": str(size),
        "size of one-hot vectors, one element per position": str(length),
        "number k of the first wave": str(first),
    }
    data = {
        "size": size,
        "length": length,
        "first_frequency": first,
        "wavelengths": waves,
        "wavelength_ranges": {str(each): list(ends) for each, ends in ranges.items()},
        "max_frequency_deviation": frequency_deviation(sine),
        "max_deviation": deviation,
        "similarity": {name: [asdict(each) for each in known] for name, known in similarities.items()},
        "sine": sine.tolist(),
    }
    return LabReport(ReportPage("Position encodings", LEAD, facts, sections), data)


def _check_position_options(size: int, length: int, first_frequency: int) -> FirstFrequency:
    """The first frequency, if all options are valid."""
    if not 2 <= size <= MAX_SIZE or size % 2:
        raise UserError(
            f"--size is {size:,}; it can be an even number from 2 to {MAX_SIZE:,}: a sine and a cosine per wave"
        )
    if not 2 <= length <= MAX_LENGTH:
        raise UserError(f"--length is {length:,}; it can be from 2 to {MAX_LENGTH:,}")
    for first in FIRST:
        if first == first_frequency:
            return first
    raise UserError(
        f"--first-frequency is {first_frequency:,}; it can be 0, as in the Transformer, or 1, as in EECS 182"
    )


def similarity_by_distance(vectors: Tensor) -> list[DistanceSimilarity]:
    """For each distance n, the cosines x_t · x_{t+n} / (‖x_t‖ ‖x_{t+n}‖) over all t.

    Args:
        vectors: One encoding per position [positions, size].
    """
    unit = normalize(vectors, dim=-1)
    cosines = unit @ unit.mT  # [positions, positions]
    known = []
    for distance in range(len(vectors)):
        pairs = cosines.diagonal(distance)
        known.append(DistanceSimilarity(distance, pairs.mean().item(), pairs.min().item(), pairs.max().item()))
    return known


def product_deviation(vectors: Tensor) -> float:
    """The largest difference of x_t · x_{t+n} between two positions t, over all distances n.

    Args:
        vectors: One encoding per position [positions, size].
    """
    products = vectors @ vectors.mT
    ranges = [products.diagonal(n).max() - products.diagonal(n).min() for n in range(len(vectors))]
    return float(torch.stack(ranges).max())


def frequency_deviation(vectors: Tensor) -> float:
    """The largest difference of a wave's frequency between two positions, over all waves.

    The frequency at position t is the angle between the pairs (sin, cos) of t and t + 1.

    Args:
        vectors: One sinusoidal encoding per position [positions, size].
    """
    sine, cosine = vectors.unflatten(-1, (-1, 2)).unbind(-1)  # [positions, size / 2]
    steps = torch.atan2(
        sine[1:] * cosine[:-1] - cosine[1:] * sine[:-1], cosine[1:] * cosine[:-1] + sine[1:] * sine[:-1]
    )
    return float((steps.amax(0) - steps.amin(0)).max())


def wavelengths(size: int, first_frequency: FirstFrequency = 0) -> list[float]:
    """2π / ω_k for each k; the angle ω_k is computed from the encoding of position 1: (sin ω_k, cos ω_k).

    Args:
        size: The size of the encoding.
        first_frequency: The first k.
    """
    sine, cosine = sinusoidal_encoding(1, 1, size, first_frequency).double().view(-1, 2).unbind(-1)  # [size / 2]
    return (2 * pi / torch.atan2(sine, cosine)).tolist()


def _encoding_picture(vectors: dict[str, Tensor], similarities: Similarities) -> Picture:
    means = {name: [each.mean for each in known] for name, known in similarities.items()}
    return Picture(
        position_encodings.draw_position_encodings(vectors, means),
        alt="the vectors of all positions as rows of cells, and the cosine between vectors over their distance",
        caption="Above, each row is the vector of a position. Below, the cosine similarity over the distance.",
    )


def _similarity_text(similarities: Similarities, deviation: float, size: int) -> tuple[str, ...]:
    near, far = similarities[SINUSOIDAL][1].mean, min(similarities[SINUSOIDAL], key=lambda each: each.mean)
    return (
        f"Sinusoidal: neighbors have a cosine of {format_number(near)}; the least similar positions, {far.distance} "
        f"apart, have {format_number(far.mean)}. One-hot: any two different positions have 0, neighbors too.",
        Formula(
            f"The product PE(t) · PE(t + n) of sinusoidal encodings depends on the distance n alone: over all "
            f"positions t it differs by no more than {format_number(deviation)}, while PE(t) · PE(t) is {size // 2}."
        ),
    )


def _distance_table(similarities: Similarities) -> Table:
    sine, one_hot = similarities[SINUSOIDAL], similarities[ONE_HOT]
    rows = [
        (
            str(n),
            format_number(sine[n].mean),
            format_number(sine[n].max - sine[n].min),
            format_number(one_hot[n].mean),
        )
        for n in DISTANCES
        if n < len(sine)
    ]
    return Table(("distance", "sine: cosine", "range over positions", "one-hot: cosine"), tuple(rows))


def _frequency_text(sine: Tensor) -> Formula:
    return Formula(
        "EECS 182 writes that the frequency changes with the position. Each pair has one frequency ω_k for all "
        f"positions: measured between neighbors, it differs by no more than {format_number(frequency_deviation(sine))}."
    )


def _learning_text(size: int, length: int) -> tuple[str, ...]:
    return (
        "EECS 182 calls one-hot positions not learnable, unlike sines. Neither encoding is learned: both are "
        "constants. The weight matrix of the next layer is learned. For each of its outputs it has "
        f"{length:,} weights for one-hot vectors, of which a position uses one, and {size:,} for sinusoidal vectors, "
        "which all positions share. The column of a position has the effect of a learned embedding of it.",
    )


def _range_table(ranges: dict[FirstFrequency, tuple[float, float]], size: int) -> Table:
    rows = [
        (Formula(f"k from {first} to {size // 2 - 1 + first}"), *(format_number(end / (2 * pi)) for end in ends))
        for first, ends in ranges.items()
    ]
    stated = ("as EECS 182 states", format_number(1.0), format_number(10_000.0))
    return Table(("pairs", "first, times 2π", "last, times 2π"), (*rows, stated))


def _wavelength_table(waves: list[float], first: int) -> Table:
    """Some of the pairs, evenly spaced from the first to the last."""
    last = len(waves) - 1
    shown = sorted({round(last * part / (TABLE_WAVELENGTHS - 1)) for part in range(TABLE_WAVELENGTHS)})
    rows = [
        (str(first + k), f"{2 * k}, {2 * k + 1}", format_number(waves[k]), format_number(waves[k] / (2 * pi)))
        for k in shown
    ]
    return Table((Formula("pair k"), "elements", "wavelength", "times 2π"), tuple(rows))
