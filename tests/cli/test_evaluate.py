"""`regard evaluate` on files of texts, and with additional metrics."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sacrebleu

import regard as package
from regard.evaluation import metrics
from regard.evaluation.metrics import Metric
from regard.evaluation.sentence_statistics import mean_statistics

Regard = Callable[..., Any]
SOURCE = ["abc", "edcba", "ba", "e"]


def refused(answer: Any, *parts: str) -> None:
    """Exit code 2, no output, and one line on stderr that contains all `parts`."""
    assert (answer.code, answer.out) == (2, ""), answer
    assert answer.err.startswith("regard: ")
    assert "Traceback" not in answer.err
    assert answer.err.count("\n") == 1
    for part in parts:
        assert part in answer.err


@pytest.fixture
def file(tmp_path: Path) -> Callable[..., Path]:
    """A new file with these lines."""

    def write(name: str, *lines: str) -> Path:
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
        return tmp_path / name

    return write


def test_files_are_evaluated_as_in_python(regard: Regard, trained: Path, file: Callable[..., Path]):
    source, one, two = file("a", *SOURCE), file("b", "abc", "e", "b", "e"), file("c", "x", "edcba", "x", "x")
    options = ["--source", source, "--reference", one, "--reference", two, "--metric", "chrf", "--beam", 3]
    answer = regard("evaluate", trained, *options, "--json")
    assert answer.code == 0, answer.err
    found = json.loads(answer.out)
    assert (found["source"], found["sentences"], found["exact_match"]) == (str(source), 4, 3 / 4)
    assert "split" not in found
    assert "nrefs:2" in found["chrf_signature"]
    expected = package.evaluate(
        package.load(trained),
        source=source,
        references=[one, two],
        metrics=["chrf"],
        search=package.Search(beam=3),
    ).to_dict()
    for measured in ("seconds", "sentences_per_second"):
        del found[measured], expected[measured]
    assert found == expected
    outputs = [each.text for each in package.load(trained).translate(SOURCE)]
    known = [path.read_text().splitlines() for path in (one, two)]
    assert found["chrf"] == sacrebleu.corpus_chrf(outputs, known).score


def test_runs_are_compared_on_the_same_texts(
    regard: Regard, trained: Path, trained_brief: Callable[..., Path], file: Callable[..., Path]
):
    source = file("a", *SOURCE)
    answer = regard("evaluate", trained, trained_brief(), "--source", source, "--reference", source, "--metric", "bleu")
    assert answer.code == 0, answer.err
    lines = [line.split() for line in answer.out.splitlines()]
    assert lines[0] == [str(trained), str(trained_brief())]
    assert lines[1] == ["sentences", "4", "4"]
    assert lines[2][:3] == ["exact", "match", "100.0%"]
    assert lines[3][0] == "BLEU"
    widths = regard("evaluate", trained, "--beam", "1,2", "--source", source, "--reference", source, "--metric", "chrf")
    assert widths.out.splitlines()[0].split()[:4] == ["beam", "exact", "match", "chrF2"]


def test_the_metrics_of_any_task_can_be_added_to_a_split(regard: Regard, trained: Path):
    found = json.loads(regard("evaluate", trained, "--metric", "chrf", "--metric", "phoneme_error", "--json").out)
    names = [name for name in found if name in ("exact_match", "phoneme_error", "chrf")]
    assert names == ["exact_match", "phoneme_error", "chrf"]
    assert found["chrf"] > 99


class ResolvingMetrics(dict[str, Metric]):
    """Finds one metric more than it lists, by a reference to a file."""

    def __contains__(self, name: object) -> bool:
        return name == "/a/my.py:letters" or super().__contains__(name)

    def __missing__(self, name: str) -> Metric:
        return Metric("letters", "{:.2f}", statistics=lambda outputs, _: mean_statistics([len(o) for o in outputs]))


def test_a_metric_of_a_file_has_its_reference_in_json_and_its_title_in_tables(
    regard: Regard, trained: Path, file: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(metrics, "METRICS", ResolvingMetrics(metrics.METRICS))
    source = file("a", *SOURCE)
    options = ["--source", source, "--reference", source, "--metric", "/a/my.py:letters"]
    assert json.loads(regard("evaluate", trained, *options, "--json").out)["/a/my.py:letters"] == 11 / 4
    assert regard("evaluate", trained, *options).out.splitlines()[-1].split() == ["letters", "2.75"]
    head, *rows = regard("evaluate", trained, *options, "--beam", "1,2").out.splitlines()
    assert head.split()[-1] == "letters"
    assert [row.split()[-1] for row in rows] == ["2.75", "2.75"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--source", "A"], "--source and --reference belong together: give both, or neither to use a split"),
        (["--reference", "A"], "--source and --reference belong together"),
        (
            ["--source", "A", "--reference", "A", "--split", "test"],
            "--split: give either a split or --source and",
        ),
        (["--source", "A", "--reference", "A", "--set", "data.test=x"], "--set: give either a split or --source and"),
        (["--metric", "chfr"], "'chfr' is not a metric; did you mean 'chrf'?"),
        (["--metric", "loss"], "'loss' is not a metric of output texts; those are exact_match, "),
    ],
)
def test_invalid_options_are_refused(
    regard: Regard, trained: Path, file: Callable[..., Path], options: list[str], message: str
):
    path = str(file("a", *SOURCE))
    refused(regard("evaluate", trained, *(path if option == "A" else option for option in options)), message)


def test_hostile_files_are_refused(regard: Regard, trained: Path, file: Callable[..., Path], tmp_path: Path):
    good, shorter, empty = file("good", *SOURCE), file("shorter", "a", "b"), file("empty")
    (tmp_path / "binary").write_bytes(b"abc\n\x00\xff\xfe\n" * 2)
    (tmp_path / "long").write_text("abc\n" + "a" * 20_000 + "\nba\ne\n")

    def evaluate(source: Path, *references: Path) -> Any:
        given = [part for reference in references for part in ("--reference", reference)]
        return regard("evaluate", trained, "--source", source, *given)

    refused(evaluate(tmp_path / "none", good), f"{tmp_path / 'none'}: cannot be read: No such file or directory")
    refused(evaluate(good, tmp_path / "none"), f"{tmp_path / 'none'}: cannot be read: No such file or directory")
    refused(evaluate(good, tmp_path), f"{tmp_path}: ")
    refused(evaluate(good, tmp_path / "binary"), f"{tmp_path / 'binary'}, line 2: byte 2 (0xFF) is not UTF-8")
    refused(evaluate(tmp_path / "long", good), f"{tmp_path / 'long'}, line 2: more than 10,000 characters")
    refused(evaluate(good, good, shorter), f"{good} has 4 lines and {shorter} has 2 lines: they should be equal")
    refused(evaluate(empty, empty), f"{empty}: has no text; at least one is needed")
    refused(evaluate(file("blank", "", ""), file("blank2", "", "")), f"{tmp_path / 'blank'}: all texts are empty")
    refused(evaluate(file("odd", "ab", "xyz"), shorter), f"{tmp_path / 'odd'}, line 2: ", "'x'")
    refused(evaluate(shorter, file("odd", "ab", "xyz")), f"{tmp_path / 'odd'}, line 2: ", "'x'")


def test_examples_are_printed_and_in_json(regard: Regard, trained: Path, file: Callable[..., Path]):
    source, reference = file("a", *SOURCE), file("b", "abc", "edcba", "ab", "e")
    options = ["evaluate", trained, "--source", source, "--reference", reference, "--beam", "1,2", "--examples", 1]
    answer = regard(*options)
    assert answer.code == 0, answer.err
    text = answer.out
    assert text.index("beam  exact match") < text.index(f"{trained}, beam 1 (") < text.index(f"{trained}, beam 2 (")
    worst = text[text.index("Worst scores") :].splitlines()
    assert worst[0].startswith("Worst scores: sentence 3, score ")
    assert worst[1:4] == ["    source     ba", "    reference  ab", "    output     ba"]
    rows = [json.loads(line) for line in regard(*options, "--json").out.splitlines()]
    assert [row["beam"] for row in rows] == [1, 2]
    found = rows[0]["examples"][-1]
    score = sacrebleu.sentence_chrf("ba", ["ab"]).score
    assert {**found, "value": 0, "score": 0} == {
        "criterion": "Worst scores",
        "value": 0,
        "number": 3,
        "source": "ba",
        "reference": "ab",
        "output": "ba",
        "truncated": False,
        "score": 0,
    }
    assert found["value"] == found["score"] == pytest.approx(score)
    without = json.loads(regard(*options[:-2], "--json").out.splitlines()[0])
    assert "examples" not in without


@pytest.mark.parametrize("count", ["-1", "many"])
def test_a_wrong_number_of_examples_is_refused(regard: Regard, trained: Path, count: str):
    answer = regard("evaluate", trained, "--examples", count)
    assert answer.code == 2
    assert "--examples" in answer.err
    assert "Traceback" not in answer.err
