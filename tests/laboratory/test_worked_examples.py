"""The worked examples compared with EECS 182 Discussion 8 and the Week 4 slides."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.errors import UserError
from regard.laboratory import matrix_parsing, worked_bleu, worked_examples
from regard.laboratory.lab_report import LabReport
from regard.nn import MultiHeadAttention

Regard = Callable[..., Any]
COMMANDS = ("qkv", "softmax", "context", "bleu")
SUFFIXES = (".png", ".svg", ".pdf", ".html")
HOSTILE = "$x^2$ <b>bold</b> \\alpha \x1b[31m red"


def grid_numbers(report: LabReport, symbol: str) -> list[list[float]]:
    (found,) = (step["numbers"] for step in report.data["steps"] if step["symbol"] == symbol)
    return found


def bleu(hypothesis: str | None = None, reference: str | None = None, **options: Any) -> LabReport:
    return worked_bleu.bleu_report(hypothesis, reference, **{"max_ngram_order": None, "floor": None} | options)


def test_eecs_182_example() -> None:
    report = worked_examples.qkv_report()
    assert grid_numbers(report, "Q") == [[5, 19], [4, 35], [-2, 50]]
    assert grid_numbers(report, "K") == [[1, 30], [3, 24], [6, -12]]
    assert grid_numbers(report, "V") == [[23, 46], [25, 39], [10, -12]]
    assert grid_numbers(report, "E")[1] == [1054, 852, -396]
    assert grid_numbers(report, "Y")[1] == pytest.approx([23, 46])
    weights = grid_numbers(report, "A")[1]
    assert weights[0] == 1
    assert weights[1] == pytest.approx(math.exp(852 - 1054))


def test_argmax_returns_only_the_first_value() -> None:
    report = worked_examples.qkv_report(hard=True)
    assert grid_numbers(report, "A")[1] == [1, 0, 0]
    assert grid_numbers(report, "Y")[1] == [23, 46]


def test_scores_are_divided_by_the_root_of_the_size_of_a_key() -> None:
    """Keys of size 3 from states of size 2, so that the wrong size is detected."""
    wide = ((1.0, 0.0), (2.0, 9.0), (1.0, 1.0))
    plain, scaled = (
        worked_examples.qkv_report(query_weights=wide, key_weights=wide, scaled=scaled) for scaled in (False, True)
    )
    expected = torch.tensor(grid_numbers(plain, "E")) / math.sqrt(3)
    assert torch.allclose(torch.tensor(grid_numbers(scaled, "E")), expected)


def test_scaled_is_what_multi_head_attention_with_one_head_computes() -> None:
    generator = torch.Generator().manual_seed(1)
    states, w_q, w_k, w_v = (torch.randn(rows, 3, generator=generator, dtype=torch.float64) for rows in (7, 5, 5, 5))
    report = worked_examples.qkv_report(
        *(tuple(map(tuple, each.tolist())) for each in (states, w_q, w_k, w_v)), scaled=True
    )
    attention = MultiHeadAttention(3, 3, key_size=5).double()
    for layer, weight in (("query", w_q), ("key", w_k), ("value", w_v)):
        getattr(attention, f"{layer}_layer").weight.data = weight
    attention.output_layer = torch.nn.Identity()
    outputs, weights = attention(states[None], attention.prepare(states[None], torch.ones(1, 7, dtype=torch.bool)))
    assert torch.allclose(torch.tensor(grid_numbers(report, "A"), dtype=torch.float64), weights[0, 0])
    assert torch.allclose(torch.tensor(grid_numbers(report, "Y"), dtype=torch.float64), outputs[0])


def test_values_may_be_of_another_size_than_keys() -> None:
    report = worked_examples.qkv_report(value_weights=((1, 2), (3, 4), (5, 6), (7, 8), (9, 1)))
    assert [len(row) for row in grid_numbers(report, "Y")] == [5, 5, 5]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"query_weights": ((1, 2, 3),)}, "--query-weights has rows of 3 numbers, but the rows of --states have 2"),
        ({"value_weights": ((1,),)}, "--value-weights has rows of 1 numbers, but the rows of --states have 2"),
        ({"key_weights": ((1, 2),)}, "--query-weights has 2 rows and --key-weights 1; both must be equal"),
    ],
)
def test_sizes_must_fit_each_other(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        worked_examples.qkv_report(**options)


def test_softmax_of_the_week_4_slides() -> None:
    report = worked_examples.softmax_report()
    weights = grid_numbers(report, "α")
    assert weights[0] == pytest.approx([0.2249, 0.5005, 0.2747], abs=5e-5)
    assert weights[1] == pytest.approx([0.2546, 0.4640, 0.2814], abs=5e-5)
    powers = grid_numbers(report, "exp(e_i)")[0]
    assert powers == pytest.approx([math.exp(0.1), math.exp(0.9), math.exp(0.3), 4.914633], abs=1e-6)
    ((title, erratum),) = report.data["remarks"].items()
    assert title == "Erratum in the Week 4 slides"
    assert "print the weights 0.15, 0.70, 0.15; correct are 0.2249, 0.5005, 0.2747" in erratum
    assert "the scores 0.2, 0.8, 0.3, the correct weights are 0.2546, 0.4640, 0.2814" in erratum
    assert "(0.4552, 0.4100) for the first example and (0.4347, 0.4054) for the second" in erratum


@pytest.mark.parametrize("scores", [((1054, 852, -396),), ((-900, -901),), ((1e6, -1e6, 0),)])
def test_large_scores_do_not_overflow(scores: matrix_parsing.Matrix) -> None:
    report = worked_examples.softmax_report(scores)
    (row,) = grid_numbers(report, "exp(e_i − max e)")
    assert all(map(math.isfinite, row))
    (weights,) = grid_numbers(report, "α")
    assert [power / row[-1] for power in row[:-1]] == pytest.approx(weights)
    assert report.data["remarks"] == {}


def test_context_of_the_week_4_slides() -> None:
    report = worked_examples.context_report()
    assert grid_numbers(report, "c") == [pytest.approx([0.55, 0.40])]
    assert grid_numbers(report, "α_i v_i")[1] == pytest.approx([0.49, 0.28])
    (remark,) = report.data["remarks"].values()
    assert "The Week 4 slides print 0.46. Correct is c = (0.55, 0.40)" in remark
    assert "weights of the scores 0.1, 0.9, 0.3 the context is (0.4552, 0.4100)" in remark
    assert "first entry" not in remark, "it is not known which of the entries the printed 0.46 is"


def test_a_weight_of_one_copies_and_a_weight_of_zero_excludes() -> None:
    report = worked_examples.context_report(((0.0, 1.0),), ((3, 5, 7), (11, 13, 17)))
    assert grid_numbers(report, "c") == [[11, 13, 17]]
    assert report.data["remarks"] == {}


@pytest.mark.parametrize(
    ("weights", "problem"),
    [
        (((0.5, 0.5), (0.5, 0.5)), "--weights has 2 rows; a context needs one row of weights"),
        (((0.5, 0.5),), "--weights has 2 numbers, but --values has 3 rows; each value needs one weight"),
        (((-0.5, 1.0, 0.5),), "--weights has -0.5; weights cannot be negative"),
        (((0.5, 0.4, 0.2),), "--weights sum to 1.1; attention weights must sum to 1"),
    ],
)
def test_invalid_weights_are_refused(weights: matrix_parsing.Matrix, problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        worked_examples.context_report(weights)


def test_bleu_of_the_week_4_slides() -> None:
    report = bleu()
    assert [row[:2] for row in grid_numbers(report, "P_n")] == [[4, 4], [1, 3], [0, 2]]
    assert [row[2] for row in grid_numbers(report, "P_n")] == pytest.approx([1, 1 / 3, 0.01])
    ((mean, penalty, score, hundred),) = grid_numbers(report, "BLEU")
    assert (round(mean, 4), round(penalty, 4), round(score, 4)) == (0.1494, 0.6065, 0.0906)
    assert hundred == pytest.approx(100 * score)
    assert grid_numbers(report, "BP") == [[4, 6, pytest.approx(math.exp(1 - 6 / 4))]]
    assert grid_numbers(report, "2-grams") == [[1, 1, 1], [1, 0, 0], [1, 0, 0]]
    assert report.data["quality"] == "useless"
    (remark,) = report.data["remarks"].values()
    assert "print a geometric mean of 0.22 and a BLEU of 0.13. Correct are 0.1494 and 0.0906" in remark
    assert "this is not 0.13, understandable, but useless" in remark


def test_the_replacement_of_zero_decides_the_interpretation() -> None:
    """BLEU = BP · (1 · 1/3 · P_3)^(1/3), by hand."""
    floors = bleu().data["floors"]
    assert [each["floor"] for each in floors] == [0.002, 0.02, 0.1, 1.0, None]
    assert [each["precision"] for each in floors] == pytest.approx([0.001, 0.01, 0.05, 0.5, 0.25])
    for each in floors:
        assert each["score"] == pytest.approx(math.exp(-0.5) * (each["precision"] / 3) ** (1 / 3))
    qualities = [each["quality"] for each in floors]
    assert qualities == ["useless", "useless", "understandable", "good", "understandable"]
    assert bleu("a b c d", "a b c d").data["floors"] == [], "no count is 0"


@pytest.mark.parametrize(
    ("score", "quality"),
    [(0.0999, "useless"), (0.1, "understandable"), (0.3, "good"), (0.5, "good"), (0.5000001, "very good")],
)
def test_limits_of_the_interpretation(score: float, quality: str) -> None:
    assert worked_bleu.interpretation(score) == quality


def test_exactly_one_half_is_not_above_one_half() -> None:
    report = bleu("a b", "a c", max_ngram_order=1)
    assert report.data["score"] == pytest.approx(50)
    assert report.data["quality"] == "good"


def test_other_sentences_are_scored_with_sacrebleu_defaults() -> None:
    report = bleu("the cat the cat the cat on mats", "the cat sat on the mat")
    assert "smooth:exp" in report.data["signature"]
    assert report.data["remarks"] == {}
    assert grid_numbers(report, "1-grams")[0] == [3, 2, 2], "counts are clipped to those of the reference"
    for n, (match, total, _) in enumerate(grid_numbers(report, "P_n"), start=1):
        ngrams = grid_numbers(report, f"{n}-grams")
        assert (match, total) == (sum(row[2] for row in ngrams), sum(row[0] for row in ngrams))


def test_erratum_is_shown_only_for_the_settings_of_the_slides() -> None:
    assert "Erratum in the Week 4 slides" not in bleu(floor=0.1).data["remarks"]
    assert "Erratum in the Week 4 slides" not in bleu(max_ngram_order=2).data["remarks"]


@pytest.mark.parametrize(
    ("hypothesis", "reference", "why"),
    [("a b", "a b", "too short to have 3-grams"), ("a b c d", "w x y z", "No word of the hypothesis")],
)
def test_a_score_of_zero_is_explained(hypothesis: str, reference: str, why: str) -> None:
    report = bleu(hypothesis, reference)
    assert report.data["score"] == 0
    assert why in report.data["remarks"]["Why the score is 0"]


@pytest.mark.parametrize(
    ("matching", "quality"), [(1, "useless"), (2, "understandable"), (4, "good"), (6, "very good"), (11, "very good")]
)
def test_quality_labels_of_the_week_4_slides(matching: int, quality: str) -> None:
    reference = [f"w{n}" for n in range(11)]
    hypothesis = [word if n < matching else f"x{n}" for n, word in enumerate(reference)]
    data = bleu(" ".join(hypothesis), " ".join(reference), max_ngram_order=1).data
    assert data["score"] == pytest.approx(100 * matching / 11)
    assert data["quality"] == quality


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"hypothesis": "a"}, "--reference is missing: --hypothesis and --reference are given together"),
        ({"reference": "a"}, "--hypothesis is missing"),
        ({"hypothesis": " ", "reference": "a"}, "--hypothesis has no words"),
        ({"hypothesis": "<skipped>", "reference": "a"}, "--hypothesis has no words"),
        ({"hypothesis": "a", "reference": "a" * 501}, "--reference has 501 characters; the maximum is 500"),
        ({"max_ngram_order": 0}, "--max-ngram-order is 0; it can be from 1 to 9"),
        ({"max_ngram_order": 10}, "--max-ngram-order is 10"),
        ({"floor": 0.0}, "--floor is 0; it must be above 0 and at most 1"),
        ({"floor": math.nan}, "--floor is nan"),
    ],
)
def test_invalid_bleu_options_are_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        bleu(**options)


def test_matrices_are_rows_of_numbers() -> None:
    assert matrix_parsing.parse_matrices(states=" 5,1; 4 , 3;-2,6e-1 ", key_weights=None) == {
        "states": ((5, 1), (4, 3), (-2, 0.6))
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (" ", "--key-weights is empty; write rows of numbers, such as"),
        ("1,2;3", "--key-weights, row 2: 1 numbers, but row 1 has 2"),
        ("1,2;", "--key-weights, row 2 is empty; .* no semicolon at the end"),
        ("1,two", "--key-weights, row 1: 'two' is not a number"),
        ("1,2;3,", "--key-weights, row 2: '' is not a number"),
        ("1;\x1b[31m", r"row 2: '\\x1b\[31m' is not a number"),
        ("1;" + "x" * 999, "row 2: 'x+…' is not a number"),
        ("nan", "row 1: nan is not between -1,000,000 and 1,000,000"),
        ("1;2;-inf", "row 3: -inf is not between"),
        ("1000001", "row 1: 1000001 is not between"),
        (";".join("1" * 51), "--key-weights has 51 rows; the maximum is 50"),
        (",".join("1" * 51), "row 1: 51 numbers; the maximum is 50"),
    ],
)
def test_invalid_matrices_are_refused(text: str, problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        matrix_parsing.parse_matrices(key_weights=text)


@pytest.mark.parametrize(("command", "suffix"), list(zip(COMMANDS, SUFFIXES, strict=True)))
def test_the_command_line(regard: Regard, tmp_path: Path, command: str, suffix: str) -> None:
    path = tmp_path / f"it{suffix}"
    answer = regard("lab", command, "--out", path)
    assert answer.code == 0, answer.err
    assert path.stat().st_size > 1000
    data = json.loads(regard("lab", command, "--json").out)
    for step in data["steps"]:
        assert step["formula"] in answer.out
        assert [len(step["columns"])] * len(step["rows"]) == [len(row) for row in step["numbers"]]


def test_invalid_arguments_are_reported(regard: Regard) -> None:
    answer = regard("lab", "qkv", "--states", "1,2;3")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("regard: --states, row 2: 1 numbers, but row 1 has 2")


def test_hostile_sentences_are_shown_literally(regard: Regard, tmp_path: Path) -> None:
    answer = regard(
        "lab", "bleu", "--hypothesis", HOSTILE, "--reference", f"{HOSTILE} …", "--out", tmp_path / "it.html",
        "--out", tmp_path / "it.svg",
    )  # fmt: skip
    assert answer.code == 0, answer.err
    assert "\x1b" not in answer.out
    assert "<b>" not in (tmp_path / "it.html").read_text()
    assert "\x1b" not in (tmp_path / "it.svg").read_text()
