"""The results of `regard evaluate`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from regard.cli.input_lines import note
from regard.cli.loading import load_translator, use_threads_of
from regard.cli.progress import Counter
from regard.cli.tables import print_beams, print_runs
from regard.errors import UserError
from regard.evaluation.evaluator import Evaluator, evaluation_to_dict
from regard.evaluation.final import score_test_set, write_test_examples
from regard.files import lock_folder
from regard.runs import EXAMPLES, Run
from regard.search import SearchOptions
from regard.tasks import Split


def widths(text: str) -> list[int]:
    """`1,5,10` as numbers."""
    parts = text.split(",")
    if not all(part.strip().isdecimal() and len(part) < 10 for part in parts):
        raise UserError(f"--beam {text}: give a width, or several with commas between them, such as 1,5,10")
    return [int(part) for part in parts]


def print_evaluations(runs: Sequence[Path], split: Split, searches: Sequence[SearchOptions], json_lines: bool) -> None:
    results = []
    translators = [load_translator(run) for run in runs]
    examinations = []
    for translator in translators:
        use_threads_of(translator.runs[0])
        examination = Evaluator(translator, split)
        if examination.changed:
            note_change(translator.runs[0], split)
        examinations.append(examination)
    sentences = sum(len(examination.pairs) for examination in examinations)
    with Counter(sentences * len(searches), shown=not (json_lines and sys.stdout.isatty())) as counter:
        for examination in examinations:
            use_threads_of(examination.translator.runs[0])
            for search in searches:
                results.append(evaluation_to_dict(examination.evaluate(search, counter.advance)))
                if json_lines:
                    print(json.dumps(results[-1]), flush=True)
    if not json_lines:
        (print_beams if len(searches) > 1 else print_runs)(results)


def note_change(run: Run, split: Split) -> None:
    note(f"{run.path}: the {split} split is not what it was in training; what was learned from may be in it now")


def print_conclusion(run: Run) -> None:
    """After a training on real text: the scores of the test set, and where the examples are."""
    path = run.path
    with lock_folder(path) as alone:
        if not alone:
            raise UserError(f"{path}: another process is at work here")
        run.sweep()
        use_threads_of(run)
        try:
            with Counter(None) as counter:
                outcome = score_test_set(run, counter.advance)
            if outcome.changed:
                note_change(run, "test")
            print_beams([evaluation_to_dict(evaluation) for evaluation in outcome.evaluations])
            with Counter(None, what="pictures") as counter:
                write_test_examples(run, outcome, counter.advance)
        except KeyboardInterrupt:
            print(f"{path}: trained, but not yet scored; the same command goes on with that", file=sys.stderr)
            raise
    print(f"{path / EXAMPLES / 'index.html'}: where it looked, in sentences that show something")
