"""The base class: splits that share nothing, that are the same every time, and that say so when they run out."""

import os
import subprocess
import sys
from random import Random

import pytest
from pydantic import ValidationError

from regard.errors import UserError
from regard.tasks.addition import Addition
from regard.tasks.base import Pair, Task
from regard.tasks.case import Case
from regard.tasks.copy import Copy
from regard.tasks.generated import Generated
from regard.tasks.reverse import Reverse
from regard.tasks.spaces import Spaces
from regard.text import BEGIN

ALL_TASKS = [
    Case(),
    Case(prompt="last"),
    Case(prompt="decoder"),
    Spaces(),
    Spaces(blank=False),
    Addition(),
    Copy(),
    Reverse(),
]


class Square(Generated):
    """`7` → `49`, for the numbers below `below`: a task that can run out."""

    below: int = 1_000

    def generate(self, random: Random) -> Pair:
        number = random.randrange(self.below)
        return Pair(str(number), str(number**2))


def test_splits_have_the_sizes_asked_for_and_repeat_no_source():
    splits = Square(train=83, validation=7, test=10, below=100).splits()
    assert {name: len(pairs) for name, pairs in splits.items()} == {"train": 83, "validation": 7, "test": 10}
    assert len({pair.source for pairs in splits.values() for pair in pairs}) == 100


def test_the_same_seed_gives_the_same_pairs_and_another_seed_gives_others():
    small = {"train": 50, "validation": 5, "test": 11}
    assert Square(**small, seed=3).splits() == Square(**small, seed=3).splits()
    assert Square(**small, seed=3).splits() != Square(**small, seed=4).splits()


def test_splits_are_not_drawn_from_the_same_random_numbers():
    splits = Square(train=20, validation=20, test=20, below=10**9).splits()
    alone = Square(train=20, validation=1, test=1, below=10**9).splits()
    assert splits["train"] == alone["train"]  # nothing to avoid among so many numbers
    assert splits["train"][0] != splits["validation"][0] != splits["test"][0]


def test_more_training_pairs_leave_test_and_validation_as_they_were():
    few = Square(train=10, validation=20, test=30, below=400).splits()
    many = Square(train=300, validation=20, test=30, below=400).splits()
    assert few["test"] == many["test"]
    assert few["validation"] == many["validation"]
    assert few["train"] == many["train"][:10]


def test_more_validation_pairs_leave_the_test_set_as_it_was():
    few = Square(train=10, validation=20, test=30, below=400).splits()
    many = Square(train=10, validation=200, test=30, below=400).splits()
    assert few["test"] == many["test"]


def test_the_test_set_alone_is_the_same_and_takes_no_training_set():
    task = Square(train=50, validation=20, test=30, below=100)
    assert {split: task.pairs(split) for split in task.splits()} == task.splits()
    endless = Square(train=10**9, validation=20, test=30, below=100)  # of which there are not so many
    assert endless.pairs("test") == task.pairs("test")


def test_a_task_that_runs_out_says_what_was_asked_for_and_how_much_there_is():
    with pytest.raises(UserError) as error:
        Square(train=90, validation=5, test=10, below=100).splits()
    assert str(error.value) == (
        "data.train: 90 pairs were asked for, but this task ran out of new ones after 100 in all splits; "
        "ask for fewer, or make the task larger"
    )


@pytest.mark.parametrize("setting", ["train", "validation", "test"])
def test_a_split_may_not_be_empty(setting: str):
    with pytest.raises(ValidationError, match=rf"{setting}\n.*greater than or equal to 1"):
        Square(**{setting: 0})


def test_without_a_say_of_its_own_a_task_has_characters_and_the_ordinary_start():
    task = Square()
    pair = Pair("12", "144")
    assert task.source_tokens("12") == ["1", "2"]
    assert task.target_tokens(pair) == ["1", "4", "4"]
    assert task.target_text(["1", "4", "4"]) == "144"
    assert task.start_token("12") == BEGIN


@pytest.mark.parametrize(
    "task", ALL_TASKS, ids=lambda task: f"{task.task}-{getattr(task, 'prompt', getattr(task, 'blank', ''))}"
)
class TestEveryTask:
    def draw(self, task: Task, seed: int = 5, count: int = 500) -> list[Pair]:
        random = Random(seed)
        return [task.generate(random) for _ in range(count)]

    def test_target_tokens_become_the_target_again(self, task: Task):
        for pair in self.draw(task):
            assert task.target_text(task.target_tokens(pair)) == pair.target

    def test_what_it_generates_it_also_reads(self, task: Task):
        for pair in self.draw(task):
            assert 1 <= len(task.source_tokens(pair.source)) <= len(pair.source)

    def test_alignment_points_at_tokens_that_exist(self, task: Task):
        for pair in self.draw(task):
            targets, sources = range(len(task.target_tokens(pair))), range(len(task.source_tokens(pair.source)))
            assert all(target in targets and source in sources for source, target in pair.alignment)

    def test_only_the_random_numbers_decide(self, task: Task):
        assert self.draw(task, seed=5) == self.draw(task, seed=5)
        assert self.draw(task, seed=5) != self.draw(task, seed=6)

    def test_default_splits_are_full_and_share_no_pair(self, task: Task):
        splits = task.splits()
        sources = [pair.source for pairs in splits.values() for pair in pairs]
        assert len(splits["train"]) == 20_000
        assert len(sources) == len(set(sources)) == 21_500

    def test_settings_survive_being_written_down(self, task: Task):
        assert type(task).model_validate(task.model_dump()) == task


def test_pairs_do_not_depend_on_the_order_of_sets():
    """Python orders sets of strings differently in every process, unless it is told not to."""
    program = (
        "from random import Random\n"
        "from regard.tasks.addition import Addition\n"
        "from regard.tasks.case import Case\n"
        "from regard.tasks.copy import Copy\n"
        "from regard.tasks.spaces import Spaces\n"
        "random = Random(2)\n"
        "for task in (Addition(), Case(), Copy(), Spaces()):\n"
        "    for _ in range(50):\n"
        "        print(task.generate(random).source)\n"
    )

    def output(hash_seed: str) -> str:
        environment = os.environ | {"PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-c", program]
        return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout

    outputs = [output(hash_seed) for hash_seed in ("1", "2", "3", "4", "5")]
    assert len(outputs[0].splitlines()) == 200
    assert len(set(outputs)) == 1
