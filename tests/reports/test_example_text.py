"""Example sentences as plain text."""

from __future__ import annotations

import torch

from regard.reports.example_selection import ExampleSentence, select_examples
from regard.reports.example_text import example_lines


def test_the_text_has_criterion_source_reference_output_and_score() -> None:
    ended = ExampleSentence(
        3, "Ein Hund .", "A dog .", "One dog .", ("A", "<end>"), ("x",), (), (), torch.zeros(2, 1), 41.27
    )
    nothing = ExampleSentence(5, "Nichts", " ", "Nothing", (), ("x",), (), (), torch.zeros(0, 1), 0.0)
    unfinished = ExampleSentence(7, "Lang", "so so", "long", ("so", "so"), ("x",), (), (), torch.zeros(2, 1), 11.0)
    lines = list(example_lines(select_examples([ended, nothing, unfinished]), "runs/a"))
    assert lines == [
        "runs/a (the score of a sentence is chrF2, 0 to 100)",
        "",
        "Best scores: sentence 3, score 41.3",
        "    source     Ein Hund .",
        "    reference  One dog .",
        "    output     A dog .",
        "",
        "Best scores: sentence 7, score 11.0",
        "    source     Lang",
        "    reference  long",
        "    output     so so (truncated at the maximum length)",
        "",
        "Worst scores: sentence 5, score 0.0",
        "    source     Nichts",
        "    reference  Nothing",
        "    output     (nothing)",
    ]
