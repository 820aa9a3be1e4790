"""Examples in a file without a name: they come back, and leave nothing behind."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import gettempdir

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data import Example, OnDiskExamples, digest_examples, example_lengths

NUMBERS = st.lists(st.integers(0, 2**31 - 1), max_size=6).map(tuple)
EXAMPLES = st.lists(st.builds(Example, NUMBERS, NUMBERS), max_size=8)
FEW = [Example((4, 5, 2), (1, 6, 2)), Example((7, 2), (1, 8, 9, 2)), Example((2,), (1, 2)), Example((3, 2), (1, 2))]


@pytest.fixture
def few(tmp_path: Path) -> Iterator[OnDiskExamples]:
    with closing(OnDiskExamples(FEW, tmp_path)) as corpus:
        yield corpus


def written_digest(examples: Sequence[Example]) -> str:
    with closing(OnDiskExamples(examples, Path(gettempdir()))) as corpus:
        return corpus.digest


@given(examples=EXAMPLES)
def test_examples_come_back_in_their_order(examples: list[Example]):
    with closing(OnDiskExamples(iter(examples), Path(gettempdir()))) as corpus:
        assert len(corpus) == len(examples)
        assert list(corpus) == examples
        assert [corpus[place] for place in reversed(range(len(examples)))] == examples[::-1]


@given(examples=EXAMPLES, cut=st.slices(8))
def test_a_slice_is_that_of_the_list(examples: list[Example], cut: slice):
    with closing(OnDiskExamples(examples, Path(gettempdir()))) as corpus:
        assert corpus[cut] == examples[cut]


def test_places_are_counted_from_the_end_too(few: OnDiskExamples):
    assert [few[-1], few[-4]] == [FEW[3], FEW[0]]
    assert few[-3:-1] == FEW[1:3]


@pytest.mark.parametrize("place", [4, -5, 1000])
def test_there_is_nothing_beyond_the_ends(few: OnDiskExamples, place: int):
    with pytest.raises(IndexError):
        few[place]


def test_an_empty_corpus_has_nothing(tmp_path: Path):
    with closing(OnDiskExamples([], tmp_path)) as corpus:
        assert len(corpus) == 0
        assert list(corpus) == corpus[:] == []
        assert corpus.lengths.shape == (0, 2)


def test_examples_are_what_a_codec_makes(few: OnDiskExamples):
    assert all(type(number) is int for example in few for number in (*example.source, *example.target))


def test_lengths_are_known_without_reading(few: OnDiskExamples):
    expected = [[3, 3], [2, 4], [1, 2], [2, 2]]
    assert few.lengths.tolist() == expected
    few.close()
    assert example_lengths(few) is few.lengths
    assert example_lengths(FEW).tolist() == expected
    assert example_lengths(FEW).dtype == few.lengths.dtype == np.int32


def test_the_same_examples_have_the_same_digest():
    assert written_digest(FEW) == written_digest(list(FEW)) == digest_examples(FEW)


@pytest.mark.parametrize(
    "changed",
    [
        FEW[:3],
        [*FEW, FEW[0]],
        [FEW[1], FEW[0], *FEW[2:]],
        [Example((4, 6, 2), (1, 6, 2)), *FEW[1:]],
        [Example((4, 5, 2), (1, 7, 2)), *FEW[1:]],
        [Example((1, 6, 2), (4, 5, 2)), *FEW[1:]],
        [],
    ],
)
def test_other_examples_have_another_digest(changed: list[Example]):
    assert written_digest(changed) == digest_examples(changed) != digest_examples(FEW)


@pytest.mark.parametrize(
    "changed",
    [
        [Example((4, 5), (2, 1, 6, 2)), *FEW[1:]],
        [Example((4, 5, 2), (1, 6)), Example((2, 7, 2), (1, 8, 9, 2)), *FEW[2:]],
        [*FEW, Example((), ())],
    ],
)
def test_the_same_numbers_divided_in_another_way_have_another_digest(changed: list[Example]):
    assert written_digest(changed) == digest_examples(changed) != digest_examples(FEW)


def test_a_folder_shows_no_file_neither_before_nor_after(tmp_path: Path):
    def watching() -> Iterator[Example]:
        for example in FEW:
            assert os.listdir(tmp_path) == []
            yield example

    corpus = OnDiskExamples(watching(), tmp_path)
    assert os.listdir(tmp_path) == []
    assert corpus[1] == FEW[1]
    corpus.close()
    assert os.listdir(tmp_path) == []


def test_examples_are_read_from_the_disk_and_not_from_memory(few: OnDiskExamples):
    few.close()
    with pytest.raises(ValueError, match="closed file"):
        few[0]


def test_a_folder_that_is_not_there_is_an_error_of_the_system(tmp_path: Path):
    with pytest.raises(FileNotFoundError):
        OnDiskExamples(FEW, tmp_path / "none")


def test_what_goes_wrong_among_the_examples_goes_on_and_leaves_nothing(tmp_path: Path):
    def failing() -> Iterator[Example]:
        yield FEW[0]
        raise KeyError("the reason")

    with pytest.raises(KeyError, match="the reason"):
        OnDiskExamples(failing(), tmp_path)
    gc.collect()  # a file that was left open would be told of now
    assert os.listdir(tmp_path) == []
