"""The pairs of any task: `regard.data.load`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from regard.config.loading import resolve_experiment
from regard.tasks import SPLITS, Pair, Split, Task


class SplitPairs(Mapping[Split, Iterable[Pair]]):
    """The pairs of each split, in the order of training, validation and test.

    Args:
        splits: What a data set returned.
    """

    def __init__(self, splits: Mapping[Split, Iterable[Pair]]) -> None:
        self._splits = {split: splits[split] for split in SPLITS if split in splits}

    def __getitem__(self, split: Split) -> Iterable[Pair]:
        return self._splits[split]

    def __iter__(self) -> Iterator[Split]:
        return iter(self._splits)

    def __len__(self) -> int:
        return len(self._splits)

    def __repr__(self) -> str:
        return f"SplitPairs({', '.join(self._splits)})"


def load_splits(task: str | type[Task[Any]], /, **settings: Any) -> SplitPairs:
    """The pairs of a task, in splits.

        pairs = regard.data.load("multi30k")
        len(list(pairs["train"]))                                  # 29,000
        regard.data.load("copy", alphabet="abc", train=100)        # a generated task with other settings
        regard.data.load("files", source="de", target="en", train="corpus/train", validation="corpus/dev")

    Args:
        task: The name of a task, its import path, or its class.
        settings: The settings of the task, as in the section `data` of an experiment.

    Returns:
        For each split its pairs, which can be iterated over any number of times. Those of files are read anew each
        time, and more than 100,000 training pairs of a generated task are generated anew, because they may be larger
        than memory.

    Raises:
        UserError: There is no such task, a setting is invalid, or a file is missing.
    """
    experiment = resolve_experiment({"data": {"task": task, **settings}}, check_files=True)
    return SplitPairs(experiment.task.dataset.splits())
