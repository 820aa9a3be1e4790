"""Recurrent cells with given weights, and one step of each in operations that can be checked by hand.

The weights are stacked as in PyTorch: one block of rows per gate, in the order r, z, n for a GRU and i, f, g, o for an
LSTM. Shapes: x_t [input size], h_t [size], both for a batch of one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.config.kinds import CELLS
from regard.errors import UserError, suggest
from regard.laboratory.attention_by_hand import matrix_tensor
from regard.laboratory.matrix_parsing import Matrix, check_shape
from regard.laboratory.worked_steps import indexed
from regard.nn import RecurrentLayers
from regard.plotting.symbols import Formula

Rows = dict[str, Tensor]  # intermediate results [size] by their formulas, in the order of computation
State = tuple[Tensor, ...]  # h, and for an LSTM the memory cell m, [size] each

# The gates of a cell, in the order of their blocks of rows.
GATES: dict[str, tuple[str, ...]] = {"tanh": ("",), "gru": ("r", "z", "n"), "lstm": ("i", "f", "g", "o")}
FORMULAS = {
    "tanh": "h_t = tanh(W_xh x_t + W_hh h_{t-1} + b_h)",
    "gru": "a_r, a_z = W_xh x_t + W_hh h_{t-1} + b for each gate, r = σ(a_r), z = σ(a_z), u = W_hn h_{t-1} + b_hn, "
    "a_n = W_xn x_t + b_xn + r ∘ u, n = tanh(a_n), h_t = (1 − z) ∘ n + z ∘ h_{t-1}",
    "lstm": "a_i, a_f, a_g, a_o = W_xh x_t + W_hh h_{t-1} + b for each gate, i, f, o = σ(a_i), σ(a_f), σ(a_o), "
    "g = tanh(a_g), m_t = f ∘ m_{t-1} + i ∘ g, h_t = o ∘ tanh(m_t)",
}


@dataclass(frozen=True)
class CellWeights:
    """The weights of one cell.

    Args:
        input_weights: W_xh [gates · size, input size].
        state_weights: W_hh [gates · size, size].
        bias: One row of gates · size numbers; or two rows, which PyTorch adds to W_xh x_t and to W_hh h_{t-1}.
    """

    input_weights: Matrix
    state_weights: Matrix
    bias: Matrix

    def check(self, kind: str) -> None:
        """Raise a `UserError` that names the option if the shapes do not fit the cell.

        Args:
            kind: `tanh`, `gru` or `lstm`.
        """
        if kind not in GATES:
            problem = f"no worked example of '{kind}'" if kind in CELLS else f"no cell '{kind}'"
            raise UserError(f"--cell: there is {problem}; {suggest(kind, GATES)}")
        gates, size = len(GATES[kind]), len(self.state_weights[0])
        blocks = f"{gates} × {size}" if gates > 1 else f"{size}"
        reason = f"the state has {size} numbers, the columns of --state-weights, and a {kind} cell needs {blocks} rows"
        check_shape("--state-weights", self.state_weights, gates * size, size, reason)
        check_shape("--input-weights", self.input_weights, gates * size, None, reason)
        numbers = "one row, or two as in PyTorch, with a number for each row of the weights"
        check_shape("--bias", self.bias, min(len(self.bias), 2), gates * size, numbers)

    def biases(self) -> tuple[Tensor, Tensor]:
        """The biases of the input and of the state [gates · size]; the second is 0 if only one is given."""
        first, *second = matrix_tensor(self.bias)[0]
        return first, second[0] if second else torch.zeros_like(first)

    def input_part(self, x: Tensor) -> Tensor:
        """W_xh x_t + b, [gates · size].

        Args:
            x: x_t.
        """
        return matrix_tensor(self.input_weights)[0] @ x + self.biases()[0]

    def state_part(self, h: Tensor) -> Tensor:
        """W_hh h_{t-1} + b', [gates · size].

        Args:
            h: h_{t-1}.
        """
        return matrix_tensor(self.state_weights)[0] @ h + self.biases()[1]


def cell_with_weights(kind: str, weights: CellWeights) -> RecurrentLayers:
    """The cell of `regard.nn` with these weights, in double precision.

    Args:
        kind: `tanh`, `gru` or `lstm`.
        weights: Its weights.
    """
    weights.check(kind)
    cell: RecurrentLayers = CELLS[kind](len(weights.input_weights[0]), len(weights.state_weights[0])).double()
    load_cell(cell, weights)
    return cell.requires_grad_(False)


def load_cell(cell: RecurrentLayers, weights: CellWeights) -> None:
    """Set the weights of a cell of one layer and one direction.

    Args:
        cell: The cell.
        weights: Its weights.
    """
    tensors = matrix_tensor(weights.input_weights)[0], matrix_tensor(weights.state_weights)[0], *weights.biases()
    names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
    cell.load_state_dict({f"recurrence.{name}": tensor for name, tensor in zip(names, tensors, strict=True)})


def tanh_step(weights: CellWeights, x: Tensor, state: State, t: int, x_name: str) -> tuple[Rows, State]:
    """h_t = tanh(W_xh x_t + W_hh h_{t-1} + b_h).

    Args:
        weights: The weights of the cell.
        x: x_t.
        state: The state before the step.
        t: The number of the step, from 1.
        x_name: The symbol of x_t.
    """
    (h,) = state
    b = torch.stack(weights.biases()).sum(0)
    from_input = matrix_tensor(weights.input_weights)[0] @ x
    from_state = matrix_tensor(weights.state_weights)[0] @ h
    a = from_input + from_state + b
    new = torch.tanh(a)
    rows = {
        f"W_xh {x_name}": from_input,
        f"W_hh h_{t - 1}": from_state,
        "b_h": b,
        f"a_{t}, the sum": a,
        f"h_{t} = tanh(a_{t})": new,
    }
    return rows, (new,)


def gru_step(weights: CellWeights, x: Tensor, state: State, t: int, x_name: str) -> tuple[Rows, State]:
    """r, z = σ(a_r), σ(a_z); n = tanh(a_n); h_t = (1 − z) ∘ n + z ∘ h_{t-1}.

    Args:
        weights: The weights of the cell.
        x: x_t.
        state: The state before the step.
        t: The number of the step, from 1.
        x_name: The symbol of x_t, which no row of this cell shows.
    """
    (h,) = state
    x_r, x_z, x_n = weights.input_part(x).chunk(3)
    h_r, h_z, h_n = weights.state_part(h).chunk(3)
    r, z = torch.sigmoid(x_r + h_r), torch.sigmoid(x_z + h_z)
    n = torch.tanh(x_n + r * h_n)
    new = (1 - z) * n + z * h
    rows = {
        "a_r": x_r + h_r,
        "reset r = σ(a_r)": r,
        "a_z": x_z + h_z,
        "update z = σ(a_z)": z,
        "u": h_n,
        "a_n": x_n + r * h_n,
        "n = tanh(a_n)": n,
        f"h_{t}": new,
    }
    return rows, (new,)


def lstm_step(weights: CellWeights, x: Tensor, state: State, t: int, x_name: str) -> tuple[Rows, State]:
    """i, f, o = σ(a_i), σ(a_f), σ(a_o); g = tanh(a_g); m_t = f ∘ m_{t-1} + i ∘ g; h_t = o ∘ tanh(m_t).

    Args:
        weights: The weights of the cell.
        x: x_t.
        state: The state and the memory cell before the step.
        t: The number of the step, from 1.
        x_name: The symbol of x_t, which no row of this cell shows.
    """
    h, m = state
    gates = GATES["lstm"]
    sums = dict(zip(gates, (weights.input_part(x) + weights.state_part(h)).chunk(len(gates)), strict=True))
    i, f, o = (torch.sigmoid(sums[gate]) for gate in "ifo")
    g = torch.tanh(sums["g"])
    memory = f * m + i * g
    new = o * torch.tanh(memory)
    rows = {f"a_{gate}": sums[gate] for gate in gates}
    rows |= {"input i = σ(a_i)": i, "forget f = σ(a_f)": f, "g = tanh(a_g)": g, "output o = σ(a_o)": o}
    rows |= {f"m_{t}": memory, f"h_{t}": new}
    return rows, (new, memory)


def rows_of(rows: Rows) -> tuple[list[list[float]], list[str], list[str]]:
    """Numbers, row names and column names of the grid of a step.

    Args:
        rows: The intermediate results.
    """
    numbers = [row.tolist() for row in rows.values()]
    return numbers, [Formula(name) for name in rows], indexed("", len(numbers[0]))


STEPS: dict[str, Callable[[CellWeights, Tensor, State, int, str], tuple[Rows, State]]] = {
    "tanh": tanh_step,
    "gru": gru_step,
    "lstm": lstm_step,
}
