"""Attention treats states as a set: permuting the states permutes the weights and does not change the context.

    h'_i = h_π(i)        α'_i = α_π(i)        c' = Σ_i α'_i h'_i = c

QTM 447 (docs/sources.md) states this property. It no longer holds if positions are part of the states: the contents are
permuted and the positions are not. The mechanisms and position encodings are those of `regard.nn`, with random weights,
in double precision. Shapes: states [1, positions, size], one query.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import torch
from torch import Tensor

from regard.errors import UserError
from regard.laboratory.attention_by_hand import matrix_tensor
from regard.laboratory.formatting import format_number
from regard.laboratory.lab_report import LabReport
from regard.laboratory.matrix_parsing import Matrix
from regard.laboratory.worked_steps import WEIGHT_SCALE, grid_of, indexed, steps_report
from regard.nn import (
    AddedSinusoidalPositions,
    AdditiveAttention,
    Attention,
    BilinearAttention,
    DotAttention,
    MultiHeadAttention,
    OneHotPositions,
    Positions,
    ScaledDotAttention,
    SinusoidalPositions,
)
from regard.plotting.matrix_steps import ColorScale, Grid
from regard.plotting.symbols import Formula
from regard.reports.report_page import ReportSection, Table
from regard.seeding import seed_for
from regard.torch_state import private_torch_state

POSITIONS, SIZE = 5, 3  # of random states
HEADS = 2
NO_POSITIONS = "none"
STATE_SCALE = ColorScale("states and contexts")
LEAD = "Attention treats states as a set: permuting the states permutes the weights and leaves the context unchanged."


@dataclass(frozen=True)
class PermutationEffect:
    """How permuted states change the result of a mechanism.

    Args:
        mechanism: The name of the mechanism.
        positions: The position encoding of the states.
        weights: The largest |α'_i − α_π(i)|.
        context: The largest |c' − c|.
    """

    mechanism: str
    positions: str
    weights: float
    context: float


@private_torch_state()
def set_report(states: Matrix | None = None, permutation: Sequence[int] | None = None, *, seed: int = 1) -> LabReport:
    """Attention to states in two orders, without and with positions.

    Args:
        states: h_i, one per row; None: random states.
        permutation: Which state comes first, second, …, counted from 1: (3, 1, 2) is h_3, h_1, h_2; None: the reverse
            order.
        seed: The seed of the random states, queries and weights.

    Raises:
        UserError: If there are fewer than two states, or if the permutation is not one of them.
    """
    torch.manual_seed(seed_for(seed, "set"))
    h = torch.randn(1, POSITIONS, SIZE, dtype=torch.float64, device="cpu") if states is None else matrix_tensor(states)
    count, size = h.shape[1:]
    order = _check_permutation(permutation, count)

    results: dict[str, tuple[Tensor, ...]] = {}  # of the mechanisms without positions, for the picture
    effects = []
    for name, encoding in _encodings(size, count).items():
        first, second = encoding(h), encoding(h[:, order])
        query = torch.randn(1, 1, encoding.size, dtype=h.dtype, device="cpu")
        for mechanism, attention in _mechanisms(encoding.size).items():
            c, a = _attend(attention, query, first)
            c_2, a_2 = _attend(attention, query, second)
            effects.append(PermutationEffect(mechanism, name, _largest(a_2 - a[:, order]), _largest(c_2 - c)))
            if name == NO_POSITIONS:
                results[mechanism] = (a, a_2, c, c_2)
    groups = {"States": _state_grids(h, order), **_result_grids(results, order)}
    facts = {
        "numbers": f"random, seed {seed}" if states is None else f"your own; weights random, seed {seed}",
        "order": Formula(", ".join(f"h_{index + 1}" for index in order)),
    }
    data = {
        "permutation": [index + 1 for index in order],
        "seed": seed,
        "effects": [asdict(effect) for effect in effects],
    }
    sections = [_effect_section(effects)]
    return steps_report("Attention treats states as a set", LEAD, facts, groups, {}, data, sections)


def _check_permutation(permutation: Sequence[int] | None, count: int) -> list[int]:
    """The indices of the states, from 0, for a permutation of the numbers 1 to count."""
    if count < 2:
        raise UserError("--states has 1 row; a permutation needs at least two states")
    states = range(1, count + 1)
    order = list(reversed(states) if permutation is None else permutation)
    if sorted(order) != list(states):
        raise UserError(
            f"--permutation {','.join(map(str, order))} is not a permutation of {count} states; it needs each of the "
            f"numbers 1 to {count} once, such as {','.join(map(str, reversed(states)))}"
        )
    if order == list(states):
        raise UserError("--permutation leaves every state in its place; give another order")
    return [number - 1 for number in order]


def _encodings(size: int, count: int) -> dict[str, Positions]:
    """No positions, and three encodings."""
    return {
        NO_POSITIONS: Positions(size),
        "sine, added": AddedSinusoidalPositions(size),
        "sine, concatenated": SinusoidalPositions(size, width=4),
        "one-hot, concatenated": OneHotPositions(size, max_length=count),
    }


def _mechanisms(size: int) -> dict[str, Attention]:
    """Mechanisms for queries and states of this size, with random weights."""
    known: dict[str, Attention] = {
        "dot": DotAttention(size, size),
        "scaled-dot": ScaledDotAttention(size, size),
        "bilinear": BilinearAttention(size, size),
        "additive": AdditiveAttention(size, size),
        "multi-head": MultiHeadAttention(size, size, heads=HEADS, key_size=HEADS * size),
    }
    return {name: attention.double().requires_grad_(False) for name, attention in known.items()}


def _attend(attention: Attention, query: Tensor, states: Tensor) -> tuple[Tensor, Tensor]:
    """The context [size] and the weights [heads, positions] of one query; one head for most mechanisms."""
    valid = torch.ones(states.shape[:2], dtype=torch.bool, device=states.device)
    context, weights = attention(query, attention.prepare(states, valid))
    return context[0, 0], weights.flatten(0, -2)


def _largest(difference: Tensor) -> float:
    return difference.abs().max().item()


def _state_grids(h: Tensor, order: list[int]) -> list[Grid]:
    names = indexed("h", h.shape[1])
    return [
        grid_of("H", "states", h, names, scale=STATE_SCALE),
        grid_of("H'", "the same states, permuted", h[:, order], [names[index] for index in order], scale=STATE_SCALE),
    ]


def _result_grids(results: dict[str, tuple[Tensor, ...]], order: list[int]) -> dict[str, list[Grid]]:
    """Weights and contexts of each mechanism, of the states and of the permuted states."""
    heads = [
        name if len(a) == 1 else f"{name} {head}" for name, (a, *_) in results.items() for head in range(1, len(a) + 1)
    ]
    states = indexed("h", len(order))
    permuted = [states[index] for index in order]
    a, a_2 = (torch.cat([result[part] for result in results.values()])[None] for part in (0, 1))
    c, c_2 = (torch.stack([result[part] for result in results.values()])[None] for part in (2, 3))
    return {
        "Weights": [
            grid_of("α", "weights", a, heads, states, WEIGHT_SCALE),
            grid_of("α'", "weights of the permuted states", a_2, heads, permuted, WEIGHT_SCALE),
        ],
        "Contexts": [
            grid_of("c", "contexts", c, list(results), scale=STATE_SCALE),
            grid_of("c'", "contexts of the permuted states", c_2, list(results), scale=STATE_SCALE),
        ],
    }


def _effect_section(effects: list[PermutationEffect]) -> ReportSection:
    mechanisms = list(dict.fromkeys(effect.mechanism for effect in effects))
    encodings = list(dict.fromkeys(effect.positions for effect in effects))
    of = {(effect.mechanism, effect.positions): effect for effect in effects}
    tables = [
        Table(
            ("mechanism", *("no positions" if name == NO_POSITIONS else name for name in encodings)),
            tuple(
                (mechanism, *(format_number(getattr(of[mechanism, name], part)) for name in encodings))
                for mechanism in mechanisms
            ),
            caption,
        )
        for part, caption in (("context", "Largest |c' − c|"), ("weights", "Largest |α'_i − α_π(i)|"))
    ]
    plain = max(max(each.weights, each.context) for each in effects if each.positions == NO_POSITIONS)
    changed = [each.context for each in effects if each.positions != NO_POSITIONS]
    text = (
        "Without positions, no weight of a state and no entry of a context changes by more than "
        f"{format_number(plain)}, which is rounding.",
        "With positions, the contents are permuted and the positions stay in place: then the context depends on the "
        f"order. It differs by {format_number(min(changed))} to {format_number(max(changed))}.",
    )
    return ReportSection("Largest differences", text, tuple(tables))
