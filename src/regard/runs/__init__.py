"""Run directories: the files of one experiment."""

from regard.runs.directory import EXAMPLES, FORMAT, MODEL, SCORES, STATE, Run
from regard.runs.progress import TrainingProgress
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
]
