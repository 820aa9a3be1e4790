"""Linear probes: how well a label can be told by a linear map, and how much that means.

    p(label | x) = softmax(W x̂ + b)        x̂ = (x − mean) / deviation, those of the states that it is fitted on

A probe is fitted on some states and judged on others. Beside its accuracy stand two more: that of always saying the
most frequent label (`majority`), and that of an equal probe whose labels were shuffled (`control`), of which nothing
can be learned but by heart.

Shapes: states [states, size]; labels, and the classes that they are numbered by, [states].
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, linear

from regard.laboratory.states import States
from regard.seeding import seed_for

MOST_LABELS = 100  # that have a class of their own; all others are one class together
NO_CLASS = -1  # of a label that was never seen in fitting: no probe can say it
PENALTIES = (1.0, 1e-1, 1e-2, 1e-3, 1e-4)  # of large weights
ITERATIONS = 60  # at most
FEWEST_FITTED, FEWEST_JUDGED = 100, 30  # with fewer states an accuracy would say nothing


@dataclass(frozen=True)
class Labelled:
    """States, and what is to be read from each."""

    states: Tensor
    labels: Tensor

    def shuffled(self, seed: int) -> Labelled:
        """The same states and the same labels, but no longer each other's."""
        order = torch.randperm(len(self.labels), generator=torch.Generator().manual_seed(seed))
        return Labelled(self.states, self.labels[order])


@dataclass(frozen=True)
class Probe:
    """A softmax over classes, linear in the state."""

    mean: Tensor  # [size]
    deviation: Tensor  # [size]
    weight: Tensor  # [classes, size]
    bias: Tensor  # [classes]

    def say(self, states: Tensor) -> Tensor:
        """The likeliest class of each state."""
        return linear((states - self.mean) / self.deviation, self.weight, self.bias).argmax(-1)


def fit(states: Tensor, classes: Tensor, penalty: float) -> Probe:
    """W and b with the least mean of −log p(class | x), plus penalty/2 · Σ W².

    This has one minimum. The way to it begins at zero and, where weights are hardly penalised, ends before it, after
    ITERATIONS: what is read is then a little less than could be.
    """
    deviation, mean = torch.std_mean(states, 0)
    deviation = torch.where(deviation > 1e-6, deviation, 1.0)  # what all states share is not to be blown up
    scaled, count = (states - mean) / deviation, int(classes.max()) + 1
    weight = torch.zeros(count, states.shape[1], requires_grad=True)
    bias = torch.zeros(count, requires_grad=True)
    optimiser = torch.optim.LBFGS([weight, bias], max_iter=ITERATIONS, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimiser.zero_grad()
        value = cross_entropy(linear(scaled, weight, bias), classes) + penalty / 2 * weight.square().sum()
        value.backward()
        return value

    optimiser.step(loss)
    return Probe(mean, deviation, weight.detach(), bias.detach())


def choose_penalty(states: Tensor, classes: Tensor) -> float:
    """That of PENALTIES under which a probe does best on the last fifth of the states, fitted on the others.

    From the strongest to the weakest, until it does harm: where little can be read, a weak one learns by heart.
    """
    part, best, chosen = len(states) * 4 // 5, -1, PENALTIES[0]
    for penalty in PENALTIES:
        said = fit(states[:part], classes[:part], penalty).say(states[part:])
        right = int((said == classes[part:]).sum())
        if right < best:
            break
        if right > best:
            best, chosen = right, penalty
    return chosen


def number_classes(labels: Tensor) -> Callable[[Tensor], Tensor]:
    """From labels to classes 0, 1, …, the most frequent of `labels` first; behind MOST_LABELS comes one for the rest.

    Where there is no rest, a label that is not among `labels` has NO_CLASS.
    """
    known, counts = labels.unique(return_counts=True)
    kept = known[counts.argsort(descending=True, stable=True)[:MOST_LABELS]]
    otherwise = len(kept) if len(kept) < len(known) else NO_CLASS

    def classes_of(some: Tensor) -> Tensor:
        same = some.unsqueeze(1) == kept  # [states, classes]
        return torch.where(same.any(1), same.int().argmax(1), otherwise)

    return classes_of


@dataclass(frozen=True)
class Trial:
    """How one probe did."""

    right: Tensor  # [judged states]; True: it says the right class
    in_fitting: float  # its accuracy on the states that it was fitted on


@dataclass(frozen=True)
class ProbeResult:
    """What can be read of a label: how a probe did, with that to hold it against."""

    classes: int
    has_others: bool  # is one class that of all rarer labels?
    fitted: int  # states
    judged: int
    penalty: float
    probe: Trial
    control: Trial
    majority_right: Tensor  # [judged states]


def read(fitting: Labelled, judging: Labelled, seed: int) -> ProbeResult:
    """Fit a probe and, just so, another on shuffled labels, and judge both."""
    classes_of = number_classes(fitting.labels)
    fitting = Labelled(fitting.states, classes_of(fitting.labels))
    judging = Labelled(judging.states, classes_of(judging.labels))
    frequencies, penalty = fitting.labels.bincount(), choose_penalty(fitting.states, fitting.labels)
    shuffled = fitting.shuffled(seed_for(seed, "fitting")), judging.shuffled(seed_for(seed, "judging"))
    return ProbeResult(
        classes=len(frequencies),
        has_others=len(frequencies) > MOST_LABELS,
        fitted=len(fitting.labels),
        judged=len(judging.labels),
        penalty=penalty,
        probe=_try(fitting, judging, penalty),
        control=_try(*shuffled, penalty),
        majority_right=judging.labels == frequencies.argmax(),
    )


def _try(fitting: Labelled, judging: Labelled, penalty: float) -> Trial:
    probe = fit(fitting.states, fitting.labels, penalty)
    return Trial(
        right=probe.say(judging.states) == judging.labels,
        in_fitting=float((probe.say(fitting.states) == fitting.labels).float().mean()),
    )


@dataclass(frozen=True)
class ProbedSentence:
    """What there is to know of a source."""

    tokens: Sequence[str]  # as the encoder reads them, the end included
    prompt: str | None
    content: Sequence[str]  # the tokens but for prompt and end


@dataclass(frozen=True)
class ProbeData:
    """Sentences, and the states that a model has while it reads them."""

    sentences: Sequence[ProbedSentence]
    states: Mapping[str, States]


@dataclass(frozen=True)
class ProbeTarget:
    """What is to be read from states of a kind: a label for each, given its sentence and its place there, or None."""

    kind: str
    what: str
    label: Callable[[ProbedSentence, int], Hashable]
    k: int | None = None  # it is about the k-th token of the content


@dataclass(frozen=True)
class Finding:
    """How well a question can be answered."""

    question: ProbeTarget
    reading: ProbeResult
    lengths: Tensor  # [judged]: of the content of each judged state's sentence

    @property
    def right(self) -> Tensor:
        """Were probe, majority and control right? [judged, 3]."""
        return torch.stack([self.reading.probe.right, self.reading.majority_right, self.reading.control.right], 1)


def run_probe(question: ProbeTarget, fitting: ProbeData, judging: ProbeData, seed: int) -> Finding | str:
    """Fit a probe and judge it; where there is no sense in that, say why not."""
    numbers: dict[Hashable, int] = {}
    to_fit, _ = _label(question, fitting, numbers)
    to_judge, lengths = _label(question, judging, numbers)
    for labelled, fewest, purpose in ((to_fit, FEWEST_FITTED, "fit"), (to_judge, FEWEST_JUDGED, "judge")):
        if len(labelled.labels) < fewest:
            return f"fewer than {fewest} states to {purpose} a probe on"
    if len(to_fit.labels.unique()) == 1:
        return "the same in all states to fit a probe on"
    return Finding(question, read(to_fit, to_judge, seed), lengths)


def _label(question: ProbeTarget, material: ProbeData, numbers: dict[Hashable, int]) -> tuple[Labelled, Tensor]:
    """The states that have a label, which is numbered as it comes up, and how long the sentence of each is."""
    states = material.states[question.kind]
    rows, labels, lengths = [], [], []
    for row, (number, place) in enumerate(zip(states.sentences.tolist(), states.places.tolist(), strict=True)):
        sentence = material.sentences[number]
        label = question.label(sentence, place)
        if label is not None:
            rows.append(row)
            labels.append(numbers.setdefault(label, len(numbers)))
            lengths.append(len(sentence.content))
    return Labelled(states.vectors[rows], torch.tensor(labels)), torch.tensor(lengths)
