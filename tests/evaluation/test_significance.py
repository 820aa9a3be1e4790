"""Significance tests over sentences: sacreBLEU's p-values, exact enumeration, and equal systems."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product, zip_longest
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.significance import PairedTest as SacrebleuPairedTest

from regard.evaluation import significance
from regard.evaluation.bleu import bleu_metric, chrf_metric
from regard.evaluation.error_rates import phoneme_error
from regard.evaluation.metrics import METRICS, sentence_statistics
from regard.evaluation.sentence_statistics import SentenceStatistics
from regard.evaluation.significance import PairedTestResult, approximate_randomization, paired_bootstrap

TEXT_METRICS = [name for name, metric in METRICS.items() if metric.by_sentence]
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


def new_references(count: int, seed: int = 0) -> list[str]:
    random = Random(seed)
    return [" ".join(random.choices(WORDS, k=random.randint(4, 12))) for _ in range(count)]


def worsened(references: Sequence[str], share: float, seed: int) -> list[str]:
    """The references with this share of the words replaced."""
    random = Random(seed)
    return [" ".join(random.choice(WORDS) if random.random() < share else w for w in t.split()) for t in references]


def alone(references: Sequence[str]) -> list[tuple[str, ...]]:
    return [(reference,) for reference in references]


def seeds_of(name: str, references: Sequence[str], share: float, seeds: Sequence[int]) -> list[SentenceStatistics]:
    return [sentence_statistics(name, worsened(references, share, seed), alone(references)) for seed in seeds]


def matches(*hits: Sequence[int]) -> list[SentenceStatistics]:
    """A system of which each seed is right in these sentences."""
    return [sentence_statistics("exact_match", [str(hit) for hit in each], [("1",)] * len(each)) for each in hits]


def spelled(text: str) -> str:
    """The characters of a text as words, by which the phoneme error rate counts."""
    return " ".join(f"{ord(character)}" for character in text)


@given(corpus=corpora)
def test_totals_are_the_corpus_scores(corpus: list[tuple[str, list[str]]]):
    outputs, references = [output for output, _ in corpus], [known for _, known in corpus]
    columns = list(zip_longest(*references))  # None: a sentence has fewer references
    exact = sum(output in known for output, known in corpus) / len(corpus)
    totals = {name: sentence_statistics(name, outputs, references).total for name in TEXT_METRICS}
    assert totals == {
        "bleu": bleu_metric().corpus_score(outputs, columns).score,
        "bleu_lc": bleu_metric(lowercase=True).corpus_score(outputs, columns).score,
        "chrf": chrf_metric().corpus_score(outputs, columns).score,
        "exact_match": exact,
        "word_error": 1 - exact,
        "phoneme_error": phoneme_error(outputs, references),
        "character_error": phoneme_error([*map(spelled, outputs)], [list(map(spelled, known)) for known in references]),
    }


@pytest.mark.parametrize(("counts", "label"), [((1,), "1"), ((3,), "3"), ((2, 1, 3), "var")])
@pytest.mark.parametrize(("name", "metric"), [("bleu", bleu_metric), ("chrf", chrf_metric)])
def test_several_references_are_those_of_sacrebleu(
    name: str, metric: Callable[[], Any], counts: tuple[int, ...], label: str
):
    """A share of the outputs is nearest to the second reference, so that the first alone has another score."""
    several = [new_references(13, seed) for seed in range(3)]
    known = [tuple(each[index] for each in several)[: counts[index % len(counts)]] for index in range(13)]
    outputs = [worsened([own[index % len(own)]], 0.2, index)[0] for index, own in enumerate(known)]
    expected = metric()
    score = expected.corpus_score(outputs, list(zip_longest(*known))).score
    found = sentence_statistics(name, outputs, known)
    assert found.total == score
    assert found.signature == str(expected.get_signature())
    assert f"nrefs:{label}|" in found.signature
    if label != "1":
        assert found.total > sentence_statistics(name, outputs, [own[:1] for own in known]).total + 5


@pytest.mark.parametrize("name", TEXT_METRICS)
def test_a_part_scores_like_a_corpus_of_its_own(name: str):
    references = new_references(20)
    outputs = worsened(references, 0.1, seed=1)
    chosen = [3, 4, 11, 19]
    part = sentence_statistics(name, [outputs[index] for index in chosen], alone(references[index] for index in chosen))
    assert sentence_statistics(name, outputs, alone(references)).of(chosen) == part.total


@pytest.mark.parametrize("name", TEXT_METRICS)
def test_many_sums_are_scored_in_one_call(name: str):
    references = new_references(12)
    counts = sentence_statistics(name, worsened(references, 0.1, seed=1), alone(references))
    sums = counts.rows.reshape(2, 3, 2, -1).sum(2)
    scores = counts.score(sums)
    assert scores.shape == (2, 3)
    assert scores[1, 2] == counts.of([10, 11])


@pytest.mark.parametrize("name", TEXT_METRICS)
def test_hostile_outputs_are_scored_and_compared(name: str):
    references = [("word", "A"), *alone(new_references(len(HOSTILE) - 1))]
    system, baseline = (
        [sentence_statistics(name, HOSTILE, references)],
        [sentence_statistics(name, HOSTILE[::-1], references)],
    )
    nothing = [sentence_statistics(name, [""] * len(references), references)]
    for test in (paired_bootstrap, approximate_randomization):
        for one, other in ((system, baseline), (system, nothing), (nothing, nothing)):
            assert 0 < test(one, other, samples=50).p <= 1


def test_an_empty_corpus_is_refused():
    with pytest.raises(ValueError, match="no sentences"):
        sentence_statistics("bleu", [], [])
    with pytest.raises(ValueError, match="no sentences"):
        sentence_statistics("bleu", ["a"], [("a",)]).of([])


def test_an_unknown_metric_is_refused():
    with pytest.raises(ValueError, match="'comet'"):
        sentence_statistics("comet", ["a"], [("a",)])


def test_metrics_that_do_not_compare_texts_have_no_sentence_statistics():
    with pytest.raises(ValueError, match=r"'loss' is not a metric of output texts; those are exact_match, "):
        sentence_statistics("loss", ["a"], [("a",)])


@pytest.mark.parametrize("name", TEXT_METRICS)
def test_numbers_of_outputs_and_references_must_agree(name: str):
    with pytest.raises(ValueError, match=r"2 outputs .* 1 sentences"):
        sentence_statistics(name, ["a", "b"], [("a",)])


@pytest.mark.parametrize("method", TESTS)
@pytest.mark.parametrize("name", ["bleu", "bleu_lc", "chrf"])
@pytest.mark.parametrize(("one", "other", "seed"), [(0.3, 0.3, 12345), (0.3, 0.33, 12345), (0.25, 0.3, 7)])
def test_p_matches_sacrebleu(
    method: str, name: str, one: float, other: float, seed: int, monkeypatch: pytest.MonkeyPatch
):
    """One seed, several blocks of samples, and a number of sentences that leaves random bits over."""
    references = new_references(61)
    outputs, basis = worsened(references, one, seed=1), worsened(references, other, seed=2)
    metric = chrf_metric() if name == "chrf" else bleu_metric(lowercase=name == "bleu_lc")
    monkeypatch.setenv("SACREBLEU_SEED", str(seed))
    test = SacrebleuPairedTest(
        [("basis", basis), ("system", outputs)], {"": metric}, [references], method, n_samples=700
    )
    expected = next(results for key, results in test()[1].items() if key != "System")

    system, baseline = (
        [sentence_statistics(name, outputs, alone(references))],
        [sentence_statistics(name, basis, alone(references))],
    )
    found = TESTS[method](system, baseline, samples=700, seed=seed)
    assert found.p == expected[1].p_value
    assert found.difference == expected[1].score - expected[0].score
    assert 1 / 701 < found.p < 1


@pytest.mark.parametrize("test", [paired_bootstrap, approximate_randomization])
@pytest.mark.parametrize("name", TEXT_METRICS)
def test_a_system_does_not_differ_from_itself(test, name: str):
    references = new_references(30)
    system = seeds_of(name, references, 0.1, seeds=[1, 2, 3])
    found = test(system, [system[2], system[0], system[1]] if test is paired_bootstrap else system, samples=300)
    assert found.p == 1
    assert found.difference == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("name", ["bleu", "exact_match"])
def test_swapping_the_systems_changes_the_sign(name: str):
    references = new_references(50)
    system, baseline = seeds_of(name, references, 0.1, [1, 2]), seeds_of(name, references, 0.2, [3, 4])
    one, other = (
        approximate_randomization(system, baseline, samples=500),
        approximate_randomization(baseline, system, samples=500),
    )
    assert (one.difference, one.p) == (-other.difference, other.p)
    one, other = paired_bootstrap(system, baseline, samples=500), paired_bootstrap(baseline, system, samples=500)
    assert (one.difference, one.p) == (-other.difference, other.p)
    assert (one.low, one.high) == pytest.approx((-other.high, -other.low))


def test_a_clear_difference():
    system, baseline = matches([1] * 40, [1] * 40), matches([0] * 40, [1, *[0] * 39])
    for test, draws in ((paired_bootstrap, 1000), (approximate_randomization, 10_000)):
        found = test(system, baseline)
        assert found.samples == draws
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
def test_randomization_approximates_the_exact_test_over_all_swaps(system: list[list[int]], baseline: list[list[int]]):
    """All seeds of a sentence are swapped together, so only their sum counts. Ties count as extreme."""
    gains = np.array(system).sum(0) - np.array(baseline).sum(0)
    swapped = [abs(int(np.dot(signs, gains))) for signs in product([1, -1], repeat=len(gains))]
    exact = np.mean([difference >= gains.sum() for difference in swapped])
    assert approximate_randomization(matches(*system), matches(*baseline)).p == pytest.approx(exact, abs=0.015)


def test_all_seeds_use_the_same_resamples():
    """One seed is right where the other is wrong: on any sentences, the mean over the seeds is a half."""
    halves = [1, 0] * 10
    found = paired_bootstrap(matches(halves, halves[::-1]), matches([0] * 20, [0] * 20), samples=200)
    assert (found.low, found.difference, found.high) == pytest.approx((0.5, 0.5, 0.5))


def test_the_interval_matches_resampling_one_by_one():
    references = new_references(25)
    system, baseline = (
        seeds_of("phoneme_error", references, 0.1, [1, 2]),
        seeds_of("phoneme_error", references, 0.2, [3, 4]),
    )
    random = np.random.default_rng(5)
    drawn = [random.choice(25, size=25) for _ in range(400)]
    differences = [np.mean([c.of(d) for c in system]) - np.mean([c.of(d) for c in baseline]) for d in drawn]
    found = paired_bootstrap(system, baseline, samples=400, seed=5)
    assert (found.low, found.high) == pytest.approx(np.quantile(differences, [0.025, 0.975]))
    assert found.low < found.difference < found.high


@pytest.mark.parametrize("test", [paired_bootstrap, approximate_randomization])
def test_the_size_of_a_block_changes_nothing(test, monkeypatch: pytest.MonkeyPatch):
    references = new_references(33)
    system, baseline = seeds_of("chrf", references, 0.2, [1]), seeds_of("chrf", references, 0.22, [3])
    results = set[PairedTestResult]()
    for size in (32, 96, 1024):
        monkeypatch.setattr(significance, "BLOCK", size)
        results.add(test(system, baseline, samples=300))
    assert len(results) == 1


def equal_systems(random: np.random.Generator) -> list[list[SentenceStatistics]]:
    """Two systems that differ by chance alone: errors in 80 sentences of 1 to 12 words. They never tie."""
    lengths = random.integers(1, 13, size=80)
    score = sentence_statistics("phoneme_error", ["A"], [("A",)]).score
    return [[SentenceStatistics(np.stack([random.gamma(lengths), lengths], axis=1), score)] for _ in range(2)]


def test_for_equal_systems_p_is_uniform_and_the_interval_contains_0():
    """Out of 400 trials. sacreBLEU's bootstrap has one side: twice as many of its p-values are below 5 %."""
    random = np.random.default_rng(3)
    trials = [equal_systems(random) for _ in range(400)]
    swapped = [
        approximate_randomization(one, other, samples=99, seed=seed).p for seed, (one, other) in enumerate(trials)
    ]
    for level in (0.05, 0.25, 0.5, 0.75):
        assert np.mean(np.array(swapped) <= level) == pytest.approx(level, abs=0.06)
    drawn = [paired_bootstrap(one, other, samples=200, seed=seed) for seed, (one, other) in enumerate(trials)]
    assert 0.92 < np.mean([found.low <= 0 <= found.high for found in drawn]) < 0.98
    assert 0.07 < np.mean([found.p <= 0.05 for found in drawn]) < 0.14


@pytest.mark.parametrize("test", [paired_bootstrap, approximate_randomization])
def test_unpaired_systems_are_refused(test):
    one, two = matches([1, 0, 1]), matches([1, 0, 1], [1, 1, 1])
    with pytest.raises(ValueError, match="not 1 and 2"):
        test(one, two)
    with pytest.raises(ValueError, match="not 0 and 0"):
        test([], [])
    with pytest.raises(ValueError, match=r"\[2, 3\]"):
        test(one, matches([1, 0]))
    with pytest.raises(ValueError, match="sample"):
        test(one, one, samples=0)
