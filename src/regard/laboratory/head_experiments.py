"""What heads of attention can compute: copies and averages, of keys that are known and of keys that vary.

    k_i = λ_i μ_i      λ_i ~ N(1, σ), μ orthonormal      q = β μ_a, or β (μ_a + μ_b)      α = softmax(q · k_i / √d)

A key has as many numbers, d, as there are keys. Values are one-hot, so that an output shows what it is made of: its
share of v_a is α_a. The output of several heads is their mean. All of it is from the homework.

Symbols: λ lengths, μ directions. Shapes: lengths [draws, keys]; shares [draws, 3], of v_a, of v_b and of a third value,
which stands for all others: no query is made of their keys, so that they are all alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import sqrt

import torch
from torch import Tensor

from regard.laboratory.worked_examples import memory, scaled_dot
from regard.seeding import seed_for

A, B, OTHER = 0, 1, 2  # keys
Head = tuple[int, ...]  # the keys whose directions, times β, are added up to its query
COPY: tuple[Head, ...] = ((A,),)  # q = β μ_a
ONE_HEAD: tuple[Head, ...] = ((A, B),)  # q = β (μ_a + μ_b)
TWO_HEADS: tuple[Head, ...] = ((A,), (B,))  # q_1 = β μ_a, q_2 = β μ_b

CHUNK = 1_000_000  # numbers in the keys that are in memory at a time


@dataclass(frozen=True)
class HeadExperiment:
    """Heads that are asked, by name, and how; those of the experiment itself come first."""

    name: str
    title: str
    lead: str
    asked: Mapping[str, tuple[Head, ...]]
    sigma: float
    beta: float = 50.0


EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        HeadExperiment(
            "copy",
            "One head copies",
            "A query along one key, q = β μ_a, has v_a for an answer, if it is long enough.",
            {"one head": COPY},
            sigma=0.0,
        ),
        HeadExperiment(
            "average",
            "One head averages",
            "A query between two keys, q = β (μ_a + μ_b), has (v_a + v_b)/2 for an answer, if it is long enough.",
            {"one head": ONE_HEAD},
            sigma=0.0,
        ),
        HeadExperiment(
            "noisy-average",
            "One head cannot average keys that vary",
            "Keys have lengths that vary. The longer of two takes nearly all the weight of a query between them, so "
            "that the output swings from v_a to v_b.",
            {"one head": ONE_HEAD, "two heads": TWO_HEADS},
            sigma=0.1,
        ),
        HeadExperiment(
            "two-heads",
            "Two heads average keys that vary",
            "Keys have lengths that vary. A head of its own copies each of two values, whatever their keys' lengths, "
            "and the mean of both heads holds still.",
            {"two heads": TWO_HEADS, "one head": ONE_HEAD},
            sigma=0.1,
        ),
    )
}


@dataclass(frozen=True)
class Keys:
    """Keys that are drawn any number of times. The same seed gives the same draws, each time that they are asked."""

    count: int
    sigma: float
    draws: int
    seed: int

    def directions(self) -> Tensor:
        """μ, one a row: the same in all draws."""
        numbers = torch.randn(self.count, self.count, generator=self.generator("directions"), dtype=torch.float64)
        return torch.linalg.qr(numbers).Q

    def lengths(self) -> Iterator[Tensor]:
        """λ ~ N(1, σ) of some draws at a time, since a million of them would not fit into memory with their keys."""
        most = CHUNK // self.count**2
        for first in range(0, self.draws, most):
            shape = min(most, self.draws - first), self.count
            yield 1 + self.sigma * torch.randn(shape, generator=self.generator("lengths", first), dtype=torch.float64)

    def generator(self, *purpose: object) -> torch.Generator:
        return torch.Generator().manual_seed(seed_for(self.seed, *purpose))


@dataclass(frozen=True)
class HeadOutcome:
    """What the output of each draw is made of."""

    measured: Tensor
    exact: Tensor  # the closed form
    near: Tensor  # the same without the other keys

    @classmethod
    def of(cls, heads: tuple[Head, ...], beta: float, keys: Keys) -> HeadOutcome:
        directions = keys.directions()
        parts = [
            (
                run_heads(heads, beta, directions, lengths),
                closed_form(heads, beta, lengths),
                closed_form(heads, beta, lengths, others=False),
            )
            for lengths in keys.lengths()
        ]
        return cls(*map(torch.cat, zip(*parts, strict=True)))


def run_heads(heads: tuple[Head, ...], beta: float, directions: Tensor, lengths: Tensor) -> Tensor:
    """The shares in what attention answers: α = softmax(q · k_i / √d), Σ_i α_i v_i, and the mean over heads."""
    same = torch.eye(len(directions), dtype=torch.float64)
    attention = scaled_dot(same, same)  # queries and keys are what they are: W_q = W_k = 1
    queries = beta * torch.stack([directions[list(head)].sum(0) for head in heads])  # [heads, d]
    keys = lengths.unsqueeze(-1) * directions  # [draws, keys, d]
    answers, _ = attention(queries.expand(len(keys), -1, -1), memory(same.expand_as(keys), keys))
    return answers.mean(1)[:, [A, B, OTHER]]


def closed_form(heads: tuple[Head, ...], beta: float, lengths: Tensor, others: bool = True) -> Tensor:
    """α_i = 1 / Σ_j exp(e_j − e_i), with e_j = β λ_j / √d for the keys that the query is made of, and 0 for others.

    Without the others, as if they had no weight, α_a is 1 for a query along μ_a, and sigmoid(β (λ_a − λ_b) / √d) for
    one between μ_a and μ_b.
    """
    count = lengths.shape[1]
    shares = lengths.new_zeros(len(lengths), 3)
    for head in heads:
        scores = torch.zeros_like(lengths)
        scores[:, head] = beta * lengths[:, head] / sqrt(count)
        compared = range(count) if others else head
        for key in {A, B, OTHER} & set(compared):
            shares[:, key] += 1 / (scores[:, compared] - scores[:, [key]]).exp().sum(-1)
    return shares / len(heads)
