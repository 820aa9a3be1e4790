"""Phoneme and character error rates: the edit distance to the nearest reference."""

from __future__ import annotations

from collections.abc import Sequence

from rapidfuzz.distance import Levenshtein


def phoneme_edits(hypothesis: str, references: Sequence[str]) -> tuple[int, int]:
    """The edit distance in phonemes to the nearest reference, and the length of that reference.

    Args:
        hypothesis: Phonemes separated by spaces.
        references: One or several pronunciations, written in the same way.
    """
    return nearest_edits(hypothesis.split(), [known.split() for known in references])


def nearest_edits(hypothesis: Sequence[str], references: Sequence[Sequence[str]]) -> tuple[int, int]:
    """The edit distance to the nearest reference, and the length of that reference.

    Args:
        hypothesis: A text, which is a sequence of characters, or a list of phonemes.
        references: One or several of the same kind.
    """
    return min((Levenshtein.distance(hypothesis, known), len(known)) for known in references)


def phoneme_error(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """Phoneme error rate: edits in all hypotheses per phoneme of the nearest references.

    Args:
        hypotheses: The outputs, phonemes separated by spaces.
        references: The pronunciations of each word.
    """
    edits = phonemes = 0
    for hypothesis, known in zip(hypotheses, references, strict=True):
        nearest, length = phoneme_edits(hypothesis, known)
        edits += nearest
        phonemes += length
    return edits / phonemes if phonemes else 0.0
