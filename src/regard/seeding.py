"""Random seeds derived from the one seed that an experiment records."""

from __future__ import annotations

from random import Random


def seed_for(seed: int, *purpose: object) -> int:
    """A separate seed for each purpose, for example `seed_for(1, "step", 17)`.

    The random numbers of a training step then depend on the seed and the step alone, not on how many random numbers
    were drawn before.

    Args:
        seed: The seed of the experiment.
        *purpose: What the random numbers are for; different purposes get independent seeds.

    Returns:
        An integer of 63 bits.
    """
    return Random("/".join(str(part) for part in (seed, *purpose))).getrandbits(63)
