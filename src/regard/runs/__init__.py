"""Run directories: the files of one experiment."""

from regard.runs.directory import (
    EXAMPLES,
    FORMAT,
    MODEL,
    SCORES,
    STATE,
    Run,
    read_metadata,
    remove_temporary_files,
)
from regard.runs.progress import TrainingProgress, read_progress
from regard.runs.weights import expected_shapes, named_weights

__all__ = [
    "EXAMPLES",
    "FORMAT",
    "MODEL",
    "SCORES",
    "STATE",
    "Run",
    "TrainingProgress",
    "expected_shapes",
    "named_weights",
    "read_metadata",
    "read_progress",
    "remove_temporary_files",
]
