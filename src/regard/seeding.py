"""One recorded seed, from which all random numbers of an experiment follow."""

from __future__ import annotations

from random import Random


def seed_for(seed: int, *purpose: object) -> int:
    """A seed of its own for each purpose, such as `seed_for(1, "step", 17)`.

    What happens at a step then depends on the seed and the step alone, not on what was drawn before it.
    """
    return Random("/".join(str(part) for part in (seed, *purpose))).getrandbits(63)
