"""What attention heads can compute: copies and averages of values, with fixed keys and with keys of random length.

    k_i = λ_i μ_i      λ_i ~ N(1, σ), μ orthonormal      q = β μ_a, or β (μ_a + μ_b)      α = softmax(q · k_i / √d)

There are d keys of size d. Values are one-hot, so the output shows its composition: its share of v_a is α_a. The output
of several heads is their mean. The experiments follow the CS224n-style homework (docs/sources.md).

Symbols: λ lengths, μ directions. Shapes: lengths [draws, keys]; shares [draws, 3], of v_a, of v_b and of a third value
that represents all others: no query contains their directions, so all have the same weight.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import sqrt

import torch
from torch import Tensor

from regard.laboratory.attention_by_hand import scaled_dot_attention, unmasked_memory
from regard.seeding import seed_for

A, B, OTHER = 0, 1, 2  # indices of keys
Head = tuple[int, ...]  # the keys whose directions, times β, are summed to its query
COPY: tuple[Head, ...] = ((A,),)  # q = β μ_a
ONE_HEAD: tuple[Head, ...] = ((A, B),)  # q = β (μ_a + μ_b)
TWO_HEADS: tuple[Head, ...] = ((A,), (B,))  # q_1 = β μ_a, q_2 = β μ_b

MAX_CHUNK = 1_000_000  # elements of keys in memory at a time


@dataclass(frozen=True)
class HeadExperiment:
    """An experiment with its default settings.

    Args:
        name: The name of its command.
        title: The title of its report.
        lead: What it shows.
        configurations: The heads of each configuration by name; the experiment's own comes first.
        sigma: The default σ.
        beta: The default β.
    """

    name: str
    title: str
    lead: str
    configurations: Mapping[str, tuple[Head, ...]]
    sigma: float
    beta: float = 50.0


EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        HeadExperiment(
            "copy",
            "One head copies",
            "With a query along one key, q = β μ_a, the output is v_a, if β is large enough.",
            {"one head": COPY},
            sigma=0.0,
        ),
        HeadExperiment(
            "average",
            "One head averages",
            "With a query between two keys, q = β (μ_a + μ_b), the output is (v_a + v_b)/2, if β is large enough.",
            {"one head": ONE_HEAD},
            sigma=0.0,
        ),
        HeadExperiment(
            "noisy-average",
            "One head cannot average keys of random length",
            "Keys have random lengths. With a query between two keys, the longer key gets nearly all the weight, so "
            "the output alternates between v_a and v_b.",
            {"one head": ONE_HEAD, "two heads": TWO_HEADS},
            sigma=0.1,
        ),
        HeadExperiment(
            "two-heads",
            "Two heads average keys of random length",
            "Keys have random lengths. Each of two heads copies one value, whatever the length of its key, and the "
            "mean of both heads is stable.",
            {"two heads": TWO_HEADS, "one head": ONE_HEAD},
            sigma=0.1,
        ),
    )
}


@dataclass(frozen=True)
class RandomKeys:
    """Keys with fixed directions and random lengths; each iteration repeats the same draws.

    Args:
        count: The number of keys, which is also their size d.
        sigma: The standard deviation of the lengths.
        draws: The number of draws.
        seed: The seed.
    """

    count: int
    sigma: float
    draws: int
    seed: int

    def directions(self) -> Tensor:
        """μ, one per row, the same in all draws: [keys, d]."""
        shape = self.count, self.count
        return torch.linalg.qr(self._normal(shape, "directions")).Q

    def lengths(self) -> Iterator[Tensor]:
        """λ ~ N(1, σ) in chunks [draws, keys], because the keys of all draws may not fit into memory."""
        chunk = MAX_CHUNK // self.count**2
        for first in range(0, self.draws, chunk):
            shape = min(chunk, self.draws - first), self.count
            yield 1 + self.sigma * self._normal(shape, "lengths", first)

    def _normal(self, shape: tuple[int, int], *purpose: object) -> Tensor:
        generator = torch.Generator("cpu").manual_seed(seed_for(self.seed, *purpose))
        return torch.randn(shape, generator=generator, dtype=torch.float64, device="cpu")


@dataclass(frozen=True)
class HeadShares:
    """The shares of the values in the output of each draw [draws, 3].

    Args:
        measured: Computed by attention.
        exact: The closed form.
        approximate: The closed form without the other keys.
    """

    measured: Tensor
    exact: Tensor
    approximate: Tensor

    @classmethod
    def of_heads(cls, heads: tuple[Head, ...], beta: float, keys: RandomKeys) -> HeadShares:
        """Run the heads on all draws.

        Args:
            heads: The heads.
            beta: β.
            keys: The keys.
        """
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
    """The shares computed by attention: α = softmax(q · k_i / √d), Σ_i α_i v_i, and the mean over heads [draws, 3].

    Args:
        heads: The heads.
        beta: β.
        directions: μ [keys, d].
        lengths: λ [draws, keys].
    """
    identity = torch.eye(len(directions), dtype=directions.dtype, device=directions.device)
    attention = scaled_dot_attention(identity, identity)  # W_q = W_k = 1: queries and keys are used as given
    queries = beta * torch.stack([directions[list(head)].sum(0) for head in heads])  # [heads, d]
    keys = lengths.unsqueeze(-1) * directions  # [draws, keys, d]
    memory = unmasked_memory(identity.expand_as(keys), keys)
    outputs, _ = attention(queries.expand(len(keys), -1, -1), memory)
    return outputs.mean(1)[:, [A, B, OTHER]]


def closed_form(heads: tuple[Head, ...], beta: float, lengths: Tensor, others: bool = True) -> Tensor:
    """α_i = 1 / Σ_j exp(e_j − e_i), with e_j = β λ_j / √d for the keys in the query and 0 for others: [draws, 3].

    Without the others, α_a is 1 for a query along μ_a, and sigmoid(β (λ_a − λ_b) / √d) for one between μ_a and μ_b.

    Args:
        heads: The heads.
        beta: β.
        lengths: λ [draws, keys].
        others: Include the keys that are not in the query.
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
