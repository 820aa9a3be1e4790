"""Backtraces recover the tokens and the attention of a hypothesis."""

from __future__ import annotations

from itertools import chain

import pytest
import torch

from regard.search import Constraints
from regard.search.history import StepRecord, follow_backpointers


def test_attention_equals_that_of_teacher_forcing_the_output(bench, setting) -> None:
    rows, results = zip(*bench.outcomes(setting), strict=True)
    _, weights = bench.rescore(rows, [each.tokens[:-1] for each in results], setting.n_models)
    for row, each, expected in zip(rows, results, weights, strict=True):
        expected = expected[..., : len(each.tokens), : len(bench.sources[row])]
        torch.testing.assert_close(each.attention, expected, rtol=1e-5, atol=1e-5)


def test_attention_has_a_row_per_output_token_and_a_column_per_source_token(bench, setting) -> None:
    """With one model there are also axes for layers and heads."""
    sizes = {"layer": 2, "head": 3}
    axes = [sizes[axis] for axis in bench.models[0].decoder.weight_axes] if setting.n_models == 1 else []
    for row, each in bench.outcomes(setting):
        assert each.attention.shape == (*axes, len(each.tokens), len(bench.sources[row]))


def test_attention_does_not_keep_the_padded_batch_in_memory(bench, beam) -> None:
    for _, each in bench.outcomes(beam):
        assert each.attention.untyped_storage().nbytes() == each.attention.numel() * each.attention.element_size()


@pytest.mark.parametrize("width", [1, 2, 3, 5])
@pytest.mark.parametrize("rules", [Constraints(), Constraints(block_ngrams=2, prefix=(4,))], ids=["free", "ruled"])
def test_every_token_is_traced_to_its_own_prefix(table, search_setting, width: int, rules: Constraints) -> None:
    """Sentences leave at different steps, and pruned hypotheses leave gaps."""
    drawn = table.drawn(seed=4)
    results = drawn.search(search_setting(width, width, 0.6, rules), [7, 1, 7, 3, 5, 7, 2])
    assert len(set(drawn.rows[1:])) > 2
    for each in chain.from_iterable(results):
        prefixes = [each.tokens[:length] for length in range(len(each.tokens))]
        assert each.attention.squeeze(1).tolist() == [table.spell(prefix) for prefix in prefixes]


def numbered_step(tokens: list[int], origins: list[int], parents: list[int]) -> StepRecord:
    """A step whose log-probabilities are its positions and whose weights are its rows."""
    positions, rows = torch.arange(len(tokens)), torch.arange(len(parents))
    log_probs = -positions.float()
    weights = rows.float().unsqueeze(1)
    return StepRecord(torch.tensor(tokens), log_probs, log_probs, torch.tensor(origins), torch.tensor(parents), weights)


def test_a_backtrace_follows_parents_to_rows_and_origins() -> None:
    """Two sentences with a beam of 2; the first leaves after the second step."""
    history = [
        numbered_step([11, 12, 13, 14], origins=[0, 0, 1, 1], parents=[0, 1]),
        numbered_step([21, 22, 23, 24], origins=[1, 0, 3, 3], parents=[0, 1, 2, 3]),
        numbered_step([31, 32], origins=[1, 0], parents=[3, 2]),
    ]
    steps, positions = torch.tensor([[1, 1], [2, 2], [0, 2]]), torch.tensor([[0, 1], [0, 1], [2, 1]])
    traced = follow_backpointers(history, steps, positions)
    generated = [
        [traced.tokens[row, position, : steps[row, position] + 1].tolist() for position in (0, 1)] for row in (0, 1, 2)
    ]
    assert generated == [[[12, 21], [11, 22]], [[14, 23, 31], [14, 24, 32]], [[13], [14, 24, 32]]]
    assert traced.log_probabilities[1].tolist() == [[-3.0, -2.0, 0.0], [-3.0, -3.0, -1.0]]
    assert traced.weights[1].tolist() == [[[1.0], [3.0], [1.0]], [[1.0], [3.0], [0.0]]]
