"""Regard: sequence-to-sequence learning with attention: train, translate and inspect.

    import regard
    translation, = regard.load("runs/case").translate(["<U> I am a student"])
    translation.text, translation.attention.shape

`regard.nn` has every mechanism, cell, encoder and decoder as an ordinary `torch.nn.Module`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard import nn
    from regard.evaluation.evaluator import evaluate
    from regard.inference.translation import Score, Translation
    from regard.inference.translator import Translator, load
    from regard.search.options import SearchOptions as Search

__version__ = "0.5.0"
__all__ = ["Score", "Search", "Translation", "Translator", "__version__", "evaluate", "load", "nn"]
MODULE_OF = {
    "Score": "regard.inference.translation",
    "Search": "regard.search",
    "Translation": "regard.inference.translation",
    "Translator": "regard.inference.translator",
    "evaluate": "regard.evaluation.evaluator",
    "load": "regard.inference.translator",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, because importing torch takes a second."""
    if name == "nn":
        return import_module("regard.nn")
    if name in MODULE_OF:
        return getattr(import_module(MODULE_OF[name]), name)
    raise AttributeError(f"module 'regard' has no attribute '{name}'")
