"""What is done once a training on real text is over: the test set is scored, and a page of examples is made."""

from __future__ import annotations

import json
from dataclasses import dataclass

from regard import files
from regard.evaluation.bleu import sentence_chrf
from regard.evaluation.evaluator import EvaluationResult, Evaluator, evaluation_to_dict
from regard.inference.translation import Translation, mean_attention
from regard.inference.translator import ProgressCallback, Translator, no_progress
from regard.reports.example_selection import ExampleSentence
from regard.reports.examples import write_examples
from regard.runs import EXAMPLES, SCORES, Run
from regard.search import GREEDY, SearchOptions
from regard.tasks import Pair

BEAM = SearchOptions(beam=5)


@dataclass(frozen=True)
class TestSetResult:
    evaluations: list[EvaluationResult]
    shown: list[ExampleSentence]  # what the last of them is about
    changed: bool  # is the test set another one than when the run was begun?


def needs_final_evaluation(run: Run) -> bool:
    """Has this run a test set of real text that it was not yet held against?"""
    return not run.has(SCORES) and run.experiment.data.has_real_test


def score_test_set(run: Run, advance: ProgressCallback = no_progress) -> TestSetResult:
    """Translate the test set, greedily and with a beam."""
    examination = Evaluator(Translator(run), "test")
    greedy = examination.evaluate(GREEDY, advance)
    beam, translations = examination.translate(BEAM, advance)
    numbered = enumerate(zip(examination.pairs, translations, strict=True), start=1)
    return TestSetResult([greedy, beam], [_shown(number, *both) for number, both in numbered], examination.changed)


def write_test_examples(run: Run, outcome: TestSetResult, advance: ProgressCallback = no_progress) -> None:
    """Draw examples, and write down the scores, which says that all is done."""
    facts = _facts(run, outcome.evaluations[-1])
    write_examples(run.path / EXAMPLES, outcome.shown, f"Where {run.path.name} looks", facts, advance)
    scores = [evaluation_to_dict(evaluation) for evaluation in outcome.evaluations]
    files.write_atomic(run.path / SCORES, json.dumps(scores, indent=2).encode())


def _shown(number: int, pair: Pair, translation: Translation) -> ExampleSentence:
    return ExampleSentence(
        number=number,
        source=pair.source,
        output=translation.text,
        reference=pair.target,
        tokens=translation.tokens,
        source_tokens=translation.source_tokens,
        starts=translation.starts,
        source_starts=translation.source_starts,
        weights=mean_attention(translation.attention),
        score=sentence_chrf(translation.text, [pair.target, *pair.other_targets]),
    )


def _facts(run: Run, beam: EvaluationResult) -> dict[str, str]:
    """What stands at the head of the page."""
    facts = {
        "experiment": run.experiment.description,
        "sentences": f"{beam.sentences:,}, translated with a beam of {beam.beam}",
    }
    if beam.bleu is not None and beam.bleu_lc is not None:
        facts["BLEU"] = f"{beam.bleu:.2f}, lowercased {beam.bleu_lc:.2f} ({beam.bleu_signature})"
    if beam.word_error is not None:
        facts["wrong words"] = f"{beam.word_error:.2%}"
    return facts | {"score of a sentence": "chrF2, 0 to 100"}
