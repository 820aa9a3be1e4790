"""Parallel corpora in files: reading, checking and downloading them."""

from regard.corpora.parallel_text import Problem, ProblemKind, ScannedPair, read_lines, read_pairs, scan_pairs

__all__ = ["Problem", "ProblemKind", "ScannedPair", "read_lines", "read_pairs", "scan_pairs"]
