"""What all tasks have in common: settings, generated data sets, and a tokenization that fits the pairs."""

import os
import subprocess
import sys
import tracemalloc
from collections.abc import Iterable
from random import Random
from typing import Any

import pytest
from pydantic import ValidationError

from regard.config import schema
from regard.errors import UserError
from regard.tasks import SPLITS, TASKS, DataSection, Pair, Split, Task, Tokenization, task_for
from regard.tasks.addition import AdditionSection
from regard.tasks.case import CaseSection
from regard.tasks.copy import CopySection
from regard.tasks.generated import MAX_IN_MEMORY, GeneratedDataset, GeneratedPairs, GeneratedSection, GeneratedTask
from regard.tasks.lookahead import LookaheadSection
from regard.tasks.questions import QuestionsSection
from regard.tasks.reverse import ReverseSection
from regard.tasks.spaces import SpacesSection
from regard.testing import check_task
from regard.text import BEGIN, ReadFile

SECTIONS = [
    CaseSection(),
    CaseSection(prompt="last"),
    CaseSection(prompt="decoder"),
    SpacesSection(),
    SpacesSection(blank=False),
    AdditionSection(),
    CopySection(),
    ReverseSection(),
    LookaheadSection(),
    LookaheadSection(ambiguous=1, max_distance=1),
    QuestionsSection(),
    QuestionsSection(min_facts=16, max_facts=16),
]


class SquareSection(GeneratedSection):
    below: int = 1_000


class SquareDataset(GeneratedDataset[SquareSection]):
    """`7` → `49`, for the numbers below `below`: a data set that can run out."""

    def generate(self, random: Random) -> Pair:
        number = random.randrange(self.section.below)
        return Pair(str(number), str(number**2))


def squares(**settings: int) -> SquareDataset:
    return SquareDataset(SquareSection(**settings))


def test_splits_have_their_sizes_and_repeat_no_source():
    splits = squares(train=83, validation=7, test=10, below=100).splits()
    assert {name: len(pairs) for name, pairs in splits.items()} == {"train": 83, "validation": 7, "test": 10}
    assert len({pair.source for pairs in splits.values() for pair in pairs}) == 100


def test_the_same_seed_gives_the_same_pairs_and_another_seed_gives_different_ones():
    small = {"train": 50, "validation": 5, "test": 11}
    assert squares(**small, seed=3).splits() == squares(**small, seed=3).splits()
    assert squares(**small, seed=3).splits() != squares(**small, seed=4).splits()


def test_each_split_has_its_own_random_numbers():
    splits = squares(train=20, validation=20, test=20, below=10**9).splits()
    alone = squares(train=20, validation=1, test=1, below=10**9).splits()
    assert splits["train"] == alone["train"]  # the range is large enough that no number is repeated
    assert splits["train"][0] != splits["validation"][0] != splits["test"][0]


def test_more_training_pairs_do_not_change_test_and_validation():
    few = squares(train=10, validation=20, test=30, below=400).splits()
    many = squares(train=300, validation=20, test=30, below=400).splits()
    assert few["test"] == many["test"]
    assert few["validation"] == many["validation"]
    assert few["train"] == many["train"][:10]


def test_more_validation_pairs_do_not_change_the_test_set():
    few = squares(train=10, validation=20, test=30, below=400).splits()
    many = squares(train=10, validation=200, test=30, below=400).splits()
    assert few["test"] == many["test"]


def test_the_other_splits_are_generated_without_the_training_set():
    dataset = squares(train=50, validation=20, test=30, below=100)
    assert {split: dataset.pairs(split) for split in SPLITS} == dataset.splits()
    too_large = squares(train=MAX_IN_MEMORY, validation=20, test=30, below=100)
    for split in ("validation", "test"):
        assert too_large.pairs(split) == dataset.pairs(split)


def test_a_data_set_that_is_exhausted_reports_the_size_and_the_number_of_pairs():
    with pytest.raises(UserError) as error:
        squares(train=90, validation=5, test=10, below=100).splits()
    assert str(error.value) == (
        "data.train: 90 pairs are more than this task can generate: it had no new ones after 100 in all splits; "
        "choose fewer pairs, or longer texts"
    )


def test_training_pairs_that_are_not_kept_in_memory_are_the_same_each_time(monkeypatch: pytest.MonkeyPatch):
    dataset = squares(train=83, validation=7, test=10, below=100)  # the last pairs come after many repetitions
    kept = dataset.splits()
    monkeypatch.setattr("regard.tasks.generated.MAX_IN_MEMORY", 82)
    for train in (dataset.splits()["train"], dataset.pairs("train")):
        assert isinstance(train, GeneratedPairs)
        assert len(train) == 83
        assert list(train) == list(train) == kept["train"]
        assert list(zip(train, train, strict=True)) == [(pair, pair) for pair in kept["train"]]
    assert [dataset.pairs(split) for split in ("test", "validation")] == [kept["test"], kept["validation"]]


def test_many_training_pairs_run_out_while_they_are_read(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("regard.tasks.generated.MAX_IN_MEMORY", 1)
    pairs = iter(squares(train=90, validation=5, test=10, below=100).pairs("train"))
    assert len({next(pairs).source for _ in range(85)}) == 85
    with pytest.raises(UserError, match=r"data\.train: 90 pairs are more than .* no new ones after 100 in all splits"):
        next(pairs)


class LongDataset(SquareDataset):
    """Sources of 300 characters."""

    def generate(self, random: Random) -> Pair:
        return Pair(str(random.randrange(10**9)).zfill(300), "")


def test_memory_for_each_of_many_training_pairs_is_bounded():
    """In bytes: no text is kept."""
    pairs = LongDataset(SquareSection(train=MAX_IN_MEMORY + 3)).pairs("train")
    tracemalloc.start()
    try:
        assert sum(1 for _ in pairs) == MAX_IN_MEMORY + 3
        assert tracemalloc.get_traced_memory()[1] / MAX_IN_MEMORY < 150
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("setting", ["train", "validation", "test"])
def test_a_split_may_not_be_empty(setting: str):
    with pytest.raises(ValidationError, match=rf"{setting}\n.*greater than or equal to 1"):
        SquareSection(**{setting: 0})


def test_by_default_tokens_are_characters_and_the_decoder_starts_with_begin():
    tokenization = Tokenization()
    assert tokenization.source_tokens("12") == ["1", "2"]
    assert tokenization.target_tokens(Pair("12", "144")) == ["1", "4", "4"]
    assert tokenization.target_text(["1", "4", "4"]) == "144"
    assert tokenization.start_token("12") == BEGIN


@pytest.mark.parametrize("task", [task_for(section) for section in SECTIONS], ids=lambda task: repr(task.section))
class TestEveryTask:
    def generate(self, task: GeneratedTask[Any], seed: int = 5, count: int = 500) -> list[Pair]:
        random = Random(seed)
        return [task.dataset.generate(random) for _ in range(count)]

    def test_properties_of_tasks(self, task: GeneratedTask[Any]):
        check_task(type(task), **task.section.model_dump(exclude_defaults=True))

    def test_generated_sources_can_be_tokenized(self, task: GeneratedTask[Any]):
        for pair in self.generate(task):
            assert 1 <= len(task.tokenization.source_tokens(pair.source)) <= len(pair.source)

    def test_the_tokenization_has_nothing_to_learn(self, task: GeneratedTask[Any]):
        pairs = self.generate(task, count=20)
        for tokenization in (task.learn_tokenization(pairs), task.load_tokenization(lambda name, parse: None)):
            assert tokenization.files() == {}
            assert [tokenization.source_tokens(pair.source) for pair in pairs] == [
                task.tokenization.source_tokens(pair.source) for pair in pairs
            ]

    def test_pairs_depend_on_the_random_numbers_only(self, task: GeneratedTask[Any]):
        assert self.generate(task, seed=5) == self.generate(task, seed=5)
        assert self.generate(task, seed=5) != self.generate(task, seed=6)

    def test_default_splits_are_full_and_share_no_pair(self, task: GeneratedTask[Any]):
        splits = task.dataset.splits()
        sources = [pair.source for pairs in splits.values() for pair in pairs]
        assert len(splits["train"]) == 20_000
        assert len(sources) == len(set(sources)) == 21_500


@pytest.mark.parametrize("name", TASKS)
def test_a_section_names_its_task(name: str):
    section = TASKS[name].Section.model_construct()
    assert section.task == name
    assert type(task_for(section)) is TASKS[name]
    assert task_for(section).section is section


class EchoSection(DataSection):
    word: str = "hey"


class EchoTask(Task[EchoSection]):
    """A task defined outside Regard: three short pairs, in characters."""

    Section = EchoSection

    @property
    def dataset(self) -> "EchoTask":
        return self

    def splits(self) -> dict[Split, list[Pair]]:
        return {split: self.pairs(split) for split in SPLITS}

    def pairs(self, split: Split) -> list[Pair]:
        return [Pair(self.section.word, self.section.word)]

    def learn_tokenization(self, pairs: Iterable[Pair]) -> Tokenization:
        return Tokenization()

    def load_tokenization(self, read: ReadFile) -> Tokenization:
        return Tokenization()


def test_a_new_task_needs_one_class_and_its_section():
    experiment = schema.Experiment(data={"task": EchoTask, "word": "ho"})
    assert experiment.task.dataset.pairs("test") == [Pair("ho", "ho")]
    assert experiment.model_dump()["data"] == {"task": f"{EchoTask.__module__}:EchoTask", "word": "ho"}
    assert not experiment.task.has_real_test


def test_pairs_do_not_depend_on_the_order_of_sets():
    """Python orders sets of strings differently in every process, unless PYTHONHASHSEED is set."""
    program = (
        "from random import Random\n"
        "from regard.tasks import TASKS, task_for\n"
        "random = Random(2)\n"
        "for name in ('addition', 'case', 'copy', 'spaces', 'lookahead', 'questions'):\n"
        "    dataset = task_for(TASKS[name].Section()).dataset\n"
        "    for _ in range(50):\n"
        "        print(dataset.generate(random).source)\n"
    )

    def output(hash_seed: str) -> str:
        environment = os.environ | {"PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-c", program]
        return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout

    outputs = [output(hash_seed) for hash_seed in ("1", "2", "3", "4", "5")]
    assert len(outputs[0].splitlines()) == 300
    assert len(set(outputs)) == 1
