"""The final evaluation, after training on real text: score the test set and write a page of example sentences."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from regard import files
from regard.evaluation.bleu import sentence_chrf
from regard.evaluation.evaluation_data import EvaluationData
from regard.evaluation.evaluation_result import EvaluationResult
from regard.evaluation.evaluator import Evaluator
from regard.evaluation.metrics import task_metrics
from regard.inference.translation import Translation, mean_attention
from regard.inference.translator import ProgressCallback, Translator, no_progress
from regard.reports.example_selection import ExampleSentence
from regard.runs import EXAMPLES, SCORES, Run
from regard.search import GREEDY, SearchOptions
from regard.tasks import Pair

BEAM = SearchOptions(beam=5)


@dataclass(frozen=True)
class FinalEvaluation:
    """The scores and translations of the test set.

    Args:
        results: The metrics, with greedy search and with a beam.
        sentences: The sentences with their translations by the last search.
        changed: True if the test set has changed since the run was created.
    """

    results: list[EvaluationResult]
    sentences: list[ExampleSentence]
    changed: bool


def needs_final_evaluation(run: Run) -> bool:
    """True if the run has a test set of real text that has not been scored yet.

    Args:
        run: A run directory.
    """
    return not run.has_file(SCORES) and run.experiment.task.has_real_test


def score_test_set(run: Run, device: str, advance: ProgressCallback = no_progress) -> FinalEvaluation:
    """Translate and score the test set, with greedy search and with a beam.

    Args:
        run: A run directory whose training is finished.
        device: The name of the device that computes.
        advance: Called with the number of sentences that have been translated since the last call.
    """
    translator = Translator(run, device=device)
    evaluator = Evaluator(translator, EvaluationData.of_split(run.experiment.data, "test"))
    greedy = evaluator.evaluate(GREEDY, advance)
    beam, translations = evaluator.translate(BEAM, advance)
    return FinalEvaluation([greedy, beam], example_sentences(evaluator.pairs, translations), evaluator.changed)


def write_test_examples(run: Run, evaluation: FinalEvaluation, advance: ProgressCallback = no_progress) -> None:
    """Write the page of examples, then the scores, whose file marks the final evaluation as done.

    Args:
        run: The run directory to write to.
        evaluation: What `score_test_set` returned.
        advance: Called with the number of figures that have been drawn since the last call.
    """
    from regard.reports.examples import (
        write_examples,  # imports matplotlib, which `needs_final_evaluation` does not need
    )

    facts = _page_facts(run, evaluation.results[-1])
    title = f"Attention of {run.path.name}"
    write_examples(run.path / EXAMPLES, evaluation.sentences, title, facts, advance)
    scores = [result.to_dict() for result in evaluation.results]
    files.write_atomic(run.path / SCORES, json.dumps(scores, indent=2).encode())


def example_sentences(pairs: Sequence[Pair], translations: Sequence[Translation]) -> list[ExampleSentence]:
    """Sentences with their translations, from which examples can be selected.

    Args:
        pairs: The sentences.
        translations: The translation of each.
    """
    return [
        ExampleSentence(
            number=number,
            source=pair.source,
            output=translation.text,
            reference=pair.target,
            tokens=translation.tokens,
            source_tokens=translation.source_tokens,
            starts=translation.word_starts,
            source_starts=translation.source_word_starts,
            weights=mean_attention(translation.attention),
            score=sentence_chrf(translation.text, [pair.target, *pair.other_targets]),
        )
        for number, (pair, translation) in enumerate(zip(pairs, translations, strict=True), start=1)
    ]


def _page_facts(run: Run, result: EvaluationResult) -> dict[str, str]:
    """The lines at the head of the page."""
    facts = {
        "experiment": run.experiment.description,
        "sentences": f"{result.sentences:,}, translated with a beam of {result.beam}",
    }
    scores = result.scores
    if "bleu" in scores:
        facts["BLEU"] = f"{scores['bleu']:.2f}, lowercased {scores['bleu_lc']:.2f} ({result.signatures['bleu']})"
    main = task_metrics(run.experiment.task)[0]
    if main.name not in ("bleu", "bleu_lc"):
        facts[main.title] = main.form.format(scores[main.name])
    return facts | {"score of a sentence": "chrF2, 0 to 100"}
