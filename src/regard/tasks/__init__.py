"""What can be learned: generated tasks, deterministic from their seed, and texts from files."""

from regard.tasks.addition import Addition
from regard.tasks.base import SPLITS, Pair, Split, Task, Tokenization
from regard.tasks.case import Case
from regard.tasks.clauses import Clauses
from regard.tasks.copy import Copy
from regard.tasks.g2p import G2P
from regard.tasks.parallel import Files, Multi30k
from regard.tasks.reverse import Reverse
from regard.tasks.spaces import Spaces

__all__ = ["SPLITS", "TASKS", "Pair", "Split", "Task", "Tokenization"]

TASKS: dict[str, type[Task]] = {
    "case": Case,
    "spaces": Spaces,
    "addition": Addition,
    "reverse": Reverse,
    "copy": Copy,
    "clauses": Clauses,
    "files": Files,
    "multi30k": Multi30k,
    "g2p": G2P,
}
