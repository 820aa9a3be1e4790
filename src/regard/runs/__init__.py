"""Run directories: the files of one experiment."""

from regard.runs.directory import EXAMPLES, FORMAT, MODEL, SCORES, STATE, Run, copy_weights, named_weights

__all__ = ["EXAMPLES", "FORMAT", "MODEL", "SCORES", "STATE", "Run", "copy_weights", "named_weights"]
