"""What attention heads can compute: copies and averages of values, with fixed keys and with noisy keys.

    k_i = λ_i μ_i + ε n_i      λ_i ~ N(1, β²), n_i ~ N(0, I/d), μ orthonormal
    q = s Σ_{i∈S} μ_i, or s Σ_{i∈S} k_i      α = softmax(q · k_i / √d)

β is the standard deviation of the lengths. The noise ε n_i has an expected squared length of ε² and changes the
orientation of a key. There are n keys of size d ≥ n. Values are one-hot, so the output shows its composition: its share
of v_i is α_i. The output of several heads is their mean. The experiments follow the CS224n-style homework
(docs/sources.md), whose β is the same.

Symbols: λ lengths, μ means (unit vectors), s scale, S subset. Shapes: lengths [draws, keys]; keys [draws, keys, d];
weights [draws, keys]; shares [draws, subset + 1], of the values in the subset and the mean share of all others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt

import torch
from torch import Tensor

from regard.laboratory.attention_by_hand import scaled_dot_attention, unmasked_memory
from regard.seeding import seed_for

Subset = tuple[int, ...]  # indices of keys, from 0

MAX_CHUNK = 1_000_000  # elements of keys in memory at a time


@dataclass(frozen=True)
class HeadExperiment:
    """An experiment with its default settings.

    Args:
        name: The name of its command.
        title: The title of its report, with a place for `heads`.
        lead: What it shows, with places for `query`, `queries`, `average` and `values`.
        one_head_per_value: For each configuration whether every value of the subset has a head of its own, which copies
            it, or one head averages all of them; the experiment's own configuration comes first.
        noise: The default β.
        subset: The default subset.
        scale: The default s.
    """

    name: str
    title: str
    lead: str
    one_head_per_value: tuple[bool, ...] = (False,)
    noise: float = 0.0
    subset: Subset = (0, 1)
    scale: float = 50.0


EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        HeadExperiment(
            "copy",
            "One head copies",
            "With a query along one key, {query}, the output is {average}, if s is large enough.",
            subset=(0,),
        ),
        HeadExperiment(
            "average",
            "One head averages",
            "With a query between keys, {query}, the output is {average}, if s is large enough.",
        ),
        HeadExperiment(
            "noisy-average",
            "One head cannot average keys of random length",
            "Keys have random lengths. With a long query between keys, {query}, the longest of them gets nearly all "
            "the weight, so the output alternates between {values}.",
            one_head_per_value=(False, True),
            noise=0.1,
        ),
        HeadExperiment(
            "two-heads",
            "{heads} average keys of random length",
            "Keys have random lengths. Each head copies one value, whatever the length of its key, and the mean of all "
            "heads is stable. The CS224n-style homework gives no queries; {queries} are ours.",
            one_head_per_value=(True, False),
            noise=0.1,
        ),
    )
}


@dataclass(frozen=True)
class RandomKeys:
    """Keys with fixed means, random lengths and random orientations; each iteration repeats the same draws.

    Args:
        count: The number of keys n.
        size: Their size d, at least n.
        noise: β, the standard deviation of the lengths.
        orientation_noise: ε, the root mean squared length of the noise in orientation.
        draws: The number of draws.
        seed: The seed.
    """

    count: int
    size: int
    noise: float
    orientation_noise: float
    draws: int
    seed: int

    def means(self) -> Tensor:
        """μ, one per row, the same in all draws: [keys, d]."""
        return torch.linalg.qr(self._normal((self.size, self.count), "directions")).Q.mT

    def lengths(self) -> Iterator[Tensor]:
        """λ ~ N(1, β²) in chunks [draws, keys], because the keys of all draws may not fit into memory."""
        chunk = MAX_CHUNK // (self.count * self.size)
        for first in range(0, self.draws, chunk):
            shape = min(chunk, self.draws - first), self.count
            yield 1 + self.noise * self._normal(shape, "lengths", first)

    def noisy_keys(self) -> Iterator[tuple[Tensor, Tensor]]:
        """λ [draws, keys] and k_i = λ_i μ_i + ε n_i [draws, keys, d] in the same chunks."""
        means = self.means()
        for chunk, lengths in enumerate(self.lengths()):
            keys = lengths.unsqueeze(-1) * means
            if self.orientation_noise:
                deviation = self.orientation_noise / sqrt(self.size)
                keys += deviation * self._normal(tuple(keys.shape), "orientations", chunk)
            yield lengths, keys

    def _normal(self, shape: tuple[int, ...], *purpose: object) -> Tensor:
        generator = torch.Generator("cpu").manual_seed(seed_for(self.seed, *purpose))
        return torch.randn(shape, generator=generator, dtype=torch.float64, device="cpu")


@dataclass(frozen=True)
class Heads:
    """Heads whose outputs are averaged.

    Args:
        keys: For each head the keys whose means are summed to its query.
        from_keys: Sum the noisy keys themselves in place of their means.
    """

    keys: tuple[Subset, ...]
    from_keys: bool = False

    @classmethod
    def over(cls, subset: Subset, one_per_value: bool, from_keys: bool = False) -> Heads:
        """One head for the whole subset, or one for each of its values.

        Args:
            subset: The keys.
            one_per_value: Each value has a head of its own.
            from_keys: Queries are made of noisy keys.
        """
        return cls(tuple((key,) for key in subset) if one_per_value else (subset,), from_keys)

    def queries(self, scale: float, means: Tensor, keys: Tensor) -> Tensor:
        """q = s Σ_{i∈S} μ_i, or s Σ_{i∈S} k_i, of each head: [draws, heads, d].

        Args:
            scale: s.
            means: μ [keys, d].
            keys: k [draws, keys, d].
        """
        summed = keys if self.from_keys else means.unsqueeze(0)
        queries = scale * torch.stack([summed[:, list(head)].sum(1) for head in self.keys], 1)
        return queries.expand(len(keys), -1, -1)

    def run(self, scale: float, means: Tensor, keys: Tensor) -> Tensor:
        """The weights computed by attention: Σ_i α_i v_i with one-hot values, and the mean over heads [draws, keys].

        Args:
            scale: s.
            means: μ [keys, d].
            keys: k [draws, keys, d].
        """
        draws, count, size = keys.shape
        identity = torch.eye(size, dtype=keys.dtype, device=keys.device)
        attention = scaled_dot_attention(identity, identity)  # W_q = W_k = 1: queries and keys are used as given
        memory = unmasked_memory(identity[:count, :count].expand(draws, -1, -1), keys)
        outputs, _ = attention(self.queries(scale, means, keys), memory)
        return outputs.mean(1)

    def closed_form(self, scale: float, lengths: Tensor, size: int, others: bool = True) -> Tensor:
        """α_i = 1 / Σ_j exp(e_j − e_i) without noise in orientation, and the mean over heads [draws, keys].

        e_j = s λ_j / √d for the keys in the query, 0 for others; a query of noisy keys has s λ_j² / √d. Without the
        others, α_a is 1 for a query along μ_a, and sigmoid(s (λ_a − λ_b) / √d) for one between μ_a and μ_b.

        Args:
            scale: s.
            lengths: λ [draws, keys].
            size: d.
            others: Include the keys that are not in the query.
        """
        weights = torch.zeros_like(lengths)
        for head in map(list, self.keys):
            scores = torch.zeros_like(lengths)
            scores[:, head] = scale * lengths[:, head] ** (2 if self.from_keys else 1) / sqrt(size)
            compared = list(range(lengths.shape[1])) if others else head
            scores = scores[:, compared]
            weights[:, compared] += 1 / (scores.unsqueeze(1) - scores.unsqueeze(2)).exp().sum(-1)
        return weights / len(self.keys)


def subset_shares(weights: Tensor, subset: Subset) -> Tensor:
    """The shares of the values in the subset, and the mean share of the others, if there are any: [draws, shares].

    Args:
        weights: Of all values [draws, keys].
        subset: The values of interest.
    """
    others = [key for key in range(weights.shape[1]) if key not in subset]
    chosen = weights[:, list(subset)]
    return torch.cat([chosen, weights[:, others].mean(1, keepdim=True)], 1) if others else chosen


@dataclass(frozen=True)
class HeadShares:
    """The shares of the values in the output of each draw [draws, shares].

    Args:
        measured: Computed by attention.
        exact: The closed form; None with noise in orientation, for which there is none.
        approximate: The closed form without the other keys; None if there is no closed form.
    """

    measured: Tensor
    exact: Tensor | None
    approximate: Tensor | None

    @classmethod
    def of_heads(cls, heads: Heads, scale: float, keys: RandomKeys, subset: Subset) -> HeadShares:
        """Run the heads on all draws.

        Args:
            heads: The heads.
            scale: s.
            keys: The keys.
            subset: The values whose shares are returned.
        """
        means = keys.means()
        measured = torch.cat([subset_shares(heads.run(scale, means, each), subset) for _, each in keys.noisy_keys()])
        if keys.orientation_noise:
            return cls(measured, None, None)
        exact, approximate = (
            torch.cat(
                [subset_shares(heads.closed_form(scale, each, keys.size, others), subset) for each in keys.lengths()]
            )
            for others in (True, False)
        )
        return cls(measured, exact, approximate)


@dataclass(frozen=True)
class ShareSummary:
    """The shares of the values in the subset and the mean share of the others, over all draws.

    Args:
        mean: The mean of each share.
        std: Its standard deviation.
        min: Its minimum.
        max: Its maximum.
        closed_form: The mean of its closed form; None if there is none, as for the errors.
        max_error: The largest difference from the closed form, of any share in any draw.
        max_error_without_others: The same for the closed form without the other keys.
    """

    mean: list[float]
    std: list[float]
    min: list[float]
    max: list[float]
    closed_form: list[float] | None
    max_error: float | None
    max_error_without_others: float | None

    @classmethod
    def of_shares(cls, found: HeadShares) -> ShareSummary:
        """Summarize all draws.

        Args:
            found: The shares of each draw.
        """
        shares, exact, approximate = found.measured, found.exact, found.approximate
        return cls(
            mean=shares.mean(0).tolist(),
            std=shares.std(0, correction=0).tolist(),
            min=shares.amin(0).tolist(),
            max=shares.amax(0).tolist(),
            closed_form=None if exact is None else exact.mean(0).tolist(),
            max_error=None if exact is None else (shares - exact).abs().max().item(),
            max_error_without_others=None if approximate is None else (shares - approximate).abs().max().item(),
        )
