from random import Random

from hypothesis import given
from hypothesis import strategies as st

from regard.tasks.copy import CopyDataset, CopySection
from regard.tasks.reverse import ReverseDataset, ReverseSection


@given(seed=st.integers(0, 2**32))
def test_the_target_is_the_source_from_its_end(seed: int):
    pair = ReverseDataset(ReverseSection()).generate(Random(seed))
    assert list(pair.target) == list(reversed(pair.source))


@given(seed=st.integers(0, 2**32))
def test_the_alignment_is_the_other_diagonal(seed: int):
    pair = ReverseDataset(ReverseSection()).generate(Random(seed))
    length = len(pair.source)
    assert len(pair.alignment) == length
    for origin, place in pair.alignment:
        assert place + origin == length - 1
        assert pair.target[place] == pair.source[origin]


def test_copy_and_reverse_read_the_same_strings_so_their_results_can_be_compared():
    sizes = {"train": 100, "validation": 10, "test": 10}
    assert [pair.source for pair in CopyDataset(CopySection(**sizes)).splits()["test"]] == [
        pair.source for pair in ReverseDataset(ReverseSection(**sizes)).splits()["test"]
    ]
