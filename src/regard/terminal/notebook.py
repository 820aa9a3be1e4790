"""Output in a Jupyter notebook. IPython is used where it runs already, and never imported otherwise."""

from __future__ import annotations

import sys
from base64 import b64encode
from importlib import import_module
from typing import Any


def in_notebook() -> bool:
    """True in the kernel of a notebook; False in IPython on a terminal."""
    get_shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)
    return getattr(get_shell(), "kernel", None) is not None


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


def show_picture(png: bytes, text: str, width: int) -> None:
    """Show a picture below the current cell.

    Args:
        png: The picture.
        text: For notebooks without pictures.
        width: Its width in CSS pixels.
    """
    bundle = {"image/png": b64encode(png).decode(), "text/plain": text}
    import_module("IPython.display").display(bundle, raw=True, metadata={"image/png": {"width": width}})
