"""The output of `regard translate` and `regard score`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from regard.cli.input_lines import CHUNK_LINES, encode_input, read_chunks, read_input
from regard.cli.loading import load_translator
from regard.errors import UserError, error_location
from regard.images import is_picture
from regard.inference.translation import Translation, rounded
from regard.search import SearchOptions
from regard.terminal.output import note, print_result
from regard.terminal.progress import ProgressMeter

OutputFormat = Callable[[int, Translation], Iterator[str]]  # the number of an input line from 0, and its translation


def print_translations(
    runs: list[Path],
    texts: list[str],
    search: SearchOptions,
    output_format: OutputFormat,
    *,
    aligned: bool,
    self_attention: bool,
) -> None:
    """Print the translations in order. Progress is shown if the output does not go to the terminal."""
    translator = load_translator(*runs)
    for text in texts if not translator.reads_pictures else ():
        if "/" in text and not any(map(str.isspace, text)) and not is_picture(text):
            note(f"'{text}' is taken as a text: run directories come before texts, and contain a run.json")
    translator.constraints(search)  # refuses options that the model cannot satisfy before reading any input
    number = 0
    with ProgressMeter(len(texts) or None, shown=not sys.stdout.isatty()) as meter:
        for chunk in read_chunks(texts):
            sources = encode_input(chunk, translator)
            translations = translator.translate(sources, search, meter.advance, self_attention=self_attention)
            if aligned and any(each.tokens and not each.attention.any() for each in translations):
                raise UserError("--alignments: this model has no attention")
            for line, translation in zip(chunk, translations, strict=True):
                for output in output_format(number, translation):
                    print_result(output)
                note_truncation(line.origin, translation)
                number += 1
            sys.stdout.flush()


def note_truncation(origin: str, translation: Translation) -> None:
    if not translation.finished:
        note(f"{origin}: truncated after {len(translation.tokens)} tokens, the maximum length")


def text_format(*, listed: bool, aligned: bool) -> OutputFormat:
    """Moses's formats: the text, or `line ||| text ||| score` for n-best lists; then ` ||| 0-0 1-2` with alignments."""

    def format_lines(number: int, translation: Translation) -> Iterator[str]:
        for each in translation.n_best:
            answer = f"{number} ||| {each.text} ||| {each.score:.4f}" if listed else each.text
            yield f"{answer} ||| {moses_alignment(each)}" if aligned else answer

    return format_lines


def moses_alignment(translation: Translation) -> str:
    """The alignment in Moses's format: `source-target` pairs."""
    return " ".join(f"{source}-{target}" for source, target in translation.alignment)


def json_format(number: int, translation: Translation) -> Iterator[str]:
    yield json.dumps(translation.to_dict(), ensure_ascii=False)


def print_scores(runs: list[Path], source: Path, target: Path, json_lines: bool) -> None:
    """log p and perplexity of each line of `target` as a translation of the same line of `source`."""
    sources, targets = read_input(source), read_input(target)
    if len(sources) != len(targets):
        raise UserError(f"{source} has {len(sources):,} lines and {target} has {len(targets):,}: they should be equal")
    translator = load_translator(*runs)
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
