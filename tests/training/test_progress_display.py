"""Progress of a training: which display is chosen, and what a notebook shows."""

from __future__ import annotations

import io
import re
import sys
from base64 import b64decode
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from regard.config.schema import Experiment
from regard.runs import Run
from regard.training import notebook_display, train
from regard.training.notebook_display import NotebookProgress
from regard.training.progress_display import BarProgress, LineProgress, progress_display

Make = Callable[..., Experiment]


class Output:
    """One output of a cell: what was displayed, and what replaced it later."""

    def __init__(self, data: dict[str, str], options: dict[str, Any]) -> None:
        self.versions, self.options = [data], options

    def update(self, data: dict[str, str], *, raw: bool) -> None:
        assert raw
        self.versions.append(data)


class Notebook:
    """A module that is to Regard what IPython is in the kernel of a notebook."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, shell: object) -> None:
        self.outputs: list[Output] = []
        package, display = ModuleType("IPython"), ModuleType("IPython.display")
        package.get_ipython = lambda: shell  # type: ignore[attr-defined]
        package.version_info = (9, 0)  # type: ignore[attr-defined]  # which matplotlib reads
        display.display = self.display  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "IPython", package)
        monkeypatch.setitem(sys.modules, "IPython.display", display)

    def display(self, data: dict[str, str], *, raw: bool, **options: Any) -> Output | None:
        assert raw
        self.outputs.append(Output(data, options))
        return self.outputs[-1] if options.get("display_id") else None


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Notebook:
    return Notebook(monkeypatch, SimpleNamespace(kernel=object()))


class Balanced(HTMLParser):
    """Checks that every element is closed; collects the texts."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


# --- Which display ---------------------------------------------------------------------------------------


def test_a_terminal_has_a_bar_and_a_file_has_lines(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert type(progress_display()) is LineProgress
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert type(progress_display()) is BarProgress
    assert "IPython" not in sys.modules


@pytest.mark.parametrize("shell", [None, SimpleNamespace(), SimpleNamespace(kernel=None)])
def test_ipython_without_a_kernel_is_a_terminal(monkeypatch: pytest.MonkeyPatch, shell: object):
    Notebook(monkeypatch, shell)
    assert isinstance(progress_display(), LineProgress)
    assert not isinstance(progress_display(), NotebookProgress)


# --- A notebook ------------------------------------------------------------------------------------------


def test_a_notebook_shows_a_bar_a_table_and_the_learning_curve(
    brief: Make, tmp_path: Path, notebook: Notebook, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(notebook_display, "UPDATE_INTERVAL", 0.0)
    run = train(brief(), tmp_path / "a<b>")
    progress, curve = notebook.outputs
    assert progress.options == {"display_id": True}
    assert len(progress.versions) >= 12
    bars = [dict(tags)["progress"] for tags in (Balanced(each["text/html"]).tags for each in progress.versions[1:])]
    assert {bar["max"] for bar in bars} == {"12"}
    values = [int(bar["value"] or 0) for bar in bars]
    assert values == sorted(values)
    assert set(values) == set(range(13))
    end = Balanced(progress.versions[-1]["text/html"])
    assert re.fullmatch(rf"{tmp_path}/a<b>: [\d,]+ parameters, 12 steps; cpu, float32", end.texts[0]), (
        "the path is text, not HTML"
    )
    assert re.fullmatch(r"step 12/12  [\d.]+ steps/s  0:00 left  loss \d\.\d{4}", end.texts[2])
    assert [tag for tag, _ in end.tags].count("tr") == 4
    assert f"{run.metrics()[0]['validation_loss']:.4f}" in end.texts
    assert end.texts.count("best") == len(set(accumulated_minimum(run)))
    assert progress.versions[-1]["text/plain"] == f"{end.texts[0]}\n{end.texts[2]}"
    assert b64decode(curve.versions[0]["image/png"]).startswith(b"\x89PNG")
    out, err = capfd.readouterr()
    assert err == ""
    assert out.startswith(f"{run.path}: done (all epochs done)")


def accumulated_minimum(run: Run) -> list[float]:
    losses = run.progress.validation_losses
    return [min(losses[: number + 1]) for number in range(len(losses))]


def test_a_notebook_shows_the_whole_curve_of_a_training_that_continues(
    brief: Make, tmp_path: Path, notebook: Notebook, new_callback: Any, monkeypatch: pytest.MonkeyPatch
):
    drawn = []
    monkeypatch.setattr("regard.plotting.figures.render_figure", lambda figure, suffix: b"")
    monkeypatch.setattr("regard.plotting.learning_curves.draw_learning_curves", lambda rows: drawn.append(len(rows)))
    train(brief(), tmp_path / "run", callbacks=[new_callback(3)])  # before the first validation
    assert (len(notebook.outputs), drawn) == (1, [])
    train(brief(), tmp_path / "run", callbacks=[new_callback(3)])
    assert (len(notebook.outputs), drawn) == (3, [1])
    train(brief(), tmp_path / "run")
    assert (len(notebook.outputs), drawn) == (5, [1, 3])
    assert "12 steps, continuing after step 6" in notebook.outputs[3].versions[0]["text/html"]
    train(brief(), tmp_path / "run")  # nothing is left to do
    assert (len(notebook.outputs), drawn) == (6, [1, 3, 3])


def test_the_table_in_a_notebook_has_the_latest_validations(
    brief: Make, tmp_path: Path, notebook: Notebook, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(notebook_display, "TABLE_ROWS", 2)
    train(brief("training.validate_every=3"), tmp_path / "run")
    end = Balanced(notebook.outputs[0].versions[-1]["text/html"])
    assert [tag for tag, _ in end.tags].count("tr") == 3
    assert "12" in end.texts
    assert "6" not in end.texts


def test_without_progress_a_notebook_shows_nothing(brief: Make, tmp_path: Path, notebook: Notebook):
    train(brief(), tmp_path / "run", progress=False)
    assert notebook.outputs == []


def test_a_run_shows_its_progress_in_a_notebook(brief: Make, tmp_path: Path, new_callback: Any):
    run = train(brief(), tmp_path / "a<b>", callbacks=[new_callback(1)], progress=False)
    assert repr(run) == f"Run('{tmp_path}/a<b>')"
    assert Balanced(run._repr_html_()).texts == ["run", f"{tmp_path}/a<b>", "steps", "1", "training", "not finished"]
    run = train(brief(), tmp_path / "a<b>", progress=False)
    best = f"{run.progress.best_score:.4f}, after step {run.progress.best_step}"
    assert Balanced(run._repr_html_()).texts[3:] == ["12", "training", "all epochs done", "best validation loss", best]
