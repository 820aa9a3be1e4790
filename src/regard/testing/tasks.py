"""The check of tasks, and the properties of their data sets.

Each function checks one property, and raises `PropertyError` if it does not hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any

from regard.errors import UserError
from regard.tasks import SPLITS, Pair, Split, Task
from regard.tasks.generated import GeneratedSection
from regard.testing import tokenizations
from regard.testing.failures import PropertyError, checks_that, describe_error, expect
from regard.testing.sections import make_section, section_of
from regard.testing.tokenizations import TaskSample

Splits = Mapping[Split, Iterable[Pair]]
MOST = 5_000  # pairs of a split that are checked
# Numbers of pairs of a generated task; the smaller ones are for tasks that have few pairs.
GENERATED_SIZES = ((2_000, 50, 50), (100, 10, 10), (10, 2, 2))


def check_task(task: type[Task[Any]], **options: Any) -> None:
    """Check a task: its splits, its tokenization, and a training step on its data.

    A generated task is checked with 2,000 training pairs, or fewer if it has not as many, unless `train` is given.

    Args:
        task: The class. Its name need not be registered.
        **options: Settings of its Section.

    Raises:
        PropertyError: A property does not hold; the message names it and the likely mistake.
        UserError: If an option is invalid, or a file is missing.
    """
    built, splits = build_task(task, options)
    check_settings(built)
    check_repeated_splits(built, splits)
    check_splits(built, splits)
    check_seed(built)
    first = {split: first_pairs(pairs) for split, pairs in splits.items()}
    sample = TaskSample(built, splits["train"], first, built.learn_tokenization(splits["train"]))
    for check in TASK_PROPERTIES:
        check(sample)


def build_task(task: type[Task[Any]], options: Mapping[str, Any]) -> tuple[Task[Any], Splits]:
    """The task with these settings, and its splits; a generated one with as many pairs as it can generate.

    Args:
        task: The class.
        options: Settings of its Section.
    """
    exhausted: UserError | None = None
    for sizes in GENERATED_SIZES if issubclass(section_of(task), GeneratedSection) else ((),):
        built = task(task_section(task, {**dict(zip(SPLITS, sizes, strict=False)), **options}))
        try:
            return built, built.dataset.splits()
        except UserError as error:
            exhausted = error
        except Exception as error:
            problem = f"its splits cannot be read or generated: {describe_error(error)}"
            raise PropertyError(task.__name__, problem) from error
    assert exhausted is not None
    raise exhausted


def task_section(task: type[Task[Any]], options: Mapping[str, Any]) -> Any:
    """The settings of a task.

    Args:
        task: The class.
        options: Settings of its Section.
    """
    section, rest = make_section(task, options)
    if rest:
        raise UserError(f"{task.__name__}: {', '.join(rest)} is not in its Section")
    return section


def first_pairs(pairs: Iterable[Pair]) -> list[Pair]:
    """The first pairs of a split.

    Args:
        pairs: The split.
    """
    return list(islice(pairs, MOST))


@checks_that("its settings can be stored")
def check_settings(task: Task[Any]) -> None:
    """Settings are restored from what a run directory keeps of them, and missing files are reported as a dictionary.

    Args:
        task: The task.
    """
    section = task.section
    expect(
        type(section).model_validate(section.model_dump(mode="json")) == section,
        "its settings change when they are stored and read again",
        "settings are what YAML has: numbers, texts, lists and sections",
    )
    missing = task.missing_files()
    expect(
        isinstance(missing, dict) and all(isinstance(each, str) for each in (*missing, *missing.values())),
        f"`missing_files` returns {missing!r}",
        "it returns a dictionary from the name of a setting to the message about its missing file, {} if there is none",
    )


@checks_that("it has splits of pairs")
def check_splits(task: Task[Any], splits: Splits) -> None:
    """There are training and validation pairs, and `pairs` returns the same as `splits`.

    Args:
        task: The task.
        splits: Its splits.
    """
    unknown = splits.keys() - set(SPLITS)
    expect(not unknown, f"it has the splits {sorted(unknown)}", f"splits are {', '.join(SPLITS)}")
    required = {"train", "validation", *(["test"] if task.has_real_test else [])}
    missing = sorted(required - splits.keys())
    expect(not missing, f"it has no {' and no '.join(missing)} split", "`splits` returns all of them by name")
    for split, pairs in splits.items():
        first = first_pairs(pairs)
        expect(bool(first), f"its {split} split is empty", "generate or read at least one pair")
        wrong = [pair for pair in first if not isinstance(pair, Pair)]
        expect(not wrong, f"its {split} split has {wrong[:1]!r}", "splits have `regard.text.Pair` objects")
        expect(
            first_pairs(task.dataset.pairs(split)) == first,
            f"`pairs({split!r})` differs from `splits()[{split!r}]`",
            "both return the same pairs in the same order; draw random numbers from the seed of the settings and the "
            "name of the split only",
        )


@checks_that("its splits are the same each time")
def check_repeated_splits(task: Task[Any], splits: Splits) -> None:
    """A split can be iterated any number of times, and equal settings give equal pairs.

    Args:
        task: The task.
        splits: Its splits.
    """
    for split, pairs in splits.items():
        first, second = first_pairs(pairs), first_pairs(pairs)
        expect(
            first == second,
            f"its {split} split has {len(first)} pairs, and other ones ({len(second)}) when it is iterated again",
            "training reads a split several times; return a list, or an object whose `__iter__` starts anew, not an "
            "iterator or generator",
        )
    other = type(task)(task.section).dataset.splits()
    for split, pairs in splits.items():
        expect(
            first_pairs(other[split]) == first_pairs(pairs),
            f"two tasks with the same settings have other pairs in their {split} splits",
            "pairs depend on the settings alone; use only the `random` that `generate` is given, or one made from "
            "`seed`, and no functions of the module `random`, no sets and no clock",
        )


@checks_that("the seed determines its pairs")
def check_seed(task: Task[Any]) -> None:
    """A task with a seed has other pairs for another seed.

    Args:
        task: The task; without a setting `seed`, nothing is checked.
    """
    if not has_seed(task):
        return
    other = type(task)(task.section.model_copy(update={"seed": task.section.seed + 1}))
    expect(
        first_pairs(other.dataset.pairs("validation")) != first_pairs(task.dataset.pairs("validation")),
        "another seed gives the same pairs",
        "make the random numbers from `section.seed`",
    )


def has_seed(task: Task[Any]) -> bool:
    """True if the pairs of a task, or its splits, are drawn at random.

    Args:
        task: The task.
    """
    return "seed" in type(task.section).model_fields


@checks_that("no source is in two splits")
def check_disjoint_splits(sample: TaskSample) -> None:
    """A task with a seed has no source in two splits.

    Args:
        sample: The task; without a setting `seed`, nothing is checked.
    """
    split_of: dict[str, Split] = {}
    for split, pairs in sample.splits.items() if has_seed(sample.task) else ():
        for pair in pairs:
            first = split_of.setdefault(pair.source, split)
            expect(
                first == split,
                f"the source {pair.source!r} is in the splits {first} and {split}",
                "a model must not be tested on what it was trained on; leave out sources that another split has",
            )


TASK_PROPERTIES: tuple[Callable[[TaskSample], None], ...] = (
    check_disjoint_splits,
    tokenizations.check_task_tokens,
    tokenizations.check_target_texts,
    tokenizations.check_alignments,
    tokenizations.check_vocabulary,
    tokenizations.check_stored_tokenization,
    tokenizations.check_resampling,
    tokenizations.check_task_training,
)
