"""The worked encoder: the steps by hand are what the cells of torch compute."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.errors import UserError
from regard.laboratory.worked_cells import GATES, STEPS, CellWeights, cell_with_weights
from regard.laboratory.worked_encoder import WEIGHTS_OF_CELL, encoder_report

Regard = Callable[..., Any]
TORCH_CELLS = {"tanh": torch.nn.RNNCell, "gru": torch.nn.GRUCell, "lstm": torch.nn.LSTMCell}


def grid(report: Any, symbol: str) -> list[list[float]]:
    (found,) = (step["numbers"] for step in report.data["steps"] if step["symbol"] == symbol)
    return found


def random_matrix(rows: int, columns: int, seed: int) -> tuple[tuple[float, ...], ...]:
    generator = torch.Generator().manual_seed(seed)
    return tuple(map(tuple, torch.randn(rows, columns, generator=generator, dtype=torch.float64).tolist()))


def test_first_steps_of_the_tanh_cell_by_hand() -> None:
    report = encoder_report()
    first, second = grid(report, "Step 1: The"), grid(report, "Step 2: cat")
    assert first[0] == pytest.approx([0.5 * 0.1 - 0.3 * 0.3 + 0.8 * 0.2, -0.6 * 0.1 + 0.9 * 0.3 + 0.3 * 0.2])
    assert first[1] == [0, 0]
    h = [math.tanh(0.12 + 0.1), math.tanh(0.27 - 0.1)]
    assert first[-1] == pytest.approx(h)
    assert second[1] == pytest.approx([0.4 * h[0] + 0.1 * h[1], -0.2 * h[0] + 0.6 * h[1]])
    assert second[3] == pytest.approx([0.74 + second[1][0] + 0.1, -0.33 + second[1][1] - 0.1])
    assert grid(report, "c") == [grid(report, "H")[2]]


@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize("biases", [1, 2])
def test_steps_equal_the_cells_of_torch(kind: str, biases: int) -> None:
    """Two sizes that differ, random weights, three steps; the cells of torch are an independent reference."""
    rows = len(GATES[kind]) * 5
    weights = CellWeights(random_matrix(rows, 3, 1), random_matrix(rows, 5, 2), random_matrix(biases, rows, 3))
    cell = TORCH_CELLS[kind](3, 5).double()
    b_x, b_h = weights.biases()
    tensors = {"weight_ih": weights.input_weights, "weight_hh": weights.state_weights, "bias_ih": b_x, "bias_hh": b_h}
    cell.load_state_dict({name: torch.as_tensor(value, dtype=torch.float64) for name, value in tensors.items()})
    inputs = torch.tensor(random_matrix(3, 3, 4), dtype=torch.float64)
    state = tuple(torch.zeros(5, dtype=torch.float64) for _ in range(2 if kind == "lstm" else 1))
    states, _ = cell_with_weights(kind, weights)(inputs[None])
    expected: Any = state if kind == "lstm" else state[0]
    for t, x in enumerate(inputs, start=1):
        shown, state = STEPS[kind](weights, x, state, t, f"x_{t}")
        expected = cell(x, expected)
        assert torch.allclose(state[0], expected[0] if kind == "lstm" else expected, atol=1e-14)
        assert torch.allclose(state[0], states[0, t - 1], atol=1e-14)
        assert torch.equal(list(shown.values())[-1], state[0])


@pytest.mark.parametrize("kind", WEIGHTS_OF_CELL)
def test_every_cell_has_its_example(kind: str) -> None:
    report = encoder_report(cell=kind)
    assert report.data["max_difference"] < 1e-15
    weights, step = (
        next(each["rows"] for each in report.data["steps"] if each["symbol"] == symbol)
        for symbol in ("W_xh", "Step 1: The")
    )
    gates = GATES[kind]
    assert weights == (["1", "2"] if kind == "tanh" else [f"{gate}_{index}" for gate in gates for index in (1, 2)])
    assert kind == "tanh" or [name for name in step if name in {f"a_{gate}" for gate in gates}] == [
        f"a_{gate}" for gate in gates
    ], "the sums of a step are in the order of the blocks"


@pytest.mark.parametrize("kind", GATES)
def test_the_context_has_the_same_shape_for_every_length(kind: str) -> None:
    two, seven = encoder_report(cell=kind).data["shapes"]
    assert (two["ids"], two["embedded"], two["context"]) == ([2, 1], [2, 1, 100], [1, 1, 256])
    assert (seven["ids"], seven["states"], seven["context"]) == ([7, 1], [7, 1, 256], [1, 1, 256])
    assert two["context_bits"] == 8192
    assert "256 · 32 = 8192 bits" in encoder_report(cell=kind).data["remarks"]["Bits and numbers"]


def test_the_random_state_of_the_caller_is_not_changed() -> None:
    before = torch.random.get_rng_state()
    encoder_report()
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"cell": "rnn"}, "--cell: there is no cell 'rnn'; choices: tanh, gru, lstm"),
        ({"cell": "./code.py:Cell"}, "--cell: there is no cell"),
        ({"cell": "ssru"}, "--cell: there is no worked example of 'ssru'; choices: tanh, gru, lstm"),
        ({"words": " "}, "--words has 0 words"),
        ({"words": "a " * 51}, "--words has 51 words; it can have from 1 to 50"),
        ({"words": "a " + "b" * 41}, "--words has a word of 41 characters"),
        ({"words": "The cat"}, "--embeddings has 3 rows, but needs 2: one row for each word of --words"),
        ({"embeddings": ((1, 2),) * 3}, "--embeddings has 2 columns, but needs 3: as many as --input-weights has"),
        ({"state_weights": ((1, 2, 3),) * 2}, "--state-weights has 2 rows, but needs 3"),
        ({"input_weights": ((1, 2, 3),)}, "--input-weights has 1 rows, but needs 2"),
        ({"cell": "gru", "input_weights": ((1, 2, 3),) * 2}, "needs 6: .* a gru cell needs 3 × 2 rows"),
        ({"bias": ((1, 2),) * 3}, "--bias has 3 rows, but needs 2: one row, or two as in PyTorch"),
        ({"bias": ((1,),)}, "--bias has 1 columns, but needs 2"),
    ],
)
def test_wrong_shapes_are_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        encoder_report(**options)


def test_the_command_line(regard: Regard, tmp_path: Path) -> None:
    path = tmp_path / "it.png"
    answer = regard("lab", "encoder", "--cell", "lstm", "--out", path)
    assert answer.code == 0, answer.err
    assert path.stat().st_size > 1000
    data = json.loads(regard("lab", "encoder", "--cell", "lstm", "--json").out)
    assert data["cell"] == "lstm"
    own = ("--words", "a b", "--embeddings", "1,2;3,4", "--input-weights", "0.1,0.2", "--state-weights", "0.5")
    data = json.loads(regard("lab", "encoder", *own, "--bias", "0", "--json").out)
    (context,) = (step["numbers"] for step in data["steps"] if step["symbol"] == "c")
    assert context == [[pytest.approx(math.tanh(0.3 + 0.8 + 0.5 * math.tanh(0.5)))]]
    assert regard("lab", "encoder", "--cell", "rnn").code == 2


def test_hostile_words_are_shown_literally(regard: Regard, tmp_path: Path) -> None:
    answer = regard("lab", "encoder", "--words", "$x^2$ <b>b</b> \x1b[31m", "--out", tmp_path / "it.html")
    assert answer.code == 0, answer.err
    assert "\x1b" not in answer.out
    assert "<b>b" not in (tmp_path / "it.html").read_text()
