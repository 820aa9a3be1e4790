"""All metrics of a run, compared with the outputs of its translator."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest

import regard
from regard.evaluation.evaluator import EvaluationResult, Evaluator, evaluate
from regard.tasks import SPLITS, Split


@pytest.fixture(scope="module")
def translator(trained_brief: Callable[..., Path]) -> regard.Translator:
    """A half-trained model, which makes mistakes."""
    return regard.load(trained_brief("training.epochs=12", "model.dropout=0", "training.rate.peak=0.05"))


@pytest.fixture(scope="module")
def evaluations(translator: regard.Translator) -> dict[Split, EvaluationResult]:
    return {split: evaluate(translator, split) for split in SPLITS}


@pytest.mark.parametrize("split", SPLITS)
def test_an_evaluation_states_its_split_and_size(
    translator: regard.Translator, evaluations: dict[Split, EvaluationResult], split: Split
):
    evaluation = evaluations[split]
    assert evaluation.run == str(translator.runs[0].path)
    assert evaluation.split == split
    assert evaluation.sentences == getattr(translator.experiment.data, split)
    assert evaluation.seed == 1
    assert evaluation.version == regard.__version__
    assert evaluation.seconds > 0


@pytest.mark.parametrize("split", SPLITS)
def test_exact_match_agrees_with_the_translator(
    translator: regard.Translator, evaluations: dict[Split, EvaluationResult], split: Split
):
    pairs = translator.experiment.task.dataset.splits()[split]
    translations = translator.translate([pair.source for pair in pairs])
    right = sum(translation.text == pair.target for translation, pair in zip(translations, pairs, strict=True))
    assert evaluations[split].scores["exact_match"] == right / len(pairs)
    assert evaluations[split].truncated == sum(not translation.finished for translation in translations)


def test_the_model_makes_mistakes_so_that_these_tests_mean_something(evaluations: dict[Split, EvaluationResult]):
    assert 0 < evaluations["test"].scores["exact_match"] < 1
    assert 0.3 < evaluations["test"].token_accuracy < 1


@pytest.mark.parametrize("split", SPLITS)
def test_perplexity_is_e_to_the_loss(evaluations: dict[Split, EvaluationResult], split: Split):
    assert evaluations[split].perplexity == pytest.approx(math.exp(evaluations[split].loss))


def test_the_loss_is_that_of_the_references(translator: regard.Translator, evaluations: dict[Split, EvaluationResult]):
    """Where a translation is right, its score is the log-probability of the reference."""
    pairs = translator.experiment.task.dataset.splits()["test"]
    right = [
        translation
        for translation, pair in zip(translator.translate([p.source for p in pairs]), pairs, strict=True)
        if translation.text == pair.target
    ]
    upper = -sum(translation.score for translation in right) / sum(len(pair.target) + 1 for pair in pairs)
    assert evaluations["test"].loss > upper


def test_a_perfect_model_scores_perfectly(trained: Path):
    evaluation = evaluate(regard.load(trained), "test")
    assert evaluation.scores["exact_match"] == 1
    assert evaluation.token_accuracy == 1
    assert evaluation.alignment_accuracy == pytest.approx(1, abs=0.02)
    assert evaluation.truncated == 0


def test_json_omits_unknown_values(evaluations: dict[Split, EvaluationResult]):
    result = evaluations["test"].to_dict()
    assert "bleu" not in result  # a task of characters
    assert "bleu_signature" not in result
    expected = {"run", "split", "sentences", "loss", "perplexity", "token_accuracy", "exact_match", "truncated"}
    expected |= {"beam", "length_penalty", "log_probability", "sentences_per_second"}
    assert set(result) == expected | {"alignment_accuracy", "seconds", "seed", "version"}


def test_a_model_without_attention_has_no_alignment_accuracy(trained_brief: Callable[..., Path]):
    evaluation = evaluate(regard.load(trained_brief("model.attention.kind=none")), "test")
    assert evaluation.alignment_accuracy is None
    assert "alignment_accuracy" not in evaluation.to_dict()


def test_words_have_a_bleu_with_its_signature(tmp_path: Path, new_callback: Callable[..., object]):
    from regard.config import loading
    from regard.training.trainer import train_run

    few = ["data.train=2000", "data.validation=5", "data.test=20", "training.validate_every=1"]
    train_run(loading.load_experiment("clauses", few), tmp_path / "run", new_callback(stop_after=1))
    result = evaluate(regard.load(tmp_path / "run"), "test").to_dict()
    assert 0 <= result["bleu"] <= 100
    assert "version:" in result["bleu_signature"]


def test_ensembles_are_refused(translator: regard.Translator):
    path = translator.runs[0].path
    with pytest.raises(ValueError, match="an evaluation is of one run"):
        Evaluator(regard.load(path, path), "test")


def test_a_search_is_scored_by_its_outputs(translator: regard.Translator):
    evaluator = Evaluator(translator, "test")
    search = regard.Search(beam=4, length_penalty=0.6)
    counts: list[int] = []
    evaluation, greedy = evaluator.evaluate(search, counts.append), evaluator.evaluate()
    assert sum(counts) == evaluation.sentences == 50
    assert (evaluation.beam, evaluation.length_penalty, greedy.beam) == (4, 0.6, 1)
    translations = translator.translate(
        [pair.source for pair in translator.experiment.task.dataset.splits()["test"]], search
    )
    mean = sum(translation.score for translation in translations) / 50
    assert evaluation.log_probability == pytest.approx(mean, abs=1e-4)
    assert evaluation.sentences_per_second == pytest.approx(50 / evaluation.seconds, rel=0.2)
    assert (evaluation.loss, evaluation.alignment_accuracy) == (greedy.loss, greedy.alignment_accuracy)
