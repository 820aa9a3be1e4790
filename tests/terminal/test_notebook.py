"""Output in a notebook, with a fake IPython; the real one is no dependency."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from regard.terminal.notebook import NotebookOutput, in_notebook


class Display:
    """Records what is shown: the number of the output, and its content."""

    def __init__(self) -> None:
        self.outputs: list[list[Any]] = []

    def display(self, bundle: Any, *, raw: bool, display_id: bool) -> Any:
        assert raw
        assert display_id
        contents = [bundle]
        self.outputs.append(contents)
        return SimpleNamespace(update=lambda later, raw: contents.append(later) if raw else None)


def test_a_notebook_is_recognized_without_importing_ipython(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert not in_notebook()
    assert "IPython" not in sys.modules
    for shell, expected in ((None, False), (SimpleNamespace(), False), (SimpleNamespace(kernel="k"), True)):
        monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda shell=shell: shell))  # type: ignore[arg-type]
        assert in_notebook() is expected
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace())  # type: ignore[arg-type]
    assert not in_notebook(), "it is being imported"


def test_an_output_appears_when_it_is_first_shown_and_is_then_replaced(monkeypatch: pytest.MonkeyPatch):
    display = Display()
    monkeypatch.setitem(sys.modules, "IPython.display", display)  # type: ignore[arg-type]
    output = NotebookOutput()
    assert display.outputs == []
    output.show("one", "<p>one</p>")
    output.show("two", "<p>two</p>")
    assert display.outputs == [
        [{"text/plain": "one", "text/html": "<p>one</p>"}, {"text/plain": "two", "text/html": "<p>two</p>"}]
    ]
