"""The answers of `regard translate` and `regard score`, for people and for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from regard.cli.input_lines import AT_ONCE, check_input, chunks, note, read_input, told_at
from regard.cli.loading import load_translator
from regard.cli.progress import ProgressMeter
from regard.errors import UserError
from regard.inference.translation import Translation, rounded
from regard.search import SearchOptions

Form = Callable[[int, Translation], Iterator[str]]  # the number of an input line from 0, and its translation


def print_translations(runs: list[Path], texts: list[str], search: SearchOptions, form: Form, *, aligned: bool) -> None:
    """Answer line by line, in order. Progress is shown where the answers are not: when they go to a file."""
    for text in texts:
        if "/" in text and not any(map(str.isspace, text)):
            note(f"'{text}' is taken as a text: runs come before texts, and have a run.json")
    translator = load_translator(*runs)
    translator.rules(search)  # refuses what this model cannot do before it reads anything
    number = 0
    with ProgressMeter(len(texts) or None, shown=not sys.stdout.isatty()) as meter:
        for chunk in chunks(texts):
            check_input(chunk, translator)
            translations = translator.translate([line.text for line in chunk], search, meter.advance)
            if aligned and any(each.tokens and not each.attention.any() for each in translations):
                raise UserError("--alignments: this model looks nowhere, it has no attention")
            for line, translation in zip(chunk, translations, strict=True):
                for answer in form(number, translation):
                    print(answer)
                note_cut_off(line.origin, translation)
                number += 1
            sys.stdout.flush()


def note_cut_off(origin: str, translation: Translation) -> None:
    if not translation.finished:
        note(f"{origin}: cut off after {len(translation.tokens)} tokens, the most that is allowed")


def text_form(*, listed: bool, aligned: bool) -> Form:
    """The text; in a list `line ||| text ||| score`, lines counted from 0; with its alignment ` ||| 0-0 1-2` behind it.

    Both are Moses's formats.
    """

    def form(number: int, translation: Translation) -> Iterator[str]:
        for each in translation.n_best:
            answer = f"{number} ||| {each.text} ||| {each.score:.4f}" if listed else each.text
            yield f"{answer} ||| {moses(each)}" if aligned else answer

    return form


def moses(translation: Translation) -> str:
    """Pairs of source and output token."""
    return " ".join(f"{source}-{output}" for source, output in translation.alignment)


def json_form(number: int, translation: Translation) -> Iterator[str]:
    yield json.dumps(translation.to_dict(), ensure_ascii=False)


def print_scores(runs: list[Path], source: Path, target: Path, json_lines: bool) -> None:
    """log p and perplexity of each line of `target` as a translation of the same line of `source`."""
    sources, targets = read_input(source), read_input(target)
    if len(sources) != len(targets):
        raise UserError(f"{source} has {len(sources):,} lines and {target} has {len(targets):,}: they must be as many")
    translator = load_translator(*runs)
    pairs = list(zip(sources, targets, strict=True))
    check_input(sources, translator)
    for line, other in pairs:
        with told_at(other.origin):
            translator.check_pair(line.text, other.text)
    with ProgressMeter(len(pairs), shown=not sys.stdout.isatty()) as meter:
        for begin in range(0, len(pairs), AT_ONCE):
            some = [(line.text, other.text) for line, other in pairs[begin : begin + AT_ONCE]]
            for score in translator.score(some, meter.advance):
                if json_lines:
                    values = {"log_probability": score.log_probability, "perplexity": score.perplexity}
                    print(json.dumps(values | {"log_probabilities": rounded(list(score.log_probabilities))}))
                else:
                    print(f"{score.log_probability:.4f}\t{score.perplexity:.4f}")
            sys.stdout.flush()
