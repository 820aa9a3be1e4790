"""Generated tasks: deterministic from their seed, with splits that share no pair."""

from regard.tasks.addition import Addition
from regard.tasks.case import Case
from regard.tasks.clauses import Clauses
from regard.tasks.copy import Copy
from regard.tasks.reverse import Reverse
from regard.tasks.spaces import Spaces
from regard.tasks.task import SPLITS, Pair, Split, Task

__all__ = ["SPLITS", "TASKS", "Pair", "Split", "Task"]

TASKS: dict[str, type[Task]] = {
    "case": Case,
    "spaces": Spaces,
    "addition": Addition,
    "reverse": Reverse,
    "copy": Copy,
    "clauses": Clauses,
}
