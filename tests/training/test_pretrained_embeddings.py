"""Pretrained embeddings: a new run starts with the vectors of a file."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from regard.config.schema import Experiment
from regard.errors import UserError
from regard.nn.build import initial_model
from regard.nn.positions import Embedding
from regard.runs import Run, named_weights
from regard.text import Vocabulary
from regard.training.pretrained_embeddings import embedding_lines, find_vectors

Make = Callable[..., Experiment]
SIZE = 16  # of the embeddings of the tiny experiment
QUIET: dict[str, Any] = {"progress": False}
BOTH = {"encoder": "source.txt", "decoder": "target.txt"}


def vector(word: str, size: int = SIZE) -> list[float]:
    """Some numbers that depend on the word."""
    return [0.01 * ((ord(word[0]) * (k + 3)) % 31 - 12) for k in range(size)]


def write_vectors(path: Path, words: Iterable[str], size: int = SIZE) -> Path:
    lines = [" ".join([word, *map(str, vector(word, size))]) for word in words]
    path.write_text("\n".join([f"{len(lines)} {size}", *lines, ""]), encoding="utf-8")
    return path


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """Settings with a file for each side. The source has `abcde`, of which the files have some."""
    paths = {
        "encoder": write_vectors(tmp_path / "source.txt", "axyb"),
        "decoder": write_vectors(tmp_path / "target.txt", "dzbac"),
    }
    return {f"model.{side}.pretrained_embeddings": str(path) for side, path in paths.items()}


class Start(regard.Callback):
    """Records the weights before the first step, and stops after a number of steps."""

    def __init__(self, steps: int = 1) -> None:
        self.steps, self.done = steps, 0

    def on_train_begin(self, trainer: Any) -> None:
        self.weights = {name: weight.detach().clone() for name, weight in named_weights(trainer.model).items()}

    def on_step_end(self, trainer: Any, loss: Any) -> None:
        self.done += 1

    def should_stop(self) -> bool:
        return self.done >= self.steps


KINDS = [
    (),
    ("model.decoder.wiring=before", "model.decoder.readout=tied"),
    ("model.encoder.kind=self-attention", "model.decoder.kind=transformer", "model.decoder.size=8"),
    ("model.encoder.kind=plain-attention", "model.attention.kind=additive"),
    ("model.encoder.kind=recurrent-self-attention", "model.attention.kind=additive"),
]


@pytest.mark.parametrize("kinds", KINDS, ids=lambda kinds: " ".join(kinds) or "default")
def test_the_first_layer_reads_the_vectors_of_the_file_times_one_number(
    brief: Make, tmp_path: Path, files: dict[str, str], kinds: tuple[str, ...]
):
    start = Start()
    experiment = brief(*kinds, *(f"{key}={path}" for key, path in files.items()))
    run = regard.train(experiment, tmp_path / "run", callbacks=[start], **QUIET)
    drawn = named_weights(initial_model(experiment, *run.codec.sizes))
    vocabularies = {"encoder": run.codec.source_vocabulary, "decoder": run.codec.target_vocabulary}
    for side, found in {"encoder": "ab", "decoder": "abcd"}.items():
        name, vocabulary = f"{side}.embedding.tokens.weight", vocabularies[side]
        ids = vocabulary.to_ids(found)
        inputs, vectors = start.weights[name][ids] * SIZE**0.5, torch.tensor([vector(token) for token in found])
        assert inputs.square().mean().item() == pytest.approx(1)
        torch.testing.assert_close(inputs, vectors / vectors.square().mean().sqrt())
        rest = [index for index in range(len(vocabulary)) if index not in ids]
        assert start.weights.pop(name)[rest].equal(drawn[name][rest])
        record = run.metadata["pretrained_embeddings"][side]
        assert record == {"path": str(tmp_path / BOTH[side]), "found": len(found) / 5, "tokens": 5}
    assert all(weight.equal(drawn[name]) for name, weight in start.weights.items())


def test_shared_embeddings_have_one_file(tmp_path: Path, files: dict[str, str], corpus: Path):
    start, words = Start(), write_vectors(tmp_path / "words.txt", ["the", "DER", "der"])
    data = {"task": "files", **{split: str(corpus / split) for split in ("train", "validation")}}
    settings: dict[str, Any] = {
        "data": {**data, "source": "de", "target": "en", "text": {"unit": "words", "lowercase": True}},
        "model.encoder": {"embedding": SIZE, "size": 8, "pretrained_embeddings": str(words)},
        "model.decoder": {"embedding": SIZE, "size": 16},
        "model.share_embeddings": True,
        "training.epochs": 1,
    }
    run = regard.train(settings, tmp_path / "run", callbacks=[start], **QUIET)
    tables = {name: weight for name, weight in start.weights.items() if "embedding" in name}
    assert len(tables) == 1
    rows = next(iter(tables.values()))[run.codec.source_vocabulary.to_ids(["the", "der"])]
    vectors = torch.tensor([vector("the"), vector("der")])
    torch.testing.assert_close(rows / rows.norm(), vectors / vectors.norm())
    with pytest.raises(UserError, match=r"decoder\.pretrained_embeddings: with share_embeddings: true, both sides"):
        regard.train(settings, tmp_path / "other", overrides=files, **QUIET)


def test_a_run_resumes_without_the_files_and_in_another_folder(
    brief: Make, tmp_path: Path, files: dict[str, str], same_training: Callable[..., None]
):
    arguments: dict[str, Any] = {"overrides": files, **QUIET}
    regard.train(brief(), tmp_path / "whole", **arguments)
    regard.train(brief(), tmp_path / "run", callbacks=[Start(5)], **arguments)
    for path in files.values():
        os.remove(path)
    config = tmp_path / "run" / "config.yaml"
    config.write_text(config.read_text().replace(str(tmp_path), "/elsewhere"))
    shutil.move(tmp_path / "run", tmp_path / "moved")
    assert regard.train(tmp_path / "moved", **QUIET).progress.finished
    config = tmp_path / "moved" / "config.yaml"
    same_training(tmp_path / "moved", tmp_path / "whole")


def test_paths_are_relative_to_the_file_that_names_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = tmp_path / "experiments"
    folder.mkdir()
    write_vectors(folder / "v.txt", "ab")
    text = f"extends: copy\nmodel:\n  encoder:\n    embedding: {SIZE}\n    pretrained_embeddings: v.txt\n"
    (folder / "my.yaml").write_text(text)
    monkeypatch.chdir(tmp_path)
    experiment = Experiment.load("experiments/my.yaml")
    assert experiment.model.embedding_files == {"encoder": folder / "v.txt"}
    override = {"model.decoder": {"pretrained_embeddings": "w.txt"}}
    assert Experiment.load("copy", override).model.embedding_files == {"decoder": tmp_path / "w.txt"}
    (folder / "v.txt").unlink()
    with pytest.raises(
        UserError, match=r"my\.yaml, line 5: model\.encoder\.pretrained_embeddings: there is no file .*"
    ):
        regard.train("experiments/my.yaml", tmp_path / "run", **QUIET)


def test_another_size_is_refused_before_the_data_is_read(brief: Make, tmp_path: Path):
    path = write_vectors(tmp_path / "v.txt", "ab", size=7)
    message = r"model\.decoder\.pretrained_embeddings: .* have size 7, .* size 16; set model\.decoder\.embedding to 7"
    with pytest.raises(UserError, match=message):
        regard.train(brief(f"model.decoder.pretrained_embeddings={path}"), tmp_path / "run", **QUIET)
    assert not (tmp_path / "run").exists()


def test_a_damaged_file_leaves_no_run(brief: Make, tmp_path: Path, files: dict[str, str]):
    (tmp_path / "source.txt").write_text(f"2 {SIZE}\n" + 2 * f"a{SIZE * ' 1'}\n")
    with pytest.raises(UserError, match=r"source\.txt, line 3: 'a' is also in .*source\.txt, line 2; remove one"):
        regard.train(brief(), tmp_path / "run", overrides=files, **QUIET)
    assert sorted(os.listdir(tmp_path)) == ["source.txt", "target.txt"]


def test_pictures_have_no_token_embeddings(tmp_path: Path):
    with pytest.raises(UserError, match=r"model\.encoder\.pretrained_embeddings: a picture has no tokens to embed"):
        Experiment.load("digits", {"model.encoder.pretrained_embeddings": "v.txt"})


def test_weights_of_another_run_exclude_files(brief: Make, tmp_path: Path, files: dict[str, str]):
    experiment = Experiment.load(brief("training.epochs=1"), files)
    source = regard.train(experiment, tmp_path / "source", **QUIET).path
    for path in files.values():
        os.remove(path)
    for settings in ({}, source):
        run = regard.train(settings, tmp_path / f"run{len(str(settings))}", from_run=source, **QUIET)
        assert not run.experiment.model.embedding_files
        assert "pretrained_embeddings" not in run.metadata
    write_vectors(tmp_path / "source.txt", "ab")
    only = {"model.encoder.pretrained_embeddings": str(tmp_path / "source.txt")}
    with pytest.raises(UserError, match=r"starts with the embeddings of .*source \(--from\); set it to null"):
        regard.train(only, tmp_path / "other", from_run=source, **QUIET)


def test_the_share_is_printed_once(
    brief: Make, tmp_path: Path, files: dict[str, str], capfd: pytest.CaptureFixture[str]
):
    regard.train(brief(), tmp_path / "run", overrides=files, callbacks=[Start()])
    assert "encoder: 40.0% of 5 tokens have pretrained embeddings, from " in capfd.readouterr().err
    regard.train(tmp_path / "run", callbacks=[Start()])
    assert "pretrained" not in capfd.readouterr().err


def test_a_dry_run_leaves_nothing(brief: Make, tmp_path: Path, files: dict[str, str]):
    assert regard.dry_run(Experiment.load(brief(), files), tmp_path / "run").steps == 12
    assert sorted(os.listdir(tmp_path)) == ["source.txt", "target.txt"]


# --- Parts -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "lowercase", "expected"),
    [
        (["Haus", "haus", "x"], False, {"haus": 1}),
        (["Haus", "das"], False, {"das": 1}),
        (["HAUS", "Haus"], True, {"haus": 0}),
        (["HAUS", "haus", "Haus"], True, {"haus": 1}),
        (["<end>", "das"], True, {"das": 1}),
    ],
)
def test_words_are_looked_up_in_the_case_of_the_tokens(
    tmp_path: Path, words: list[str], lowercase: bool, expected: dict[str, int]
):
    lines = [f"{len(words)} 2", *(f"{word} {number} 5" for number, word in enumerate(words))]
    (tmp_path / "v.txt").write_text("\n".join(lines))
    vocabulary = Vocabulary.from_list(["das", "haus"])
    found = find_vectors(tmp_path / "v.txt", vocabulary, lowercase=lowercase)
    assert {vocabulary.tokens[i]: int(row[0]) for i, row in zip(found.ids, found.vectors, strict=True)} == expected
    assert found.record()["found"] == len(expected) / 2


@pytest.mark.parametrize("content", ["1 1\nder 3\n", "1 1\ndas 0\n", "0 1\n"])
def test_a_file_without_any_token_is_refused(tmp_path: Path, content: str):
    (tmp_path / "v.txt").write_text(content)
    with pytest.raises(UserError, match=r"v\.txt: it has no vector, .* \(data\.text\.lowercase\)\?"):
        find_vectors(tmp_path / "v.txt", Vocabulary.from_list(["das"]))


@pytest.mark.parametrize("factor", [1e-20, 1, 1e30])
def test_any_scale_gives_inputs_of_variance_1(tmp_path: Path, factor: float):
    (tmp_path / "v.txt").write_text(f"2 3\na {factor} 0 0\nb 0 {-factor} 0\n")
    embedding = Embedding(6, 3)
    find_vectors(tmp_path / "v.txt", Vocabulary.from_list("ab")).copy_to(embedding)
    expected = 3**0.5 * torch.tensor([[1.0, 0, 0], [0, -1, 0]])
    torch.testing.assert_close(embedding(torch.tensor([[4, 5]]))[0], expected)


@pytest.mark.parametrize("record", [3, {}, {"encoder": 3}, {"encoder": {"found": "x"}}, {"encoder": {"found": 0.5}}])
def test_a_record_that_is_damaged_is_no_error(record: object):
    assert embedding_lines({"pretrained_embeddings": record}) == []


def test_a_run_of_before_has_no_files(trained_brief: Any):
    assert Run(trained_brief()).experiment.model.embedding_files == {}
