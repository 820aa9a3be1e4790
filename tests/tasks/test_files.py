"""Several training files: weights, tags, limits and formats in the settings of the task `files`."""

from __future__ import annotations

import json
import re
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from regard.config.loading import load_experiment, resolve_experiment
from regard.config.schema import Experiment
from regard.data import Batches, Codec, OnDiskExamples
from regard.errors import UserError
from regard.tasks import Pair
from regard.tasks.file_pairs import JoinedPairs
from regard.tasks.files import FilesSection, FilesTask

TEXTS = {
    "a": [("ein hund", "a dog"), ("zwei hunde und eine katze", "two dogs and a cat with some more")],
    "b": [("eine katze", "a cat"), ("<bt> ein <bt> hund", "a <bt> dog"), ("katze", "cat")],
    "dev": [("ein hund", "a dog"), ("zwei " * 30, "two")],
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, pairs in TEXTS.items():
        for language, texts in zip(("de", "en"), zip(*pairs, strict=True), strict=True):
            (tmp_path / f"{name}.{language}").write_text("".join(f"{text}\n" for text in texts))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def task_of(train: Any, **settings: Any) -> FilesTask:
    return FilesTask(FilesSection.model_validate({"train": train, "validation": "dev", **settings}))


def experiment_of(train: Any, **data: Any) -> Experiment:
    return resolve_experiment({"data": {"task": "files", "train": train, "validation": "dev", **data}})


# --- Settings ---------------------------------------------------------------------------------------------


def test_one_path_is_a_list_of_one(folder: Path):
    experiments = [experiment_of(train) for train in ("a", ["a"], {"path": "a"}, [{"path": Path("a"), "weight": 1.0}])]
    assert all(experiment == experiments[0] for experiment in experiments)
    assert experiments[0].model_dump()["data"]["train"] == str(folder / "a")


def test_settings_survive_yaml_and_overrides(folder: Path):
    experiment = experiment_of(["a", {"path": "b", "weight": 0.5, "tag": "<bt>"}], test={"path": "dev", "tag": "<bt>"})
    assert experiment.data.train[1].path == str(folder / "b")
    (folder / "sub").mkdir()
    experiment.save("sub/e.yaml")
    assert load_experiment("sub/e.yaml", check_files=True) == experiment
    changed = load_experiment("sub/e.yaml", ["data.train=[a, {path: b, weight: 2, tag: <bt>}]", "data.test.tag=null"])
    assert [corpus.weight for corpus in changed.data.train] == [1, 2]
    assert changed.data.test.tag is None
    assert "data.train" in experiment.diff(changed)


def test_paths_are_relative_to_the_file_that_names_them(folder: Path):
    (folder / "sub").mkdir()
    (folder / "sub/e.yaml").write_text(
        "data:\n  task: files\n  train:\n    - ../a\n    - {path: ../b, weight: 0.5}\n  validation: {path: ../dev}\n"
    )
    data = load_experiment("sub/e.yaml", check_files=True).data
    assert [corpus.path for corpus in data.train] == [str(folder / "a"), str(folder / "b")]
    assert data.validation.path == str(folder / "dev")


@pytest.mark.parametrize(
    ("train", "message"),
    [
        ("[a, {path: c}]", r"line 3: data\.train: there is no .*c\.de, nor .*c\.de\.gz"),
        ("[a, {path: b, wieght: 1}]", r"line 3: data\.train\.1\.wieght: unknown key; did you mean 'weight'"),
        ("[{path: b, weight: 0}]", r"line 3: data\.train\.0\.weight: 0 is invalid"),
        ("[{path: b, tag: bt}]", r"line 3: data\.train\.0\.tag: 'bt' is invalid: a tag has the form <…>"),
        ("[{path: b, tag: '<a b>'}]", r"line 3: data\.train\.0\.tag: '<a b>' is invalid"),
        ("[{tag: <bt>}]", r"line 3: data\.train\.0\.path: missing"),
        ("[a, 5]", r"line 3: data\.train: .* is invalid: give a path, or a section with path and tag"),
        ("[{path: a, tag: <end>}]", r"line 3: data\.train\.0\.tag: '<end>' is invalid.*own tokens"),
    ],
)
def test_an_invalid_corpus_is_refused(folder: Path, train: str, message: str):
    (folder / "e.yaml").write_text(f"data:\n  task: files\n  train: {train}\n  validation: dev\n")
    with pytest.raises(UserError, match=rf"^e\.yaml, {message}"):
        load_experiment("e.yaml", check_files=True)


def test_a_tag_that_is_not_trained_is_refused():
    with pytest.raises(UserError, match=r"data\.validation\.tag: '<x>' is not the tag of a corpus in train; .* <bt>$"):
        experiment_of([{"path": "b", "tag": "<bt>"}], validation={"path": "dev", "tag": "<x>"})


# --- Pairs ------------------------------------------------------------------------------------------------


def test_pairs_have_the_tag_and_the_weight_of_their_file(folder: Path):
    splits = task_of(["a", {"path": "b", "weight": 0.5, "tag": "<bt>"}], test={"path": "a", "tag": "<bt>"}).dataset
    pairs = list(splits.pairs("train"))
    assert pairs[:2] == [Pair(*texts) for texts in TEXTS["a"]]
    assert pairs[2:] == [Pair(f"<bt> {source}", target, weight=0.5) for source, target in TEXTS["b"]]
    assert [pair.source for pair in splits.pairs("test")] == [f"<bt> {source}" for source, _ in TEXTS["a"]]
    assert [pair.source for pair in splits.pairs("validation")] == [source.strip() for source, _ in TEXTS["dev"]]


def test_limits_are_applied_to_training_only(folder: Path):
    dataset = task_of(["a", "b"], limits={"max_words": 4, "min_words": 2}).dataset
    train = dataset.splits()["train"]
    assert isinstance(train, JoinedPairs)
    for _ in range(2):  # each iteration counts anew
        assert [pair.target for pair in train] == ["a dog", "a cat", "a <bt> dog"]
        assert train.left_out == {"more than 4 words": 1, "fewer than 2 words": 1}
    assert len(list(dataset.pairs("validation"))) == len(TEXTS["dev"])


def test_limits_that_leave_no_pair_are_refused(folder: Path):
    with pytest.raises(UserError, match=r"a\.de: has no pair of texts within data\.limits"):
        list(task_of("a", limits={"min_words": 9}).dataset.pairs("train"))


def test_json_lines_have_the_names_of_the_languages(folder: Path):
    (folder / "p.jsonl").write_text(json.dumps({"en": "a dog", "x": "?", "de": "ein hund"}))
    assert list(task_of("p.jsonl").dataset.pairs("train")) == [Pair("ein hund", "a dog")]
    swapped = task_of("p.jsonl", source="en", target="de").dataset
    assert list(swapped.pairs("train")) == [Pair("a dog", "ein hund")]


def test_a_folder_next_to_text_files_of_its_name_is_ignored(folder: Path):
    (folder / "a").mkdir()
    assert len(list(task_of("a").dataset.pairs("train"))) == 2


# --- Tags as tokens ---------------------------------------------------------------------------------------

TOKENIZERS = [{"unit": "words"}, {"unit": "characters"}, {"size": 24}, {"size": 21, "joint": False}]
TAGGED = [{"path": "a", "tag": "<2fr>"}, {"path": "b", "tag": "<2fr> <bt>"}]


@pytest.mark.parametrize("text", TOKENIZERS, ids=str)
@pytest.mark.parametrize("lowercase", [False, True])
def test_a_tag_is_one_token_in_front_of_a_source_and_text_elsewhere(
    folder: Path, text: dict[str, Any], lowercase: bool
):
    task = task_of(TAGGED, text={**text, "lowercase": lowercase})
    pairs = task.dataset.splits()["train"]
    codec = Codec.build(task.learn_tokenization(pairs), pairs)
    tags = ["<2fr>", "<bt>"]
    plain = codec.source_tokens("ein hund")
    assert codec.source_tokens("<2fr> <bt>  ein hund") == [*tags, *plain]
    assert codec.encode_source("<bt> ein hund").ids[0] == codec.source_vocabulary.to_ids(["<bt>"])[0]
    assert not {*tags} & {*codec.source_tokens("ein <bt> hund"), *codec.source_tokens("<bt>ein hund")}
    assert not {*tags} & {*codec.target_vocabulary.to_tokens(codec.target(Pair("", "<bt> <2fr> a")))}
    assert all(tag in codec.source_vocabulary for tag in tags)
    joint = task.section.text.joint
    assert [tag in codec.target_vocabulary for tag in tags] == [joint, joint]
    starts = codec.tokenization.source_starts(["<2fr>", "<bt>", *plain[:-1]])
    assert starts == [True, True, *codec.tokenization.source_starts(plain[:-1])]
    files = codec.tokenization.files()
    loaded = task.load_tokenization(lambda name, parse: parse(files[name]))
    assert loaded.matches(codec.source_vocabulary, codec.target_vocabulary)
    assert loaded.source_tokens("<bt> ein hund") == codec.tokenization.source_tokens("<bt> ein hund")


def test_subword_regularization_keeps_tags(folder: Path):
    from random import Random

    task = task_of(TAGGED, text={"size": 28, "regularization": {"best": 5, "alpha": 0.0}})
    pairs = task.dataset.splits()["train"]
    codec = Codec.build(task.learn_tokenization(pairs), pairs)
    examples = codec.examples([Pair("<2fr> <bt> eine katze", "a cat", weight=0.5)])
    sampled = {codec.resample(examples[0], Random(seed)) for seed in range(20)}
    tags = tuple(codec.source_vocabulary.to_ids(["<2fr>", "<bt>"]))
    assert len(sampled) > 1
    assert {each.source[:2] for each in sampled} == {tags}
    assert {each.weight for each in sampled} == {0.5}
    assert not {token for each in sampled for token in (*each.source[2:], *each.target)} & set(tags)


def test_weights_are_stored_with_the_examples(folder: Path):
    task = task_of(["a", {"path": "b", "weight": 0.5}], text={"unit": "words"})
    pairs = task.dataset.splits()["train"]
    codec = Codec.build(task.learn_tokenization(pairs), pairs)
    OnDiskExamples.write(codec.examples(pairs), folder / "examples")
    stored = OnDiskExamples.open(folder / "examples")
    assert list(stored) == codec.examples(pairs)
    assert stored.weights is not None
    assert stored.weights.tolist() == [1, 1, 0.5, 0.5, 0.5]
    # Four of five: 2 and half of 3, rounded.
    assert (
        sum(len(batch.source) for batch in Batches(stored, batch_tokens=9, seed=1, weights=stored.weights).once()) == 4
    )
    plain = task_of(["a", "b"], text={"unit": "words"})
    OnDiskExamples.write(codec.examples(plain.dataset.pairs("train")), folder / "plain")
    with closing(stored), closing(OnDiskExamples.open(folder / "plain")) as without:
        assert without.weights is None
        assert without.digest != stored.digest


def test_the_message_about_moved_files_has_their_tag(folder: Path):
    from regard.evaluation.data_files import check_data_files

    experiment = experiment_of([{"path": "a", "tag": "<bt>"}], validation={"path": "gone/dev", "tag": "<bt>"})
    expected = re.escape('--set "data.validation={path: NEW/PLACE/dev, tag: <bt>}"')
    with pytest.raises(UserError, match=f"{expected}$"):
        check_data_files("evaluate", Path("run"), experiment, ["validation"])
