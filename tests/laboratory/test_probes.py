from __future__ import annotations

import pytest
import torch
from torch import Tensor

from regard.laboratory import probes
from regard.laboratory.probes import NO_CLASS, Labelled, choose_penalty, fit, number_classes, read

SIZE = 7


def noise(states: int, seed: int) -> Tensor:
    return torch.randn(states, SIZE, generator=torch.Generator().manual_seed(seed))


def planted(states: int, classes: int, seed: int, copies: float = 5.0) -> Labelled:
    """Noise in which each class stands out along a direction of its own, on very different scales."""
    labels = torch.randint(classes, (states,), generator=torch.Generator().manual_seed(seed))
    vectors = noise(states, seed)
    vectors[torch.arange(states), labels] += 2 * copies
    return Labelled(vectors * torch.tensor([1e-3, 1e-2, 1e-1, 1, 10, 1e2, 1e3]) + 11, labels * 13 + 17)


def share(right: Tensor) -> float:
    return float(right.double().mean())


def test_a_planted_label_is_read_from_other_states_and_the_control_reads_nothing():
    reading = read(planted(401, 5, seed=1), planted(211, 5, seed=2), seed=3)
    assert (reading.classes, reading.fitted, reading.judged, reading.has_others) == (5, 401, 211, False)
    assert share(reading.probe.right) == 1
    assert share(reading.control.right) == pytest.approx(1 / 5, abs=0.09)
    assert share(reading.majority_right) == pytest.approx(1 / 5, abs=0.09)


def test_of_noise_nothing_is_read_beyond_the_majority():
    def skewed(states: int, seed: int) -> Labelled:
        chances = torch.tensor([0.2, 0.7, 0.1]).expand(states, -1)
        labels = chances.multinomial(1, generator=torch.Generator().manual_seed(seed)).squeeze(1)
        return Labelled(noise(states, seed + 100), labels)

    reading = read(skewed(601, 1), skewed(401, 2), seed=3)
    assert share(reading.majority_right) == pytest.approx(0.7, abs=0.05)
    assert share(reading.probe.right) == pytest.approx(share(reading.majority_right), abs=0.03)
    assert share(reading.control.right) == pytest.approx(share(reading.majority_right), abs=0.03)


def test_a_probe_that_learns_by_heart_does_not_profit():
    """There are more directions than states: every labelling can be fitted, and none can be found again."""
    generator = torch.Generator().manual_seed(1)
    states, labels = torch.randn(331, 97, generator=generator), torch.randint(2, (331,), generator=generator)
    probe = fit(states[:83], labels[:83], penalty=1e-4)
    assert share(probe.say(states[:83]) == labels[:83]) == 1
    assert share(probe.say(states[83:]) == labels[83:]) == pytest.approx(0.5, abs=0.1)
    reading = read(Labelled(states[:83], labels[:83]), Labelled(states[83:], labels[83:]), seed=1)
    assert reading.probe.in_fitting > 0.9
    assert share(reading.probe.right) == pytest.approx(0.5, abs=0.1)


def test_little_is_penalised_where_much_can_be_read_and_much_where_little_can():
    generator = torch.Generator().manual_seed(1)
    states, labels = torch.randn(500, 89, generator=generator), torch.randint(5, (500,), generator=generator)
    assert choose_penalty(states, labels.clamp(max=1)) >= 1e-1  # four in five are 1, and that is all there is to know
    # To tell each of many points on a circle from its neighbours takes large weights.
    labels = torch.randint(47, (500,), generator=generator)
    angles = labels * 2 * torch.pi / 47
    assert choose_penalty(torch.stack([angles.sin(), angles.cos()], 1), labels) <= 1e-3


def test_the_penalty_keeps_weights_small():
    states, labels = planted(101, 3, seed=1).states, planted(101, 3, seed=1).labels // 13 - 1
    strong, weak = (fit(states, labels, penalty).weight.norm() for penalty in (1e-1, 1e-4))
    assert strong < weak / 3


def test_a_dimension_that_never_changes_does_no_harm():
    fitting, judging = planted(211, 5, seed=1), planted(101, 5, seed=2)
    constant = [
        Labelled(torch.cat([each.states, torch.full((len(each.states), 1), value)], 1), each.labels)
        for each, value in ((fitting, 3.0), (judging, 3.001))
    ]
    assert share(read(*constant, seed=1).probe.right) == 1


def test_the_same_seed_the_same_control_and_another_another():
    fitting, judging = planted(211, 5, seed=1), planted(101, 5, seed=2)
    first, again, other = (read(fitting, judging, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(first.control.right, again.control.right)
    assert torch.equal(first.probe.right, again.probe.right)
    assert not torch.equal(first.control.right, other.control.right)
    assert torch.equal(first.probe.right, other.probe.right)


def test_the_majority_is_that_of_fitting():
    fitting = Labelled(noise(11, 1), torch.tensor([5] * 6 + [3] * 5))
    judging = Labelled(noise(7, 2), torch.tensor([3] * 5 + [5] * 2))
    assert read(fitting, judging, seed=1).majority_right.tolist() == [False] * 5 + [True] * 2


def test_labels_are_numbered_by_their_frequency():
    classes_of = number_classes(torch.tensor([19, 23, 23, 29, 29, 29]))
    assert classes_of(torch.tensor([29, 23, 19, 31])).tolist() == [0, 1, 2, NO_CLASS]


def test_rare_labels_are_one_class(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(probes, "MOST_LABELS", 2)
    labels = torch.tensor([19, 23, 23, 29, 29, 29, 31])
    assert number_classes(labels)(torch.tensor([29, 23, 19, 31, 37])).tolist() == [0, 1, 2, 2, 2]
    reading = read(Labelled(noise(7, 1), labels), Labelled(noise(7, 2), labels), seed=1)
    assert (reading.classes, reading.has_others) == (3, True)


def test_a_label_that_was_never_seen_is_never_right():
    judging = planted(101, 5, seed=2)
    strange = Labelled(judging.states, torch.full_like(judging.labels, 1000))
    reading = read(planted(211, 5, seed=1), strange, seed=1)
    assert not reading.probe.right.any()
    assert not reading.majority_right.any()
    assert not reading.control.right.any()


def test_a_tie_between_strong_penalties_does_not_end_the_search():
    draw = torch.Generator().manual_seed(1)
    rare = (torch.rand(1000, generator=draw) < 0.1).long()
    states = torch.randn(1000, SIZE, generator=draw)
    states[:, 3] += rare  # a little of it can be read, but not by weights that are kept small
    strong = [fit(states[:800], rare[:800], penalty).say(states[800:]).any() for penalty in (1.0, 0.1)]
    assert not any(strong), "both say the majority only"
    assert choose_penalty(states, rare) == 0.01
