"""Output of `regard evaluate`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from regard.cli.loading import load_translator, load_with_data, set_num_threads
from regard.errors import UserError, error_location
from regard.evaluation.evaluation_data import EvaluationData
from regard.evaluation.evaluation_result import beam_table, evaluation_table
from regard.evaluation.evaluator import Evaluator, changed_split_message
from regard.evaluation.final import example_sentences
from regard.images import is_picture, read_picture
from regard.reports.example_selection import select_examples
from regard.reports.example_text import example_lines
from regard.search import SearchOptions
from regard.tasks import Split
from regard.terminal.output import note, print_result
from regard.terminal.progress import ProgressMeter
from regard.terminal.tables import print_table


def parse_beam_widths(text: str) -> list[int]:
    """The numbers in a list such as `1,5,10`."""
    parts = text.split(",")
    if not all(part.strip().isdecimal() and len(part) < 10 for part in parts):
        raise UserError(f"--beam {text}: give a width, or several with commas between them, such as 1,5,10")
    return [int(part) for part in parts]


def print_evaluations(
    evaluators: Sequence[Evaluator], searches: Sequence[SearchOptions], json_lines: bool, per_criterion: int = 0
) -> None:
    """Evaluate every run with every search and print the results and examples: JSON lines, or a table and text."""
    results, texts = [], []
    sentences = sum(len(evaluator.pairs) for evaluator in evaluators)
    with ProgressMeter(sentences * len(searches), shown=not (json_lines and sys.stdout.isatty())) as meter:
        for evaluator in evaluators:
            set_num_threads(evaluator.translator.runs[0])
            for search in searches:
                result, translations = evaluator.translate(search, meter.advance)
                results.append(result)
                found: dict[str, object] = {}
                if per_criterion:
                    selected = select_examples(example_sentences(evaluator.pairs, translations), per_criterion)
                    found["examples"] = [example.to_dict() for example in selected]
                    texts += ["", *example_lines(selected, f"{result.run}, beam {result.beam}")]
                if json_lines:
                    print_result(json.dumps(result.to_dict() | found), flush=True)
    if not json_lines:
        print_table(*(beam_table if len(searches) > 1 else evaluation_table)(results))
        if texts:
            print_result("\n".join(texts))


def split_evaluators(
    runs: Sequence[Path], split: Split, paths: Sequence[str] | None, metrics: Sequence[str]
) -> list[Evaluator]:
    """An evaluator of each run on a split of its own data; all runs are loaded before anything is computed."""
    evaluators = []
    for translator in [load_with_data("evaluate", run, [split], paths) for run in runs]:
        set_num_threads(translator.runs[0])
        evaluators.append(Evaluator(translator, EvaluationData.of_split(translator.experiment.data, split), metrics))
        if evaluators[-1].changed:
            note(changed_split_message(translator.runs[0], split))
    return evaluators


def text_evaluators(
    runs: Sequence[Path], source: Path, references: Sequence[Path], metrics: Sequence[str]
) -> list[Evaluator]:
    """An evaluator of each run on the texts of files, which are read once; of pictures, a file has the paths."""
    translators = [load_translator(run) for run in runs]
    data = EvaluationData.of_texts(source, references)
    evaluators = []
    for translator in translators:
        set_num_threads(translator.runs[0])
        own = with_pictures(data) if translator.reads_pictures else data
        evaluators.append(Evaluator(translator, own, metrics))
    return evaluators


def with_pictures(data: EvaluationData) -> EvaluationData:
    """The same sentences, with data URIs in place of the paths of pictures."""
    pairs = []
    for index, pair in enumerate(data.pairs):
        with error_location(data.source_origin(index)):
            source = pair.source if is_picture(pair.source) else read_picture(Path(pair.source).expanduser())
            pairs.append(replace(pair, source=source))
    return replace(data, pairs=pairs)
