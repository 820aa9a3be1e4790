"""Greedy search, beam search and sampling over any decoder, through its `start`, `step` and `select`.

Names are imported when they are first used: `regard.search.options` must not import torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.search.beam import Beam, SearchBatch, SearchResult, SearchStopped, search
    from regard.search.constraints import Constraints
    from regard.search.hypothesis import Hypothesis
    from regard.search.log_probs import Ensemble, LogProbs
    from regard.search.options import GREEDY, SearchOptions
    from regard.search.options import SearchOptions as Search
    from regard.search.sampling import Sampling
    from regard.search.selection import Selection, Selector
    from regard.search.tree import BeamNode, RecordingBeam, build_tree

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
MODULES = {
    "beam": ("Beam", "SearchBatch", "SearchResult", "SearchStopped", "search"),
    "constraints": ("Constraints",),
    "hypothesis": ("Hypothesis",),
    "log_probs": ("Ensemble", "LogProbs"),
    "options": ("GREEDY", "SearchOptions"),
    "sampling": ("Sampling",),
    "selection": ("Selection", "Selector"),
    "tree": ("BeamNode", "RecordingBeam", "build_tree"),
}
MODULE_OF = {name: module for module, names in MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name == "Search":  # the public alias, `regard.Search`
        name = "SearchOptions"
    if name not in MODULE_OF:
        raise AttributeError(f"module 'regard.search' has no attribute '{name}'")
    return getattr(import_module(f"regard.search.{MODULE_OF[name]}"), name)
