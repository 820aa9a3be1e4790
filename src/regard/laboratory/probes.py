"""Linear probes: how accurately a linear classifier predicts a label from a hidden state.

    p(label | x) = softmax(W x̂ + b)        x̂ = (x − mean) / deviation, over the training states

A probe is trained on some states and tested on others. Two baselines give its accuracy a meaning: the most frequent
training label (`majority`), and the same probe trained and tested on shuffled labels (`control`, the control task of
Hewitt and Liang, 2019), which can only memorize.

Shapes: states [states, size]; labels and class indices [states].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, linear

from regard.seeding import seed_for

MAX_LABELS = 100  # with a class of their own; all other labels share one class
NO_CLASS = -1  # of a label that does not occur in training: no probe predicts it
PENALTIES = (1.0, 1e-1, 1e-2, 1e-3, 1e-4)  # L2, from strong to weak
ITERATIONS = 60  # of L-BFGS, at most


@dataclass(frozen=True)
class LabeledStates:
    """States with one label each.

    Args:
        states: The states [states, size].
        labels: The labels, or class indices [states].
    """

    states: Tensor
    labels: Tensor

    def shuffled(self, seed: int) -> LabeledStates:
        """The same states with the same labels in random order.

        Args:
            seed: The seed of the order; it is drawn on the CPU, so it is equal on all devices.
        """
        order = torch.randperm(len(self.labels), generator=torch.Generator("cpu").manual_seed(seed), device="cpu")
        return LabeledStates(self.states, self.labels[order.to(self.labels.device)])


@dataclass(frozen=True)
class LinearProbe:
    """A linear softmax classifier of standardized states.

    Args:
        mean: The mean of the training states [size].
        deviation: Their standard deviation [size].
        weight: W [classes, size].
        bias: b [classes].
    """

    mean: Tensor
    deviation: Tensor
    weight: Tensor
    bias: Tensor

    def predict(self, states: Tensor) -> Tensor:
        """The most likely class of each state [states].

        Args:
            states: The states [states, size].
        """
        return linear((states - self.mean) / self.deviation, self.weight, self.bias).argmax(-1)


def fit_probe(states: Tensor, classes: Tensor, penalty: float) -> LinearProbe:
    """The probe that minimizes the mean of −log p(class | x) plus penalty/2 · Σ W².

    The objective is convex. L-BFGS starts from zero and stops after `ITERATIONS`; with a weak penalty that is before
    the minimum, and the accuracy is then a little below the best possible.

    Args:
        states: The training states [states, size].
        classes: Their class indices [states].
        penalty: The L2 penalty.
    """
    deviation, mean = torch.std_mean(states, 0)
    deviation = deviation.masked_fill(deviation <= 1e-6, 1.0)  # do not amplify constant features
    scaled, count = (states - mean) / deviation, int(classes.max()) + 1
    weight = states.new_zeros(count, states.shape[1], requires_grad=True)
    bias = states.new_zeros(count, requires_grad=True)
    optimizer = torch.optim.LBFGS([weight, bias], max_iter=ITERATIONS, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        value = cross_entropy(linear(scaled, weight, bias), classes) + penalty / 2 * weight.square().sum()
        value.backward()
        return value

    optimizer.step(loss)
    return LinearProbe(mean, deviation, weight.detach(), bias.detach())


def select_penalty(states: Tensor, classes: Tensor) -> float:
    """The penalty with the highest accuracy on the last fifth of the states, trained on the others.

    Penalties are tried from strong to weak until the accuracy falls; a weaker one would overfit further.

    Args:
        states: The training states [states, size].
        classes: Their class indices [states].
    """
    split, best, selected = len(states) * 4 // 5, -1, PENALTIES[0]
    for penalty in PENALTIES:
        predicted = fit_probe(states[:split], classes[:split], penalty).predict(states[split:])
        correct = int((predicted == classes[split:]).sum())
        if correct < best:
            break
        if correct > best:
            best, selected = correct, penalty
    return selected


def class_mapping(labels: Tensor) -> Callable[[Tensor], Tensor]:
    """A function from labels to class indices, the most frequent label first.

    At most `MAX_LABELS` labels have a class of their own; one more class is shared by the rest. If there is no rest, a
    label that is not among `labels` is mapped to `NO_CLASS`.

    Args:
        labels: The training labels [states].
    """
    known, counts = labels.unique(return_counts=True)
    kept = known[counts.argsort(descending=True, stable=True)[:MAX_LABELS]]
    other = len(kept) if len(kept) < len(known) else NO_CLASS

    def to_classes(some: Tensor) -> Tensor:
        same = some.unsqueeze(1) == kept  # [states, classes]
        return same.int().argmax(1).masked_fill(~same.any(1), other)

    return to_classes


@dataclass(frozen=True)
class ProbeScore:
    """The predictions of one trained probe.

    Args:
        correct: True where the predicted class is right [test states].
        train_accuracy: The accuracy on the training states.
    """

    correct: Tensor
    train_accuracy: float


@dataclass(frozen=True)
class ProbeEvaluation:
    """A probe with its baselines.

    Args:
        classes: The number of classes.
        has_other_class: True if one class is shared by all rarer labels.
        train_states: The number of training states.
        test_states: The number of test states.
        penalty: The selected L2 penalty.
        probe: The probe.
        control: The same probe on shuffled labels.
        majority_correct: True where the most frequent training label is right [test states].
    """

    classes: int
    has_other_class: bool
    train_states: int
    test_states: int
    penalty: float
    probe: ProbeScore
    control: ProbeScore
    majority_correct: Tensor


def evaluate_probe(train: LabeledStates, test: LabeledStates, seed: int) -> ProbeEvaluation:
    """Train a probe and its control on the training states and test both.

    Args:
        train: The training states.
        test: The test states.
        seed: The seed of the shuffled labels.
    """
    to_classes = class_mapping(train.labels)
    train = LabeledStates(train.states, to_classes(train.labels))
    test = LabeledStates(test.states, to_classes(test.labels))
    frequencies, penalty = train.labels.bincount(), select_penalty(train.states, train.labels)
    shuffled = train.shuffled(seed_for(seed, "fitting")), test.shuffled(seed_for(seed, "judging"))
    return ProbeEvaluation(
        classes=len(frequencies),
        has_other_class=len(frequencies) > MAX_LABELS,
        train_states=len(train.labels),
        test_states=len(test.labels),
        penalty=penalty,
        probe=_train_and_test(train, test, penalty),
        control=_train_and_test(*shuffled, penalty),
        majority_correct=test.labels == frequencies.argmax(),
    )


def _train_and_test(train: LabeledStates, test: LabeledStates, penalty: float) -> ProbeScore:
    probe = fit_probe(train.states, train.labels, penalty)
    return ProbeScore(
        correct=probe.predict(test.states) == test.labels,
        train_accuracy=float((probe.predict(train.states) == train.labels).float().mean()),
    )
