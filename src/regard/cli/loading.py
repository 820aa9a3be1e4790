"""Loading a run for a command."""

from __future__ import annotations

from pathlib import Path

import torch

from regard import translator


def load(run: Path) -> translator.Translator:
    """The model, and torch set to the threads that it was trained with: for small models more are only in the way."""
    loaded = translator.load(run)
    torch.set_num_threads(loaded.experiment.training.threads)
    return loaded
