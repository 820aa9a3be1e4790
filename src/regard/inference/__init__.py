"""Trained models at work: `regard.load(run).translate(texts, options)`, and what it returns."""

from regard.inference.translation import Score, Translation
from regard.inference.translator import Translator, load

__all__ = ["Score", "Translation", "Translator", "load"]
