"""The results of `regard evaluate`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from regard.cli.loading import load, use_threads_of
from regard.cli.progress import Counter
from regard.cli.tables import by_width, side_by_side
from regard.errors import UserError
from regard.evaluation.scores import Examination, as_json
from regard.search import Search
from regard.tasks import Split


def widths(text: str) -> list[int]:
    """`1,5,10` as numbers."""
    parts = text.split(",")
    if not all(part.strip().isdecimal() and len(part) < 10 for part in parts):
        raise UserError(f"--beam {text}: give a width, or several with commas between them, such as 1,5,10")
    return [int(part) for part in parts]


def print_evaluations(runs: Sequence[Path], split: Split, searches: Sequence[Search], json_lines: bool) -> None:
    results = []
    translators = [load(run) for run in runs]
    sentences = sum(getattr(translator.experiment.data, split) for translator in translators)
    with Counter(sentences * len(searches), shown=not (json_lines and sys.stdout.isatty())) as counter:
        for translator in translators:
            use_threads_of(translator)
            examination = Examination(translator, split)
            for search in searches:
                results.append(as_json(examination.evaluate(search, counter.advance)))
                if json_lines:
                    print(json.dumps(results[-1]), flush=True)
    if not json_lines:
        print(by_width(results) if len(searches) > 1 else side_by_side(results))
