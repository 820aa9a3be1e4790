"""Corpora: pairs of texts in files, from the net or a user's own."""

from regard.corpora.parallel_text import Kind, Problem, Row, read_lines, read_pairs, scan

__all__ = ["Kind", "Problem", "Row", "read_lines", "read_pairs", "scan"]
