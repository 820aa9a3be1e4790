"""The report of `regard probe`, on models of every kind."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from regard.errors import UserError
from regard.inference.translator import load
from regard.laboratory import probe_tasks, probes
from regard.laboratory.probe_report import probe_report
from regard.laboratory.probe_tasks import ProbedSentence, kth_token, load_probe_data, run_probe
from regard.laboratory.states import BOTTLENECK, DECODER, DECODER_INPUT, ENCODER, ENCODER_INPUT
from regard.reports.report_page import Picture, Table


@pytest.fixture(scope="module", autouse=True)
def quick() -> Iterator[None]:
    """Probes trained once with few iterations; their training is tested in `test_probes.py`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(probes, "PENALTIES", (1e-3,))
        patch.setattr(probes, "ITERATIONS", 10)
        patch.setattr(probe_tasks, "MAX_TOKEN_INDEX", 2)
        yield


@pytest.fixture(scope="module")
def found(trained: Path) -> dict[str, Any]:
    """The probe results of a model that copies correctly and has position encodings."""
    return dict(probe_report(load(trained), limit=None, seed=1).data)


def result_of(data: dict[str, Any], kind: str, label: str) -> dict[str, Any]:
    (found,) = (each for each in data["probes"] if (each["from"], each["label"]) == (kind, label))
    return found


def test_positions_are_predicted_from_position_encodings(found):
    for kind, label in ((ENCODER_INPUT, "position i"), (DECODER_INPUT, "step t")):
        assert result_of(found, kind, label)["accuracy"] == 1
        assert result_of(found, kind, label)["control"] < 0.5


def test_states_of_a_copying_model_contain_token_and_step(found):
    assert result_of(found, ENCODER, "token x_i")["accuracy"] > 0.95
    assert result_of(found, DECODER, "step t")["accuracy"] > 0.9


def test_results_are_consistent(found):
    assert (found["train_sentences"], found["test_sentences"]) == (600, 50)
    for each in found["probes"]:
        assert each["gain"] == pytest.approx(each["accuracy"] - max(each["majority"], each["control"]))
        assert 0 <= each["majority"] <= 1
    assert result_of(found, BOTTLENECK, "length")["test"] == 50
    assert result_of(found, BOTTLENECK, "length")["classes"] == 5
    by_token = [each for each in found["probes"] if each["k"]]
    assert [each["k"] for each in by_token] == list(range(1, len(by_token) + 1))
    assert [each["test"] for each in by_token] == sorted((each["test"] for each in by_token), reverse=True)


def test_accuracies_by_length_partition_the_test_set(found):
    assert found["by_length"]
    lengths = [each["lengths"] for each in found["by_length"]]
    assert lengths == sorted(lengths)
    first = result_of(found, BOTTLENECK, "k = 1")
    correct = sum(each["sentences"] * each["first"]["accuracy"] for each in found["by_length"])
    assert correct <= first["test"] * first["accuracy"] + 1e-6
    assert all(each["sentences"] >= probe_tasks.MIN_RANGE_SENTENCES for each in found["by_length"])


def test_inputs_without_position_encoding_contain_no_position(trained_brief):
    run = trained_brief("model.encoder.positions.kind=none")
    input_only = result_of(dict(probe_report(load(run), None, seed=1).data), ENCODER_INPUT, "position i")
    assert input_only["accuracy"] < 0.6


@pytest.mark.parametrize(("prompt", "known"), [("first", True), ("last", True), ("decoder", False)])
def test_prompt_is_in_the_bottleneck_unless_only_the_decoder_reads_it(
    tmp_path: Path, new_callback, prompt: str, known: bool
):
    train_data, test_data, _ = load_probe_data(load(train_case(tmp_path, new_callback, prompt)), None, seed=1)
    results = [
        run_probe(each, train_data, test_data, 1) for each in probe_tasks.probe_tasks(1) if each.label_name == "prompt"
    ]
    assert [result.task.kind for result in results] == [ENCODER, BOTTLENECK]
    from_states, from_bottleneck = (float(result.evaluation.probe.correct.double().mean()) for result in results)
    if known:
        assert from_bottleneck > 0.95
        assert from_states > 0.7
    else:
        assert from_bottleneck == pytest.approx(0.5, abs=0.1)
        assert from_states == pytest.approx(0.5, abs=0.1)
    assert {each.prompt for each in test_data.sentences} == {"<U>", "<L>"}
    assert {len(each.content) for each in test_data.sentences} == {1, 2, 3, 4, 5}  # the prompt is not counted
    assert not any("<U>" in each.content for each in test_data.sentences)


def train_case(folder: Path, new_callback, prompt: str) -> Path:
    from regard.config import loading
    from regard.training.train_run import train_run

    path = folder / "case.yaml"
    path.write_text(f"""\
data: {{task: case, prompt: {prompt}, max_length: 5, train: 500, validation: 20, test: 300}}
model:
  encoder: {{cell: gru, embedding: 16, size: 16}}
  decoder: {{cell: gru, embedding: 16, size: 32}}
training: {{epochs: 2, batch_tokens: 500, rate: {{peak: 0.01}}}}
""")
    train_run(loading.load_experiment(str(path)), folder / "run", new_callback())
    return folder / "run"


KINDS = {
    "two layers of lstm": ("model.encoder.cell=lstm", "model.encoder.layers=2", "model.decoder.cell=lstm"),
    "attention before": ("model.decoder.wiring=before", "model.decoder.start=zeros"),
    "no attention": ("model.attention.kind=none",),
    "self-attention": ("model.encoder.kind=self-attention", "model.encoder.size=16"),
    "plain attention": ("model.encoder.kind=plain-attention", "model.encoder.size=16"),
    "self-attention over an RNN": ("model.encoder.kind=recurrent-self-attention",),
    "transformer": (
        "model.encoder.kind=self-attention",
        "model.encoder.size=16",
        "model.decoder.kind=transformer",
        "model.attention.kind=multi-head",
    ),
}
FINAL = "the encoder's final state, all layers concatenated"
MEAN = "the mean of the encoder states"
USED = "the decoder's initial state is computed from it"
UNUSED = "this decoder does not use it"
BOTTLENECKS = {
    "two layers of lstm": f"64 elements, {FINAL}; {USED}",
    "attention before": f"16 elements, {FINAL}; {UNUSED}",
    "self-attention": f"16 elements, {MEAN}; {USED}",
    "plain attention": f"16 elements, {MEAN}; {USED}",
    "self-attention over an RNN": f"16 elements, {FINAL}; {USED}",
    "transformer": f"16 elements, {MEAN}; {UNUSED}",
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_model_can_be_probed(trained_brief, kind: str):
    expected: list[int] = []
    done: list[int] = []
    report = probe_report(load(trained_brief(*KINDS[kind])), None, 1, expected.append, done.append)
    assert done == [1] * len(report.data["probes"])
    assert expected == [len(done)]
    assert report.data["bottleneck"] == BOTTLENECKS.get(kind, report.data["bottleneck"])
    json.dumps(report.data, allow_nan=False)
    blocks = [block for section in report.page.sections for block in section.blocks]
    assert [type(block) for block in blocks] == [Table, Picture, Table, Table]
    assert not any(each["label"] == "prompt" for each in report.data["probes"])
    assert not any("nan" in cell for block in blocks if isinstance(block, Table) for row in block.rows for cell in row)


def test_the_same_seed_gives_the_same_numbers(trained_brief):
    translator = load(trained_brief())
    first, again, other = (dict(probe_report(translator, None, seed).data) for seed in (1, 1, 2))
    assert first == again
    assert [each["control"] for each in first["probes"]] != [each["control"] for each in other["probes"]]
    assert [each["accuracy"] for each in first["probes"]] == [each["accuracy"] for each in other["probes"]]


def test_no_source_is_in_both_training_and_test_data(trained_brief, monkeypatch: pytest.MonkeyPatch):
    translator = load(trained_brief())
    train_pairs, train_examples = probe_tasks.load_examples(translator, "train", None)
    test_pairs, test_examples = probe_tasks.load_examples(translator, "test", None)
    # Seven sentences of the train split are in the test split, too.
    mixed = {
        "train": (train_pairs, train_examples),
        "test": ([*train_pairs[:7], *test_pairs], [*train_examples[:7], *test_examples]),
    }
    monkeypatch.setattr(probe_tasks, "load_examples", lambda _, split, limit: mixed[split])
    train_data, test_data, notes = load_probe_data(translator, None, 1)
    assert (len(train_data.sentences), len(test_data.sentences)) == (120, 50)
    assert notes == ["Omitted: 7 sentences of the test split that are also in the training data."]


def test_sentences_too_long_for_the_model_are_omitted(trained_brief, monkeypatch: pytest.MonkeyPatch):
    translator = load(trained_brief("model.encoder.positions.kind=learned", "model.decoder.positions.kind=learned"))
    translator.model.encoder.max_length = 5  # <end> included
    monkeypatch.setattr(probe_tasks, "MIN_TRAIN_STATES", 50)
    monkeypatch.setattr(probe_tasks, "MIN_TEST_STATES", 20)
    train_data, test_data, notes = load_probe_data(translator, None, 1)
    assert max(len(each.content) for each in (*train_data.sentences, *test_data.sentences)) == 4
    count = 170 - len(train_data.sentences) - len(test_data.sentences)
    assert notes == [f"Omitted: {count} sentences longer than this model has positions."]


def test_too_few_sentences_are_refused(trained):
    with pytest.raises(UserError) as error:
        probe_report(load(trained), limit=29, seed=1)
    assert str(error.value) == (
        "probes need 100 sentences to train on and 30 others to test on; "
        "here are 29 of the train split and 29 others of the test split"
    )


def test_constant_labels_are_omitted_with_a_note(trained_brief):
    run = trained_brief("data.min_length=4", "data.max_length=4")
    report = probe_report(load(run), None, 1)
    assert (
        "Omitted: length from the bottleneck; the label is the same in all states to train on." in report.data["notes"]
    )
    assert not any(each["label"] == "length" for each in report.data["probes"])
    assert report.data["notes"][0] in report.page.sections[0].text


def test_kth_token_beyond_the_sentence_is_none():
    sentence = ProbedSentence(["<U>", "a", "b", "<end>"], "<U>", ["a", "b"])
    assert [kth_token(k)(sentence, 1) for k in (1, 2, 3)] == ["a", "b", None]


def test_command_prints_tables_draws_and_writes_a_page(regard: Callable[..., Any], trained_brief, tmp_path: Path):
    picture, page = tmp_path / "probes.png", tmp_path / "probes.html"
    answer = regard("probe", trained_brief(), "--limit", 200, "--out", picture, "--out", page)
    assert answer.code == 0, answer.err
    assert "tested on: 50 others, of the test split" in answer.out
    assert "encoder input  position i" in answer.out
    assert "== The k-th character, from the bottleneck" in answer.out
    assert "== By length of the source" in answer.out
    assert picture.read_bytes().startswith(b"\x89PNG")
    html = page.read_text(encoding="utf-8")
    assert "data:image/svg+xml" in html
    assert "gain" in html


def test_command_writes_json(regard: Callable[..., Any], trained_brief):
    answer = regard("probe", trained_brief(), "--json", "--seed", 3)
    assert (answer.code, answer.err) == (0, "")
    data = json.loads(answer.out)
    assert data["seed"] == 3
    assert {each["from"] for each in data["probes"]} == {ENCODER_INPUT, ENCODER, BOTTLENECK, DECODER_INPUT, DECODER}


def test_command_refuses_too_few_sentences(regard: Callable[..., Any], trained_brief):
    answer = regard("probe", trained_brief(), "--limit", 11)
    assert answer.code != 0
    assert "probes need 100 sentences" in answer.err


def test_real_text_can_be_probed(corpus: Path, tmp_path: Path, new_callback):
    from regard.config import loading
    from regard.training.train_run import train_run

    path = tmp_path / "text.yaml"
    path.write_text(f"""\
data:
  {{task: files, train: {corpus}/train, validation: {corpus}/validation, test: {corpus}/test, text: {{unit: words}}}}
model: {{encoder: {{embedding: 8, size: 8}}, decoder: {{embedding: 8, size: 16}}}}
training: {{epochs: 1, batch_tokens: 2000}}
""")
    train_run(loading.load_experiment(str(path)), tmp_path / "run", new_callback())
    report = probe_report(load(tmp_path / "run"), None, 1)
    assert report.page.sections[1].title == "The k-th token, from the bottleneck"
    json.dumps(report.data, allow_nan=False)
