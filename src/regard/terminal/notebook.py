"""Output in a Jupyter notebook. IPython is used where it runs already, and never imported otherwise."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any


def in_notebook() -> bool:
    """True in the kernel of a notebook; False in IPython on a terminal."""
    get_shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)
    return hasattr(get_shell(), "kernel")


class NotebookOutput:
    """An output of the current cell that can be replaced. It appears when it is first shown."""

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, text: str, html: str) -> None:
        """Replace what is shown.

        Args:
            text: For notebooks without HTML.
            html: Its texts are escaped.
        """
        bundle = {"text/plain": text, "text/html": html}
        if self._handle is None:
            self._handle = import_module("IPython.display").display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)
