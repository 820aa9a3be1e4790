"""A worked recurrent encoder: "The cat sat", word by word, from embeddings to the context c = h_T.

The Week 4 slides (docs/sources.md) encode this sentence; the numbers are Regard's own, and others can be given. The
states are computed by a cell of `regard.nn`, in double precision.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.config.kinds import CELLS
from regard.errors import UserError, printable
from regard.laboratory.attention_by_hand import matrix_tensor
from regard.laboratory.formatting import format_number
from regard.laboratory.lab_report import LabReport
from regard.laboratory.matrix_parsing import Matrix, check_shape
from regard.laboratory.worked_cells import FORMULAS, GATES, STEPS, CellWeights, Rows, cell_with_weights, rows_of
from regard.laboratory.worked_steps import grid_of, indexed, steps_report
from regard.nn import Embedding, Encoding, RecurrentEncoder
from regard.plotting.matrix_steps import Grid
from regard.plotting.symbols import Formula
from regard.reports.report_page import ReportSection, Table
from regard.torch_state import private_torch_state

WORDS = "The cat sat"
EMBEDDINGS: Matrix = ((0.1, 0.3, 0.2), (0.9, 0.1, 0.4), (0.2, 0.8, 0.6))
WEIGHTS_OF_CELL = {
    "tanh": CellWeights(((0.5, -0.3, 0.8), (-0.6, 0.9, 0.3)), ((0.4, 0.1), (-0.2, 0.6)), ((0.1, -0.1),)),
    "gru": CellWeights(
        ((0.6, -0.2, 0.4), (0.3, 0.8, -0.5), (0.2, 0.4, -0.6), (-0.3, 0.5, 0.1), (0.5, -0.3, 0.8), (-0.6, 0.9, 0.3)),
        ((0.3, -0.4), (0.2, 0.5), (0.1, 0.6), (-0.5, 0.2), (0.4, 0.1), (-0.2, 0.6)),
        ((0.0, 0.0, 0.2, -0.2, 0.1, -0.1),),
    ),
    "lstm": CellWeights(
        (
            *((0.6, -0.2, 0.4), (0.3, 0.8, -0.5)),
            *((0.2, 0.4, -0.6), (-0.3, 0.5, 0.1)),
            *((0.5, -0.3, 0.8), (-0.6, 0.9, 0.3)),
            *((0.4, 0.1, 0.2), (0.1, 0.7, -0.2)),
        ),
        ((0.3, -0.4), (0.2, 0.5), (0.1, 0.6), (-0.5, 0.2), (0.4, 0.1), (-0.2, 0.6), (0.2, 0.3), (-0.1, 0.4)),
        ((0.0, 0.0, 1.0, 1.0, 0.1, -0.1, 0.0, 0.0),),
    ),
}
# The sizes of the Week 4 slides, and the lengths for which the shapes are shown.
EMBEDDING_SIZE, HIDDEN_SIZE, VOCABULARY_SIZE = 100, 256, 1000
LENGTHS = (2, 7)

MAX_WORDS = 50
MAX_WORD_CHARACTERS = 40
LEAD = "The encoder reads one word after the other; its last state is the context, all that it passes on: c = h_T."


@private_torch_state()
def encoder_report(
    words: str = WORDS,
    embeddings: Matrix = EMBEDDINGS,
    input_weights: Matrix | None = None,
    state_weights: Matrix | None = None,
    bias: Matrix | None = None,
    *,
    cell: str = "tanh",
) -> LabReport:
    """The encoder of the Week 4 slides on "The cat sat", with Regard's numbers or with others.

    h_t = f(x_t, h_{t-1}), h_0 = 0, c = h_T.

    Args:
        words: The sentence.
        embeddings: x_t, one row for each word.
        input_weights: W_xh, stacked by gates as in PyTorch (GRU: r, z, n; LSTM: i, f, g, o); None: the example's.
        state_weights: W_hh, stacked in the same order.
        bias: One row, or two: PyTorch adds the first to W_xh x_t and the second to W_hh h_{t-1}.
        cell: `tanh`, `gru` or `lstm`.

    Raises:
        UserError: If the cell is unknown or the shapes do not fit each other.
    """
    example = WEIGHTS_OF_CELL.get(cell, WEIGHTS_OF_CELL["tanh"])
    given = (input_weights, state_weights, bias)
    weights = CellWeights(
        input_weights or example.input_weights, state_weights or example.state_weights, bias or example.bias
    )
    weights.check(cell)
    tokens = split_words("--words", words)
    _check_embeddings(embeddings, tokens, weights)
    encoding = encode(embeddings, cell, weights)
    steps, difference = _steps_by_hand(cell, weights, embeddings, encoding.states[0])

    own = embeddings == EMBEDDINGS and not any(given)
    facts = {
        "numbers": "Regard's own; those of the Week 4 slides are not known" if own else "your own",
        "cell": Formula(f"{cell}, {FORMULAS[cell]}"),
        "largest difference between these steps and the cell of regard.nn": format_number(difference),
    }
    groups = {
        "Inputs": _input_grids(tokens, embeddings, weights, cell),
        "Steps": [
            Grid(f"Step {t}: {word}", Formula(f"h_{t}, from x_{t} and h_{t - 1}"), *rows_of(rows))
            for t, (word, rows) in enumerate(zip(tokens, steps, strict=True), start=1)
        ],
        "States and context": [
            grid_of("H", "all states, one per word", encoding.states, indexed("h", len(tokens))),
            grid_of("c", f"c = h_{len(tokens)}", encoding.final_state[0], ["c"]),
        ],
    }
    shapes = context_shapes(cell)
    remarks = {"Bits and numbers": _capacity_remark()}
    data = {"cell": cell, "words": tokens, "max_difference": difference, "shapes": shapes}
    return steps_report("An encoder, word by word", LEAD, facts, groups, remarks, data, [_shape_section(shapes)])


def encode(embeddings: Matrix, cell: str, weights: CellWeights) -> Encoding:
    """The sentence encoded by the cell of `regard.nn`: states [1, words, size].

    Args:
        embeddings: x_t, one row for each word.
        cell: `tanh`, `gru` or `lstm`.
        weights: Its weights.
    """
    states, final_state = cell_with_weights(cell, weights)(matrix_tensor(embeddings))
    return Encoding(states, torch.ones(states.shape[:2], dtype=torch.bool, device=states.device), final_state)


def context_shapes(cell: str) -> list[dict[str, Any]]:
    """Shapes within an encoder of the sizes of the Week 4 slides, for inputs of several lengths and a batch of one.

    Steps come first, as in the Week 4 slides; Regard's own tensors have the batch first.

    Args:
        cell: `tanh`, `gru` or `lstm`.
    """
    with private_torch_state():
        encoder = RecurrentEncoder(
            Embedding(VOCABULARY_SIZE, EMBEDDING_SIZE), CELLS[cell](EMBEDDING_SIZE, HIDDEN_SIZE)
        ).requires_grad_(False)
        shapes = []
        for length in LENGTHS:
            ids = torch.arange(length, device="cpu").unsqueeze(0)  # [1, length]
            encoding = encoder(ids, torch.ones_like(ids, dtype=torch.bool))
            context = encoding.final_state[0]
            tensors = {"ids": ids.mT, "embedded": encoder.embedding(ids).transpose(0, 1)}
            tensors |= {"states": encoding.states.transpose(0, 1), "context": context}
            named = {name: list(tensor.shape) for name, tensor in tensors.items()}
            shapes.append({"tokens": length, **named, "context_bits": 8 * context.element_size() * context.numel()})
    return shapes


def split_words(option: str, text: str) -> list[str]:
    """The words of a sentence, separated by spaces.

    Args:
        option: The option that gives the sentence.
        text: The sentence.

    Raises:
        UserError: If there are no words, too many, or one that is too long.
    """
    words = text.split()
    if not 1 <= len(words) <= MAX_WORDS:
        raise UserError(f"{option} has {len(words):,} words; it can have from 1 to {MAX_WORDS}")
    longest = max(words, key=len)
    if len(longest) > MAX_WORD_CHARACTERS:
        raise UserError(f"{option} has a word of {len(longest):,} characters; the maximum is {MAX_WORD_CHARACTERS}")
    return [printable(word) for word in words]


def _check_embeddings(embeddings: Matrix, words: list[str], weights: CellWeights) -> None:
    size = len(weights.input_weights[0])
    check_shape("--embeddings", embeddings, len(words), None, "one row for each word of --words")
    check_shape("--embeddings", embeddings, None, size, "as many as --input-weights has, because W_xh multiplies x_t")


def _steps_by_hand(cell: str, weights: CellWeights, embeddings: Matrix, states: Tensor) -> tuple[list[Rows], float]:
    """The rows of each step, and the largest difference of their states from those of the module [words, size]."""
    state = tuple(torch.zeros_like(states[0]) for _ in range(CELLS[cell].parts))
    steps, difference = [], 0.0
    for t, x in enumerate(matrix_tensor(embeddings)[0], start=1):
        rows, state = STEPS[cell](weights, x, state, t, f"x_{t}")
        difference = max(difference, (state[0] - states[t - 1]).abs().max().item())
        steps.append(rows)
    return steps, difference


def _input_grids(words: list[str], embeddings: Matrix, weights: CellWeights, cell: str) -> list[Grid]:
    size = len(weights.state_weights[0])
    gates = GATES[cell]
    rows = [name for gate in gates for name in indexed(gate, size)]
    note = f", by gates {', '.join(gates)}" if len(gates) > 1 else ""
    biases = ["b_h"] if len(weights.bias) == 1 else ["b_xh", "b_hh"]
    return [
        Grid(Formula("X"), Formula("embeddings x_t"), embeddings, words, indexed("", len(embeddings[0]))),
        grid_of("W_xh", f"input weights{note}", matrix_tensor(weights.input_weights), rows),
        grid_of("W_hh", f"state weights{note}", matrix_tensor(weights.state_weights), rows),
        grid_of("b", "bias", matrix_tensor(weights.bias).mT, rows, biases),
    ]


def _shape_section(shapes: list[dict[str, Any]]) -> ReportSection:
    names = ("tokens", "ids", "embedded", "states", "context")
    rows = tuple(tuple(str(each[name]) for name in names) for each in shapes)
    text = (
        f"An encoder of the sizes of the Week 4 slides, embedding {EMBEDDING_SIZE} and hidden {HIDDEN_SIZE}, for a "
        "batch of one. The context has the same shape whatever the length of the input; the states grow with it. Steps "
        "come first, as in the Week 4 slides; the modules of regard.nn have the batch first."
    )
    return ReportSection("The size of the context", (text,), (Table(names, rows),))


def _capacity_remark() -> str:
    bits = torch.finfo(torch.float32).bits
    return (
        "The Week 4 slides state that 500 bits overflow 256 numbers. This mixes units: a number is not a bit. "
        f"{HIDDEN_SIZE} numbers in float32 hold {HIDDEN_SIZE} · {bits} = {HIDDEN_SIZE * bits} bits, and 500 bits are "
        "less than 2 for each number. The bottleneck is not storage: it is what the encoder can learn to write into "
        "the context and the decoder to read from it. The command regard probe measures what is in a trained context."
    )
