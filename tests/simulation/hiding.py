"""Hides parts of the standard library from Regard; other libraries may need them on this system."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


def hide(module: ModuleType, *names: str) -> None:
    """Remove names from a module for all code of Regard, which then finds what another system has.

    Args:
        module: A module such as `os`.
        names: What another system does not have.
    """
    hidden = {name: vars(module).pop(name) for name in names if hasattr(module, name)}

    def find(name: str) -> Any:
        if name in hidden and not str(sys._getframe(1).f_globals.get("__name__")).startswith("regard"):
            return hidden[name]
        raise AttributeError(f"module {module.__name__!r} has no attribute {name!r} on the simulated system")

    module.__getattr__ = find
