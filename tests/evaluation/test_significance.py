"""Tests over sentences: sacreBLEU's p-values, exact enumeration, and what chance does when nothing differs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.significance import PairedTest as SacrebleuPairedTest

from regard.evaluation import significance
from regard.evaluation.bleu import bleu, bleu_metric, chrf, chrf_metric
from regard.evaluation.error_rates import phoneme_error
from regard.evaluation.significance import (
    PairedTest,
    SentenceStatistics,
    approximate_randomization,
    paired_bootstrap,
    sentence_statistics,
)

MEASURES = ["bleu", "bleu_lc", "chrf", "exact_match", "word_error", "phoneme_error"]
WORDS = [
    "A",
    "a",
    "man",
    "in",
    "Red",
    "red",
    "sleeps",
    "on",
    "The",
    "the",
    "old",
    "bench",
    "near",
    "Two",
    "two",
    "dogs",
]
HOSTILE = ["", " ", "\0", "word", "\0 word \0", "A", "a a a a a a", "\u2028 \ufeff", "&amp; <skipped>", "é" * 300]
TESTS = {"bs": paired_bootstrap, "ar": approximate_randomization}

sentences = st.lists(st.sampled_from(["a", "A", "b", "é", "\0", "."]), max_size=12).map(" ".join)
texts = sentences | st.text(max_size=12) | st.sampled_from(HOSTILE)
corpora = st.lists(st.tuples(texts, st.lists(texts, min_size=1, max_size=3)), min_size=1, max_size=6)


def references(count: int, seed: int = 0) -> list[str]:
    random = Random(seed)
    return [" ".join(random.choices(WORDS, k=random.randint(4, 12))) for _ in range(count)]


def worsened(truths: Sequence[str], share: float, seed: int) -> list[str]:
    """With that share of the words replaced by others."""
    random = Random(seed)
    return [" ".join(random.choice(WORDS) if random.random() < share else w for w in t.split()) for t in truths]


def alone(truths: Sequence[str]) -> list[tuple[str, ...]]:
    return [(truth,) for truth in truths]


def seeds_of(measure: str, truths: Sequence[str], share: float, seeds: Sequence[int]) -> list[SentenceStatistics]:
    return [sentence_statistics(measure, worsened(truths, share, seed), alone(truths)) for seed in seeds]


def matches(*hits: Sequence[int]) -> list[SentenceStatistics]:
    """A system of which each seed is right in these sentences."""
    return [sentence_statistics("exact_match", [str(hit) for hit in each], [("1",)] * len(each)) for each in hits]


@given(corpus=corpora)
def test_all_sentences_score_what_the_measures_say(corpus: list[tuple[str, list[str]]]):
    outputs, truths = [output for output, _ in corpus], [known for _, known in corpus]
    first = [known[0] for known in truths]
    exact = sum(output in known for output, known in corpus) / len(corpus)
    totals = {measure: sentence_statistics(measure, outputs, truths).total for measure in MEASURES}
    assert totals == {
        "bleu": bleu(outputs, first).score,
        "bleu_lc": bleu(outputs, first, lowercase=True).score,
        "chrf": chrf(outputs, first).score,
        "exact_match": exact,
        "word_error": 1 - exact,
        "phoneme_error": phoneme_error(outputs, truths),
    }


@pytest.mark.parametrize("measure", MEASURES)
def test_some_sentences_score_as_if_they_were_all(measure: str):
    truths = references(20)
    outputs = worsened(truths, 0.1, seed=1)
    chosen = [3, 4, 11, 19]
    part = sentence_statistics(measure, [outputs[place] for place in chosen], alone(truths[place] for place in chosen))
    assert sentence_statistics(measure, outputs, alone(truths)).of(chosen) == part.total


@pytest.mark.parametrize("measure", MEASURES)
def test_many_sums_are_scored_at_once(measure: str):
    truths = references(12)
    counts = sentence_statistics(measure, worsened(truths, 0.1, seed=1), alone(truths))
    sums = counts.rows.reshape(2, 3, 2, -1).sum(2)
    scores = counts.score(sums)
    assert scores.shape == (2, 3)
    assert scores[1, 2] == counts.of([10, 11])


@pytest.mark.parametrize("measure", MEASURES)
def test_hostile_outputs_are_scored_and_compared(measure: str):
    truths = [("word", "A"), *alone(references(len(HOSTILE) - 1))]
    system, baseline = (
        [sentence_statistics(measure, HOSTILE, truths)],
        [sentence_statistics(measure, HOSTILE[::-1], truths)],
    )
    nothing = [sentence_statistics(measure, [""] * len(truths), truths)]
    for test in (paired_bootstrap, approximate_randomization):
        for one, other in ((system, baseline), (system, nothing), (nothing, nothing)):
            assert 0 < test(one, other, draws=50).p <= 1


def test_nothing_to_score_is_refused():
    with pytest.raises(ValueError, match="no sentences"):
        sentence_statistics("bleu", [], [])
    with pytest.raises(ValueError, match="no sentences"):
        sentence_statistics("bleu", ["a"], [("a",)]).of([])


def test_an_unknown_measure_is_named():
    with pytest.raises(ValueError, match="'comet'"):
        sentence_statistics("comet", ["a"], [("a",)])


@pytest.mark.parametrize("measure", MEASURES)
def test_each_output_has_its_truths(measure: str):
    with pytest.raises(ValueError, match=r"2 outputs .* 1 sentences"):
        sentence_statistics(measure, ["a", "b"], [("a",)])


@pytest.mark.parametrize("method", TESTS)
@pytest.mark.parametrize("measure", ["bleu", "bleu_lc", "chrf"])
@pytest.mark.parametrize(("one", "other", "seed"), [(0.3, 0.3, 12345), (0.3, 0.33, 12345), (0.25, 0.3, 7)])
def test_p_is_that_of_sacrebleu(
    method: str, measure: str, one: float, other: float, seed: int, monkeypatch: pytest.MonkeyPatch
):
    """With one seed, and more draws than are made at once, of so many sentences that random bits are left over."""
    truths = references(61)
    outputs, basis = worsened(truths, one, seed=1), worsened(truths, other, seed=2)
    metric = chrf_metric() if measure == "chrf" else bleu_metric(lowercase=measure == "bleu_lc")
    monkeypatch.setenv("SACREBLEU_SEED", str(seed))
    test = SacrebleuPairedTest([("basis", basis), ("system", outputs)], {"": metric}, [truths], method, n_samples=700)
    expected = next(results for name, results in test()[1].items() if name != "System")

    system, baseline = (
        [sentence_statistics(measure, outputs, alone(truths))],
        [sentence_statistics(measure, basis, alone(truths))],
    )
    found = TESTS[method](system, baseline, draws=700, seed=seed)
    assert found.p == expected[1].p_value
    assert found.difference == expected[1].score - expected[0].score
    assert 1 / 701 < found.p < 1


@pytest.mark.parametrize("test", [paired_bootstrap, approximate_randomization])
@pytest.mark.parametrize("measure", MEASURES)
def test_a_system_does_not_differ_from_itself(test, measure: str):
    truths = references(30)
    system = seeds_of(measure, truths, 0.1, seeds=[1, 2, 3])
    found = test(system, [system[2], system[0], system[1]] if test is paired_bootstrap else system, draws=300)
    assert found.p == 1
    assert found.difference == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("measure", ["bleu", "exact_match"])
def test_turned_round_the_difference_has_the_other_sign(measure: str):
    truths = references(50)
    system, baseline = seeds_of(measure, truths, 0.1, [1, 2]), seeds_of(measure, truths, 0.2, [3, 4])
    one, other = (
        approximate_randomization(system, baseline, draws=500),
        approximate_randomization(baseline, system, draws=500),
    )
    assert (one.difference, one.p) == (-other.difference, other.p)
    one, other = paired_bootstrap(system, baseline, draws=500), paired_bootstrap(baseline, system, draws=500)
    assert (one.difference, one.p) == (-other.difference, other.p)
    assert (one.low, one.high) == pytest.approx((-other.high, -other.low))


def test_what_is_said_of_a_clear_difference():
    system, baseline = matches([1] * 40, [1] * 40), matches([0] * 40, [1, *[0] * 39])
    for test, draws in ((paired_bootstrap, 1000), (approximate_randomization, 10_000)):
        found = test(system, baseline)
        assert found.draws == draws
        assert found.p == 1 / (draws + 1)
        assert found.difference == pytest.approx(1 - 1 / 80)
    assert paired_bootstrap(system, baseline).high == 1
    assert approximate_randomization(system, baseline).low is approximate_randomization(system, baseline).high is None


@pytest.mark.parametrize(
    ("system", "baseline"),
    [
        ([[1, 1, 1, 0, 1, 1, 0, 1]], [[0, 1, 0, 0, 1, 0, 1, 0]]),
        ([[1, 1, 1, 1, 1, 1, 0, 1]], [[0, 0, 0, 0, 1, 0, 0, 0]]),
        ([[1, 1, 1, 0, 1, 1, 0, 1], [1, 0, 1, 1, 1, 0, 1, 1]], [[0, 1, 0, 0, 1, 0, 1, 0], [0, 0, 1, 0, 0, 1, 1, 0]]),
    ],
)
def test_randomisation_is_near_to_trying_all_swaps(system: list[list[int]], baseline: list[list[int]]):
    """A sentence changes sides with all of its seeds, so that only their sum counts. Ties are chance, too."""
    gains = np.array(system).sum(0) - np.array(baseline).sum(0)
    swapped = [abs(int(np.dot(signs, gains))) for signs in product([1, -1], repeat=len(gains))]
    exact = np.mean([difference >= gains.sum() for difference in swapped])
    assert approximate_randomization(matches(*system), matches(*baseline)).p == pytest.approx(exact, abs=0.015)


def test_seeds_are_drawn_together():
    """One seed is right where the other is wrong: on any sentences, the mean over the seeds is a half."""
    halves = [1, 0] * 10
    found = paired_bootstrap(matches(halves, halves[::-1]), matches([0] * 20, [0] * 20), draws=200)
    assert (found.low, found.difference, found.high) == pytest.approx((0.5, 0.5, 0.5))


def test_the_interval_is_that_of_drawing_one_by_one():
    truths = references(25)
    system, baseline = seeds_of("phoneme_error", truths, 0.1, [1, 2]), seeds_of("phoneme_error", truths, 0.2, [3, 4])
    random = np.random.default_rng(5)
    drawn = [random.choice(25, size=25) for _ in range(400)]
    differences = [np.mean([c.of(d) for c in system]) - np.mean([c.of(d) for c in baseline]) for d in drawn]
    found = paired_bootstrap(system, baseline, draws=400, seed=5)
    assert (found.low, found.high) == pytest.approx(np.quantile(differences, [0.025, 0.975]))
    assert found.low < found.difference < found.high


@pytest.mark.parametrize("test", [paired_bootstrap, approximate_randomization])
def test_the_size_of_a_block_changes_nothing(test, monkeypatch: pytest.MonkeyPatch):
    truths = references(33)
    system, baseline = seeds_of("chrf", truths, 0.2, [1]), seeds_of("chrf", truths, 0.22, [3])
    results = set[PairedTest]()
    for size in (32, 96, 1024):
        monkeypatch.setattr(significance, "AT_ONCE", size)
        results.add(test(system, baseline, draws=300))
    assert len(results) == 1


def alike(random: np.random.Generator) -> list[list[SentenceStatistics]]:
    """Two systems that differ by chance alone: errors in 80 sentences of 1 to 12 words. They never tie."""
    lengths = random.integers(1, 13, size=80)
    score = sentence_statistics("phoneme_error", ["A"], [("A",)]).score
    return [[SentenceStatistics(np.stack([random.gamma(lengths), lengths], axis=1), score)] for _ in range(2)]


def test_under_chance_alone_p_is_uniform_for_randomisation_and_the_interval_has_0_in_it():
    """Out of 400 trials. sacreBLEU's bootstrap has one side: twice as many of its p-values are below 5 %."""
    random = np.random.default_rng(3)
    trials = [alike(random) for _ in range(400)]
    swapped = [approximate_randomization(one, other, draws=99, seed=seed).p for seed, (one, other) in enumerate(trials)]
    for level in (0.05, 0.25, 0.5, 0.75):
        assert np.mean(np.array(swapped) <= level) == pytest.approx(level, abs=0.06)
    drawn = [paired_bootstrap(one, other, draws=200, seed=seed) for seed, (one, other) in enumerate(trials)]
    assert 0.92 < np.mean([found.low <= 0 <= found.high for found in drawn]) < 0.98
    assert 0.07 < np.mean([found.p <= 0.05 for found in drawn]) < 0.14


@pytest.mark.parametrize("test", [paired_bootstrap, approximate_randomization])
def test_what_cannot_be_paired_is_refused(test):
    one, two = matches([1, 0, 1]), matches([1, 0, 1], [1, 1, 1])
    with pytest.raises(ValueError, match="not 1 and 2"):
        test(one, two)
    with pytest.raises(ValueError, match="not 0 and 0"):
        test([], [])
    with pytest.raises(ValueError, match=r"\[2, 3\]"):
        test(one, matches([1, 0]))
    with pytest.raises(ValueError, match="draws"):
        test(one, one, draws=0)
