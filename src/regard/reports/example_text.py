"""Example sentences as plain text, for a terminal or a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from regard.images import source_label
from regard.reports.example_selection import SelectedExample

TRUNCATED = "(truncated at the maximum length)"
NOTHING = "(nothing)"


def example_lines(selected: Sequence[SelectedExample], title: str = "Examples") -> Iterator[str]:
    """The lines of the examples: why each was selected, its source, its reference and the output.

    Args:
        selected: What `select_examples` returned.
        title: The first line.
    """
    yield f"{title} (the score of a sentence is chrF2, 0 to 100)"
    for example in selected:
        sentence = example.sentence
        output = sentence.output if sentence.output.strip() else NOTHING
        yield ""
        yield f"{example.criterion.title}: sentence {sentence.number}, {example.caption}"
        yield f"    source     {source_label(sentence.source)}"
        yield f"    reference  {sentence.reference}"
        yield f"    output     {output}{f' {TRUNCATED}' * sentence.truncated}"
