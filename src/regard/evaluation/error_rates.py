"""Errors of pronunciations: how many phonemes, and how many words, are not right."""

from __future__ import annotations

from collections.abc import Sequence


def edit_distance(one: Sequence[str], other: Sequence[str]) -> int:
    """The fewest insertions, deletions and substitutions that make `one` the `other`.

    d(i, j) = min(d(i-1, j) + 1, d(i, j-1) + 1, d(i-1, j-1) + [one_i ≠ other_j])
    """
    row = list(range(len(other) + 1))
    for i, token in enumerate(one, start=1):
        diagonal, row[0] = row[0], i
        for j, expected in enumerate(other, start=1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (token != expected))
    return row[-1]


def phoneme_edits(text: str, known: Sequence[str]) -> tuple[int, int]:
    """The edits that make a text the nearest of its truths, and how many phonemes that one has."""
    return min((edit_distance(text.split(), truth.split()), len(truth.split())) for truth in known)


def phoneme_error(texts: Sequence[str], truths: Sequence[Sequence[str]]) -> float:
    """Edits in all texts per phoneme of the truth; of several truths, the nearest counts."""
    edits = phonemes = 0
    for text, known in zip(texts, truths, strict=True):
        nearest, length = phoneme_edits(text, known)
        edits += nearest
        phonemes += length
    return edits / phonemes if phonemes else 0.0
