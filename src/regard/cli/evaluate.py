"""Output of `regard evaluate`, and of the final evaluation after `regard train`."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from regard.cli.loading import check_data_files, load_with_data, set_num_threads
from regard.errors import UserError
from regard.evaluation.evaluator import Evaluator
from regard.evaluation.final import score_test_set, write_test_examples
from regard.evaluation.metrics import METRICS
from regard.files import lock_folder
from regard.runs import EXAMPLES, Run
from regard.search import SearchOptions
from regard.tasks import Split
from regard.terminal.output import note, print_message, print_result
from regard.terminal.progress import ProgressMeter
from regard.terminal.tables import print_table

Result = Mapping[str, object]


def parse_beam_widths(text: str) -> list[int]:
    """The numbers in a list such as `1,5,10`."""
    parts = text.split(",")
    if not all(part.strip().isdecimal() and len(part) < 10 for part in parts):
        raise UserError(f"--beam {text}: give a width, or several with commas between them, such as 1,5,10")
    return [int(part) for part in parts]


def print_evaluations(
    runs: Sequence[Path],
    split: Split,
    searches: Sequence[SearchOptions],
    json_lines: bool,
    paths: Sequence[str] | None = None,
) -> None:
    """Evaluate every run with every search and print the results: JSON lines, or a table."""
    evaluators = []
    for translator in [load_with_data("evaluate", run, [split], paths) for run in runs]:
        set_num_threads(translator.runs[0])
        evaluators.append(Evaluator(translator, split))
        if evaluators[-1].changed:
            warn_changed_split(translator.runs[0], split)
    results = []
    sentences = sum(len(evaluator.pairs) for evaluator in evaluators)
    with ProgressMeter(sentences * len(searches), shown=not (json_lines and sys.stdout.isatty())) as meter:
        for evaluator in evaluators:
            set_num_threads(evaluator.translator.runs[0])
            for search in searches:
                results.append(evaluator.evaluate(search, meter.advance).to_dict())
                if json_lines:
                    print_result(json.dumps(results[-1]), flush=True)
    if not json_lines:
        (print_beams if len(searches) > 1 else print_runs)(results)


def print_runs(results: Sequence[Result]) -> None:
    """Print evaluations side by side: a column for each run, a row for each metric."""
    known = [key for key in METRICS if any(key in result for result in results)]
    rows = [["sentences", *(f"{result['sentences']:,}" for result in results)]]
    rows += [[METRICS[key].title, *(_metric_text(result, key) for result in results)] for key in known]
    print_table(["", *(str(result["run"]) for result in results)], rows)


def print_beams(results: Sequence[Result]) -> None:
    """Print evaluations with several beam widths: a row for each width of each run, a column for each metric."""
    searched = [key for key, metric in METRICS.items() if metric.depends_on_search]
    known = [key for key in searched if any(key in result for result in results)]
    columns = ["beam", *(METRICS[key].title for key in known)]
    rows = [[str(result["beam"]), *(_metric_text(result, key) for key in known)] for result in results]
    if len({result["run"] for result in results}) > 1:
        columns = ["run", *columns]
        rows = [[str(result["run"]), *row] for result, row in zip(results, rows, strict=True)]
    print_table(columns, rows)


def _metric_text(result: Result, key: str) -> str:
    return METRICS[key].form.format(result[key]) if key in result else "–"


def warn_changed_split(run: Run, split: Split) -> None:
    """Print a warning that the texts of a split are not those of the training."""
    note(f"{run.path}: the {split} split has changed since training; it may contain training sentences now")


def print_final_evaluation(run: Run) -> None:
    """Score the test set after training on real text; print the scores and where the examples are."""
    path = run.path
    check_data_files("evaluate", path, run.experiment, ["test"])
    with lock_folder(path) as alone:
        if not alone:
            raise UserError(f"{path}: another process is using this run directory")
        run.remove_temporary_files()
        set_num_threads(run)
        try:
            with ProgressMeter(None) as meter:
                evaluation = score_test_set(run, meter.advance)
            if evaluation.changed:
                warn_changed_split(run, "test")
            print_beams([result.to_dict() for result in evaluation.results])
            with ProgressMeter(None, what="pictures") as meter:
                write_test_examples(run, evaluation, meter.advance)
        except KeyboardInterrupt:
            print_message(f"{path}: trained, but not scored yet; run the same command again to score it")
            raise
    print_result(f"{path / EXAMPLES / 'index.html'}: attention maps of example sentences")
