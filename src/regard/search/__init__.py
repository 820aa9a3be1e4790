"""Search drives any decoder through `start`, `step` and `select`, and knows nothing of its kind."""

from regard.search.beam import SearchBatch, SearchResult, SearchStopped, search
from regard.search.constraints import Constraints
from regard.search.hypothesis import Hypothesis
from regard.search.log_probs import Ensemble, LogProbs
from regard.search.options import GREEDY, SearchOptions
from regard.search.selection import Beam, Sampling, Selection, Selector
from regard.search.tree import BeamNode, RecordingBeam, build_tree

Search = SearchOptions  # the public name, `regard.Search`

__all__ = [
    "GREEDY",
    "Beam",
    "BeamNode",
    "Constraints",
    "Ensemble",
    "Hypothesis",
    "LogProbs",
    "RecordingBeam",
    "Sampling",
    "Search",
    "SearchBatch",
    "SearchOptions",
    "SearchResult",
    "SearchStopped",
    "Selection",
    "Selector",
    "build_tree",
    "search",
]
