"""Pairs of texts: the examples that a model learns from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Pair:
    """A source text and its target text.

    Args:
        source: The text that the encoder reads.
        target: The text that the decoder should generate.
        alignment: (source token, target token) indices of corresponding tokens, counted from 0, where known.
        other_targets: Further correct targets.
        weight: How often a training sees the pair per epoch, on average.
    """

    source: str
    target: str
    alignment: frozenset[tuple[int, int]] = frozenset()
    other_targets: tuple[str, ...] = ()
    weight: float = 1.0
