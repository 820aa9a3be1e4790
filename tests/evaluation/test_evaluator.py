"""All metrics of a run, compared with the outputs of its translator."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

import regard
from regard.data import Batches
from regard.errors import UserError
from regard.evaluation import Metric, SentenceStatistics, mean_statistics
from regard.evaluation.bleu import chrf
from regard.evaluation.evaluation_data import EvaluationData
from regard.evaluation.evaluation_result import EvaluationResult
from regard.evaluation.evaluator import Evaluator, evaluate
from regard.evaluation.losses import compute_losses
from regard.evaluation.sentence_statistics import References
from regard.tasks import SPLITS, Split
from regard.terminal import progress

ALIGNMENT = {"alignment_accuracy", "alignment_error", "attention_entropy"}


@pytest.fixture(scope="module")
def translator(trained_brief: Callable[..., Path]) -> regard.Translator:
    """A half-trained model, which makes mistakes."""
    return regard.load(trained_brief("training.epochs=12", "model.dropout=0", "training.rate.peak=0.05"))


@pytest.fixture(scope="module")
def evaluations(translator: regard.Translator) -> dict[Split, EvaluationResult]:
    return {split: evaluate(translator, split=split) for split in SPLITS}


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


@pytest.mark.parametrize("split", SPLITS)
def test_the_free_running_loss_is_that_of_the_models_own_outputs(
    translator: regard.Translator, evaluations: dict[Split, EvaluationResult], split: Split
):
    examples = translator.codec.examples(translator.experiment.task.dataset.splits()[split])
    batches = Batches(examples, batch_tokens=70, seed=3)
    free = compute_losses(translator.model, batches.once(), teacher=False)
    assert evaluations[split].free_running_loss == pytest.approx(free.loss)
    assert free.loss != pytest.approx(evaluations[split].loss)


def test_a_perfect_model_scores_perfectly(trained: Path):
    evaluation = evaluate(regard.load(trained))
    assert evaluation.scores["exact_match"] == 1
    assert evaluation.token_accuracy == 1
    assert evaluation.alignment_accuracy == pytest.approx(1, abs=0.02)
    assert evaluation.alignment_error == pytest.approx(0, abs=0.02)
    assert evaluation.truncated == 0


def test_json_omits_unknown_values(evaluations: dict[Split, EvaluationResult]):
    result = evaluations["test"].to_dict()
    assert "bleu" not in result  # a task of characters
    assert "bleu_signature" not in result
    expected = {"run", "split", "sentences", "loss", "perplexity", "token_accuracy", "exact_match", "truncated"}
    expected |= {"free_running_loss", "beam", "length_penalty", "log_probability", "sentences_per_second"}
    assert set(result) == expected | ALIGNMENT | {"seconds", "seed", "version"}


def test_a_model_without_attention_has_no_alignment_metrics(trained_brief: Callable[..., Path]):
    evaluation = evaluate(regard.load(trained_brief("model.attention.kind=none")))
    assert evaluation.alignment_accuracy is evaluation.alignment_error is evaluation.attention_entropy is None
    assert not ALIGNMENT & evaluation.to_dict().keys()


def test_words_have_a_bleu_with_its_signature(tmp_path: Path, new_callback: Callable[..., object]):
    from regard.config import loading
    from regard.training.train_run import train_run

    few = ["data.train=2000", "data.validation=5", "data.test=20", "training.validate_every=1"]
    train_run(loading.load_experiment("clauses", few), tmp_path / "run", new_callback(stop_after=1))
    result = evaluate(regard.load(tmp_path / "run")).to_dict()
    assert 0 <= result["bleu"] <= 100
    assert "version:" in result["bleu_signature"]


def test_a_search_is_scored_by_its_outputs(translator: regard.Translator):
    evaluator = Evaluator(translator, EvaluationData.of_split(translator.experiment.data, "test"))
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


# --- Ensembles -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ensemble(translator: regard.Translator, trained_brief: Callable[..., Path]) -> regard.Translator:
    other = trained_brief("training.epochs=12", "model.dropout=0", "training.rate.peak=0.05", "training.seed=2")
    return regard.load(translator.runs[0].path, other)


def test_an_ensemble_is_evaluated_by_its_mean_log_probabilities(
    ensemble: regard.Translator, evaluations: dict[Split, EvaluationResult]
):
    result = evaluate(ensemble, progress=False)
    pairs = ensemble.experiment.task.dataset.splits()["test"]
    scores = ensemble.score([(pair.source, pair.target) for pair in pairs])
    tokens = sum(len(score.log_probabilities) for score in scores)
    assert result.loss == pytest.approx(-sum(score.log_probability for score in scores) / tokens, rel=1e-6)
    assert result.loss != pytest.approx(evaluations["test"].loss, rel=1e-3)
    outputs = [translation.text for translation in ensemble.translate([pair.source for pair in pairs])]
    right = sum(output == pair.target for output, pair in zip(outputs, pairs, strict=True))
    assert result.scores["exact_match"] == right / len(pairs)
    assert result.run == " + ".join(str(run.path) for run in ensemble.runs)
    assert not ({"seed"} | ALIGNMENT) & result.to_dict().keys()


def test_an_ensemble_of_equal_models_scores_like_one(
    translator: regard.Translator, evaluations: dict[Split, EvaluationResult]
):
    path = translator.runs[0].path
    twice, once = evaluate(regard.load(path, path), progress=False), evaluations["test"]
    assert twice.loss == pytest.approx(once.loss, rel=1e-6)
    assert (twice.scores, twice.token_accuracy) == (once.scores, once.token_accuracy)


# --- Given texts -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def texts(translator: regard.Translator) -> tuple[list[str], list[str]]:
    pairs = translator.experiment.task.dataset.splits()["test"]
    return [pair.source for pair in pairs], [pair.target for pair in pairs]


MEASURED = {"seconds", "sentences_per_second"}


def test_the_texts_of_a_split_score_like_the_split(
    translator: regard.Translator, texts: tuple[list[str], list[str]], tmp_path: Path
):
    source, references = texts
    for name, lines in (("a.src", source), ("a.ref", references)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    search = regard.Search(beam=3)
    split = evaluate(translator, search=search).to_dict()
    path = str(tmp_path / "a.src")
    given = [
        (evaluate(translator, source=source, references=references, search=search), "given texts"),
        (evaluate(translator, source=path, references=tmp_path / "a.ref", search=search), path),
    ]
    for result, name in given:
        found = result.to_dict()
        assert result.split is None
        assert found.pop("source") == result.source == name
        split_only = {"split"} | ALIGNMENT  # given texts have no gold alignment
        assert found.keys() == split.keys() - split_only
        assert {key: value for key, value in found.items() if key not in MEASURED} == {
            key: value for key, value in split.items() if key not in split_only | MEASURED
        }


def test_any_reference_is_a_match_and_the_first_determines_the_loss(
    translator: regard.Translator, texts: tuple[list[str], list[str]]
):
    source, references = texts
    outputs = [translation.text for translation in translator.translate(source)]
    both = list(zip(references, outputs, strict=True))
    one = evaluate(translator, source=source, references=references, metrics=["bleu", "chrf"])
    two = evaluate(translator, source=source, references=both, metrics=["bleu", "chrf"])
    assert two.loss == one.loss
    assert one.scores["exact_match"] < two.scores["exact_match"] == 1
    assert one.scores["chrf"] < two.scores["chrf"] == 100
    assert "nrefs:1|" in one.signatures["bleu"]
    assert "nrefs:2|" in two.signatures["bleu"]
    swapped = evaluate(translator, source=source, references=[pair[::-1] for pair in both])
    assert swapped.loss != one.loss


def test_an_empty_text_has_an_empty_translation_and_no_loss(translator: regard.Translator):
    result = evaluate(translator, source=["", "abc", ""], references=["", "abc", ""])
    assert result.sentences == 3
    assert result.scores["exact_match"] >= 2 / 3
    assert result.loss == evaluate(translator, source=["abc"], references=["abc"]).loss
    with pytest.raises(UserError, match=r"^given texts: all texts are empty; at least one is needed$"):
        evaluate(translator, source=[""], references=[""])


def test_a_text_that_the_task_cannot_process_is_reported_with_its_place(translator: regard.Translator, tmp_path: Path):
    for name, lines in (("a.src", "ab\nax\n"), ("good", "ab\nab\n"), ("empty", "ab\n\n")):
        (tmp_path / name).write_text(lines)
    good, bad, empty = tmp_path / "good", tmp_path / "a.src", tmp_path / "empty"
    with pytest.raises(UserError, match=r"a\.src, line 2: .*'x'"):
        evaluate(translator, source=bad, references=good)
    with pytest.raises(UserError, match=r"a\.src, line 2: .*'x'"):
        evaluate(translator, source=good, references=bad)
    with pytest.raises(UserError, match=r"^source\[1\]: .*'x'"):
        evaluate(translator, source=["ab", "x"], references=["ab", "x"])
    with pytest.raises(UserError, match=r"^references\[1\]: .*'x'"):
        evaluate(translator, source=["ab", "ab"], references=["ab", "x"])
    with pytest.raises(UserError, match=r"^references\[0\]\[0\]: .*'x'"):
        evaluate(translator, source=["ab"], references=[["x", "ab"]])
    with pytest.raises(UserError, match="good, line 2: its source is empty, and an empty text has an empty translat"):
        evaluate(translator, source=empty, references=good)


def test_a_text_of_a_split_that_is_too_long_is_reported_with_its_place(trained_brief: Callable[..., Path]):
    run = trained_brief("model.encoder.positions.kind=learned", "model.encoder.positions.longest=6")
    translator = regard.load(run)
    longer = translator.experiment.data.model_copy(update={"min_length": 9, "max_length": 9})
    with pytest.raises(UserError, match=r"^sentence 1 of the test split: this text has 10 tokens"):
        Evaluator(translator, EvaluationData.of_split(longer, "test"))


# --- Arguments -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"source": ["ab"]}, "source and references belong together"),
        ({"references": ["ab"]}, "source and references belong together"),
        ({"source": ["ab"], "references": ["ab"], "split": "test"}, "split='test': give either a split or source"),
        ({"split": "tset"}, "split='tset' is not a split; did you mean 'test'? choices: train, validation, test"),
        ({"split": 1}, "split=1 is not a split"),
        ({"search": 5}, "search should be a regard.Search, such as regard.Search(beam=5), not 5"),
        ({"metrics": 1}, "metrics should be a list"),
        ({"metrics": ["chfr"]}, "'chfr' is not a metric; did you mean 'chrf'?"),
        ({"metrics": [len]}, "a metric is given by its name or as a regard.evaluation.Metric, not as <built-in"),
        ({"metrics": ["loss"]}, "'loss' is not a metric of output texts; those are exact_match, "),
    ],
)
def test_wrong_arguments_are_reported(translator: regard.Translator, arguments: dict[str, Any], message: str):
    with pytest.raises(UserError) as caught:
        evaluate(translator, **arguments)
    assert str(caught.value).startswith(message)


def test_only_a_translator_can_be_evaluated(translator: regard.Translator):
    path = translator.runs[0].path
    with pytest.raises(UserError, match=r"^evaluate takes a translator, as regard\.load\(RUN\) returns it, not "):
        evaluate(path)  # type: ignore[arg-type]


def test_progress_can_be_hidden(
    translator: regard.Translator, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(progress, "LOG_INTERVAL", 0.0)
    evaluate(translator)
    assert "50/50 sentences" in capsys.readouterr().err
    evaluate(translator, progress=False)
    assert capsys.readouterr() == ("", "")


def test_a_changed_split_is_a_warning(translator: regard.Translator, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(translator.runs[0].data_digests, "test", "another")
    with pytest.warns(UserWarning, match="the test split has changed since training"):
        evaluate(translator)


# --- Metrics ---------------------------------------------------------------------------------------------


def _length_ratios(outputs: Sequence[str], references: References) -> SentenceStatistics:
    return mean_statistics([len(output) / len(known[0]) for output, known in zip(outputs, references, strict=True)])


LENGTH_RATIO = Metric("length ratio", "{:.3f}", statistics=_length_ratios)


def test_additional_metrics_follow_those_of_the_task(translator: regard.Translator, texts: tuple[list[str], list[str]]):
    result = evaluate(translator, metrics=[LENGTH_RATIO, "chrf"])
    outputs = [translation.text for translation in translator.translate(texts[0])]
    ratios = [len(output) / len(target) for output, target in zip(outputs, texts[1], strict=True)]
    assert list(result.scores) == ["exact_match", "chrf", "length ratio"]
    assert result.scores["length ratio"] == pytest.approx(fmean(ratios))
    assert result.to_dict()["length ratio"] == result.scores["length ratio"]
    assert result.scores["chrf"] == chrf(outputs, texts[1]).score
    rows = {line[:20].strip(): line[20:].strip() for line in str(result).splitlines()}
    assert rows["length ratio"] == f"{fmean(ratios):.3f}"


def test_a_task_may_declare_a_metric_of_its_own(translator: regard.Translator, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(type(translator.experiment.task), "metrics", (LENGTH_RATIO, "phoneme_error"))
    assert list(evaluate(translator).scores) == ["phoneme_error", "length ratio"]


def test_a_metric_does_not_replace_another_value_of_a_result(translator: regard.Translator):
    for title in ("seconds", "loss", "chrf"):
        with pytest.raises(UserError, match=f"the name '{title}'"):
            evaluate(translator, metrics=[replace(LENGTH_RATIO, name=title)])
