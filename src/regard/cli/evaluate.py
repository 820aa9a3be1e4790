"""Output of `regard evaluate`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from regard.cli.loading import load_with_data, set_num_threads
from regard.errors import UserError
from regard.evaluation.data_files import warn_changed_split
from regard.evaluation.evaluator import Evaluator
from regard.evaluation.tables import print_beams, print_runs
from regard.search import SearchOptions
from regard.tasks import Split
from regard.terminal.output import print_result
from regard.terminal.progress import ProgressMeter


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
