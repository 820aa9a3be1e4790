"""Search drives any decoder through `start`, `step` and `select`, and knows nothing of its kind."""

from regard.search.greedy import greedy
from regard.search.hypothesis import Hypothesis

__all__ = ["Hypothesis", "greedy"]
