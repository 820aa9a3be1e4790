"""The options of the experiments with heads: their defaults and bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

from regard.errors import UserError
from regard.laboratory.head_experiments import HeadExperiment, Heads, RandomKeys, Subset

MEANS, KEYS = "means", "keys"
MAX_KEYS, MAX_SIZE, MAX_DRAWS, MAX_PARAMETER = 50, 512, 1_000_000, 1e6
MAX_ELEMENTS = 50_000_000  # in the keys of all draws, which bounds the running time


@dataclass(frozen=True)
class HeadOptions:
    """The settings of one run.

    Args:
        scale: s, the factor of the query.
        noise: β, the standard deviation of key lengths.
        orientation_noise: ε, the noise in orientation.
        query_from: "means" (μ_i) or "keys" (the noisy keys k_i): what is summed to a query.
        keys: The number of keys n.
        size: Their size d.
        subset: The values that are averaged.
        draws: The number of draws.
        seed: The seed of the draws.
    """

    scale: float
    noise: float
    orientation_noise: float
    query_from: str
    keys: int
    size: int
    subset: Subset
    draws: int
    seed: int

    @property
    def noisy(self) -> bool:
        """True if draws differ."""
        return bool(self.noise or self.orientation_noise)

    def random_keys(self) -> RandomKeys:
        """The keys of these options; without noise all draws are equal, and there is one."""
        draws = self.draws if self.noisy else 1
        return RandomKeys(self.keys, self.size, self.noise, self.orientation_noise, draws, self.seed)

    def configurations(self, experiment: HeadExperiment) -> dict[str, Heads]:
        """The heads of each configuration by name; with queries from keys, also one head with a query from means.

        Args:
            experiment: The experiment.
        """
        from_keys = self.query_from == KEYS
        found = {
            head_count(len(self.subset)) if each else "one head": Heads.over(self.subset, each, from_keys)
            for each in experiment.one_head_per_value
        }
        if from_keys and len(found) > 1:
            found["one head, query from means"] = Heads.over(self.subset, one_per_value=False)
        return found


def head_count(count: int) -> str:
    """ "two heads", "3 heads", …

    Args:
        count: How many.
    """
    return "two heads" if count == 2 else f"{count} heads"


def head_options(
    experiment: HeadExperiment,
    *,
    scale: float | None = None,
    noise: float | None = None,
    orientation_noise: float = 0.0,
    query_from: str = MEANS,
    keys: int = 5,
    size: int | None = None,
    subset: Sequence[int] | None = None,
    draws: int = 1000,
    seed: int = 1,
) -> HeadOptions:
    """The checked options.

    Args:
        experiment: The experiment.
        scale: s, the factor of the query; None for the experiment's own.
        noise: β, the standard deviation of key lengths; None for the experiment's own.
        orientation_noise: ε, the noise in orientation.
        query_from: "means" or "keys".
        keys: The number of keys.
        size: The size of keys; None for as many as there are keys.
        subset: The values that are averaged, from 1; None for the experiment's own.
        draws: The number of draws.
        seed: The seed of the draws.

    Raises:
        UserError: If an option is out of range.
    """
    scale = experiment.scale if scale is None else scale
    noise = experiment.noise if noise is None else noise
    for option, value in (("--scale", scale), ("--noise", noise), ("--orientation-noise", orientation_noise)):
        if not (isfinite(value) and 0 <= value <= MAX_PARAMETER):
            raise UserError(f"{option} is {value:g}; it can be from 0 to {MAX_PARAMETER:,.0f}")
    if query_from not in (MEANS, KEYS):
        raise UserError(f"--query-from is '{query_from}'; it can be {MEANS} or {KEYS}")
    if seed < 0:
        raise UserError(f"--seed is {seed}; it can be 0 or more")
    size = _check_key_size(keys, size, draws)
    chosen = experiment.subset if subset is None else _check_subset(experiment, subset, keys)
    return HeadOptions(scale, noise, orientation_noise, query_from, keys, size, chosen, draws, seed)


def _check_key_size(keys: int, size: int | None, draws: int) -> int:
    """The size of keys, if there can be so many of this size and so many draws."""
    if not 2 <= keys <= MAX_KEYS:
        raise UserError(f"--keys is {keys:,}; it can be from 2 to {MAX_KEYS}")
    size = keys if size is None else size
    if not 1 <= size <= MAX_SIZE:
        raise UserError(f"--size is {size:,}; it can be from {keys}, the number of keys, to {MAX_SIZE}")
    if size < keys:
        raise UserError(
            f"--keys is {keys}, but --size is {size}: no more than {size} vectors of size {size} are orthonormal; "
            f"choose a size of {keys} or more, or {size} keys or fewer"
        )
    cost = keys * size * max(1, size // MAX_KEYS)  # projections of large keys take longer
    max_draws = min(MAX_DRAWS, MAX_ELEMENTS // cost)
    if not 1 <= draws <= max_draws:
        raise UserError(f"--draws is {draws:,}; for {keys} keys of size {size} it can be from 1 to {max_draws:,}")
    return size


def _check_subset(experiment: HeadExperiment, subset: Sequence[int], keys: int) -> Subset:
    """The indices from 0."""
    for value in subset:
        if not 1 <= value <= keys:
            raise UserError(f"--subset has {value}; the values are 1 to {keys}, one for each key")
        if subset.count(value) > 1:
            raise UserError(f"--subset has {value} more than once; every value can be in it once, such as 1,2")
    if len(experiment.subset) == 1 and len(subset) != 1:
        raise UserError(f"--subset has {len(subset)} values; `{experiment.name}` needs one, such as 2")
    if len(experiment.subset) > 1 and len(subset) < 2:
        raise UserError(
            f"--subset has one value; `{experiment.name}` needs two or more, such as 1,2 (`copy` is for one value)"
        )
    return tuple(value - 1 for value in subset)
