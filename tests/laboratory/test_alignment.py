"""`regard align`: attention compared with gold alignments of a task or a file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from regard.config import loading
from regard.inference.translator import load
from regard.laboratory.alignment_report import alignment_report
from regard.laboratory.attention_stats import MEASURES
from regard.training.train_run import train_run

Regard = Callable[..., Any]

TEXT = """\
description: Hardly trained on a few sentences.
data: {{task: files, train: {0}/train, validation: {0}/validation, test: {0}/test, text: {{}}}}
model:
  encoder: {{embedding: 8, size: 8}}
  decoder: {{embedding: 8, size: 16}}
training: {{epochs: 1, batch_tokens: 4000}}
"""
UNITS = {
    "subwords": ("data.text.size=90",),
    "words": ("data.text.unit=words", "data.text.lowercase=true"),
    "characters": ("data.text.unit=characters", "data.text.joint=false"),
}


@pytest.fixture(scope="module")
def reader(corpus: Path, new_callback: type, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A run trained on `corpus`, tokenized into these units."""
    folder = tmp_path_factory.mktemp("readers")
    (folder / "text.yaml").write_text(TEXT.format(corpus))

    def make(unit: str) -> Path:
        if not (folder / unit).exists():
            train_run(loading.load_experiment(str(folder / "text.yaml"), UNITS[unit]), folder / unit, new_callback())
        return folder / unit

    return make


def texts(corpus: Path) -> list[tuple[str, str]]:
    sides = [(corpus / f"test.{language}").read_text().splitlines() for language in ("de", "en")]
    return list(zip(*sides, strict=True))


def write_gold(path: Path, corpus: Path, count: int | None = None) -> Path:
    """Word t of the source is aligned to word t of the target (sure) and t − 1 (possible)."""
    lines = []
    for source, target in texts(corpus)[:count]:
        words = range(min(len(source.split()), len(target.split())))
        lines.append(
            " ".join(
                [
                    *(f"{position}-{position}" for position in words),
                    *(f"{position}p{position - 1}" for position in words[1:]),
                ]
            )
        )
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def json_of(regard: Regard, *arguments: object) -> Any:
    answer = regard("align", *arguments, "--json")
    assert answer.code == 0, answer.err
    return json.loads(answer.out)


def refused(regard: Regard, *arguments: object) -> str:
    answer = regard("align", *arguments)
    assert answer.code == 2, answer
    assert answer.out == ""
    assert answer.err.count("\n") == 1
    return str(answer.err)


def test_a_copying_model_attends_to_what_it_copies(regard: Regard, trained: Path) -> None:
    answer = regard("align", trained)
    assert answer.code == 0, answer.err
    lines = answer.out.splitlines()
    assert lines[0] == "Attention compared with gold alignments"
    assert "sentences: 50 of the test split" in lines
    assert "attention: dot, after the step" in lines
    (row,) = [line.split() for line in lines if line.startswith("attention  ") and line.count("%") == 4]
    precision, recall = (float(row[position]) for position in (1, 3))
    assert precision > 95
    assert recall > 95
    assert float(row[5]) < 0.05, "AER"
    assert float(row[-1]) > 0.95, "next step"
    assert max(map(len, lines)) <= 100 + len(str(trained))


def test_json_output(regard: Regard, trained: Path) -> None:
    data = json_of(regard, trained, "--limit", 7, "--split", "validation")
    assert (data["split"], data["sentences"], data["gold"]) == ("validation", 7, "the task")
    (only,) = data["maps"]
    assert only["map"] == "attention"
    assert set(only) == {"map", "same_step", "next_step", *MEASURES}
    assert len(data["per_sentence"]) == 7
    for key in ("same_step", "next_step"):
        assert only[key]["sure"] == sum(len(each["source"]) for each in data["per_sentence"])
        for count in ("links", "sure", "links_sure", "links_possible"):
            assert only[key][count] == sum(each["maps"][0][key][count] for each in data["per_sentence"])
        right = only[key]["links_sure"]
        assert only[key]["aer"] == pytest.approx(1 - 2 * right / (only[key]["links"] + only[key]["sure"]))
    for key in MEASURES:
        known = [value for each in data["per_sentence"] if (value := each["maps"][0][key]) is not None]
        assert only[key] == pytest.approx(sum(known) / len(known))
    assert data["diagonal"]["aer"] == data["oracle"]["aer"] == 0
    first = data["per_sentence"][0]
    assert first["target_units"] == list(first["target"])
    assert first["sure"] == [[position, position] for position in range(len(first["source"]))]


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        (("model.attention.kind=multi-head", "model.attention.heads=4"), ["mean", *(f"head {n}" for n in range(1, 5))]),
        (
            (
                "model.decoder.kind=transformer",
                "model.decoder.layers=3",
                "model.decoder.heads=2",
                "model.attention.kind=multi-head",
                "model.attention.heads=2",
            ),
            ["mean", *(f"layer {layer} · head {head}" for layer in (1, 2, 3) for head in (1, 2))],
        ),
    ],
    ids=["heads", "layers-and-heads"],
)
def test_a_row_for_each_layer_and_head(
    trained_brief: Callable[..., Path], settings: tuple[str, ...], names: list[str]
) -> None:
    report = alignment_report(load(trained_brief(*settings)), "test", 11, None, None)
    assert [each["map"] for each in report.data["maps"]] == names
    accuracy, movement = (next(iter(section.blocks)) for section in report.page.sections[:2])
    assert [row[0] for row in accuracy.rows] == [*names, "diagonal", "oracle"]
    assert [row[0] for row in movement.rows] == names
    errors = {each["map"]: each["same_step"]["aer"] for each in report.data["maps"][1:]}
    drawn = [each["map"] for each in report.data["figure"]["maps"]]
    assert drawn == ["mean", min(errors, key=errors.__getitem__)], "the mean, and the map with the lowest AER"
    assert [panel.get_title() for panel in report.figure.axes[:2]] == drawn


def test_explanation_of_the_next_step_depends_on_the_wiring(regard: Regard, trained_brief: Callable[..., Path]) -> None:
    after = regard("align", trained_brief(), "--limit", 3).out
    before = regard("align", trained_brief("model.decoder.wiring=before"), "--limit", 3).out
    assert "whose input is the output." in after
    assert "whose query is the state that predicted the output." in before


def test_a_model_without_attention_is_refused(regard: Regard, trained_brief: Callable[..., Path]) -> None:
    run = trained_brief("model.attention.kind=none")
    message = refused(regard, run)
    assert message.startswith(f"regard: {run}: this model has no attention: ")
    assert message.endswith("model.attention.kind is 'none'\n")


def test_uniform_attention_has_no_links(regard: Regard, trained_brief: Callable[..., Path]) -> None:
    run = trained_brief("model.attention.kind=mean")
    (only,) = json_of(regard, run)["maps"]
    assert only["same_step"]["links"] == only["next_step"]["links"] == 0
    assert (only["same_step"]["precision"], only["same_step"]["recall"], only["same_step"]["aer"]) == (None, 0, 1)
    assert only["entropy_share"] == pytest.approx(1)
    assert only["monotonicity"] == pytest.approx(0, abs=1e-6)
    assert only["backward"] is None
    row, _ = [line.split() for line in regard("align", run).out.splitlines() if line.startswith("attention  ")]
    assert row == ["attention", "–", "0.0", "%", "1.000", "–", "0.0", "%", "1.000"]


def test_pictures_and_pages(regard: Regard, trained: Path, tmp_path: Path) -> None:
    picture, page = tmp_path / "map.png", tmp_path / "map.html"
    answer = regard("align", trained, "--sentence", 13, "--out", picture, "--out", page)
    assert answer.code == 0, answer.err
    assert picture.read_bytes().startswith(b"\x89PNG")
    html = page.read_text()
    assert html.count("<img ") == 1
    assert '<h2 dir="auto">Sentence 13</h2>' in html
    assert "rings: gold links" in html


def test_the_links_of_a_task_are_circled(trained: Path) -> None:
    report = alignment_report(load(trained), "test", None, None, 5)
    panel, _bar = report.figure.axes
    rings, edges = ({(x, y) for x, y in line.get_xydata().tolist()} for line in panel.lines)
    length = len(report.data["per_sentence"][4]["source"])
    assert rings == edges == {(position, position) for position in range(length)}
    assert report.data["figure"]["sentence"] == 5
    assert report.data["figure"]["rows"] == [*report.data["per_sentence"][4]["target"], "<end>"]


@pytest.mark.parametrize("number", [0, -1, 51])
def test_a_sentence_out_of_range_is_refused(regard: Regard, trained: Path, number: int) -> None:
    assert f"sentence {number}: of the test split, sentences 1 to 50 are read" in refused(
        regard, trained, f"--sentence={number}"
    )


class TestRealText:
    def test_without_gold_only_movement_is_reported(self, regard: Regard, reader: Callable[[str], Path]) -> None:
        answer = regard("align", reader("subwords"))
        assert answer.code == 0, answer.err
        assert answer.out.startswith("Movement of attention along the source\n")
        assert "AER" not in answer.out
        assert "Longest inversion" in answer.out
        assert max(len(line) for line in answer.out.splitlines() if not line.startswith("run: ")) <= 100
        data = json_of(regard, reader("subwords"))
        assert data["gold"] is None
        assert set(data["maps"][0]) == {"map", *MEASURES}
        first = data["per_sentence"][0]
        assert first["source_units"] == first["source"].replace(".", " .").replace(",", " ,").split()

    @pytest.mark.parametrize("unit", UNITS)
    def test_gold_file_is_in_words_for_any_tokenization(
        self, regard: Regard, reader: Callable[[str], Path], corpus: Path, tmp_path: Path, unit: str
    ) -> None:
        data = json_of(regard, reader(unit), "--gold", write_gold(tmp_path / "gold", corpus))
        for each, (source, target) in zip(data["per_sentence"], texts(corpus), strict=True):
            assert (each["source_units"], each["target_units"]) == (source.split(), target.split())
            pairs = [[position, position] for position in range(len(each["sure"]))]
            assert each["sure"] == pairs
            assert [pair for pair in each["possible"] if pair not in pairs] == [[s, t - 1] for s, t in pairs[1:]]
            assert all(
                s < len(source.split()) and t < len(target.split()) for s, t in each["maps"][0]["same_step"]["pairs"]
            )
        (only,) = data["maps"]
        assert only["same_step"]["sure"] == sum(len(each["sure"]) for each in data["per_sentence"])
        assert only["same_step"]["links_possible"] > only["same_step"]["links_sure"] > 0
        assert data["figure"]["columns"][-1] == data["figure"]["rows"][-1] == "<end>"
        drawn = data["per_sentence"][data["figure"]["sentence"] - 1]
        assert data["figure"]["rows"][:-1] == drawn["target_units"]
        for row in data["figure"]["maps"][0]["weights"]:
            assert len(row) == len(drawn["source_units"]) + 1
            assert sum(row) == pytest.approx(1, abs=1e-5)

    def test_gold_links_are_counted(
        self, regard: Regard, reader: Callable[[str], Path], corpus: Path, tmp_path: Path
    ) -> None:
        gold = write_gold(tmp_path / "gold", corpus)
        sure = sum(min(len(source.split()), len(target.split())) for source, target in texts(corpus))
        answer = regard("align", reader("words"), "--gold", gold)
        assert f"gold links: {sure} sure and {sure - 30} possible, from {gold}\n" in answer.out

    def test_gold_file_needs_a_line_per_sentence(
        self, regard: Regard, reader: Callable[[str], Path], corpus: Path, tmp_path: Path
    ) -> None:
        gold = write_gold(tmp_path / "gold", corpus, count=7)
        assert "has 7 lines, and there are 30 pairs of texts" in refused(regard, reader("words"), "--gold", gold)
        assert "has 7 lines, and there are 11 pairs" in refused(regard, reader("words"), "--gold", gold, "--limit", 11)
        answer = regard("align", reader("words"), "--gold", gold, "--limit", 5)
        assert "gold (it has 7 lines, and the split 30 pairs)\n" in answer.out
        assert "sentences: 5 of the test split" in answer.out

    def test_invalid_gold_line_is_refused(
        self, regard: Regard, reader: Callable[[str], Path], corpus: Path, tmp_path: Path
    ) -> None:
        gold = write_gold(tmp_path / "gold", corpus)
        lines = gold.read_text().splitlines()
        words = len(texts(corpus)[2][0].split())
        gold.write_text("\n".join([*lines[:2], f"{words}-0", *lines[3:]]))
        message = refused(regard, reader("words"), "--gold", gold)
        assert f"gold, line 3: {words}-0 names word {words} of the source, which has {words}" in message
