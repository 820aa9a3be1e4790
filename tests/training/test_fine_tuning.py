"""Fine-tuning: a new run starts with the weights and, unless told otherwise, the vocabulary of another one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from regard.config.schema import Experiment
from regard.errors import UserError
from regard.runs import Run
from regard.text import Vocabulary
from regard.training.fine_tuning import common_rows, origin_line, unknown_share, vocabulary_axes

Make = Callable[..., Experiment]
QUIET: dict[str, Any] = {"progress": False}
STEPS = {"training.epochs": 1, "training.rate.peak": 0.001}


class Weights(regard.Callback):
    """Records the weights before the first step, and stops after some steps."""

    def __init__(self, steps: int | None = None) -> None:
        self.steps, self.first = steps, -1

    def on_train_begin(self, trainer: Any) -> None:
        self.first = trainer.progress.step
        self.start = {name: weight.detach().clone() for name, weight in trainer.model.named_parameters()}
        self.states = len(trainer.optimizer.state)

    def on_step_end(self, trainer: Any, loss: Any) -> None:
        self.left = None if self.steps is None else self.steps - trainer.progress.step

    def should_stop(self) -> bool:
        return self.left is not None and self.left <= 0


def weights_of(run: Path, read: Any, name: str = "model.safetensors") -> dict[str, torch.Tensor]:
    return read(run / name)[0]


def test_a_new_run_starts_with_the_best_weights_and_a_fresh_optimizer(
    trained_brief: Any, tmp_path: Path, read_tensors: Any
):
    """Settings that the experiment does not set are as in the other run."""
    source = trained_brief()
    weights = Weights()
    run = regard.train(
        {"data": {"max_length": 4}}, tmp_path / "tuned", overrides=STEPS, from_run=source, callbacks=[weights], **QUIET
    )
    best = weights_of(source, read_tensors)
    assert all(weights.start[name].equal(best[name]) for name in best)
    assert (weights.first, weights.states) == (0, 0)
    assert run.experiment.diff(Run(source).experiment) == {
        "data.max_length": (4, 5),
        "training.epochs": (1, 3),
        "training.rate.peak": (0.001, 0.03),
    }
    assert run.codec.source_vocabulary == Run(source).codec.source_vocabulary
    assert run.metadata["from"]["path"] == str(source)
    assert not weights_of(run.path, read_tensors)["encoder.embedding.tokens.weight"].equal(
        best["encoder.embedding.tokens.weight"]
    )


def test_a_fine_tuned_run_resumes_without_the_other_run(
    trained_brief: Any, tmp_path: Path, same_training: Callable[..., None]
):
    source = tmp_path / "source"
    shutil.copytree(trained_brief(), source)
    arguments: dict[str, Any] = {"overrides": STEPS, "from_run": source, **QUIET}
    regard.train({}, tmp_path / "whole", **arguments)

    class Crash(regard.Callback):
        def on_train_begin(self, trainer: Any) -> None:
            raise KeyError

    with pytest.raises(KeyError):
        regard.train({}, tmp_path / "run", callbacks=[Crash()], **arguments)
    regard.train({}, tmp_path / "run", callbacks=[Weights(1)], **arguments)
    shutil.rmtree(source)
    assert regard.train(tmp_path / "run", **QUIET).progress.finished
    same_training(tmp_path / "run", tmp_path / "whole")


def test_a_run_is_only_continued_with_the_weights_that_it_was_started_with(
    brief: Make, trained_brief: Any, tmp_path: Path
):
    one, other = trained_brief(), trained_brief("training.seed=2")
    regard.train({}, tmp_path / "run", overrides=STEPS, from_run=one, callbacks=[Weights(1)], **QUIET)
    with pytest.raises(UserError, match=r"run: this run was started from other weights than those of .*brief"):
        regard.train({}, tmp_path / "run", overrides={**STEPS, "training.seed": 1}, from_run=other, **QUIET)
    shutil.copytree(trained_brief("training.epochs=1"), tmp_path / "plain")
    with pytest.raises(UserError, match="plain: this run was started without --from"):
        regard.train(brief("training.epochs=1"), tmp_path / "plain", from_run=one, **QUIET)


def test_all_differing_settings_of_the_model_are_listed(trained_brief: Any, tmp_path: Path):
    overrides = {"model.encoder.size": 9, "model.attention.kind": "additive", "model.dropout": 0.5}
    with pytest.raises(UserError) as failure:
        regard.train({}, tmp_path / "run", overrides=overrides, from_run=trained_brief(), **QUIET)
    lines = str(failure.value).splitlines()
    assert lines[0].endswith("its weights need these settings:")
    assert {"  model.encoder.size = 8, not 9", "  model.attention.kind = 'dot', not 'additive'"} <= set(lines)
    assert not any("dropout" in line for line in lines)
    assert not (tmp_path / "run").exists()


def test_tokens_that_a_closed_vocabulary_lacks_are_refused(trained_brief: Any, tmp_path: Path):
    with pytest.raises(UserError, match=r"its vocabulary lacks tokens of the \w+ split: .*--reuse-vocabulary no"):
        regard.train({"data": {"alphabet": "abcdefg"}}, tmp_path / "run", from_run=trained_brief(), **QUIET)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("shared", [False, True], ids=["separate", "tied"])
def test_a_new_vocabulary_takes_over_the_rows_of_common_tokens(
    trained_brief: Any, tmp_path: Path, read_tensors: Any, shared: bool
):
    settings = ("model.decoder.readout=tied",) if shared else ()
    source, weights = Run(trained_brief(*settings)), Weights()
    run = regard.train(
        {"data": {"alphabet": "zcab"}},
        tmp_path / "run",
        overrides=STEPS,
        from_run=source,
        reuse_vocabulary=False,
        callbacks=[weights],
        **QUIET,
    )
    old, new = source.codec.target_vocabulary.tokens, run.codec.target_vocabulary.tokens
    assert set(new) - set(old) == {"z"}
    best = weights_of(source.path, read_tensors)
    per_token = {name for name in best if best[name].shape != weights.start[name].shape}
    assert {"encoder.embedding.tokens.weight", "decoder.embedding.tokens.weight"} <= per_token
    assert len(per_token) == (3 if shared else 4)
    for name, weight in weights.start.items():
        if name not in per_token:
            assert weight.equal(best[name]), name
            continue
        for index, token in enumerate(new):
            if token == "z":
                assert not any(weight[index].equal(row) for row in best[name]) or weight.dim() == 1
            else:
                assert weight[index].equal(best[name][old.index(token)]), (name, token)
    assert run.metadata["from"]["reuse_vocabulary"] is False


def test_a_vocabulary_is_reused_only_with_another_run(tmp_path: Path):
    with pytest.raises(UserError, match="this is about the vocabulary of another run"):
        regard.train("case", tmp_path / "run", reuse_vocabulary=False, **QUIET)


@pytest.mark.parametrize("damage", ["missing", "damaged", "other"])
def test_damaged_weights_are_reported_and_nothing_is_left(
    trained_brief: Any, tmp_path: Path, trained: Path, damage: str
):
    source = tmp_path / "source"
    shutil.copytree(trained_brief(), source)
    model = source / "model.safetensors"
    if damage == "other":
        shutil.copyfile(trained / "model.safetensors", model)
    else:
        model.write_bytes(b"x")
    if damage == "missing":
        model.unlink()
    with pytest.raises(UserError, match=r"model\.safetensors: "):
        regard.train({}, tmp_path / "run", from_run=source, **QUIET)
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


# --- Real text -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def text_run(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    splits = {split: str(corpus / split) for split in ("train", "validation", "test")}
    data = {"task": "files", **splits, "source": "de", "target": "en", "text": {"unit": "words"}}
    model = {"encoder": {"embedding": 7, "size": 8}, "decoder": {"embedding": 7, "size": 16}}
    settings = {"data": data, "model": model, "training": {"epochs": 1, "batch_tokens": 500}}
    return regard.train(settings, tmp_path_factory.mktemp("text") / "run", progress=False)


@pytest.fixture
def new_text(corpus: Path, tmp_path: Path) -> str:
    for language, old, new in (("de", "der", "ein\u00e4ugiger"), ("en", "the", "one-eyed")):
        text = (corpus / f"train.{language}").read_text()
        (tmp_path / f"new.{language}").write_text(text.replace(f"{old} ", f"{new} "))
    return str(tmp_path / "new")


def test_unknown_words_are_counted_and_reported(
    text_run: Run, new_text: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    run = regard.train({"data": {"train": new_text}}, tmp_path / "run", from_run=text_run)
    assert run.codec.target_vocabulary == text_run.codec.target_vocabulary
    share = run.metadata["from"]["unknown_tokens"]
    words = [word for each in ("de", "en") for word in Path(f"{new_text}.{each}").read_text().split()]
    assert share > 0.005
    assert f"; {share:.1%} of the training tokens are not in its vocabulary" in capfd.readouterr().err
    assert share == pytest.approx(sum("ein\u00e4ugiger" in w or "one-eyed" in w for w in words) / len(words), rel=0.5)
    assert (run.path / "scores.json").exists()


def test_another_tokenization_needs_a_new_vocabulary(text_run: Run, new_text: str, tmp_path: Path):
    changed = {"data": {"train": new_text, "text": {"lowercase": True}}}
    with pytest.raises(UserError, match=r"  data\.text\.lowercase = False, not True\n.*--reuse-vocabulary no"):
        regard.train(changed, tmp_path / "run", from_run=text_run, **QUIET)
    run = regard.train(changed, tmp_path / "run", from_run=text_run, reuse_vocabulary=False, **QUIET)
    assert "one-eyed" in "".join(run.codec.target_vocabulary.tokens) or "eyed" in run.codec.target_vocabulary


# --- Parts -----------------------------------------------------------------------------------------------


def test_common_rows():
    old, new = Vocabulary.from_list("abc"), Vocabulary.from_list("xcya")
    first, second = common_rows(old, new)
    assert [old.tokens[row] for row in first] == [new.tokens[row] for row in second]
    assert {new.tokens[row] for row in second} == {"<pad>", "<begin>", "<end>", "<unknown>", "a", "c"}


def test_the_axes_of_a_vocabulary(brief: Make):
    axes = vocabulary_axes(brief("model.decoder.readout=tied"), (11, 13))
    assert axes["encoder.embedding.tokens.weight"] == (0, "source")
    assert axes["decoder.embedding.tokens.weight"] == (0, "target")


def test_the_share_of_unknown_tokens():
    unknown = Vocabulary.unknown
    examples: Any = [regard.data.Example((5, unknown, 2), (1, 7, 2)), regard.data.Example((5, 2), (1, unknown, 2))]
    assert unknown_share(examples) == 2 / 9


@pytest.mark.parametrize("origin", [3, {}, {"path": "x", "unknown_tokens": "much"}, json.loads("[1]")])
def test_a_record_that_is_damaged_is_no_error(origin: object):
    assert "%" not in origin_line({"from": origin})
