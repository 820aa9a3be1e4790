from random import Random

from hypothesis import given
from hypothesis import strategies as st

from regard.tasks.copy import CopyDataset, CopySection
from regard.tasks.reverse import ReverseDataset, ReverseSection


@given(seed=st.integers(0, 2**32))
def test_the_target_is_the_reversed_source(seed: int):
    pair = ReverseDataset(ReverseSection()).generate(Random(seed))
    assert list(pair.target) == list(reversed(pair.source))


@given(seed=st.integers(0, 2**32))
def test_the_alignment_is_the_antidiagonal(seed: int):
    pair = ReverseDataset(ReverseSection()).generate(Random(seed))
    length = len(pair.source)
    assert len(pair.alignment) == length
    for origin, index in pair.alignment:
        assert index + origin == length - 1
        assert pair.target[index] == pair.source[origin]


def test_copy_and_reverse_have_the_same_sources():
    sizes = {"train": 100, "validation": 10, "test": 10}
    assert [pair.source for pair in CopyDataset(CopySection(**sizes)).splits()["test"]] == [
        pair.source for pair in ReverseDataset(ReverseSection(**sizes)).splits()["test"]
    ]
