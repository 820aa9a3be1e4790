"""Trained models in use: `regard.load(run).translate(texts, options)`, and what it returns.

Names are imported when they are first used: `regard.inference.schema` must not import torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.inference.file_translation import translate_file
    from regard.inference.translation import Alternative, Score, Translation
    from regard.inference.translator import Translator, load

__all__ = ["Alternative", "Score", "Translation", "Translator", "load", "translate_file"]
MODULE_OF = {
    "Alternative": "translation",
    "Score": "translation",
    "Translation": "translation",
    "Translator": "translator",
    "load": "translator",
    "translate_file": "file_translation",
}


def __getattr__(name: str) -> Any:
    if name not in MODULE_OF:
        raise AttributeError(f"module 'regard.inference' has no attribute '{name}'")
    return getattr(import_module(f"regard.inference.{MODULE_OF[name]}"), name)
