"""Examples in an unnamed file: they are read back, and leave no file."""

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

TOKEN_IDS = st.lists(st.integers(0, 2**31 - 1), max_size=6).map(tuple)
PATCHES = st.lists(st.binary(min_size=3, max_size=3), min_size=1, max_size=6).map(tuple)
EXAMPLES = st.one_of(*(st.lists(st.builds(Example, source, TOKEN_IDS), max_size=8) for source in (TOKEN_IDS, PATCHES)))
FEW = [Example((4, 5, 2), (1, 6, 2)), Example((7, 2), (1, 8, 9, 2)), Example((2,), (1, 2)), Example((3, 2), (1, 2))]


@pytest.fixture
def few(tmp_path: Path) -> Iterator[OnDiskExamples]:
    with closing(OnDiskExamples(FEW, tmp_path)) as corpus:
        yield corpus


def written_digest(examples: Sequence[Example]) -> str:
    with closing(OnDiskExamples(examples, Path(gettempdir()))) as corpus:
        return corpus.digest


@given(examples=EXAMPLES)
def test_examples_are_read_back_in_order(examples: list[Example]):
    with closing(OnDiskExamples(iter(examples), Path(gettempdir()))) as corpus:
        assert len(corpus) == len(examples)
        assert list(corpus) == examples
        assert [corpus[index] for index in reversed(range(len(examples)))] == examples[::-1]


@given(examples=EXAMPLES, cut=st.slices(8))
def test_a_slice_equals_that_of_a_list(examples: list[Example], cut: slice):
    with closing(OnDiskExamples(examples, Path(gettempdir()))) as corpus:
        assert corpus[cut] == examples[cut]


def test_negative_indices_count_from_the_end(few: OnDiskExamples):
    assert [few[-1], few[-4]] == [FEW[3], FEW[0]]
    assert few[-3:-1] == FEW[1:3]


@pytest.mark.parametrize("index", [4, -5, 1000])
def test_an_index_out_of_range_is_an_error(few: OnDiskExamples, index: int):
    with pytest.raises(IndexError):
        few[index]


def test_an_empty_corpus_has_no_examples(tmp_path: Path):
    with closing(OnDiskExamples([], tmp_path)) as corpus:
        assert len(corpus) == 0
        assert list(corpus) == corpus[:] == []
        assert corpus.lengths.shape == (0, 2)


def test_examples_have_the_types_of_the_codec(few: OnDiskExamples):
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
def test_different_examples_have_different_digests(changed: list[Example]):
    assert written_digest(changed) == digest_examples(changed) != digest_examples(FEW)


@pytest.mark.parametrize(
    "changed",
    [
        [Example((4, 5), (2, 1, 6, 2)), *FEW[1:]],
        [Example((4, 5, 2), (1, 6)), Example((2, 7, 2), (1, 8, 9, 2)), *FEW[2:]],
        [*FEW, Example((), ())],
    ],
)
def test_the_same_ids_divided_differently_have_different_digests(changed: list[Example]):
    assert written_digest(changed) == digest_examples(changed) != digest_examples(FEW)


def test_the_folder_has_no_visible_file_before_or_after(tmp_path: Path):
    def record() -> Iterator[Example]:
        for example in FEW:
            assert os.listdir(tmp_path) == []
            yield example

    corpus = OnDiskExamples(record(), tmp_path)
    assert os.listdir(tmp_path) == []
    assert corpus[1] == FEW[1]
    corpus.close()
    assert os.listdir(tmp_path) == []


def test_examples_are_read_from_the_disk_and_not_from_memory(few: OnDiskExamples):
    few.close()
    with pytest.raises(ValueError, match="closed file"):
        few[0]


def test_a_missing_folder_raises_an_os_error(tmp_path: Path):
    with pytest.raises(FileNotFoundError):
        OnDiskExamples(FEW, tmp_path / "none")


def test_an_error_while_writing_is_passed_on_and_leaves_no_file(tmp_path: Path):
    def failing() -> Iterator[Example]:
        yield FEW[0]
        raise KeyError("the reason")

    with pytest.raises(KeyError, match="the reason"):
        OnDiskExamples(failing(), tmp_path)
    gc.collect()  # a file that was left open would be reported now
    assert os.listdir(tmp_path) == []
