"""A worked recurrent decoder with attention: a small decoder with given weights, and one step of it.

It is `regard.nn.AttendBeforeDecoder` with a tanh cell and dot attention to the states of the worked encoder, in double
precision. Its weights are Regard's own; others can be given. Shapes: every tensor has a batch size of one.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.errors import UserError, suggest
from regard.laboratory.attention_by_hand import matrix_tensor
from regard.laboratory.formatting import format_number
from regard.laboratory.lab_report import LabReport
from regard.laboratory.matrix_parsing import Matrix, check_shape
from regard.laboratory.worked_cells import CellWeights, load_cell, rows_of, tanh_step
from regard.laboratory.worked_encoder import EMBEDDINGS, WEIGHTS_OF_CELL, WORDS, encode, split_words
from regard.laboratory.worked_steps import grid_of, indexed, steps_report
from regard.nn import AttendBeforeDecoder, CopyStart, DirectReadout, DotAttention, Embedding, Encoding, TanhRNN
from regard.plotting.matrix_steps import ColorScale, Grid
from regard.plotting.symbols import Formula
from regard.torch_state import private_torch_state

BEGIN, END = "<begin>", "<end>"
PREFIX = "Le"
STATE_SCALE, LOGIT_SCALE = ColorScale("states, inputs, weights, scores"), ColorScale("output layer, logits")
PROBABILITY_SCALE = ColorScale(Formula("attention weights α, probabilities p"), 1.0)
KEY = "bold: the largest attention weight, and the most likely next word"
LEAD = (
    "One step of a decoder: the state h_{t-1} is the query of attention, and the previous word y_{t-1}, the state and "
    "the context c_t give the next state, h_t = f(y_{t-1}, h_{t-1}, c_t). The output layer turns it into probabilities."
)


@dataclass(frozen=True)
class DecoderExample:
    """The weights of a small decoder. The defaults turn the embedding of a word by 90° into the state of the next word.

    Args:
        vocabulary: The words; <begin> comes before them and <end> after them.
        states: The encoder states h_i^enc, one per row; None: those of the worked encoder, "The cat sat".
        embeddings: One row for each token: <begin>, the words, <end>.
        input_weights: W_xh; its columns are those of an embedding and of a context, [y_{t-1} ; c_t].
        state_weights: W_hh.
        bias: b_h, one row; or two rows as in PyTorch.
        output_weights: W_o, one row for each token.
        output_bias: b_o, one row with one number for each token.
    """

    vocabulary: str = "Le chat dort"
    states: Matrix | None = None
    embeddings: Matrix = ((0.2, 0.7), (1.0, 1.0), (1.0, -1.0), (-1.0, -1.0), (-1.0, 1.0))
    input_weights: Matrix = ((0.0, 1.0, 0.3, -0.2), (-1.0, 0.0, -0.1, 0.4))
    state_weights: Matrix = ((0.2, 0.1), (-0.1, 0.2))
    bias: Matrix = ((0.0, 0.0),)
    output_weights: Matrix = ((0.0, 0.0), (1.5, 1.5), (1.5, -1.5), (-1.5, -1.5), (-1.5, 1.5))
    output_bias: Matrix = ((-2.0, 0.0, 0.0, 0.0, 0.0),)

    @property
    def tokens(self) -> list[str]:
        """<begin>, the words of the vocabulary, <end>."""
        tokens = [BEGIN, *split_words("--vocabulary", self.vocabulary), END]
        twice = [token for token in tokens if tokens.count(token) > 1]
        if twice:
            raise UserError(
                f"--vocabulary has '{twice[0]}' twice, or {BEGIN} or {END}, which are added; name each once"
            )
        return tokens

    @property
    def source_names(self) -> list[str]:
        """The words of the worked encoder, or the numbers of the given states."""
        return WORDS.split() if self.states is None else indexed("", len(self.states))

    @property
    def cell_weights(self) -> CellWeights:
        """The weights of the tanh cell."""
        return CellWeights(self.input_weights, self.state_weights, self.bias)

    def ids(self, option: str, text: str) -> list[int]:
        """The token ids of the words of a sentence.

        Args:
            option: The option that gives the sentence.
            text: The sentence; its words are in the vocabulary.
        """
        known = self.tokens[1:-1]
        words = split_words(option, text) if text.strip() else []
        for word in words:
            if word not in known:
                raise UserError(f"{option}: '{word}' is not in the vocabulary; {suggest(word, known)}")
        return [1 + known.index(word) for word in words]

    def encoding(self) -> Encoding:
        """The encoded source; its last state is the decoder's initial state."""
        if self.states is None:
            return encode(EMBEDDINGS, "tanh", WEIGHTS_OF_CELL["tanh"])
        states = matrix_tensor(self.states)
        return Encoding(
            states, torch.ones(states.shape[:2], dtype=torch.bool, device=states.device), (states[:, -1][None],)
        )

    def decoder(self) -> AttendBeforeDecoder:
        """The decoder of `regard.nn` with these weights.

        Raises:
            UserError: If the shapes do not fit each other.
        """
        self._check_shapes()
        tokens, size = len(self.embeddings), len(self.state_weights)
        embedding = Embedding(tokens, len(self.embeddings[0]))
        decoder = AttendBeforeDecoder(
            embedding, DotAttention(size, size), cell=TanhRNN, start=CopyStart, readout=DirectReadout
        ).double()
        # The module multiplies embeddings by √size, so that the result is the given number.
        embedding.tokens.load_state_dict({"weight": matrix_tensor(self.embeddings)[0] / embedding.scale})
        load_cell(decoder.cell, self.cell_weights)
        output = {"weight": matrix_tensor(self.output_weights)[0], "bias": matrix_tensor(self.output_bias)[0, 0]}
        decoder.readout.load_state_dict({f"output_layer.{name}": tensor for name, tensor in output.items()})
        return decoder.eval().requires_grad_(False)

    def _check_shapes(self) -> None:
        self.cell_weights.check("tanh")
        tokens, size, word_size = len(self.tokens), len(self.state_weights), len(self.embeddings[0])
        each = f"one for each token: {BEGIN}, {tokens - 2} of --vocabulary, {END}"
        check_shape("--embeddings", self.embeddings, tokens, None, each)
        check_shape("--output-weights", self.output_weights, tokens, size, f"{each}, times the size of a state")
        check_shape("--output-bias", self.output_bias, 1, tokens, each)
        inputs = f"{word_size} for the embedding and {size} for the context"
        check_shape("--input-weights", self.input_weights, None, word_size + size, inputs)
        if self.states is not None:
            check_shape("--states", self.states, None, size, "encoder and decoder states have the same size")


DEFAULT_DECODER = DecoderExample()


@private_torch_state()
def decoder_report(prefix: str = PREFIX, example: DecoderExample = DEFAULT_DECODER) -> LabReport:
    """One step of a decoder with attention before the step: the word after a prefix.

    e_ti = h_{t-1} · h_i^enc, α_t = softmax(e_t), c_t = Σ_i α_ti h_i^enc, h_t = tanh(W_xh [y_{t-1} ; c_t] + W_hh h_{t-1}
    + b_h), p = softmax(W_o h_t + b_o).

    Args:
        prefix: The words before the step; the step shown is the one after the last of them.
        example: The weights.

    Raises:
        UserError: If a word is not in the vocabulary or the shapes do not fit each other.
    """
    decoder, tokens = example.decoder(), example.tokens
    ids = torch.tensor([[0, *example.ids("--prefix", prefix)]], device="cpu")  # [1, t]
    t, previous = ids.shape[1], tokens[int(ids[0, -1])]
    before = decoder.start(example.encoding())
    if t > 1:
        _, _, before = decoder.forward_steps(ids[:, :-1], before)
    (h,) = (part[-1] for part in before.hidden)  # [1, size]
    y = decoder.embedding(ids[:, -1:])  # [1, 1, size]
    e = decoder.attention.score(h[None], before.memory.keys)
    c, a = decoder.attention(h[None], before.memory)
    logits, after = decoder.step(ids[:, -1], before)
    rows, (by_hand,) = tanh_step(example.cell_weights, torch.cat([y, c], -1)[0, 0], (h[0],), t, f"[y_{t - 1} ; c_{t}]")
    p = torch.softmax(logits, -1)
    best = int(p.argmax())

    difference = (by_hand - after.hidden[0][-1, 0]).abs().max().item()
    groups = {
        "Inputs": _decoder_inputs(example, before.memory.values, tokens),
        "Attention": _attention_grids(t, example.source_names, h[None], e, a, c),
        "Step and output": [
            grid_of(f"y_{t - 1}", "previous word", y, [f"y_{t - 1}"], scale=STATE_SCALE),
            Grid(
                f"Step {t}: {previous}",
                Formula(f"h_{t}, from y_{t - 1}, h_{t - 1} and c_{t}"),
                *rows_of(rows),
                STATE_SCALE,
            ),
            *_output_grids(t, logits[0], p[0], tokens),
        ],
    }
    facts = {
        "numbers": "Regard's own" if example == DEFAULT_DECODER else "your own",
        "decoder": "attention before the step, dot scores, a tanh cell; it starts with the last encoder state",
        "prefix": " ".join(tokens[index] for index in ids[0].tolist()),
        "most likely next word": f"{tokens[best]}, with a probability of {format_number(p[0, best].item())}",
        "largest difference between these steps and the decoder of regard.nn": format_number(difference),
    }
    data = {"step": t, "previous": previous, "prediction": tokens[best], "max_difference": difference}
    return steps_report("One step of a decoder", LEAD, facts, groups, {}, data, key=KEY)


def _decoder_inputs(example: DecoderExample, states: Tensor, tokens: list[str]) -> list[Grid]:
    size, word_size = len(example.state_weights), len(example.embeddings[0])
    columns = [*(f"y: {i}" for i in indexed("", word_size)), *(f"c: {i}" for i in indexed("", size))]
    numbers = [[*row, bias] for row, bias in zip(example.output_weights, example.output_bias[0], strict=True)]
    w_hh, biases = matrix_tensor(example.state_weights), matrix_tensor(example.bias).mT  # [1, size, 1 or 2]
    bias_names = ["b_h"] if biases.shape[-1] == 1 else ["b_xh", "b_hh"]
    state_columns = [*indexed("", size), *bias_names]
    return [
        Grid(
            Formula("H^enc"),
            "encoder states",
            states[0].tolist(),
            example.source_names,
            indexed("", states.shape[-1]),
            STATE_SCALE,
        ),
        Grid(Formula("E"), "embeddings", example.embeddings, tokens, indexed("", word_size), STATE_SCALE),
        grid_of("W_xh", "input weights", matrix_tensor(example.input_weights), indexed("", size), columns, STATE_SCALE),
        grid_of(
            f"W_hh, {', '.join(bias_names)}",
            "state weights, bias",
            torch.cat([w_hh, biases], -1),
            indexed("", size),
            state_columns,
            STATE_SCALE,
        ),
        Grid(Formula("W_o, b_o"), "output layer", numbers, tokens, [*indexed("", size), Formula("b_o")], LOGIT_SCALE),
    ]


def _attention_grids(t: int, source: list[str], h: Tensor, e: Tensor, a: Tensor, c: Tensor) -> list[Grid]:
    """Query, scores, weights and context; the columns of scores and weights are the source words."""
    scores, weights = Formula(f"scores e_{t}i = h_{t - 1} · h_i^enc"), Formula(f"weights α_{t} = softmax(e_{t})")
    e_name, a_name = Formula(f"e_{t}"), Formula(f"α_{t}")
    return [
        grid_of(f"h_{t - 1}", "previous state, the query", h, [f"h_{t - 1}"], scale=STATE_SCALE),
        Grid(e_name, scores, e[0].tolist(), [e_name], source, STATE_SCALE),
        Grid(a_name, weights, a[0].tolist(), [a_name], source, PROBABILITY_SCALE, bold=[(0, int(a.argmax()))]),
        grid_of(f"c_{t}", f"context c_{t} = Σ_i α_{t}i h_i^enc", c, [f"c_{t}"], scale=STATE_SCALE),
    ]


def _output_grids(t: int, logits: Tensor, p: Tensor, tokens: list[str]) -> list[Grid]:
    """Logits and probabilities, one row for each token."""
    formulas = Formula(f"W_o h_{t} + b_o"), Formula("softmax of the logits")
    best = [(int(p.argmax()), 0)]
    return [
        Grid("logits", formulas[0], logits[:, None].tolist(), tokens, ["logit"], LOGIT_SCALE),
        Grid(Formula("p"), formulas[1], p[:, None].tolist(), tokens, [Formula("p")], PROBABILITY_SCALE, bold=best),
    ]
