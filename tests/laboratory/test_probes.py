"""Linear probes: accuracy, baselines and regularization on synthetic states."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from regard.laboratory import probes
from regard.laboratory.probes import NO_CLASS, LabeledStates, class_mapping, evaluate_probe, fit_probe, select_penalty

SIZE = 7


def noise(states: int, seed: int) -> Tensor:
    return torch.randn(states, SIZE, generator=torch.Generator().manual_seed(seed))


def planted(states: int, classes: int, seed: int, copies: float = 5.0) -> LabeledStates:
    """Noise in which each class has its own direction, with features on very different scales."""
    labels = torch.randint(classes, (states,), generator=torch.Generator().manual_seed(seed))
    vectors = noise(states, seed)
    vectors[torch.arange(states), labels] += 2 * copies
    return LabeledStates(vectors * torch.tensor([1e-3, 1e-2, 1e-1, 1, 10, 1e2, 1e3]) + 11, labels * 13 + 17)


def accuracy(correct: Tensor) -> float:
    return float(correct.double().mean())


def test_probe_predicts_a_planted_label_and_the_control_does_not():
    result = evaluate_probe(planted(401, 5, seed=1), planted(211, 5, seed=2), seed=3)
    assert (result.classes, result.train_states, result.test_states, result.has_other_class) == (5, 401, 211, False)
    assert accuracy(result.probe.correct) == 1
    assert accuracy(result.control.correct) == pytest.approx(1 / 5, abs=0.09)
    assert accuracy(result.majority_correct) == pytest.approx(1 / 5, abs=0.09)


def test_probe_of_noise_is_no_better_than_the_majority():
    def skewed(states: int, seed: int) -> LabeledStates:
        probabilities = torch.tensor([0.2, 0.7, 0.1]).expand(states, -1)
        labels = probabilities.multinomial(1, generator=torch.Generator().manual_seed(seed)).squeeze(1)
        return LabeledStates(noise(states, seed + 100), labels)

    result = evaluate_probe(skewed(601, 1), skewed(401, 2), seed=3)
    assert accuracy(result.majority_correct) == pytest.approx(0.7, abs=0.05)
    assert accuracy(result.probe.correct) == pytest.approx(accuracy(result.majority_correct), abs=0.03)
    assert accuracy(result.control.correct) == pytest.approx(accuracy(result.majority_correct), abs=0.03)


def test_overfitting_does_not_raise_test_accuracy():
    """More features than states: any labels can be fitted, none generalize."""
    generator = torch.Generator().manual_seed(1)
    states, labels = torch.randn(331, 97, generator=generator), torch.randint(2, (331,), generator=generator)
    probe = fit_probe(states[:83], labels[:83], penalty=1e-4)
    assert accuracy(probe.predict(states[:83]) == labels[:83]) == 1
    assert accuracy(probe.predict(states[83:]) == labels[83:]) == pytest.approx(0.5, abs=0.1)
    result = evaluate_probe(LabeledStates(states[:83], labels[:83]), LabeledStates(states[83:], labels[83:]), seed=1)
    assert result.probe.train_accuracy > 0.9
    assert accuracy(result.probe.correct) == pytest.approx(0.5, abs=0.1)


def test_selected_penalty_is_strong_for_noise_and_weak_for_signal():
    generator = torch.Generator().manual_seed(1)
    states, labels = torch.randn(500, 89, generator=generator), torch.randint(5, (500,), generator=generator)
    assert select_penalty(states, labels.clamp(max=1)) >= 1e-1  # four in five are 1, independent of the state
    # Separating neighboring points on a circle takes large weights.
    labels = torch.randint(47, (500,), generator=generator)
    angles = labels * 2 * torch.pi / 47
    assert select_penalty(torch.stack([angles.sin(), angles.cos()], 1), labels) <= 1e-3


def test_the_penalty_keeps_weights_small():
    states, labels = planted(101, 3, seed=1).states, planted(101, 3, seed=1).labels // 13 - 1
    strong, weak = (fit_probe(states, labels, penalty).weight.norm() for penalty in (1e-1, 1e-4))
    assert strong < weak / 3


def test_constant_features_are_not_amplified():
    train, test = planted(211, 5, seed=1), planted(101, 5, seed=2)
    constant = [
        LabeledStates(torch.cat([each.states, torch.full((len(each.states), 1), value)], 1), each.labels)
        for each, value in ((train, 3.0), (test, 3.001))
    ]
    assert accuracy(evaluate_probe(*constant, seed=1).probe.correct) == 1


def test_control_depends_on_the_seed_alone():
    train, test = planted(211, 5, seed=1), planted(101, 5, seed=2)
    first, again, other = (evaluate_probe(train, test, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(first.control.correct, again.control.correct)
    assert torch.equal(first.probe.correct, again.probe.correct)
    assert not torch.equal(first.control.correct, other.control.correct)
    assert torch.equal(first.probe.correct, other.probe.correct)


def test_majority_label_is_that_of_training():
    train = LabeledStates(noise(11, 1), torch.tensor([5] * 6 + [3] * 5))
    test = LabeledStates(noise(7, 2), torch.tensor([3] * 5 + [5] * 2))
    assert evaluate_probe(train, test, seed=1).majority_correct.tolist() == [False] * 5 + [True] * 2


def test_classes_are_ordered_by_frequency():
    to_classes = class_mapping(torch.tensor([19, 23, 23, 29, 29, 29]))
    assert to_classes(torch.tensor([29, 23, 19, 31])).tolist() == [0, 1, 2, NO_CLASS]


def test_rare_labels_share_one_class(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(probes, "MAX_LABELS", 2)
    labels = torch.tensor([19, 23, 23, 29, 29, 29, 31])
    assert class_mapping(labels)(torch.tensor([29, 23, 19, 31, 37])).tolist() == [0, 1, 2, 2, 2]
    result = evaluate_probe(LabeledStates(noise(7, 1), labels), LabeledStates(noise(7, 2), labels), seed=1)
    assert (result.classes, result.has_other_class) == (3, True)


def test_unseen_label_is_never_correct():
    test = planted(101, 5, seed=2)
    strange = LabeledStates(test.states, torch.full_like(test.labels, 1000))
    result = evaluate_probe(planted(211, 5, seed=1), strange, seed=1)
    assert not result.probe.correct.any()
    assert not result.majority_correct.any()
    assert not result.control.correct.any()


def test_a_tie_between_strong_penalties_does_not_end_the_search():
    draw = torch.Generator().manual_seed(1)
    rare = (torch.rand(1000, generator=draw) < 0.1).long()
    states = torch.randn(1000, SIZE, generator=draw)
    states[:, 3] += rare  # weakly predictive, but not with small weights
    strong = [fit_probe(states[:800], rare[:800], penalty).predict(states[800:]).any() for penalty in (1.0, 0.1)]
    assert not any(strong), "both predict the majority only"
    assert select_penalty(states, rare) == 0.01
