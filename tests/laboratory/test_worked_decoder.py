"""The worked decoder, by the formulas and by the module, and with and without teacher forcing."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle

from regard.errors import UserError
from regard.laboratory.formatting import format_number
from regard.laboratory.teacher_forcing import teacher_forcing_report
from regard.laboratory.worked_decoder import DEFAULT_DECODER, DecoderExample, decoder_report

Regard = Callable[..., Any]
TOKENS = ["<begin>", "Le", "chat", "dort", "<end>"]


def grid(report: Any, symbol: str) -> list[list[float]]:
    (found,) = (step["numbers"] for step in report.data["steps"] if step["symbol"] == symbol)
    return found


def softmax(scores: list[float]) -> list[float]:
    powers = [math.exp(score) for score in scores]
    return [power / sum(powers) for power in powers]


def by_hand(example: DecoderExample, ids: list[int]) -> list[list[float]]:
    """The probabilities after each input, in plain Python."""
    states = example.encoding().states[0].tolist()
    h, found = states[-1], []
    for token in ids:
        weights = softmax([sum(map(float.__mul__, h, state)) for state in states])
        context = [sum(w * state[k] for w, state in zip(weights, states, strict=True)) for k in range(len(h))]
        x = [*example.embeddings[token], *context]
        rows = zip(example.input_weights, example.state_weights, example.bias[0], strict=True)
        h = [
            math.tanh(sum(a * b for a, b in zip(w, x, strict=True)) + sum(a * b for a, b in zip(u, h, strict=True)) + b)
            for w, u, b in rows
        ]
        outputs = zip(example.output_weights, example.output_bias[0], strict=True)
        found.append(softmax([sum(a * b for a, b in zip(w, h, strict=True)) + bias for w, bias in outputs]))
    return found


@pytest.mark.parametrize("prefix", ["", "Le", "Le chat", "dort dort chat Le"])
def test_a_step_equals_the_formulas(prefix: str) -> None:
    report = decoder_report(prefix)
    ids = [0, *map(TOKENS.index, prefix.split())]
    expected = by_hand(DEFAULT_DECODER, ids)[-1]
    logits, probabilities = ([row[0] for row in grid(report, symbol)] for symbol in ("logits", "p"))
    assert probabilities == pytest.approx(expected)
    assert softmax(logits) == pytest.approx(probabilities)
    assert report.data["step"] == len(ids)
    assert report.data["prediction"] == TOKENS[expected.index(max(expected))]
    assert report.data["max_difference"] < 1e-15


def test_scores_weights_and_context_of_the_example() -> None:
    report = decoder_report()
    states, ((query,), (scores,)) = grid(report, "H^enc"), (grid(report, "h_1"), grid(report, "e_2"))
    assert scores == pytest.approx([query[0] * h[0] + query[1] * h[1] for h in states])
    (weights,) = grid(report, "α_2")
    assert weights == pytest.approx(softmax(scores))
    (context,) = grid(report, "c_2")
    assert context == pytest.approx([sum(w * h[k] for w, h in zip(weights, states, strict=True)) for k in range(2)])
    assert grid(report, "y_1") == [pytest.approx([1, 1])], "the module's factor √size is compensated"
    assert (report.data["previous"], report.data["prediction"]) == ("Le", "chat")


def test_other_sizes() -> None:
    """Embeddings of 3 and states of 2 numbers, four states, a vocabulary of one word."""
    example = DecoderExample(
        "ja",
        states=((0.1, 0.2), (0.3, -0.4), (-0.5, 0.6), (0.7, 0.8)),
        embeddings=((0.1, 0.2, 0.3), (0.4, -0.5, 0.6), (0.7, 0.8, -0.9)),
        input_weights=((0.1, -0.2, 0.3, 0.4, 0.5), (0.6, 0.7, -0.8, 0.9, 0.1)),
        output_weights=((1.0, 2.0), (3.0, -4.0), (-5.0, 6.0)),
        output_bias=((0.1, 0.2, 0.3),),
    )
    report = decoder_report("ja", example)
    assert [p for (p,) in grid(report, "p")] == pytest.approx(by_hand(example, [0, 1])[-1])
    assert next(step["columns"] for step in report.data["steps"] if step["symbol"] == "e_2") == ["1", "2", "3", "4"]


@pytest.mark.parametrize("bias", [((0.3, -0.1),), ((0.3, -0.1), (0.0, 0.2))])
def test_inputs_show_words_and_every_bias(bias: tuple[tuple[float, ...], ...]) -> None:
    report = decoder_report(example=replace(DEFAULT_DECODER, bias=bias))
    steps = {step["symbol"]: step for step in report.data["steps"]}
    assert steps["H^enc"]["rows"] == steps["e_2"]["columns"] == steps["α_2"]["columns"] == ["The", "cat", "sat"]
    (cell,) = (step for symbol, step in steps.items() if symbol.startswith("W_hh"))
    assert cell["columns"][2:] == (["b_h"] if len(bias) == 1 else ["b_xh", "b_hh"])
    assert [row[2:] for row in cell["numbers"]] == [list(column) for column in zip(*bias, strict=True)]


def bold_texts(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.axes[0].texts if text.get_fontweight() == "bold"]


def test_the_picture_shows_what_is_attended_to_and_predicted() -> None:
    figure = decoder_report().figure
    assert bold_texts(figure) == ["0.4217", "0.8504"]
    p = [mesh.get_array() for mesh in figure.axes[0].collections][-1]
    assert p[2, 0] == pytest.approx(0.8504, abs=1e-4), "the deepest color is that of 1"


def test_the_picture_shows_targets_predictions_losses_and_the_next_inputs() -> None:
    report = teacher_forcing_report()
    forced, free = (report.data[way]["steps"] for way in ("teacher_forcing", "free_running"))
    axes = report.figure.axes[0]
    assert bold_texts(report.figure) == [format_number(step["p_prediction"]) for step in (*forced, *free)]
    frames = [patch for patch in axes.patches if isinstance(patch, Rectangle) and patch.get_linewidth() == 2]
    assert len(frames) == 8
    header = {text.get_text(): text.get_position()[0] for text in axes.texts if text.get_text() in TOKENS[1:-1]}
    columns = [*TOKENS, "loss"]
    size = header["chat"] - header["Le"]
    start = header["Le"] - size

    def column(x: float) -> str:
        return columns[round((x - start) / size)]

    assert [column(frame.get_x() + frame.get_width() / 2) for frame in frames] == [*TOKENS[1:], *TOKENS[1:]]
    arrows = [patch for patch in axes.patches if isinstance(patch, FancyArrowPatch)]
    sources = [column(arrow.get_path().vertices[0][0]) for arrow in arrows]
    assert sources == [step["input"] for step in (*forced[1:], *free[1:])], "target with teacher forcing, or prediction"
    for step, row in zip(
        (*forced, *free), [row for grid in report.data["steps"] for row in grid["numbers"]], strict=True
    ):
        assert row[-1] == step["loss"]


def test_teacher_forcing_and_free_running() -> None:
    data = teacher_forcing_report().data
    forced, free = data["teacher_forcing"], data["free_running"]
    assert [step["input"] for step in forced["steps"]] == TOKENS[:-1]
    assert [step["target"] for step in free["steps"]] == TOKENS[1:]
    predictions = ["<begin>", *(step["prediction"] for step in free["steps"])]
    assert [step["input"] for step in free["steps"]] == predictions[:-1]
    assert [step["prediction"] for step in forced["steps"]] == ["chat", "chat", "dort", "<end>"]
    assert predictions[1:] == ["chat", "dort", "<end>", "Le"]
    for way in (forced, free):
        ids = [TOKENS.index(step["input"]) for step in way["steps"]]
        for step, expected in zip(way["steps"], by_hand(DEFAULT_DECODER, ids), strict=True):
            assert step["p_target"] == pytest.approx(expected[TOKENS.index(step["target"])])
            assert step["p_prediction"] == pytest.approx(max(expected))
            assert step["loss"] == pytest.approx(-math.log(step["p_target"]))
        assert way["mean_loss"] == pytest.approx(sum(step["loss"] for step in way["steps"]) / 4)
    assert free["mean_loss"] > 4 * forced["mean_loss"]
    assert "At step 1 the decoder predicts chat in place of Le" in data["remarks"]["The difference"]


def test_a_decoder_that_predicts_the_target_has_no_difference() -> None:
    """<begin> turned by 90° is the state of Le."""
    right = replace(DEFAULT_DECODER, embeddings=((-1.0, 1.0), *DEFAULT_DECODER.embeddings[1:]))
    data = teacher_forcing_report(example=right).data
    assert data["teacher_forcing"] == data["free_running"]
    assert "both ways are the same" in data["remarks"]["The difference"]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"vocabulary": "Le chat"}, "--embeddings has 5 rows, but needs 4: one for each token: <begin>, 2 of"),
        ({"vocabulary": "a a"}, "--vocabulary has 'a' twice"),
        ({"vocabulary": "a <end>"}, "--vocabulary has '<end>' twice, or <begin> or <end>, which are added"),
        ({"vocabulary": ""}, "--vocabulary has 0 words"),
        ({"states": ((1, 2, 3),)}, "--states has 3 columns, but needs 2: encoder and decoder states"),
        ({"input_weights": ((1, 2), (3, 4))}, "--input-weights has 2 columns, but needs 4: 2 for the embedding and 2"),
        ({"output_weights": ((1, 2),) * 3}, "--output-weights has 3 rows, but needs 5"),
        ({"output_bias": ((1, 2),)}, "--output-bias has 2 columns, but needs 5"),
        ({"output_bias": ((1, 2, 3, 4, 5),) * 2}, "--output-bias has 2 rows, but needs 1"),
        ({"bias": ((1,),)}, "--bias has 1 columns, but needs 2"),
    ],
)
def test_wrong_weights_are_refused(options: dict[str, Any], problem: str) -> None:
    for report in (decoder_report, teacher_forcing_report):
        with pytest.raises(UserError, match=problem):
            report(example=DecoderExample(**options))


def test_unknown_words_are_refused() -> None:
    with pytest.raises(UserError, match=r"--prefix: 'chien' is not in the vocabulary; .*choices: Le, chat, dort"):
        decoder_report("Le chien")
    with pytest.raises(UserError, match="--target: '<end>' is not in the vocabulary"):
        teacher_forcing_report("Le <end>")
    with pytest.raises(UserError, match="--target has 0 words"):
        teacher_forcing_report(" ")


@pytest.mark.parametrize("command", ["decoder", "teacher-forcing"])
def test_the_command_line(regard: Regard, tmp_path: Path, command: str) -> None:
    path = tmp_path / "it.svg"
    answer = regard("lab", command, "--out", path)
    assert answer.code == 0, answer.err
    assert path.stat().st_size > 1000
    before = torch.random.get_rng_state()
    data = json.loads(regard("lab", command, "--output-bias", "9,0,0,0,0", "--json").out)
    assert torch.equal(before, torch.random.get_rng_state())
    last = data["steps"][-1]["numbers"]
    probabilities = [p for (p,) in last] if command == "decoder" else last[-1][:-1]
    assert max(probabilities) == probabilities[0] > 0.9
    refused = regard("lab", command, "--bias", "1")
    assert (refused.code, refused.out) == (2, "")
