"""Search drives any decoder through `start`, `step` and `select`, and knows nothing of its kind."""

from regard.search.chances import Chances, Ensemble
from regard.search.choosing import Beam, Choice, Chooser, Sampling
from regard.search.finding import Found, Question, find
from regard.search.hypothesis import Hypothesis
from regard.search.rules import Rules
from regard.search.settings import GREEDY, Search
from regard.search.tree import Node, WatchedBeam, grow

__all__ = [
    "GREEDY",
    "Beam",
    "Chances",
    "Choice",
    "Chooser",
    "Ensemble",
    "Found",
    "Hypothesis",
    "Node",
    "Question",
    "Rules",
    "Sampling",
    "Search",
    "WatchedBeam",
    "find",
    "grow",
]
