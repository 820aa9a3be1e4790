"""Loading a run for a command."""

from __future__ import annotations

from pathlib import Path

import torch

from regard.translator import Translator
from regard.translator import load as load_translator


def load(run: Path) -> Translator:
    """The model in a run directory, ready for work."""
    translator = load_translator(run)
    use_threads_of(translator)
    return translator


def use_threads_of(translator: Translator) -> None:
    """As many as it was trained with: for small models more are only in the way."""
    torch.set_num_threads(translator.experiment.training.threads)
