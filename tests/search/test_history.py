"""Back-pointers lead from where a hypothesis ended to all that it said, and where it looked."""

from __future__ import annotations

from itertools import chain

import pytest
import torch

from regard.search import Constraints
from regard.search.history import StepRecord, follow_backpointers


def test_attention_is_where_a_decoder_looks_that_reads_the_output(bench, manner) -> None:
    rows, found = zip(*bench.outcomes(manner), strict=True)
    _, weights = bench.read(rows, [each.tokens[:-1] for each in found], manner.voters)
    for row, each, expected in zip(rows, found, weights, strict=True):
        expected = expected[..., : len(each.tokens), : len(bench.sources[row])]
        torch.testing.assert_close(each.attention, expected, rtol=1e-5, atol=1e-5)


def test_attention_has_a_row_for_each_token_said_and_a_column_for_each_token_read(bench, manner) -> None:
    """Of one model also an axis for its layers and heads."""
    sizes = {"layer": 2, "head": 3}
    axes = [sizes[axis] for axis in bench.models[0].decoder.weight_axes] if manner.voters == 1 else []
    for row, each in bench.outcomes(manner):
        assert each.attention.shape == (*axes, len(each.tokens), len(bench.sources[row]))


def test_attention_keeps_nothing_else_in_memory(bench, beam) -> None:
    for _, each in bench.outcomes(beam):
        assert each.attention.untyped_storage().nbytes() == each.attention.numel() * each.attention.element_size()


@pytest.mark.parametrize("width", [1, 2, 3, 5])
@pytest.mark.parametrize("rules", [Constraints(), Constraints(block_ngrams=2, prefix=(4,))], ids=["free", "ruled"])
def test_every_token_is_traced_to_its_own_prefix(table, manner_of, width: int, rules: Constraints) -> None:
    """Sentences leave at different steps, and what is pruned leaves gaps."""
    drawn = table.drawn(seed=4)
    found = drawn.search(manner_of(width, width, 0.6, rules), [7, 1, 7, 3, 5, 7, 2])
    assert len(set(drawn.rows[1:])) > 2
    for each in chain.from_iterable(found):
        prefixes = [each.tokens[:length] for length in range(len(each.tokens))]
        assert each.attention.squeeze(1).tolist() == [table.spell(prefix) for prefix in prefixes]


def numbered(tokens: list[int], origins: list[int], parents: list[int]) -> StepRecord:
    """Its chances tell the places, and its weights the rows."""
    places, rows = torch.arange(len(tokens)), torch.arange(len(parents))
    chances = -places.float()
    weights = rows.float().unsqueeze(1)
    return StepRecord(torch.tensor(tokens), chances, chances, torch.tensor(origins), torch.tensor(parents), weights)


def test_a_trace_goes_from_chosen_to_row_to_chosen() -> None:
    """Two sentences with a beam of 2; the first leaves after the second step."""
    history = [
        numbered([11, 12, 13, 14], origins=[0, 0, 1, 1], parents=[0, 1]),
        numbered([21, 22, 23, 24], origins=[1, 0, 3, 3], parents=[0, 1, 2, 3]),
        numbered([31, 32], origins=[1, 0], parents=[3, 2]),
    ]
    steps, places = torch.tensor([[1, 1], [2, 2], [0, 2]]), torch.tensor([[0, 1], [0, 1], [2, 1]])
    traced = follow_backpointers(history, steps, places)
    said = [[traced.tokens[row, place, : steps[row, place] + 1].tolist() for place in (0, 1)] for row in (0, 1, 2)]
    assert said == [[[12, 21], [11, 22]], [[14, 23, 31], [14, 24, 32]], [[13], [14, 24, 32]]]
    assert traced.log_probabilities[1].tolist() == [[-3.0, -2.0, 0.0], [-3.0, -3.0, -1.0]]
    assert traced.weights[1].tolist() == [[[1.0], [3.0], [1.0]], [[1.0], [3.0], [0.0]]]
