"""Worked examples of attention, in steps that can be checked by hand.

The numbers are computed by `regard.nn`, in double precision. The examples are from EECS 182 Discussion 8 and from the
Week 4 slides (docs/sources.md). Shapes: every tensor has a batch size of one.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from regard.errors import UserError
from regard.laboratory.attention_by_hand import matrix_tensor, scaled_dot_attention, unmasked_memory
from regard.laboratory.formatting import format_number
from regard.laboratory.lab_report import LabReport
from regard.laboratory.matrix_parsing import Matrix
from regard.laboratory.worked_steps import WEIGHT_SCALE, grid_of, indexed, steps_report
from regard.nn import DotAttention, attend
from regard.plotting.matrix_steps import ColorScale, Grid

# EECS 182: three states and three weight matrices.
STATES: Matrix = ((5, 1), (4, 3), (-2, 6))
QUERY_WEIGHTS: Matrix = ((1, 0), (2, 9))
KEY_WEIGHTS: Matrix = ((0, 1), (6, 0))
VALUE_WEIGHTS: Matrix = ((4, 3), (9, 1))
EECS_182 = (STATES, QUERY_WEIGHTS, KEY_WEIGHTS, VALUE_WEIGHTS)
# Week 4 slides: two rows of scores; weights over three values.
SCORES: Matrix = ((0.1, 0.9, 0.3), (0.2, 0.8, 0.3))
WEIGHTS: Matrix = ((0.15, 0.70, 0.15),)
VALUES: Matrix = ((0.1, 0.2), (0.7, 0.4), (0.3, 0.6))

# Scores are much larger than what they are computed from: one color scale for each kind of number.
INPUT_SCALE, PROJECTION_SCALE = ColorScale("states and weight matrices"), ColorScale("queries, keys, values, outputs")
SCORE_SCALE, POWER_SCALE, VALUE_SCALE = ColorScale("scores"), ColorScale("exponentials"), ColorScale("values")

LARGEST_EXPONENT = 700  # exp of much more overflows in double precision
ERRATUM = "Erratum in the Week 4 slides"


def qkv_report(
    states: Matrix = STATES,
    query_weights: Matrix = QUERY_WEIGHTS,
    key_weights: Matrix = KEY_WEIGHTS,
    value_weights: Matrix = VALUE_WEIGHTS,
    *,
    scaled: bool = False,
    hard: bool = False,
) -> LabReport:
    """Self-attention of EECS 182 Discussion 8, or of other matrices.

    q_i = W_q h_i, k_i = W_k h_i, v_i = W_v h_i, e_ti = q_t · k_i, α_t = softmax(e_t), y_t = Σ_i α_ti v_i.

    Args:
        states: h_i, one per row.
        query_weights: W_q.
        key_weights: W_k.
        value_weights: W_v.
        scaled: Divide the scores by √d.
        hard: Take the position with the highest score (argmax) in place of softmax.
    """
    given = (states, query_weights, key_weights, value_weights)
    _check_sizes(*given)
    h, w_q, w_k, w_v = map(matrix_tensor, given)
    q, k, v = h @ w_q.mT, h @ w_k.mT, h @ w_v.mT  # [1, positions, size]: a row is W h
    d = q.shape[-1]
    e = scaled_dot_attention(w_q[0], w_k[0]).score(h, k) if scaled else DotAttention(d, d).score(q, k)
    y, a = attend(
        e, unmasked_memory(v), "hard" if hard else "softmax"
    )  # [1, positions, value], [1, positions, positions]

    inputs = {"H": h, "W_q": w_q, "W_k": w_k, "W_v": w_v}
    groups = _self_attention_steps(inputs, {"Q": q, "K": k, "V": v, "E": e, "A": a, "Y": y}, scaled=scaled, hard=hard)
    facts = {
        "numbers": "EECS 182 Discussion 8" if given == EECS_182 else "your own",
        "scores": f"divided by √d = √{d}" if scaled else "not divided by √d; use --scaled to divide",
        "weights": "argmax" if hard else "softmax; use --hard for argmax",
    }
    lead = "Self-attention: each state attends to all states, itself included; its output is a weighted sum of values."
    remarks = {"Softmax and argmax": _compare_with_argmax(e, a)} if given == EECS_182 else {}
    return steps_report("Queries, keys and values", lead, facts, groups, remarks, {"scaled": scaled, "hard": hard})


def _self_attention_steps(
    inputs: Mapping[str, Tensor], results: Mapping[str, Tensor], *, scaled: bool, hard: bool
) -> dict[str, list[Grid]]:
    """The matrices of self-attention, [1, rows, columns] each, by their symbols, as the steps of a report."""
    h, w_q, w_k, w_v = inputs.values()
    q, k, v, e, a, y = results.values()
    positions, d = h.shape[1], q.shape[-1]
    scores = "e_ti = q_t · k_i" + f" / √{d}" * scaled
    weights = "α_ti = 1 where e_ti is highest" if hard else "α_t = softmax(e_t)"
    return {
        "Inputs": [
            grid_of("H", "states", h, indexed("h", positions), scale=INPUT_SCALE),
            grid_of("W_q", "query weights", w_q, indexed("", d), scale=INPUT_SCALE),
            grid_of("W_k", "key weights", w_k, indexed("", d), scale=INPUT_SCALE),
            grid_of("W_v", "value weights", w_v, indexed("", w_v.shape[1]), scale=INPUT_SCALE),
        ],
        "Queries, keys and values": [
            grid_of("Q", "q_i = W_q h_i", q, indexed("q", positions), scale=PROJECTION_SCALE),
            grid_of("K", "k_i = W_k h_i", k, indexed("k", positions), scale=PROJECTION_SCALE),
            grid_of("V", "v_i = W_v h_i", v, indexed("v", positions), scale=PROJECTION_SCALE),
        ],
        "Scores, weights and outputs": [
            grid_of("E", scores, e, indexed("q", positions), indexed("k", positions), SCORE_SCALE),
            grid_of("A", weights, a, indexed("α", positions), indexed("v", positions), WEIGHT_SCALE),
            grid_of("Y", "y_t = Σ_i α_ti v_i", y, indexed("y", positions), scale=PROJECTION_SCALE),
        ],
    }


def _compare_with_argmax(scores: Tensor, weights: Tensor) -> str:
    """The question of EECS 182 about the second query."""
    (first, second, _), weight = scores[0, 1].tolist(), weights[0, 1, 1].item()
    return (
        f"q_2 scores {format_number(first)} with k_1 and {format_number(second)} with k_2. The weight of v_2 is "
        f"{format_number(weight)}, so y_2 is v_1 = (23, 46): for scores this far apart, softmax equals argmax."
    )


def _check_sizes(states: Matrix, query_weights: Matrix, key_weights: Matrix, value_weights: Matrix) -> None:
    """W h needs as many columns in W as h has numbers; q · k needs q and k of the same size."""
    size = len(states[0])
    for name, weights in (("query", query_weights), ("key", key_weights), ("value", value_weights)):
        if len(weights[0]) != size:
            raise UserError(
                f"--{name}-weights has rows of {len(weights[0])} numbers, but the rows of --states have {size}; "
                "both must be equal"
            )
    if len(query_weights) != len(key_weights):
        raise UserError(
            f"--query-weights has {len(query_weights)} rows and --key-weights {len(key_weights)}; both must be equal, "
            "because queries and keys have the same size"
        )


def softmax_report(scores: Matrix = SCORES) -> LabReport:
    """Softmax of the scores of the Week 4 slides, or of others: α_i = exp(e_i) / Σ_j exp(e_j).

    Args:
        scores: Rows of scores.
    """
    e = matrix_tensor(scores)
    rows, positions = e.shape[1:]
    _, a = attend(e, unmasked_memory(torch.eye(positions, dtype=e.dtype, device=e.device)[None]))
    # Subtracting a constant from a row changes no weight and prevents overflow.
    plain = bool(e.abs().max() <= LARGEST_EXPONENT)
    powers = (e if plain else e - e.amax(-1, keepdim=True)).exp()
    powers = torch.cat([powers, powers.sum(-1, keepdim=True)], -1)  # [1, rows, positions + 1]
    power = "exp(e_i)" if plain else "exp(e_i − max e)"
    names = [f"row {number}" for number in range(1, rows + 1)]
    groups = {
        "Step by step": [
            grid_of("e", "scores", e, names, indexed("e", positions), SCORE_SCALE),
            grid_of(power, "exponentials and their sum", powers, names, [*indexed("", positions), "Σ"], POWER_SCALE),
            grid_of("α", f"α_i = {power} / Σ", a, names, indexed("α", positions), WEIGHT_SCALE),
        ]
    }
    facts = {"numbers": "the Week 4 slides" if scores == SCORES else "your own"}
    lead = "Softmax turns scores into weights that are not negative, sum to 1 and increase with the score."
    remarks = {}
    if scores == SCORES:
        remarks[ERRATUM] = _softmax_erratum(a)
    return steps_report("From scores to weights", lead, facts, groups, remarks, {})


def _softmax_erratum(weights: Tensor) -> str:
    """The correct weights [1, 2, 3] of both examples of the Week 4 slides, and the contexts that they would give."""
    first, second = (", ".join(f"{weight:.4f}" for weight in row) for row in weights[0].tolist())
    contexts = [", ".join(f"{entry:.4f}" for entry in row) for row in (weights @ matrix_tensor(VALUES))[0].tolist()]
    return (
        f"For the scores 0.1, 0.9, 0.3 the Week 4 slides print the weights 0.15, 0.70, 0.15; correct are {first}. "
        f"Weights have the ratios of exp(e_i), and exp(0.9) is only {(weights[0, 0, 1] / weights[0, 0, 0]).item():.2f} "
        f"times exp(0.1), while 0.70 is {0.70 / 0.15:.2f} times 0.15. Different scores, such as 0.1 and 0.3, cannot "
        f"have equal weights. For the second example, the scores 0.2, 0.8, 0.3, the correct weights are {second}. "
        "Over the values (0.1, 0.2), (0.7, 0.4), (0.3, 0.6) of the Week 4 slides, the context would be "
        f"({contexts[0]}) for the first example and ({contexts[1]}) for the second; the printed weights give "
        "(0.55, 0.40), and the Week 4 slides print 0.46."
    )


def context_report(weights: Matrix = WEIGHTS, values: Matrix = VALUES) -> LabReport:
    """The context vector of the Week 4 slides, or of other weights and values: c = Σ_i α_i v_i.

    Args:
        weights: One row of weights that sum to 1.
        values: One value per row.
    """
    _check_weights(weights, len(values))
    v = matrix_tensor(values)
    c, a = attend(matrix_tensor(weights).log(), unmasked_memory(v))  # softmax(log α) = α, because α sums to 1
    positions = len(values)
    products = [f"α_{i} v_{i}" for i in indexed("", positions)]
    groups = {
        "Step by step": [
            grid_of("α", "weights", a.mT, indexed("α", positions), ["α_i"], WEIGHT_SCALE),
            grid_of("V", "values", v, indexed("v", positions), scale=VALUE_SCALE),
            grid_of("α_i v_i", "weighted values", a.mT * v, products, scale=VALUE_SCALE),
            grid_of("c", "c = Σ_i α_i v_i", c, ["c"], scale=VALUE_SCALE),
        ]
    }
    slides = (weights, values) == (WEIGHTS, VALUES)
    facts = {"numbers": "the Week 4 slides" if slides else "your own"}
    lead = "The context is the weighted sum of the values; a value with weight 1 is copied."
    remarks = {}
    if slides:
        first, second = c[0, 0].tolist()
        correct = attend(matrix_tensor(SCORES), unmasked_memory(v))[0][0, 0].tolist()
        remarks[ERRATUM] = (
            f"The Week 4 slides print 0.46. Correct is c = ({first:.2f}, {second:.2f}): "
            f"0.15 · 0.1 + 0.70 · 0.7 + 0.15 · 0.3 = {first:.2f}, and "
            f"0.15 · 0.2 + 0.70 · 0.4 + 0.15 · 0.6 = {second:.2f}; neither sum is 0.46. With the correct "
            f"weights of the scores 0.1, 0.9, 0.3 the context is ({correct[0]:.4f}, {correct[1]:.4f}), and "
            f"{correct[0]:.4f} rounds to 0.46."
        )
    return steps_report("From weights to a context", lead, facts, groups, remarks, {})


def _check_weights(weights: Matrix, values: int) -> None:
    """Weights are one row with one weight per value, not negative, with sum 1."""
    if len(weights) != 1:
        raise UserError(f"--weights has {len(weights)} rows; a context needs one row of weights")
    if len(weights[0]) != values:
        raise UserError(
            f"--weights has {len(weights[0])} numbers, but --values has {values} rows; each value needs one weight"
        )
    if min(weights[0]) < 0:
        raise UserError(f"--weights has {format_number(min(weights[0]))}; weights cannot be negative")
    if abs(sum(weights[0]) - 1) > 1e-6:
        raise UserError(f"--weights sum to {sum(weights[0]):.6g}; attention weights must sum to 1")
