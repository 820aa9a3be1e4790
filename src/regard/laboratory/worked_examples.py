"""Worked examples of attention, in steps that can be checked by hand.

The numbers come from the code that models are trained with, in 64 bits. Letters say where an example comes from: D the
discussion sheet, S the slides. Shapes: everything has a batch of one.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.errors import UserError
from regard.laboratory.formatting import format_number
from regard.laboratory.lab_report import LabReport
from regard.laboratory.matrix_parsing import Matrix
from regard.laboratory.worked_steps import count, step, tell
from regard.nn import DotAttention, Memory, ScaledDotAttention, attend

# D: three states, and what they are multiplied with.
STATES: Matrix = ((5, 1), (4, 3), (-2, 6))
QUERY_WEIGHTS: Matrix = ((1, 0), (2, 9))
KEY_WEIGHTS: Matrix = ((0, 1), (6, 0))
VALUE_WEIGHTS: Matrix = ((4, 3), (9, 1))
SHEET = (STATES, QUERY_WEIGHTS, KEY_WEIGHTS, VALUE_WEIGHTS)
# S: two rows of scores; weights over three values.
SCORES: Matrix = ((0.1, 0.9, 0.3), (0.2, 0.8, 0.3))
WEIGHTS: Matrix = ((0.15, 0.70, 0.15),)
VALUES: Matrix = ((0.1, 0.2), (0.7, 0.4), (0.3, 0.6))

LARGEST_EXPONENT = 700  # 64 bits cannot hold exp of much more
PRINTED = "What the slides print"


def scaled_dot(query_weights: Tensor, key_weights: Tensor) -> ScaledDotAttention:
    """e_ti = W_q s_t · W_k h_i / √d with these weights [key, size], in 64 bits."""
    key_size, query_size = query_weights.shape
    attention = ScaledDotAttention(query_size, key_weights.shape[1], key_size=key_size).double()
    attention.load_state_dict({"query_layer.weight": query_weights, "key_layer.weight": key_weights})
    return attention.requires_grad_(False)


def qkv_report(
    states: Matrix = STATES,
    query_weights: Matrix = QUERY_WEIGHTS,
    key_weights: Matrix = KEY_WEIGHTS,
    value_weights: Matrix = VALUE_WEIGHTS,
    *,
    scaled: bool = False,
    hard: bool = False,
) -> LabReport:
    """D: q_i = W_q h_i, k_i = W_k h_i, v_i = W_v h_i, e_ti = q_t · k_i, α_t = softmax(e_t), y_t = Σ_i α_ti v_i."""
    given = (states, query_weights, key_weights, value_weights)
    check_sizes(*given)
    h, w_q, w_k, w_v = map(tensor, given)
    q, k, v = h @ w_q.mT, h @ w_k.mT, h @ w_v.mT  # [1, positions, size]: a row is W h
    d = q.shape[-1]
    e = scaled_dot(w_q[0], w_k[0]).score(h, k) if scaled else DotAttention(d, d).score(q, k)
    y, a = attend(e, memory(v), hard=hard)  # [1, positions, value], [1, positions, positions]

    positions = len(states)
    groups = {
        "What is given": [
            step("H", "states", h, count("h", positions)),
            step("W_q", "for queries", w_q, count("", d)),
            step("W_k", "for keys", w_k, count("", d)),
            step("W_v", "for values", w_v, count("", len(value_weights))),
        ],
        "Queries, keys and values": [
            step("Q", "q_i = W_q h_i", q, count("q", positions)),
            step("K", "k_i = W_k h_i", k, count("k", positions)),
            step("V", "v_i = W_v h_i", v, count("v", positions)),
        ],
        "Scores, weights and outputs": [
            step("E", "e_ti = q_t · k_i" + f" / √{d}" * scaled, e, count("q", positions), count("k", positions)),
            step(
                "A",
                "α_ti = 1 where e_ti is highest" if hard else "α_t = softmax(e_t)",
                a,
                count("α", positions),
                count("v", positions),
            ),
            step("Y", "y_t = Σ_i α_ti v_i", y, count("y", positions)),
        ],
    }
    facts = {
        "numbers": "those of the discussion sheet" if given == SHEET else "your own",
        "scores": f"divided by √d = √{d}" if scaled else "not divided by √d; --scaled does it",
        "weights": "argmax" if hard else "softmax; --hard takes argmax",
    }
    lead = "Self-attention: each state asks all of them, itself too, and gets a weighted sum of their values."
    remarks = {"What to see": far_apart(e, a)} if given == SHEET else {}
    return tell("Queries, keys and values", lead, facts, groups, remarks, {"scaled": scaled, "hard": hard})


def far_apart(scores: Tensor, weights: Tensor) -> str:
    """D asks what becomes of its second query."""
    (first, second, _), weight = scores[0, 1].tolist(), weights[0, 1, 1].item()
    return (
        f"q_2 scores {format_number(first)} with k_1 and {format_number(second)} with k_2. That leaves v_2 a weight of "
        f"{format_number(weight)}, so y_2 is v_1 = (23, 46): with scores this far apart, softmax is as hard as argmax."
    )


def check_sizes(states: Matrix, query_weights: Matrix, key_weights: Matrix, value_weights: Matrix) -> None:
    """W h takes as many columns as h has numbers, and q · k as many numbers in q as in k."""
    size = len(states[0])
    for name, weights in (("query", query_weights), ("key", key_weights), ("value", value_weights)):
        if len(weights[0]) != size:
            raise UserError(
                f"--{name}-weights has rows of {len(weights[0])} numbers, but the rows of --states have {size}; "
                "they must be equal to be multiplied"
            )
    if len(query_weights) != len(key_weights):
        raise UserError(
            f"--query-weights has {len(query_weights)} rows and --key-weights {len(key_weights)}; they must be equal, "
            "so that queries and keys are of one size"
        )


def softmax_report(scores: Matrix = SCORES) -> LabReport:
    """S: α_i = exp(e_i) / Σ_j exp(e_j), for each row of scores."""
    e = tensor(scores)
    rows, positions = e.shape[1:]
    _, a = attend(e, memory(torch.eye(positions, dtype=e.dtype)[None]))
    # Taking the same from all scores of a row changes no weight, and keeps exp within what 64 bits can hold.
    plain = bool(e.abs().max() <= LARGEST_EXPONENT)
    powers = (e if plain else e - e.amax(-1, keepdim=True)).exp()
    powers = torch.cat([powers, powers.sum(-1, keepdim=True)], -1)  # [1, rows, positions + 1]
    power = "exp(e_i)" if plain else "exp(e_i − max e)"
    names = [f"row {number}" for number in range(1, rows + 1)]
    groups = {
        "Step by step": [
            step("e", "scores", e, names, count("e", positions)),
            step(power, "each, and their sum", powers, names, [*count("", positions), "Σ"]),
            step("α", f"α_i = {power} / Σ", a, names, count("α", positions)),
        ]
    }
    facts = {"numbers": "those of the slides" if scores == SCORES else "your own"}
    lead = "Softmax makes weights of scores: none below zero, 1 in all, and more for a higher score."
    remarks = {}
    if scores == SCORES:
        right = ", ".join(f"{weight:.4f}" for weight in a[0, 0].tolist())
        remarks[PRINTED] = (
            f"For the scores 0.1, 0.9, 0.3 the slides print the weights 0.15, 0.70, 0.15; right are {right}. Weights "
            f"have the ratios of exp(e_i), and exp(0.9) is only {(a[0, 0, 1] / a[0, 0, 0]).item():.2f} times exp(0.1), "
            f"where 0.70 would be {0.70 / 0.15:.2f} times 0.15. Nor can 0.1 and 0.3 have the same weight."
        )
    return tell("From scores to weights", lead, facts, groups, remarks, {})


def context_report(weights: Matrix = WEIGHTS, values: Matrix = VALUES) -> LabReport:
    """S: c = Σ_i α_i v_i."""
    check_weights(weights, len(values))
    v = tensor(values)
    c, a = attend(tensor(weights).log(), memory(v))  # softmax(log α) is α, since all α sum to 1
    positions = len(values)
    groups = {
        "Step by step": [
            step("α", "weights", a.mT, count("α", positions), ["α_i"]),
            step("V", "values", v, count("v", positions)),
            step("α_i v_i", "weighted values", a.mT * v, [f"α_{i} v_{i}" for i in count("", positions)]),
            step("c", "c = Σ_i α_i v_i", c, ["c"]),
        ]
    }
    slides = (weights, values) == (WEIGHTS, VALUES)
    facts = {"numbers": "those of the slides" if slides else "your own"}
    lead = "The context is a weighted sum of the values: a value with a weight of 1 would be copied."
    remarks = {}
    if slides:
        first, second = c[0, 0].tolist()
        remarks[PRINTED] = (
            f"The slides print 0.46. Right is c = ({first:.2f}, {second:.2f}): 0.15 · 0.1 + 0.70 · 0.7 + 0.15 · 0.3 = "
            f"{first:.2f}, and 0.15 · 0.2 + 0.70 · 0.4 + 0.15 · 0.6 = {second:.2f}; neither sum is 0.46."
        )
    return tell("From weights to a context", lead, facts, groups, remarks, {})


def check_weights(weights: Matrix, values: int) -> None:
    """One row, a weight for each value, none below zero, 1 in all."""
    if len(weights) != 1:
        raise UserError(f"--weights has {len(weights)} rows; one context takes one row of weights")
    if len(weights[0]) != values:
        raise UserError(f"--weights has {len(weights[0])} numbers, but --values has {values} rows; each needs a weight")
    if min(weights[0]) < 0:
        raise UserError(f"--weights has {format_number(min(weights[0]))}; no weight is below zero")
    if abs(sum(weights[0]) - 1) > 1e-6:
        raise UserError(f"--weights sum to {sum(weights[0]):.6g}; weights of attention sum to 1")


def tensor(matrix: Matrix) -> Tensor:
    return torch.tensor(matrix, dtype=torch.float64).unsqueeze(0)  # [1, rows, columns]


def memory(values: Tensor, keys: Tensor | None = None) -> Memory:
    """These values, all of which may be attended to. Keys are not needed where scores are known."""
    return Memory(values if keys is None else keys, values, torch.ones(1, 1, values.shape[1], dtype=torch.bool))
