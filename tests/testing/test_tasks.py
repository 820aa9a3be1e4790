"""Every task passes, and one that breaks a property is reported with it."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from regard.corpora import datasets
from regard.errors import UserError
from regard.tasks import TASKS, Split, Task
from regard.tasks.copy import CopyDataset, CopySection, CopyTask, StringTokenization
from regard.testing import check_task
from regard.text import Pair, ReadFile, Tokenization, Vocabulary


def test_clauses_pass() -> None:
    """The other generated tasks are checked in `tests/tasks/test_base.py`."""
    check_task(TASKS["clauses"])


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("copy", {"alphabet": "abc", "max_length": 3}),  # few pairs
        ("addition", {"train": 300, "seed": 7}),
    ],
)
def test_options_are_those_of_the_settings(name: str, options: dict[str, Any]) -> None:
    check_task(TASKS[name], **options)


@pytest.mark.parametrize(
    "text",
    [
        {"size": 60, "regularization": {"best": 4}},
        {"size": 60, "joint": False, "algorithm": "bpe"},
        {"unit": "words", "lowercase": True, "min_frequency": 2},
        {"unit": "characters", "joint": False},
    ],
    ids=str,
)
def test_files_pass_in_every_unit(corpus: Path, text: dict[str, Any]) -> None:
    names = {split: str(corpus / split) for split in ("train", "validation", "test")}
    check_task(TASKS["files"], **names, text=text)


def test_multi30k_passes(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, split in {"train": "train", "val": "validation", "test_2016_flickr": "test"}.items():
        for language in ("de", "en"):
            (tmp_path / f"{name}.{language}").write_bytes((corpus / f"{split}.{language}").read_bytes())
    monkeypatch.setattr(datasets, "dataset_folder", lambda *_: tmp_path)
    check_task(TASKS["multi30k"], text={"unit": "words"})


def test_g2p_passes(dictionary: Path) -> None:
    check_task(TASKS["g2p"], file=str(dictionary))


def test_an_invalid_option_is_refused() -> None:
    with pytest.raises(UserError, match=r"CopyTask has no option alphabat; did you mean 'alphabet'\?"):
        check_task(CopyTask, alphabat="abc")
    with pytest.raises(UserError, match=r"CopyTask with .*'alphabet': 'aa'.* is in the alphabet twice"):
        check_task(CopyTask, alphabet="aa")


def test_a_task_with_too_few_pairs_is_refused() -> None:
    with pytest.raises(UserError, match=r"2 pairs are more than this task can generate"):
        check_task(CopyTask, alphabet="a", max_length=3)


# Tasks that break one property each


class CopyOf(CopyTask):
    """The copy task with another data set or tokenization, which its subclasses name."""

    data: type[CopyDataset] = CopyDataset
    tokens: Callable[[str], Tokenization] = StringTokenization

    @property
    def dataset(self) -> CopyDataset:
        return self.data(self.section)

    @property
    def tokenization(self) -> Any:
        return type(self).tokens(self.section.alphabet)


class UnseededDataset(CopyDataset):
    def generate(self, random_: Random) -> Pair:
        text = "".join(random.choices("abcdefgh", k=12))
        return Pair(text, text)


class UnseededTask(CopyOf):
    data = UnseededDataset


class OnceDataset(CopyDataset):
    def splits(self) -> Any:
        return {split: iter(pairs) for split, pairs in super().splits().items()}


class OnceTask(CopyOf):
    data = OnceDataset


class ClockDataset(CopyDataset):
    """Each data set begins where the last one ended."""

    made = 0

    def __init__(self, section: CopySection) -> None:
        super().__init__(section)
        type(self).made += 1
        self.number = type(self).made

    def splits(self) -> dict[Split, list[Pair]]:
        return {split: [*pairs, Pair("a" * 99, f"{self.number}")] for split, pairs in super().splits().items()}

    def pairs(self, split: Split) -> list[Pair]:
        return self.splits()[split]


class ClockTask(CopyOf):
    """Its data set is made once for each task."""

    data = ClockDataset

    def __init__(self, section: CopySection) -> None:
        super().__init__(section)
        self.made = ClockDataset(section)

    @property
    def dataset(self) -> CopyDataset:
        return self.made


class OneSeedDataset(CopyDataset):
    def __init__(self, section: CopySection) -> None:
        super().__init__(section.model_copy(update={"seed": 1}))


class OneSeedTask(CopyOf):
    data = OneSeedDataset


class LeakyDataset(CopyDataset):
    def splits(self) -> dict[Split, list[Pair]]:
        splits = super().splits()
        return {**splits, "train": [*splits["train"], splits["test"][3]]}

    def pairs(self, split: Split) -> list[Pair]:
        return self.splits()[split]


class LeakyTask(CopyOf):
    data = LeakyDataset


class DisagreeingDataset(CopyDataset):
    def pairs(self, split: Split) -> list[Pair]:
        return super().pairs(split)[::-1]


class DisagreeingTask(CopyOf):
    data = DisagreeingDataset


class NoValidationDataset(CopyDataset):
    def splits(self) -> dict[Split, list[Pair]]:
        return {split: pairs for split, pairs in super().splits().items() if split != "validation"}


class NoValidationTask(CopyOf):
    data = NoValidationDataset


class DevelopmentDataset(CopyDataset):
    def splits(self) -> Any:
        return {**super().splits(), "dev": []}


class DevelopmentTask(CopyOf):
    data = DevelopmentDataset


class EmptyDataset(CopyDataset):
    def splits(self) -> dict[Split, list[Pair]]:
        return {**super().splits(), "test": []}


class EmptyTask(CopyOf):
    data = EmptyDataset


class TuplesDataset(CopyDataset):
    def splits(self) -> Any:
        return {split: [(pair.source, pair.target) for pair in pairs] for split, pairs in super().splits().items()}


class TuplesTask(CopyOf):
    data = TuplesDataset


class ShiftedDataset(CopyDataset):
    def generate(self, random: Random) -> Pair:
        pair = super().generate(random)
        return Pair(pair.source, pair.target, frozenset((s + 1, t) for s, t in pair.alignment))


class ShiftedTask(CopyOf):
    data = ShiftedDataset


class RareDataset(CopyDataset):
    def splits(self) -> dict[Split, list[Pair]]:
        splits = super().splits()
        return {**splits, "train": [pair for pair in splits["train"] if "q" not in pair.source]}

    def pairs(self, split: Split) -> list[Pair]:
        return self.splits()[split]


class RareTask(CopyOf):
    data = RareDataset


class FailingDataset(CopyDataset):
    def generate(self, random: Random) -> Pair:
        raise KeyError("no pair")


class FailingTask(CopyOf):
    data = FailingDataset


class LossyTokens(StringTokenization):
    def target_tokens(self, pair: Pair) -> list[str]:
        return list(pair.target[:9])


class LossyTask(CopyOf):
    tokens = LossyTokens


class NoSourceTokens(StringTokenization):
    def source_tokens(self, text: str) -> list[str]:
        return [] if len(text) > 9 else super().source_tokens(text)


class NoSourceTask(CopyOf):
    tokens = NoSourceTokens


class EmptySourceTokens(StringTokenization):
    def source_tokens(self, text: str) -> list[str]:
        return ["", *super().source_tokens(text)]


class EmptySourceTask(CopyOf):
    tokens = EmptySourceTokens


class FewStarts(StringTokenization):
    def target_starts(self, tokens: Any) -> list[bool]:
        return [True]


class FewStartsTask(CopyOf):
    tokens = FewStarts


class ShortOpenTokens(StringTokenization):
    open_vocabulary = True

    def target_text(self, tokens: Any) -> str:
        return "".join(tokens[:9])


class ShortOpenTask(CopyOf):
    tokens = ShortOpenTokens


class Unmatched(StringTokenization):
    def matches(self, source: Vocabulary, target: Vocabulary) -> bool:
        return False


class UnmatchedTask(CopyOf):
    tokens = Unmatched


class Shuffled(StringTokenization):
    can_resample = True

    def resample(self, source: Any, target: Any, random: Random) -> tuple[list[str], list[str]]:
        return list(source), random.sample(target, len(target))


class ShuffledTask(CopyOf):
    tokens = Shuffled


class Unrepeatable(StringTokenization):
    can_resample = True

    def resample(self, source: Any, target: Any, random_: Random) -> tuple[list[str], list[str]]:
        return [*source, str(random.random())], list(target)


class UnrepeatableTask(CopyOf):
    tokens = Unrepeatable


class CaseTokens(StringTokenization):
    """Learns whether to write upper case."""

    def __init__(self, alphabet: str, upper: bool = False, files: Any = None) -> None:
        super().__init__(alphabet)
        object.__setattr__(self, "upper", upper)
        object.__setattr__(self, "own_files", {} if files is None else files)

    def source_tokens(self, text: str) -> list[str]:
        return [token.upper() if self.upper else token for token in super().source_tokens(text)]

    def files(self) -> Any:
        return self.own_files


class ForgetfulTask(CopyOf):
    def learn_tokenization(self, pairs: Iterable[Pair]) -> Tokenization:
        return CaseTokens(self.section.alphabet, upper=True)

    def load_tokenization(self, read: ReadFile) -> Tokenization:
        return CaseTokens(self.section.alphabet)


class UnwrittenFileTask(ForgetfulTask):
    def load_tokenization(self, read: ReadFile) -> Tokenization:
        return read("case.json", lambda content: CaseTokens(self.section.alphabet))


class TextFileTask(ForgetfulTask):
    def learn_tokenization(self, pairs: Iterable[Pair]) -> Tokenization:
        return CaseTokens(self.section.alphabet, files={"case.json": "true"})


class JointTask(CopyOf):
    tokens = LossyTokens
    has_joint_vocabulary = True

    @property
    def tokenization(self) -> Any:
        return CaseTokens(self.section.alphabet, upper=True)


class ListOfMissingTask(CopyOf):
    def missing_files(self, splits: Any = ()) -> Any:
        return ["train"]


class RoundedSection(CopySection):
    """A setting that is not what was set."""

    share: tuple[float, ...] = (0.5,)


class RoundedTask(CopyOf):
    Section = RoundedSection


class NoSettings(Task[Any]):
    pass


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (NoSettings, r"^: it has no `Section`"),
        (
            UnseededTask,
            r"^: two tasks with the same settings have other pairs in their test splits: .*module `random`",
        ),
        (
            OnceTask,
            r"^: its test split has 20 pairs, and other ones \(0\) when it is iterated again: .*not an it",
        ),
        (ClockTask, r"^: two tasks with the same settings have other pairs in their test splits: .*`random` that"),
        (OneSeedTask, r"^: another seed gives the same pairs: make the random numbers from `section.seed`"),
        (LeakyTask, r"^: the source '\w+' is in the splits test and train: a model must not be tested on what"),
        (DisagreeingTask, r"^: `pairs\('test'\)` differs from `splits\(\)\['test'\]`"),
        (NoValidationTask, r"^: it has no validation split"),
        (DevelopmentTask, r"^: it has the splits \['dev'\]: splits are train, validation, test"),
        (EmptyTask, r"^: its test split is empty"),
        (TuplesTask, r"^: its test split has \[\('\w+', '\w+'\)\]: splits have `regard.text.Pair` objects"),
        (ShiftedTask, r"^: the alignment \(\d+, \d+\) of '\w+' and '\w+' is outside their \d+ and \d+ tokens"),
        (RareTask, r"^: '\w+' of the test split cannot be encoded \(token \d+, 'q', .*: .*choose a larger `train`"),
        (FailingTask, r"^: its splits cannot be read or generated: KeyError: 'no pair'"),
        (LossyTask, r"^: the target '\w+' becomes '\w{9}' when it is tokenized and joined again: .*counts as an error"),
        (NoSourceTask, r"^: the source '\w+' has no tokens: an encoder needs at least one token"),
        (EmptySourceTask, r"^: the tokens of Pair.* are \['', .*: tokens are a list of strings that are not empty"),
        (FewStartsTask, r"^: 1 entries tell where words start in \["),
        (ShortOpenTask, r"^: the target tokens \[.*\] become '\w{9}', which has the tokens .*must agree"),
        (UnmatchedTask, r"^: the loaded tokenization does not match the vocabularies of the learned one"),
        (ShuffledTask, r"^: `resample` turns the target '\w+' into '\w+': it returns other tokens of the same text"),
        (UnrepeatableTask, r"^: `resample` differs for the same random numbers"),
        (ForgetfulTask, r"^: the learned tokenization gives \['[A-Z]'.* for '\w+', the loaded one \['[a-z]'.*`files`"),
        (UnwrittenFileTask, r"^: `load_tokenization` reads 'case.json', but `files` has \[\]: a run directory keeps"),
        (TextFileTask, r"^: `files` of the tokenization returns dict of other things than bytes"),
        (JointTask, r"^: `has_joint_vocabulary` is True, but the vocabularies of both sides differ"),
        (ListOfMissingTask, r"^: `missing_files` returns \['train'\]: it returns a dictionary"),
        (RoundedTask, r"^: an error occurred while checking that its settings can be stored"),
    ],
)
def test_a_broken_task_is_reported(broken: type[Task[Any]], message: str, failure: Any) -> None:
    reported = failure(check_task, broken, max_length=12, train=300, validation=20, test=20)
    assert re.search(message, reported), reported
