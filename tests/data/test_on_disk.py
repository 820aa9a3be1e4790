"""Examples in files: they are read back, by several processes, too."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
import weakref
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data import Batches, Example, OnDiskExamples, digest_examples, example_lengths, on_disk

TOKEN_IDS = st.lists(st.integers(0, 2**31 - 1), max_size=6).map(tuple)
PATCHES = st.lists(st.binary(min_size=3, max_size=3), min_size=1, max_size=6).map(tuple)
EXAMPLES = st.one_of(*(st.lists(st.builds(Example, source, TOKEN_IDS), max_size=8) for source in (TOKEN_IDS, PATCHES)))
FEW = [Example((4, 5, 2), (1, 6, 2)), Example((7, 2), (1, 8, 9, 2)), Example((2,), (1, 2)), Example((3, 2), (1, 2))]


@contextmanager
def written(examples: Iterable[Example]) -> Iterator[OnDiskExamples]:
    with TemporaryDirectory() as name:
        OnDiskExamples.write(examples, Path(name) / "corpus")
        with closing(OnDiskExamples.open(Path(name) / "corpus")) as corpus:
            yield corpus


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    OnDiskExamples.write(FEW, tmp_path / "few")
    return tmp_path / "few"


@pytest.fixture
def few(folder: Path) -> Iterator[OnDiskExamples]:
    with closing(OnDiskExamples.open(folder)) as corpus:
        yield corpus


@pytest.fixture(params=["pread", "seek"])
def either_reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading by position where the system has it, and seeking elsewhere."""
    if request.param == "pread" and not hasattr(os, "pread"):
        pytest.skip("this system has no os.pread")
    monkeypatch.setattr(on_disk, "HAS_PREAD", request.param == "pread")


def written_digest(examples: Sequence[Example]) -> str:
    with written(examples) as corpus:
        return corpus.digest


@given(examples=EXAMPLES)
def test_examples_are_read_back_in_order(examples: list[Example]):
    with written(iter(examples)) as corpus:
        assert len(corpus) == len(examples)
        assert list(corpus) == examples
        assert [corpus[index] for index in reversed(range(len(examples)))] == examples[::-1]


@given(examples=EXAMPLES, cut=st.slices(8))
def test_a_slice_equals_that_of_a_list(examples: list[Example], cut: slice):
    with written(examples) as corpus:
        assert corpus[cut] == examples[cut]


def test_negative_indices_count_from_the_end(few: OnDiskExamples):
    assert [few[-1], few[-4]] == [FEW[3], FEW[0]]
    assert few[-3:-1] == FEW[1:3]


@pytest.mark.parametrize("index", [4, -5, 1000])
def test_an_index_out_of_range_is_an_error(few: OnDiskExamples, index: int):
    with pytest.raises(IndexError):
        few[index]


def test_an_empty_corpus_has_no_examples():
    with written([]) as corpus:
        assert len(corpus) == 0
        assert list(corpus) == corpus[:] == []
        assert corpus.lengths.shape == (0, 2)


def test_examples_have_the_types_of_the_codec(few: OnDiskExamples):
    assert all(type(number) is int for example in few for number in (*example.source, *example.target))


def test_lengths_are_known_without_reading(few: OnDiskExamples):
    expected = [[3, 3], [2, 4], [1, 2], [2, 2]]
    assert few.lengths.tolist() == expected
    few._file.close()
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


@pytest.mark.usefixtures("either_reader")
def test_several_readers_do_not_disturb_each_other(folder: Path):
    def read(corpus: OnDiskExamples, index: int) -> Example:
        return corpus[index]

    with closing(OnDiskExamples.open(folder)) as one, closing(OnDiskExamples.open(folder)) as other:
        assert [each[index] for index in (2, 0, 3, 1) for each in (one, other)] == [
            FEW[index] for index in (2, 2, 0, 0, 3, 3, 1, 1)
        ]
        with ThreadPoolExecutor(4) as threads:
            indices = [index % 4 for index in range(400)]
            assert list(threads.map(lambda index: read(one, index), indices)) == [FEW[index] for index in indices]


@pytest.mark.slow
def test_another_process_reads_the_same_examples(folder: Path, few: OnDiskExamples):
    code = (
        "import sys; from pathlib import Path; from regard.data import OnDiskExamples\n"
        "few = OnDiskExamples.open(Path(sys.argv[1])); print([list(few), few.lengths.tolist(), few.digest])"
    )
    done = subprocess.run([sys.executable, "-c", code, str(folder)], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == repr([FEW, few.lengths.tolist(), digest_examples(FEW)])


def test_lengths_and_offsets_are_mapped_and_cannot_be_changed(few: OnDiskExamples):
    for values in (few.lengths, few._offsets):
        assert isinstance(values, np.memmap)
        assert not values.flags.writeable


def test_the_header_describes_the_examples(folder: Path):
    expected = {"count": 4, "patch_bytes": 0, "weights": [[1.0, 4]], "digest": digest_examples(FEW)}
    assert json.loads((folder / on_disk.HEADER).read_bytes()) == expected


def test_closed_examples_cannot_be_read(few: OnDiskExamples):
    few.close()
    for read in (lambda: few[0], lambda: few.lengths, lambda: example_lengths(few)):
        with pytest.raises(ValueError, match="closed"):
            read()


def test_closing_releases_the_files_although_batches_are_kept(few: OnDiskExamples):
    """Windows removes no file that is mapped, and the traceback of an error keeps the batches."""
    maps = [weakref.ref(values) for values in (few.lengths, few._offsets)]
    batches = Batches(few, batch_tokens=7, seed=1)
    assert len(list(batches.once())) == batches.per_epoch
    few.close()
    assert all(each() is None for each in maps)


def test_an_existing_folder_is_not_written_to(folder: Path):
    with pytest.raises(FileExistsError):
        OnDiskExamples.write(FEW, folder)


def test_examples_whose_writing_failed_cannot_be_opened(tmp_path: Path):
    def failing() -> Iterator[Example]:
        yield FEW[0]
        raise KeyError("the reason")

    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)  # of a file that was left open
        with pytest.raises(KeyError, match="the reason"):
            OnDiskExamples.write(failing(), tmp_path / "half")
    with pytest.raises(FileNotFoundError):
        OnDiskExamples.open(tmp_path / "half")
