"""Tasks to learn: generated ones, deterministic for a given seed, and text from files."""

from typing import Any

from regard.config.kinds import TASKS, DataSection
from regard.tasks.base import SPLITS, Dataset, Split, Task
from regard.tasks.generated import GeneratedDataset, GeneratedSection, GeneratedTask
from regard.text import Pair, Tokenization

__all__ = [
    "SPLITS",
    "TASKS",
    "DataSection",
    "Dataset",
    "GeneratedDataset",
    "GeneratedSection",
    "GeneratedTask",
    "Pair",
    "Split",
    "Task",
    "Tokenization",
    "task_for",
]


def task_for(section: DataSection) -> Task[Any]:
    """The task that these settings describe.

    Args:
        section: The section `data` of an experiment.
    """
    task: Task[Any] = TASKS[section.task](section)
    return task
