"""Tasks to learn: generated ones, deterministic for a given seed, and text from files."""

from typing import Any

from regard.tasks.addition import AdditionTask
from regard.tasks.base import SPLITS, DataSection, Dataset, Split, Task
from regard.tasks.case import CaseTask
from regard.tasks.clauses import ClausesTask
from regard.tasks.copy import CopyTask
from regard.tasks.g2p import G2PTask
from regard.tasks.parallel import FilesTask, Multi30kTask
from regard.tasks.reverse import ReverseTask
from regard.tasks.spaces import SpacesTask
from regard.text import Pair, Tokenization

__all__ = [
    "SPLITS",
    "TASKS",
    "DataSection",
    "Dataset",
    "Pair",
    "Split",
    "Task",
    "Tokenization",
    "task_for",
]

TASKS: dict[str, type[Task[Any]]] = {
    "case": CaseTask,
    "spaces": SpacesTask,
    "addition": AdditionTask,
    "reverse": ReverseTask,
    "copy": CopyTask,
    "clauses": ClausesTask,
    "files": FilesTask,
    "multi30k": Multi30kTask,
    "g2p": G2PTask,
}


def task_for(section: DataSection) -> Task[Any]:
    """The task that these settings describe.

    Args:
        section: The section `data` of an experiment.
    """
    return TASKS[section.task](section)
