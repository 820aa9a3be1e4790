"""Progress of a training in a notebook: a bar and a table that are updated, and the learning curve at the end."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from regard.runs import Run
from regard.terminal.notebook import NotebookOutput, show_picture
from regard.training.progress_display import UPDATE_INTERVAL, LineProgress

if TYPE_CHECKING:
    from torch import Tensor

    from regard.training.trainer import Trainer

TABLE_ROWS = 10  # of the latest validations; the learning curve has all of them
CURVE_WIDTH = 720  # CSS pixels
COLUMNS = {
    "step": ("step", "{:,}"),
    "training loss": ("train_loss", "{:.4f}"),
    "validation loss": ("validation_loss", "{:.4f}"),
}


class NotebookProgress(LineProgress):
    """One display in the output of the cell: a bar with the steps, their rate, the time left and the loss; validations.

    It uses `IPython.display` and HTML only, so it works in any notebook without further packages.
    """

    def __init__(self) -> None:
        super().__init__()
        self.output = NotebookOutput()
        self.heading = ""
        self.status = ""
        self.step, self.steps = 0, 0
        self.loss: Tensor | None = None
        self.columns = dict(COLUMNS)
        self.rows: list[tuple[dict[str, Any], bool]] = []

    def on_train_begin(self, trainer: Trainer) -> None:
        super().on_train_begin(trainer)
        self.heading, self.status = f"{trainer.run_directory.path}: {self.status}", ""
        self.step, self.steps = trainer.progress.step, trainer.steps
        for metric in trainer.validation.shown_metrics:
            self.columns[metric.title] = f"validation_{metric.name}", metric.form
        self.update()

    def on_step_end(self, trainer: Trainer, loss: Tensor) -> None:
        self.step, self.loss = trainer.progress.step, loss
        if time.monotonic() - self.printed_at >= UPDATE_INTERVAL:
            self.show_step(trainer)

    def on_validation_end(self, trainer: Trainer, metrics: dict[str, Any], best: bool) -> None:
        self.rows.append((metrics, best))
        self.show_step(trainer)

    def on_train_end(self, trainer: Trainer) -> None:
        self.show_step(trainer)

    def show_step(self, trainer: Trainer) -> None:
        """Show the latest step with its loss."""
        self.status = self.format_step(trainer, self.loss)
        self.update()

    def show_result(self, run: Run) -> None:
        from regard.plotting.figures import render_figure
        from regard.plotting.learning_curves import draw_learning_curves

        metrics = run.metrics()
        if metrics:
            picture = render_figure(draw_learning_curves(metrics), ".png")
            show_picture(picture, f"learning curve of {run.path}", CURVE_WIDTH)

    def print_line(self, line: str) -> None:
        self.status = line
        self.update()

    def update(self) -> None:
        """Show the current state, in the place of the previous one."""
        self.printed_at = time.monotonic()
        self.output.show(f"{self.heading}\n{self.status}".strip(), self.html())

    def html(self) -> str:
        """The display as HTML."""
        lines = [Markup("<div>{}</div>").format(self.heading)] if self.heading else []
        bar = Markup('<progress value="{}" max="{}" style="width: 20em"></progress> ').format(self.step, self.steps)
        status = Markup('{}<span style="white-space: pre">{}</span>').format(bar if self.steps else "", self.status)
        lines.append(Markup("<div>{}</div>").format(status))
        if self.rows:
            head = Markup().join(Markup("<th>{}</th>").format(title) for title in self.columns)
            body = Markup().join(self._table_row(*row) for row in self.rows[-TABLE_ROWS:])
            lines.append(Markup("<table><tr>{}<th></th></tr>{}</table>").format(head, body))
        return str(Markup().join(lines))

    def _table_row(self, metrics: dict[str, Any], best: bool) -> Markup:
        texts = [form.format(metrics[key]) for key, form in self.columns.values()]
        cells = Markup().join(Markup("<td>{}</td>").format(text) for text in (*texts, "best" if best else ""))
        return Markup("<tr>{}</tr>").format(cells)
