"""Parallel corpora in files: reading, checking, filtering and downloading them."""

from regard.corpora.parallel_text import read_pairs, scan_pairs
from regard.corpora.rows import Problem, ProblemKind, ScannedPair
from regard.corpora.text_lines import read_lines

__all__ = ["Problem", "ProblemKind", "ScannedPair", "read_lines", "read_pairs", "scan_pairs"]
