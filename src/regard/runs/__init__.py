"""Run directories: the files of one experiment."""

from regard.runs.directory import EXAMPLES, MODEL, SCORES, STATE, Run, copy_weights, named_weights

__all__ = ["EXAMPLES", "MODEL", "SCORES", "STATE", "Run", "copy_weights", "named_weights"]
