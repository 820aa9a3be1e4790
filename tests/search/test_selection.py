"""Selection of extensions: beams against a full ranking, draws against a naive loop over the probabilities."""

from __future__ import annotations

import math
from itertools import product

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.search import Beam, Sampling, Selection

NOTHING = -math.inf
LARGEST_DRAW = 1 - 2**-24  # of `torch.rand`


def select(selector: Beam | Sampling, logits: Tensor, totals: Tensor | None = None, step: int = 0) -> Selection:
    totals = torch.zeros(logits.shape[:2]) if totals is None else totals
    return selector(logits, totals, torch.arange(len(logits)), step)


# Beams


@st.composite
def tables(draw: st.DrawFn) -> tuple[Tensor, Tensor]:
    """Logits [sentences, width, vocabulary] and totals [sentences, width]: whole numbers, which add up exactly."""
    sentences, width, tokens = draw(st.integers(1, 3)), draw(st.integers(1, 4)), draw(st.integers(1, 5))
    numbers = st.one_of(st.integers(-50, 50).map(float), st.just(NOTHING))
    one = st.lists(numbers, min_size=tokens, max_size=tokens)
    logits = draw(st.lists(one, min_size=sentences * width, max_size=sentences * width))
    totals = draw(st.lists(numbers, min_size=sentences * width, max_size=sentences * width))
    return torch.tensor(logits).view(sentences, width, tokens), torch.tensor(totals).view(sentences, width)


@settings(derandomize=True, max_examples=300)
@given(tables(), st.integers(1, 7))
def test_a_beam_selects_the_best_of_all_extensions(table: tuple[Tensor, Tensor], width: int) -> None:
    logits, totals = table
    sentences, hypotheses, tokens = logits.shape
    selection = select(Beam(width), logits, totals)
    candidates = list(product(range(hypotheses), range(tokens)))
    chosen = min(width, len(candidates))
    assert selection.rows.shape == selection.tokens.shape == selection.totals.shape == (sentences, chosen)
    for sentence in range(sentences):
        values = {
            (sentence * hypotheses + hypothesis, token): float(
                totals[sentence, hypothesis] + logits[sentence, hypothesis, token]
            )
            for hypothesis, token in candidates
        }
        best = selection.totals[sentence].tolist()
        assert best == sorted(values.values(), reverse=True)[:chosen]
        extensions = list(zip(selection.rows[sentence].tolist(), selection.tokens[sentence].tolist(), strict=True))
        assert [values[extension] for extension in extensions] == best
        assert len(set(extensions)) == chosen, "none is selected twice"


def test_row_indices_run_through_all_sentences() -> None:
    logits = torch.tensor([[[1.0, 5.0], [4.0, 0.0]], [[0.0, 1.0], [2.0, 3.0]], [[7.0, 0.0], [0.0, 6.0]]])
    selection = select(Beam(2), logits)
    assert selection.rows.tolist() == [[0, 1], [3, 3], [4, 5]]
    assert selection.tokens.tolist() == [[1, 0], [1, 0], [0, 1]]
    assert selection.totals.tolist() == [[5.0, 4.0], [3.0, 2.0], [7.0, 6.0]]


def test_a_beam_wider_than_the_number_of_extensions_selects_all() -> None:
    selection = select(Beam(5), torch.tensor([[[1.0, 3.0, 2.0]]]), torch.tensor([[-7.0]]))
    assert selection.tokens.tolist() == [[1, 2, 0]]
    assert selection.totals.tolist() == [[-4.0, -5.0, -6.0]]
    assert selection.rows.tolist() == [[0, 0, 0]]


@pytest.mark.parametrize("width", [1, 2, 3])
def test_extensions_of_no_hypothesis_have_total_minus_infinity_and_come_last(width: int) -> None:
    totals = torch.tensor([[NOTHING, -1.0, NOTHING]])
    logits = torch.tensor([[[9.0, 9.0], [2.0, NOTHING], [9.0, 9.0]]])
    selection = select(Beam(width), logits, totals)
    assert selection.totals.tolist() == [[1.0, NOTHING, NOTHING][:width]]
    assert (selection.rows[0, 0], selection.tokens[0, 0]) == (1, 0)


def test_each_sentence_has_its_own_beam() -> None:
    generator = torch.Generator().manual_seed(3)
    logits = torch.randn(5, 3, 7, generator=generator)
    together = select(Beam(3), logits)
    for sentence in range(5):
        alone = select(Beam(3), logits[sentence : sentence + 1])
        assert torch.equal(alone.tokens[0], together.tokens[sentence])
        assert torch.equal(alone.rows[0] + 3 * sentence, together.rows[sentence])


# Draws


def draw(numbers: list[float], logits: list[float], **options: float) -> list[int]:
    """The tokens drawn from these logits with these random numbers."""
    draws = torch.tensor(numbers).view(1, -1, 1)
    return select(Sampling(draws, **options), torch.tensor([[logits]])).tokens[0].tolist()


def test_the_token_drawn_is_the_first_whose_cumulative_probability_exceeds_the_number() -> None:
    logits = [math.log(share) for share in (0.1, 0.2, 0.4, 0.3)]
    numbers = [0.0, 0.099, 0.101, 0.299, 0.301, 0.699, 0.701, LARGEST_DRAW]
    assert draw(numbers, logits) == [0, 0, 1, 1, 2, 2, 3, 3]


def test_a_number_on_a_boundary_selects_the_token_that_starts_there() -> None:
    assert draw([0.0, 0.25, 0.5, 0.75], [3.0] * 4) == [0, 1, 2, 3]


@pytest.mark.parametrize("options", [{}, {"top_k": 4}, {"top_p": 0.999}, {"temperature": 5.0}], ids=str)
@pytest.mark.parametrize("low", [NOTHING, -1e5])
def test_tokens_of_probability_0_are_never_drawn(low: float, options: dict[str, float]) -> None:
    numbers = [0.0, 2**-24, 0.3, 0.7, LARGEST_DRAW]
    drawn = draw(numbers, [low, 1.0, low, 1.0, low], **options)
    assert (drawn[0], drawn[-1]) in {(1, 3), (3, 1)}
    assert set(drawn) == {1, 3}
    assert set(draw(numbers, [low, low, 0.0], **options)) == {2}


def test_a_forbidden_token_is_not_drawn_even_with_fewer_others_than_top_k() -> None:
    numbers = torch.linspace(0, LARGEST_DRAW, 31).tolist()
    assert set(draw(numbers, [NOTHING, 0.0, NOTHING, 1.0, NOTHING], top_k=4)) == {1, 3}


@pytest.mark.parametrize("kept", [1, 2, 3, 5, 8])
def test_top_k_keeps_only_the_most_likely_tokens(kept: int) -> None:
    logits = [1.0, 3.0, 2.0, -1.0, 0.0]
    numbers = torch.linspace(0, LARGEST_DRAW, 997).tolist()
    assert set(draw(numbers, logits, top_k=kept)) == set([1, 2, 0, 4, 3][:kept])


@pytest.mark.parametrize(("share", "kept"), [(0.01, 1), (0.25, 1), (0.26, 2), (0.5, 2), (0.75, 3), (0.76, 4), (1.0, 4)])
def test_top_p_keeps_the_smallest_set_of_at_least_this_probability(share: float, kept: int) -> None:
    numbers = torch.linspace(0, LARGEST_DRAW, 997).tolist()
    drawn = draw(numbers, [2.0] * 4, top_p=share)
    assert len(set(drawn)) == kept
    for token in set(drawn):
        assert drawn.count(token) == pytest.approx(997 / kept, abs=2), (
            "the probability of excluded tokens is redistributed"
        )


def test_top_p_applies_after_temperature_and_top_k() -> None:
    numbers = torch.linspace(0, LARGEST_DRAW, 997).tolist()
    logits = [math.log(share) for share in (0.4, 0.3, 0.2, 0.1)]
    assert set(draw(numbers, logits, top_p=0.55)) == {0, 1}
    assert set(draw(numbers, logits, top_p=0.55, top_k=2)) == {0}, "4/7 of the remaining probability"
    assert set(draw(numbers, logits, top_p=0.55, temperature=1e3)) == {0, 1, 2}
    assert set(draw(numbers, logits, top_p=0.55, temperature=0.1)) == {0}


def naive(number: float, logits: list[float], temperature: float, top_k: int | None, top_p: float) -> tuple[int, float]:
    """The token that is drawn, and the distance to the nearest decision boundary."""
    order = list(range(len(logits)))
    if top_k is not None or top_p < 1:
        order.sort(key=lambda token: -logits[token])
    order = order[:top_k]
    powers = {token: math.exp((logits[token] - max(logits)) / temperature) for token in order}
    near, taken, mass = 1.0, [], 0.0
    total = math.fsum(powers.values())
    for token in order:
        taken.append(token)
        mass += powers[token] / total
        if top_p < 1:
            near = min(near, abs(mass - top_p))
            if mass >= top_p:
                break
    passed = 0.0
    for token in taken[:-1]:
        passed += powers[token] / total
        near = min(near, abs(passed - number * mass))
        if passed > number * mass:
            return token, near
    return taken[-1], near


@settings(derandomize=True, max_examples=400)
@given(
    st.lists(st.integers(-20, 20), min_size=1, max_size=7, unique=True),
    st.floats(0, 1, exclude_max=True, width=32),
    st.sampled_from([0.3, 1.0, 2.5, 20.0]),
    st.one_of(st.none(), st.integers(1, 8)),
    st.one_of(st.just(1.0), st.floats(0.01, 0.99)),
)
def test_draws_equal_those_of_a_naive_loop(
    logits: list[int], number: float, temperature: float, top_k: int | None, top_p: float
) -> None:
    values = [value / 3 for value in logits]
    expected, near = naive(number, values, temperature, top_k, top_p)
    assume(near > 1e-5)
    assert draw([number], values, temperature=temperature, top_k=top_k, top_p=top_p) == [expected]


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_tokens_are_drawn_with_the_frequencies_of_softmax(temperature: float) -> None:
    count = 20_011
    logits = torch.tensor([0.5, -1.0, 2.0, 0.0, 1.0])
    draws = torch.rand(1, count, 1, generator=torch.Generator().manual_seed(11))
    drawn = select(Sampling(draws, temperature), logits.view(1, 1, -1)).tokens
    expected = (logits / temperature).softmax(-1) * count
    surprise = ((drawn.flatten().bincount(minlength=5) - expected) ** 2 / expected).sum()
    assert surprise < 18.5, "χ² of 4 degrees of freedom, beyond which 1 of 1000 samples lies"


NEAR_0 = [1e-3, 1e-30, 1e-40, 1e-300]


@pytest.mark.parametrize("options", [{}, {"top_k": 3}, {"top_p": 0.9}], ids=str)
@pytest.mark.parametrize("temperature", NEAR_0)
def test_at_temperatures_near_0_the_most_likely_token_is_drawn(temperature: float, options: dict[str, float]) -> None:
    logits = [1.0, NOTHING, 17.0, 16.0, -9.0]
    assert set(draw([0.0, 0.4, LARGEST_DRAW], logits, temperature=temperature, **options)) == {2}
    below_0 = [NOTHING if value == NOTHING else value - 20 for value in logits]
    assert set(draw([0.0, 0.4, LARGEST_DRAW], below_0, temperature=temperature, **options)) == {2}


@pytest.mark.parametrize("temperature", [1e6, 1e30, 1e40, 1e300])
def test_at_high_temperatures_all_allowed_tokens_are_equally_likely(temperature: float) -> None:
    logits = [1.0, NOTHING, 17.0, NOTHING, -9.0, 3.0]
    assert draw([0.0, 0.24, 0.26, 0.49, 0.51, 0.74, 0.76, LARGEST_DRAW], logits, temperature=temperature) == [
        *(0, 0),
        *(2, 2),
        *(4, 4),
        *(5, 5),
    ]


# Draws of several sentences


SENTENCES, HYPOTHESES, STEPS, TOKENS = 5, 3, 2, 7


@pytest.fixture(scope="module")
def sampling() -> Sampling:
    return Sampling(torch.rand(SENTENCES, HYPOTHESES, STEPS, generator=torch.Generator().manual_seed(2)), 1.5)


@pytest.fixture(scope="module")
def logits() -> Tensor:
    return torch.randn(SENTENCES, HYPOTHESES, TOKENS, generator=torch.Generator().manual_seed(4))


def test_at_the_first_step_the_only_hypothesis_is_extended_by_every_draw(sampling: Sampling, logits: Tensor) -> None:
    totals = -torch.arange(1.0, SENTENCES + 1).unsqueeze(1)
    selection = select(sampling, logits[:, :1], totals)
    assert selection.rows.tolist() == [[sentence] * HYPOTHESES for sentence in range(SENTENCES)]
    for sentence, position in product(range(SENTENCES), range(HYPOTHESES)):
        number = float(sampling.random_numbers[sentence, position, 0])
        (token,) = draw([number], logits[sentence, 0].tolist(), temperature=1.5)
        assert selection.tokens[sentence, position] == token
    assert len(selection.tokens.unique()) > 2


def test_at_later_steps_every_hypothesis_is_extended_by_its_own_draw(sampling: Sampling, logits: Tensor) -> None:
    selection = select(sampling, logits, step=1)
    assert selection.rows.tolist() == torch.arange(SENTENCES * HYPOTHESES).view(SENTENCES, HYPOTHESES).tolist()
    for sentence, position in product(range(SENTENCES), range(HYPOTHESES)):
        number = float(sampling.random_numbers[sentence, position, 1])
        assert [selection.tokens[sentence, position]] == draw(
            [number], logits[sentence, position].tolist(), temperature=1.5
        )


@pytest.mark.parametrize("hypotheses", [1, HYPOTHESES])
def test_totals_grow_by_the_unmodified_logit(sampling: Sampling, logits: Tensor, hypotheses: int) -> None:
    totals = torch.randn(SENTENCES, hypotheses, generator=torch.Generator().manual_seed(6))
    totals[1, 0] = NOTHING  # one that has ended
    selection = select(sampling, logits[:, :hypotheses], totals)
    for sentence, position in product(range(SENTENCES), range(HYPOTHESES)):
        origin = min(position, hypotheses - 1)
        expected = totals[sentence, origin] + logits[sentence, origin, selection.tokens[sentence, position]]
        assert selection.totals[sentence, position] == expected


def test_a_sentence_uses_its_own_random_numbers_in_any_batch(sampling: Sampling, logits: Tensor) -> None:
    together = select(sampling, logits, step=1)
    order = torch.tensor([3, 0, 4])
    selected = sampling(logits[order], torch.zeros(3, HYPOTHESES), order, 1)
    assert torch.equal(selected.tokens, together.tokens[order])
    others = sampling.random_numbers.clone()
    others[[0, 1, 4]] = 1 - others[[0, 1, 4]]
    changed = select(Sampling(others, 1.5), logits, step=1)
    assert torch.equal(changed.tokens[[2, 3]], together.tokens[[2, 3]])
    assert not torch.equal(changed.tokens[[0, 1, 4]], together.tokens[[0, 1, 4]])
