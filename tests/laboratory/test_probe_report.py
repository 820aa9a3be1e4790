from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from regard.errors import UserError
from regard.inference.translator import load
from regard.laboratory import probe_report, probes
from regard.laboratory.probes import ProbedSentence
from regard.laboratory.states import BOTTLENECK, DECODER, DECODER_INPUT, ENCODER, ENCODER_INPUT
from regard.reports.report_page import Picture, Table


@pytest.fixture(scope="module", autouse=True)
def quick() -> Iterator[None]:
    """Probes that are fitted once, in a hurry; how they are fitted is tested in `test_probes.py`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(probes, "PENALTIES", (1e-3,))
        patch.setattr(probes, "ITERATIONS", 10)
        patch.setattr(probe_report, "MOST_PLACES", 2)
        yield


@pytest.fixture(scope="module")
def found(trained: Path) -> dict[str, Any]:
    """What can be read in a model that copies rightly, and whose inputs tell their positions."""
    return dict(probe_report.probe_report(load(trained), limit=None, seed=1).data)


def about(data: dict[str, Any], kind: str, what: str) -> dict[str, Any]:
    (found,) = (each for each in data["probes"] if (each["from"], each["what"]) == (kind, what))
    return found


def test_positions_are_read_from_inputs_that_have_them(found):
    for kind, what in ((ENCODER_INPUT, "position i"), (DECODER_INPUT, "step t")):
        assert about(found, kind, what)["accuracy"] == 1
        assert about(found, kind, what)["control"] < 0.5


def test_a_model_that_copies_knows_its_tokens_and_counts(found):
    assert about(found, ENCODER, "token x_i")["accuracy"] > 0.95
    assert about(found, DECODER, "step t")["accuracy"] > 0.9


def test_numbers_fit_each_other(found):
    assert (found["fitted_sentences"], found["judged_sentences"]) == (600, 50)
    for each in found["probes"]:
        assert each["gain"] == pytest.approx(each["accuracy"] - max(each["majority"], each["control"]))
        assert 0 <= each["majority"] <= 1
    assert about(found, BOTTLENECK, "length")["judged"] == 50
    assert about(found, BOTTLENECK, "length")["classes"] == 5
    places = [each for each in found["probes"] if each["k"]]
    assert [each["k"] for each in places] == list(range(1, len(places) + 1))
    assert [each["judged"] for each in places] == sorted((each["judged"] for each in places), reverse=True)


def test_accuracies_by_length_are_parts_of_the_whole(found):
    assert found["by_length"]
    lengths = [each["lengths"] for each in found["by_length"]]
    assert lengths == sorted(lengths)
    first = about(found, BOTTLENECK, "k = 1")
    right = sum(each["sentences"] * each["first"]["accuracy"] for each in found["by_length"])
    assert right <= first["judged"] * first["accuracy"] + 1e-6
    assert all(each["sentences"] >= probe_report.FEWEST_OF_A_RANGE for each in found["by_length"])


def test_without_positions_they_cannot_be_read_from_the_input(trained_brief):
    run = trained_brief("model.encoder.positions.kind=none")
    input_only = about(dict(probe_report.probe_report(load(run), None, seed=1).data), ENCODER_INPUT, "position i")
    assert input_only["accuracy"] < 0.6


@pytest.mark.parametrize(("place", "known"), [("first", True), ("last", True), ("decoder", False)])
def test_the_prompt_is_in_the_bottleneck_unless_the_decoder_reads_it(tmp_path: Path, watcher, place: str, known: bool):
    fitting, judging, _ = probe_report.read_material(load(train_case(tmp_path, watcher, place)), None, seed=1)
    findings = [
        probe_report.run_probe(each, fitting, judging, 1) for each in probe_report.questions(1) if each.what == "prompt"
    ]
    assert [finding.question.kind for finding in findings] == [ENCODER, BOTTLENECK]
    from_states, from_bottleneck = (float(finding.reading.probe.right.double().mean()) for finding in findings)
    if known:
        assert from_bottleneck > 0.95
        assert from_states > 0.7
    else:
        assert from_bottleneck == pytest.approx(0.5, abs=0.1)
        assert from_states == pytest.approx(0.5, abs=0.1)
    assert {each.prompt for each in judging.sentences} == {"<U>", "<L>"}
    assert {len(each.content) for each in judging.sentences} == {1, 2, 3, 4, 5}  # the prompt is not counted
    assert not any("<U>" in each.content for each in judging.sentences)


def train_case(folder: Path, watcher, place: str) -> Path:
    from regard.config import loading
    from regard.training import train

    path = folder / "case.yaml"
    path.write_text(f"""\
data: {{task: case, prompt: {place}, max_length: 5, train: 500, validation: 20, test: 300}}
model:
  encoder: {{cell: gru, embedding: 16, size: 16}}
  decoder: {{cell: gru, embedding: 16, size: 32}}
training: {{epochs: 2, batch_tokens: 500, rate: {{peak: 0.01}}}}
""")
    train(loading.load_experiment(str(path)), folder / "run", watcher())
    return folder / "run"


KINDS = {
    "two layers of lstm": ("model.encoder.cell=lstm", "model.encoder.layers=2", "model.decoder.cell=lstm"),
    "attention before": ("model.decoder.wiring=before", "model.decoder.start=zeros"),
    "no attention": ("model.attention.kind=none",),
    "self-attention": ("model.encoder.kind=self-attention", "model.encoder.size=16"),
    "transformer": (
        "model.encoder.kind=self-attention",
        "model.encoder.size=16",
        "model.decoder.kind=transformer",
        "model.attention.kind=multi-head",
    ),
}
BOTTLENECKS = {
    "two layers of lstm": "64 numbers, where the encoder ends, all layers side by side; the decoder starts from it",
    "attention before": "16 numbers, where the encoder ends, all layers side by side; this decoder does not read it",
    "self-attention": "16 numbers, the mean of the encoder's states; the decoder starts from it",
    "transformer": "16 numbers, the mean of the encoder's states; this decoder does not read it",
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_model_can_be_probed(trained_brief, kind: str):
    expected: list[int] = []
    done: list[int] = []
    report = probe_report.probe_report(load(trained_brief(*KINDS[kind])), None, 1, expected.append, done.append)
    assert done == [1] * len(report.data["probes"])
    assert expected == [len(done)]
    assert report.data["bottleneck"] == BOTTLENECKS.get(kind, report.data["bottleneck"])
    json.dumps(report.data, allow_nan=False)
    blocks = [block for section in report.page.sections for block in section.blocks]
    assert [type(block) for block in blocks] == [Table, Picture, Table, Table]
    assert not any(each["what"] == "prompt" for each in report.data["probes"])
    assert not any("nan" in cell for block in blocks if isinstance(block, Table) for row in block.rows for cell in row)


def test_the_same_seed_gives_the_same_numbers(trained_brief):
    translator = load(trained_brief())
    first, again, other = (dict(probe_report.probe_report(translator, None, seed).data) for seed in (1, 1, 2))
    assert first == again
    assert [each["control"] for each in first["probes"]] != [each["control"] for each in other["probes"]]
    assert [each["accuracy"] for each in first["probes"]] == [each["accuracy"] for each in other["probes"]]


def test_no_source_is_fitted_on_and_judged(trained_brief, monkeypatch: pytest.MonkeyPatch):
    translator = load(trained_brief())
    read = probe_report.sentences.read
    train_pairs, train_examples = read(translator, "train", None)
    test_pairs, test_examples = read(translator, "test", None)
    # Seven sentences of the train split stand in the test split, too.
    mixed = {
        "train": (train_pairs, train_examples),
        "test": ([*train_pairs[:7], *test_pairs], [*train_examples[:7], *test_examples]),
    }
    monkeypatch.setattr(probe_report.sentences, "read", lambda _, split, limit: mixed[split])
    fitting, judging, notes = probe_report.read_material(translator, None, 1)
    assert (len(fitting.sentences), len(judging.sentences)) == (120, 50)
    assert notes == ["Left out: 7 sentences of the test split that probes were fitted on."]


def test_sentences_that_are_too_long_for_a_model_are_left_out(trained_brief, monkeypatch: pytest.MonkeyPatch):
    translator = load(trained_brief("model.encoder.positions.kind=learned", "model.decoder.positions.kind=learned"))
    translator.model.encoder.max_length = 5  # <end> included
    monkeypatch.setattr(probe_report, "FEWEST_FITTED", 50)
    monkeypatch.setattr(probe_report, "FEWEST_JUDGED", 20)
    fitting, judging, notes = probe_report.read_material(translator, None, 1)
    assert max(len(each.content) for each in (*fitting.sentences, *judging.sentences)) == 4
    count = 170 - len(fitting.sentences) - len(judging.sentences)
    assert notes == [f"Left out: {count} sentences longer than this model has positions."]


def test_too_few_sentences_are_refused(trained):
    with pytest.raises(UserError) as error:
        probe_report.probe_report(load(trained), limit=29, seed=1)
    assert str(error.value) == (
        "probes need 100 sentences to be fitted on and 30 others to be judged on; "
        "here are 29 of the train split and 29 others of the test split"
    )


def test_what_is_always_the_same_is_left_out_with_a_note(trained_brief):
    run = trained_brief("data.min_length=4", "data.max_length=4")
    report = probe_report.probe_report(load(run), None, 1)
    assert "Left out: length from the bottleneck; the same in all states to fit a probe on." in report.data["notes"]
    assert not any(each["what"] == "length" for each in report.data["probes"])
    assert report.data["notes"][0] in report.page.sections[0].text


def test_a_place_that_a_sentence_does_not_have_has_no_label():
    sentence = ProbedSentence(["<U>", "a", "b", "<end>"], "<U>", ["a", "b"])
    assert [probe_report.token_at(k)(sentence, 1) for k in (1, 2, 3)] == ["a", "b", None]


def test_the_command_prints_tables_draws_and_writes_a_page(regard: Callable[..., Any], trained_brief, tmp_path: Path):
    picture, page = tmp_path / "probes.png", tmp_path / "probes.html"
    answer = regard("probe", trained_brief(), "--limit", 200, "--out", picture, "--out", page)
    assert answer.code == 0, answer.err
    assert "judged on: 50 others, of the test split" in answer.out
    assert "encoder's input  position i" in answer.out
    assert "== The k-th character, from the bottleneck" in answer.out
    assert "== By length of the source" in answer.out
    assert picture.read_bytes().startswith(b"\x89PNG")
    html = page.read_text(encoding="utf-8")
    assert "data:image/svg+xml" in html
    assert "gain" in html


def test_the_command_gives_json(regard: Callable[..., Any], trained_brief):
    answer = regard("probe", trained_brief(), "--json", "--seed", 3)
    assert (answer.code, answer.err) == (0, "")
    data = json.loads(answer.out)
    assert data["seed"] == 3
    assert {each["from"] for each in data["probes"]} == {ENCODER_INPUT, ENCODER, BOTTLENECK, DECODER_INPUT, DECODER}


def test_the_command_refuses_too_few_sentences(regard: Callable[..., Any], trained_brief):
    answer = regard("probe", trained_brief(), "--limit", 11)
    assert answer.code != 0
    assert "probes need 100 sentences" in answer.err


def test_real_text_can_be_probed(corpus: Path, tmp_path: Path, watcher):
    from regard.config import loading
    from regard.training import train

    path = tmp_path / "text.yaml"
    path.write_text(f"""\
data:
  {{task: files, train: {corpus}/train, validation: {corpus}/validation, test: {corpus}/test, text: {{unit: words}}}}
model: {{encoder: {{embedding: 8, size: 8}}, decoder: {{embedding: 8, size: 16}}}}
training: {{epochs: 1, batch_tokens: 2000}}
""")
    train(loading.load_experiment(str(path)), tmp_path / "run", watcher())
    report = probe_report.probe_report(load(tmp_path / "run"), None, 1)
    assert report.page.sections[1].title == "The k-th token, from the bottleneck"
    json.dumps(report.data, allow_nan=False)
