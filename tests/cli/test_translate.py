"""`regard translate` with every search, and `regard score`."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import regard as package
from regard.inference.line_translation import moses_alignment
from regard.search import SearchOptions

Regard = Callable[..., Any]
LINES = ["abc", "", "e", "ddddd", "cab", "ba"]
STDIN = "".join(f"{line}\n" for line in LINES).encode()


def refused(answer: Any, *parts: str) -> None:
    """Assert exit code 2, no output, and one line on stderr that contains all `parts`."""
    assert (answer.code, answer.out) == (2, ""), answer
    assert answer.err.startswith("regard: ")
    assert "Traceback" not in answer.err
    for part in parts:
        assert part in answer.err


@pytest.fixture(scope="module")
def run(trained_brief: Callable[..., Path]) -> Path:
    """A half-trained model, which has many plausible hypotheses."""
    return trained_brief("training.epochs=8", "model.dropout=0")


@pytest.fixture(scope="module")
def other(trained_brief: Callable[..., Path]) -> Path:
    return trained_brief("training.epochs=8", "model.dropout=0", "training.seed=2")


@pytest.mark.parametrize(
    ("options", "search"),
    [
        ([], SearchOptions()),
        (["--beam", 5, "--length-penalty", 0.6], SearchOptions(beam=5, length_penalty=0.6)),
        (
            ["--sample", "--temperature", 0.8, "--top-k", 20, "--top-p", 0.9, "--seed", 7],
            SearchOptions(sample=True, temperature=0.8, top_k=20, top_p=0.9, seed=7),
        ),
        (["--prefix", "ed"], SearchOptions(prefix="ed")),
        (
            ["--min-length", 3, "--block-ngrams", 1, "--repetition-penalty", 2],
            SearchOptions(min_length=3, block_ngrams=1, repetition_penalty=2.0),
        ),
    ],
)
def test_options_are_those_of_the_search(regard: Regard, run: Path, options: list[object], search: SearchOptions):
    answer = regard("translate", run, *options, stdin=STDIN)
    assert answer.code == 0, answer.err
    assert answer.out.splitlines() == [each.text for each in package.load(run).translate(LINES, search)]


def test_an_n_best_list_has_one_line_per_output(regard: Regard, run: Path):
    answer = regard("translate", run, "--beam", 5, "--n-best", 3, stdin=STDIN)
    rows = [line.split(" ||| ") for line in answer.out.splitlines()]
    expected = [
        [str(number), each.text, f"{each.score:.4f}"]
        for number, translation in enumerate(package.load(run).translate(LINES, SearchOptions(beam=5, n_best=3)))
        for each in translation.n_best
    ]
    assert rows == expected
    assert [row[0] for row in rows].count("0") == 3
    assert ["1", "", "0.0000"] in rows


def test_alignments_are_printed_after_the_text(regard: Regard, trained: Path):
    answer = regard("translate", trained, "--alignments", "moses", "abc", "", "ed")
    assert answer.out == "abc ||| 0-0 1-1 2-2\n ||| \ned ||| 0-0 1-1\n"
    listed = regard("translate", trained, "--alignments", "moses", "--beam", 2, "--n-best", 2, "abc").out
    assert re.fullmatch(r"0 \|\|\| abc \|\|\| -0\.\d{4} \|\|\| 0-0 1-1 2-2", listed.splitlines()[0])
    assert len(listed.splitlines()) == 2


def test_a_pair_of_an_alignment_is_printed_as_source_then_target():
    weights = torch.tensor([[0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [1.0, 0.0, 0.0, 0.0]])
    translation = package.Translation(
        "x y z", ("x", "y", "z"), ("a", "b", "c", "<end>"), (0.0, 0.0, 0.0), weights, finished=False
    )
    assert moses_alignment(translation) == "1-0 2-1 0-2"


def test_json_has_all_fields(regard: Regard, run: Path):
    answer = regard("translate", run, "--json", "--beam", 4, "--n-best", 3, stdin=STDIN)
    results = [json.loads(line) for line in answer.out.splitlines()]
    assert [bool(result["n_best"][0]["tokens"]) for result in results] == [bool(line) for line in LINES]
    for line, result in zip(LINES, results, strict=True):
        best = result["n_best"][0]
        if not line:
            assert (result["text"], result["score"], best["attention"], best["alignment"]) == ("", 0.0, [], [])
            continue
        assert result["source_tokens"] == [*line, "<end>"]
        assert (best["text"], best["score"]) == (result["text"], result["score"])
        for each in result["n_best"]:
            assert (len(each["attention"]), len(each["attention"][0])) == (len(each["tokens"]), len(line) + 1)
            assert sum(each["attention"][0]) == pytest.approx(1, abs=1e-4)
            assert each["score"] == pytest.approx(sum(each["log_probabilities"]), abs=1e-5)
        scores = [each["score"] for each in result["n_best"]]
        assert len(scores) == 3
        assert scores == sorted(scores, reverse=True)


def test_layers_and_heads_are_in_the_json(regard: Regard, trained_brief: Callable[..., Path]):
    run = trained_brief("model.attention.kind=multi-head", "model.attention.heads=2")
    result = json.loads(regard("translate", run, "--json", "--beam", 2, "abc").out)
    (best,) = result["n_best"]
    assert result["axes"] == ["head"]
    assert (len(best["attention"]), len(best["attention"][0])) == (2, len(best["tokens"]))
    assert all(0 <= source < 3 for source, _ in best["alignment"])


def test_several_runs_form_an_ensemble(regard: Regard, run: Path, other: Path):
    answer = regard("translate", run, other, "--beam", 3, stdin=STDIN)
    assert answer.code == 0, answer.err
    together = package.load(run, other).translate(LINES, SearchOptions(beam=3))
    assert answer.out.splitlines() == [each.text for each in together]
    assert regard("translate", run, other, "--beam", 3, "abc").out.splitlines() == [together[0].text]


def test_outputs_do_not_depend_on_the_order_of_lines(regard: Regard, run: Path):
    for options in (["--beam", 3], ["--sample", "--seed", 3]):
        forwards = regard("translate", run, *options, stdin=STDIN).out.splitlines()
        backwards = regard("translate", run, *options, stdin="\n".join(LINES[::-1]).encode()).out.splitlines()
        assert forwards == backwards[::-1]


def test_a_text_that_resembles_a_run_path_is_noted(regard: Regard, trained: Path, tmp_path: Path):
    answer = regard("translate", trained, tmp_path / "none")
    assert answer.code == 2  # no such characters
    assert (
        f"note: '{tmp_path}/none' is taken as a text: run directories come before texts, and contain a run.json"
        in answer.err
    )


def test_a_long_text_is_not_taken_for_a_run(regard: Regard, trained: Path):
    assert regard("translate", trained, "abcde" * 100).code == 0


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (["--beam", 0], ["beam 0", "should be a whole number, 1 to 10,000"]),
        (["--beam", -3], ["beam -3"]),
        (["--beam", 2, "--n-best", 3], ["n-best 3", "width 2"]),
        (["--n-best", 0], ["n-best 0"]),
        (["--sample", "--beam", 2], ["beam 2 and sample"]),
        (["--temperature", 0.5], ["temperature 0.5", "sampl"]),
        (["--sample", "--temperature", 0], ["temperature 0.0"]),
        (["--sample", "--temperature", "nan"], ["temperature nan"]),
        (["--sample", "--top-p", 1.5], ["top-p 1.5"]),
        (["--sample", "--top-k", 0], ["top-k 0"]),
        (["--length-penalty", -1], ["length-penalty -1.0"]),
        (["--length-penalty", "inf"], ["length-penalty inf"]),
        (["--repetition-penalty", 0.5], ["repetition-penalty 0.5"]),
        (["--min-length", -1], ["min-length -1"]),
        (["--block-ngrams", -1], ["block-ngrams -1"]),
        (["--json", "--alignments", "moses"], ["--json includes the alignments; omit either"]),
    ],
)
def test_invalid_options_are_reported_before_loading(
    regard: Regard, tmp_path: Path, options: list[object], parts: list[str]
):
    refused(regard("translate", tmp_path / "none", *options, stdin=STDIN), *parts)


def test_an_unknown_prefix_is_reported_before_reading(regard: Regard, trained: Path):
    refused(regard("translate", trained, "--prefix", "aXb", stdin=b"\xff"), "the prefix 'aXb': token 2, 'X'")
    refused(regard("translate", trained, "--prefix", "<end>", "abc"), "token 1, '<'")


def test_runs_that_cannot_form_an_ensemble_are_refused(regard: Regard, run: Path, trained: Path):
    refused(regard("translate", run, trained, "abc"), "cannot form an ensemble: their source vocabularies differ")


def test_a_model_without_attention_has_no_alignments(regard: Regard, trained_brief: Callable[..., Path]):
    run = trained_brief("model.attention.kind=none")
    refused(regard("translate", run, "--alignments", "moses", stdin=b"\nabc\n"), "this model has no attention")
    assert json.loads(regard("translate", run, "--json", "abc").out)["n_best"][0]["alignment"] == []


def test_truncated_outputs_are_reported(regard: Regard, trained_brief: Callable[..., Path]):
    run = trained_brief("decoding.length_factor=0", "decoding.length_extra=1")
    answer = regard("translate", run, "--beam", 2, "--min-length", 0, "abcde", "abc")
    assert answer.code == 0
    assert answer.err.splitlines() == [
        f"regard: note: text {number}: truncated after 1 tokens, the maximum length" for number in (1, 2)
    ]


def test_progress_is_printed_when_output_is_redirected(regard: Regard, run: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("regard.terminal.progress.LOG_INTERVAL", 0.0)
    answer = regard("translate", run, stdin=STDIN * 100)
    lines = answer.err.splitlines()
    assert lines
    assert re.fullmatch(r"[\d,]+ sentences  [\d,.]+ sentences/s", lines[-1])
    lines_of_progress = regard("translate", run, *["abc"] * 100).err.splitlines()
    assert re.fullmatch(r"100/100 sentences  [\d,.]+ sentences/s  0:00 left", lines_of_progress[-1])


# --- score -----------------------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    source, target = tmp_path / "a.in", tmp_path / "a.out"
    source.write_bytes(STDIN)
    target.write_text("abc\n\nd\nddddd\nabcdeabcde\n\n")
    return source, target


def test_scores_are_printed_one_per_line(regard: Regard, run: Path, files: tuple[Path, Path]):
    source, target = files
    answer = regard("score", run, "--source", source, "--target", target)
    assert answer.code == 0, answer.err
    pairs = list(zip(LINES, target.read_text().splitlines(), strict=True))
    expected = [(each.log_probability, each.perplexity) for each in package.load(run).score(pairs)]
    rows = [tuple(float(value) for value in line.split("\t")) for line in answer.out.splitlines()]
    for row, values in zip(rows, expected, strict=True):
        assert row == pytest.approx(values, abs=1e-3)
    assert rows[1] == (0.0, 1.0)
    programs = regard("score", run, "--source", source, "--target", target, "--json").out.splitlines()
    for line, (log_probability, perplexity) in zip(programs, expected, strict=True):
        result = json.loads(line)
        assert result["log_probability"] == pytest.approx(log_probability, abs=1e-4)
        assert result["perplexity"] == pytest.approx(perplexity, rel=1e-4)
        assert math.fsum(result["log_probabilities"]) == pytest.approx(log_probability, abs=1e-4)


def test_rescoring_a_translation_gives_the_reported_score(regard: Regard, run: Path, other: Path, tmp_path: Path):
    for runs in ([run], [run, other]):
        reported_lines = [
            json.loads(line) for line in regard("translate", *runs, "--beam", 3, "--json", stdin=STDIN).out.splitlines()
        ]
        (tmp_path / "in").write_bytes(STDIN)
        (tmp_path / "out").write_text("".join(result["text"] + "\n" for result in reported_lines))
        answer = regard("score", *runs, "--source", tmp_path / "in", "--target", tmp_path / "out")
        for result, line in zip(reported_lines, answer.out.splitlines(), strict=True):
            if result["n_best"][0]["finished"]:
                assert float(line.split("\t")[0]) == pytest.approx(result["score"], abs=1e-4)


@pytest.mark.parametrize(
    ("source", "target", "part"),
    [
        (b"abc\ne\n", b"abc\n", "has 2 lines and"),
        (b"abc\nxe\n", b"abc\ne\n", "a.in, line 2: "),
        (b"abc\ne\n", b"abc\nxe\n", "a.out, line 2: token 1, 'x'"),
        (b"abc\n\n", b"abc\ne\n", "a.out, line 2: its source is empty"),
        (b"abc\n\xffe\n", b"abc\ne\n", "a.in, line 2: byte 1 (0xFF) is not UTF-8"),
        (b"abc\ne\n", b"abc\ne\xff\n", "a.out, line 2: byte 2 (0xFF) is not UTF-8"),
    ],
)
def test_a_pair_that_cannot_be_scored_is_reported_with_its_line(
    regard: Regard, trained: Path, tmp_path: Path, source: bytes, target: bytes, part: str
):
    (tmp_path / "a.in").write_bytes(source)
    (tmp_path / "a.out").write_bytes(target)
    refused(regard("score", trained, "--source", tmp_path / "a.in", "--target", tmp_path / "a.out"), part)


def test_a_diverged_model_is_reported_by_score(regard: Regard, trained: Path, files: tuple[Path, Path], tmp_path: Path):
    run = Path(shutil.copytree(trained, tmp_path / "run"))
    weights = load_file(run / "model.safetensors")
    with safe_open(run / "model.safetensors", framework="pt") as file:
        save_file(
            {name: weight * math.nan for name, weight in weights.items()}, run / "model.safetensors", file.metadata()
        )
    source, target = files
    refused(regard("score", run, "--source", source, "--target", target), "the model's probabilities are not finite")
    refused(regard("translate", run, "abc"), "the model's probabilities are not finite")


def test_missing_files_are_refused(regard: Regard, trained: Path, tmp_path: Path):
    missing = tmp_path / "none"
    refused(
        regard("score", trained, "--source", missing, "--target", missing), f"{missing}: cannot be read: No such file"
    )
    refused(
        regard("score", trained, "--source", tmp_path, "--target", missing), f"{tmp_path}: cannot be read: Is a dir"
    )
    assert regard("score", trained, "--source", missing).code == 2
