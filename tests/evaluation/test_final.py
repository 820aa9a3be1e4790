"""The final evaluation of a run on real text: test scores and a page of examples."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from regard.config import loading
from regard.errors import UserError
from regard.evaluation.evaluation_result import EvaluationResult
from regard.evaluation.final import needs_final_evaluation, score_test_set, write_test_examples
from regard.reports import examples
from regard.runs import EXAMPLES, SCORES, Run
from regard.training.train_run import train_run

SIZES = {"encoder": {"embedding": 8, "size": 8}, "decoder": {"embedding": 8, "size": 8}}
SMALL = [
    "description=A small thing",
    f"model={json.dumps(SIZES)}",
    "training={epochs: 2, batch_tokens: 1500}",
    "decoding={length_factor: 0, length_extra: 8}",
]
FILES = ["data.task=files", "data.text={unit: words}"]


def trained(path: Path, new_callback: Callable[..., Any], name: str, *settings: str) -> Run:
    run = train_run(loading.load_experiment(name, [*SMALL, *settings]), path, new_callback())
    assert run.progress.finished
    return run


@pytest.fixture(scope="module")
def captions(corpus: Path, tmp_path_factory: pytest.TempPathFactory, new_callback: Callable[..., Any]) -> Run:
    """A run on files without a final evaluation; not to be changed."""
    splits = [f"data.{split}={corpus / split}" for split in ("train", "validation", "test")]
    return trained(tmp_path_factory.mktemp("runs") / "captions", new_callback, "bottleneck", *FILES, *splits)


@pytest.fixture(scope="module")
def evaluated(captions: Run, tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, list[EvaluationResult]]:
    """A copy of that run and its scores; not to be changed."""
    run = Run(Path(shutil.copytree(captions.path, tmp_path_factory.mktemp("runs") / "concluded")))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(examples, "_attention_picture", lambda shown: b"a picture")  # which is slow
        return run, evaluate_and_write(run)


@pytest.fixture
def copied(captions: Run, tmp_path: Path) -> Run:
    return Run(Path(shutil.copytree(captions.path, tmp_path / "run")))


def evaluate_and_write(run: Run, advance: Callable[[int], None] = lambda count: None) -> list[EvaluationResult]:
    """The whole final evaluation."""
    evaluation = score_test_set(run, "cpu", advance)
    write_test_examples(run, evaluation)
    return evaluation.results


def scores_of(run: Run) -> list[dict[str, Any]]:
    return json.loads((run.path / SCORES).read_text(), parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


@pytest.mark.slow
def test_a_test_set_is_pending_until_it_is_scored(captions: Run, evaluated: tuple[Run, list[EvaluationResult]]):
    assert needs_final_evaluation(captions)
    run, _ = evaluated
    assert not needs_final_evaluation(run)
    assert (run.path / SCORES).is_file()
    assert (run.path / EXAMPLES / "index.html").is_file()


@pytest.mark.slow
def test_scores_are_those_of_a_greedy_search_and_of_a_beam(evaluated: tuple[Run, list[EvaluationResult]]):
    run, evaluations = evaluated
    greedy, beam = scores_of(run)
    assert (greedy["beam"], beam["beam"]) == (1, 5)
    for row, evaluation in zip((greedy, beam), evaluations, strict=True):
        assert row["split"] == "test"
        assert row["sentences"] == 30
        for key in ("bleu", "bleu_lc", "bleu_signature", "bleu_lc_signature", "chrf", "chrf_signature", "perplexity"):
            assert row[key] == evaluation.to_dict()[key]
        assert "case:mixed" in row["bleu_signature"]
        assert "case:lc" in row["bleu_lc_signature"]
        assert 0 <= row["bleu"] <= row["bleu_lc"] <= 100
        assert row["perplexity"] > 1
        assert not {"word_error", "phoneme_error", "alignment_accuracy"} & row.keys()
    assert greedy["perplexity"] == beam["perplexity"]


@pytest.mark.slow
def test_the_page_has_the_score_and_the_experiment(evaluated: tuple[Run, list[EvaluationResult]]):
    run, (_, beam) = evaluated
    page = (run.path / EXAMPLES / "index.html").read_text()
    assert "A small thing" in page
    assert "30, translated with a beam of 5" in page
    assert f"{beam.scores['bleu']:.2f}, lowercased {beam.scores['bleu_lc']:.2f} ({beam.signatures['bleu']})" in page
    assert f"Attention of {run.path.name}" in page


@pytest.mark.slow
def test_the_final_evaluation_does_not_change_the_run(captions: Run, evaluated: tuple[Run, list[EvaluationResult]]):
    run, _ = evaluated
    before = {path.name: path.read_bytes() for path in captions.path.iterdir()}
    after = {path.name: path.read_bytes() for path in run.path.iterdir() if path.is_file()}
    after.pop(SCORES)
    assert after == before


@pytest.mark.slow
def test_an_interrupted_evaluation_is_pending_again(copied: Run, monkeypatch: pytest.MonkeyPatch):
    """Scores are written last, so that their presence means that everything is done."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(examples, "_examples_page", interrupted)
    monkeypatch.setattr(examples, "_attention_picture", lambda shown: b"a picture")
    before = set(os.listdir(copied.path))
    with pytest.raises(KeyboardInterrupt):
        evaluate_and_write(copied)
    assert needs_final_evaluation(copied)
    assert set(os.listdir(copied.path)) == before


@pytest.mark.slow
def test_progress_is_reported_for_both_searches(copied: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(examples, "write_examples", lambda *_: None)
    counts: list[int] = []
    evaluate_and_write(copied, counts.append)
    assert sum(counts) == 2 * 30


@pytest.mark.slow
def test_pronunciations_are_scored_by_words_and_phonemes(
    dictionary: Path, tmp_path: Path, new_callback: Callable[..., Any]
):
    run = trained(tmp_path / "run", new_callback, "g2p", f"data.file={dictionary}", "training.patience=1")
    assert needs_final_evaluation(run)
    evaluate_and_write(run)
    assert not needs_final_evaluation(run)
    for row in scores_of(run):
        assert 0 <= row["word_error"] <= 1
        assert row["word_error"] == pytest.approx(1 - row["exact_match"])
        assert row["phoneme_error"] >= 0
        assert row["sentences"] == 38
        assert not {"bleu", "bleu_lc", "chrf"} & row.keys()
    assert "word error rate" in (run.path / EXAMPLES / "index.html").read_text()


@pytest.mark.slow
def test_without_a_test_set_nothing_is_pending(corpus: Path, tmp_path: Path, new_callback: Callable[..., Any]):
    splits = [f"data.{split}={corpus / split}" for split in ("train", "validation")]
    run = trained(tmp_path / "run", new_callback, "bottleneck", *FILES, *splits, "training.epochs=1")
    assert not needs_final_evaluation(run)
    with pytest.raises(UserError, match=r"data\.test: this experiment has no files for the test split"):
        evaluate_and_write(run)
    assert not run.has_file(SCORES)


@pytest.mark.slow
def test_a_generated_task_is_never_pending(trained_brief: Callable[..., Path]):
    assert not needs_final_evaluation(Run(trained_brief()))
