"""Training: the loop, callbacks, learning-rate and teacher-forcing schedules, checkpoints.

Names are imported when they are first used: `regard.training.callbacks` must not import torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.training.api import train
    from regard.training.callbacks import Callback, TrainingStopped

__all__ = ["Callback", "TrainingStopped", "train"]
MODULE_OF = {"Callback": "callbacks", "TrainingStopped": "callbacks", "train": "api"}


def __getattr__(name: str) -> Any:
    if name not in MODULE_OF:
        raise AttributeError(f"module 'regard.training' has no attribute '{name}'")
    return getattr(import_module(f"regard.training.{MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return __all__
