"""The output of `regard translate` and `regard score`."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

from regard.cli import options
from regard.cli.loading import load_translator, select_model_options
from regard.errors import UserError, error_location
from regard.images import is_picture
from regard.inference.file_translation import translate_file
from regard.inference.input_lines import CHUNK_LINES, encode_input, read_chunks, read_input
from regard.inference.line_translation import OutputFormat, translate_lines
from regard.inference.translation import rounded
from regard.search import SearchOptions
from regard.terminal.output import note, print_error, print_result
from regard.terminal.progress import InterruptHandler, ProgressMeter


def print_translations(
    runs: list[Path], texts: list[str], source: Path | None, search: SearchOptions, output_format: OutputFormat
) -> None:
    """Print the translations in order. Progress is shown if the output does not go to the terminal."""
    translator = load_translator(*runs)
    for text in texts if not translator.reads_pictures else ():
        if "/" in text and not any(map(str.isspace, text)) and not is_picture(text):
            note(f"'{text}' is taken as a text: run directories come before texts, and contain a run.json")
    translator.constraints(search)  # refuses options that the model cannot satisfy before reading any input
    first = 0
    with ProgressMeter(len(texts) or None, shown=not sys.stdout.isatty()) as meter:
        for chunk in read_chunks(texts, source):
            for line in translate_lines(translator, chunk, first, search, output_format, meter.advance):
                print_result(line)
            sys.stdout.flush()
            first += len(chunk)


def write_translations(
    runs: list[Path],
    source: Path,
    output: str,
    search: SearchOptions,
    output_format: OutputFormat,
    jobs: int | None,
    cluster: str | None,
) -> None:
    """Translate a file into another one; Ctrl-C ends the program."""
    if jobs is not None and cluster is not None:
        raise UserError("give either --jobs, to translate on this machine, or --cluster")
    if cluster is None:
        select_model_options()  # reports the device that `auto` selects
    where = {"jobs": jobs, "cluster": cluster, **asdict(options.MODEL_OPTIONS)}
    interrupts = InterruptHandler()
    try:
        translate_file(runs, source, output, search, **asdict(output_format), **where, interrupts=interrupts)
    except KeyboardInterrupt as stopped:
        if not interrupts.signal:
            raise
        print_error(str(stopped))
        sys.exit(interrupts.exit_code)


def print_scores(runs: list[Path], source: Path, target: Path, json_lines: bool) -> None:
    """log p and perplexity of each line of `target` as a translation of the same line of `source`."""
    translator = load_translator(*runs)
    sources, targets = read_input(source), read_input(target)
    if len(sources) != len(targets):
        raise UserError(f"{source} has {len(sources):,} lines and {target} has {len(targets):,}: they should be equal")
    encoded = encode_input(sources, translator)
    examples = []
    for line, other in zip(encoded, targets, strict=True):
        with error_location(other.origin):
            examples.append(translator.encode_pair(line, other.text))
    with ProgressMeter(len(examples), shown=not sys.stdout.isatty()) as meter:
        for begin in range(0, len(examples), CHUNK_LINES):
            for score in translator.score(examples[begin : begin + CHUNK_LINES], meter.advance):
                if json_lines:
                    values = {"log_probability": score.log_probability, "perplexity": score.perplexity}
                    print_result(json.dumps(values | {"log_probabilities": rounded(list(score.log_probabilities))}))
                else:
                    print_result(f"{score.log_probability:.4f}\t{score.perplexity:.4f}")
            sys.stdout.flush()
