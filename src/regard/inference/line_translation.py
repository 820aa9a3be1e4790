"""From lines of input to lines of output: the formats of `regard translate`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from regard.errors import UserError
from regard.inference.input_lines import InputLine, encode_input
from regard.inference.translation import Translation
from regard.inference.translator import ProgressCallback, Translator, no_progress
from regard.search import SearchOptions
from regard.search.beam import never_stop
from regard.terminal.output import note


@dataclass(frozen=True)
class OutputFormat:
    """How translations are printed: as texts (the default), in Moses's formats, or as JSON.

    Args:
        json: One object a line, which has everything else.
        alignments: Add ` ||| 0-0 1-2`, the most attended source token of each output token.
        self_attention: Include the self-attention in the JSON.

    Raises:
        UserError: If the options exclude each other.
    """

    json: bool = False
    alignments: bool = False
    self_attention: bool = False

    def __post_init__(self) -> None:
        if self.json and self.alignments:
            raise UserError("--json includes the alignments; omit either --json or --alignments")
        if self.self_attention and not self.json:
            raise UserError("--self-attention is for --json; regard show --attention encoder draws it")

    def lines(self, number: int, translation: Translation, *, listed: bool) -> Iterator[str]:
        """The lines of one translation.

        Args:
            number: The number of the input line, from 0.
            translation: Its translation.
            listed: Whether the texts are an n-best list: `number ||| text ||| score`.
        """
        if self.json:
            yield json.dumps(translation.to_dict(), ensure_ascii=False)
            return
        for each in translation.n_best:
            answer = f"{number} ||| {each.text} ||| {each.score:.4f}" if listed else each.text
            yield f"{answer} ||| {moses_alignment(each)}" if self.alignments else answer


def moses_alignment(translation: Translation) -> str:
    """The alignment in Moses's format: `source-target` pairs.

    Args:
        translation: A translation.
    """
    return " ".join(f"{source}-{target}" for source, target in translation.alignment)


def translate_lines(
    translator: Translator,
    lines: Sequence[InputLine],
    first: int,
    search: SearchOptions,
    output_format: OutputFormat,
    advance: ProgressCallback = no_progress,
    should_stop: Callable[[], bool] = never_stop,
) -> Iterator[str]:
    """The lines of output for some lines of input, in order. Truncated outputs are reported as notes.

    Args:
        translator: The model.
        lines: The input.
        first: The number of its first line, from 0.
        search: How to search.
        output_format: The format.
        advance: Called with the number of texts done, batch by batch.
        should_stop: Called before each step of the search.

    Raises:
        UserError: If the model cannot process a line, or has no attention for alignments.
        SearchStopped: If `should_stop` returns True.
    """
    sources = encode_input(lines, translator)
    self_attention = output_format.self_attention
    translations = translator.translate(sources, search, advance, should_stop, self_attention=self_attention)
    if output_format.alignments and any(each.tokens and not each.attention.any() for each in translations):
        raise UserError("--alignments: this model has no attention")
    for number, (line, translation) in enumerate(zip(lines, translations, strict=True), start=first):
        yield from output_format.lines(number, translation, listed=search.n_best > 1)
        note_truncation(line.origin, translation)


def note_truncation(origin: str, translation: Translation) -> None:
    """Print a warning if an output has been truncated.

    Args:
        origin: Where its source came from.
        translation: The output.
    """
    if not translation.finished:
        note(f"{origin}: truncated after {len(translation.tokens)} tokens, the maximum length")
