"""A report as one HTML file: tables, figures, and the outputs of several models for the same sentences."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from matplotlib.figure import Figure

from regard.errors import escape_controls
from regard.plotting import figures
from regard.reports.pages import Image, render_page
from regard.terminal.tables import format_table

NOT_MEASURED = ("", "-", "–", "—", "…")


@dataclass(frozen=True, repr=False)
class Table:
    """Rows of cells below a head. Columns of numbers are right-aligned, except the first, which names the rows.

    It prints as an aligned text, and is shown as HTML in a notebook.

    Args:
        head: The names of the columns.
        rows: The cells; the first of each row is its name.
        caption: A sentence above the table.
    """

    template: ClassVar[str] = "report_table.html"
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str = ""

    def numeric_columns(self) -> list[bool]:
        """True for each column that holds numbers only."""
        columns = range(1, max(map(len, [self.head, *self.rows])))
        return [False, *(_is_numeric([row[column] for row in self.rows if column < len(row)]) for column in columns)]

    def __repr__(self) -> str:
        """The table as text, with its caption above; each row is one line."""
        width = max(map(len, [self.head, *self.rows]))
        padded = ([*row, *[""] * (width - len(row))] for row in (self.head, *self.rows))
        head, *rows = ([escape_controls(cell) for cell in row] for row in padded)
        return "\n".join([*filter(None, [escape_controls(self.caption)]), format_table(head, rows)])

    def _repr_html_(self) -> str:
        return render_page(self.template, block=self)


@dataclass(frozen=True)
class Picture:
    """A figure.

    Args:
        figure: What is drawn.
        alt: A description in words, for readers who cannot see it.
        caption: A sentence below the figure.
    """

    template: ClassVar[str] = "report_picture.html"
    figure: Figure
    alt: str
    caption: str = ""

    def image(self) -> Image:
        return Image.embedded(figures.render_figure(self.figure, ".svg"))


@dataclass(frozen=True)
class SystemOutput:
    """The output of one model for a sentence.

    Args:
        label: The name of the model.
        output: Its translation.
        correct: Whether the output is correct; None if this is unknown.
        picture: The attention map as SVG; None for a model without attention.
        note: A remark that follows the output.
    """

    label: str
    output: str
    correct: bool | None
    picture: bytes | None
    note: str = ""

    def image(self) -> Image | None:
        return Image.embedded(self.picture) if self.picture else None


@dataclass(frozen=True)
class ComparedSentence:
    """A sentence and the output of each model for it.

    Args:
        heading: The title of this comparison.
        source: The source sentence.
        reference: Its reference translation.
        outputs: One output for each model.
    """

    template: ClassVar[str] = "report_sentence.html"
    heading: str
    source: str
    reference: str
    outputs: tuple[SystemOutput, ...]


@dataclass(frozen=True)
class ReportSection:
    """A section of the page.

    Args:
        title: Its heading.
        text: Paragraphs.
        blocks: Tables, pictures and sentences, which follow the paragraphs.
    """

    title: str
    text: tuple[str, ...]
    blocks: tuple[Table | Picture | ComparedSentence, ...]


@dataclass(frozen=True)
class ReportPage:
    """The content of a page. Every text is escaped; symbols of a `regard.plotting.symbols.Formula` are typeset.

    Args:
        title: The heading.
        lead: A summary below the heading.
        facts: Names and values, such as the settings of an experiment.
        sections: The sections in order.
    """

    title: str
    lead: str
    facts: Mapping[str, str]
    sections: tuple[ReportSection, ...]


def render_report(page: ReportPage) -> bytes:
    """The page as UTF-8 encoded HTML. It contains its pictures, and needs neither the network nor a script.

    Args:
        page: The content.
    """
    return render_page("report.html", page=page).encode("utf-8")


def _is_numeric(cells: Sequence[str]) -> bool:
    """True if these are numbers, possibly with signs, units and intervals: `+1.2`, `[0.3, 0.4]`, `97.1 %`, `—`."""
    known = [cell.strip() for cell in cells if cell.strip() not in NOT_MEASURED]
    return bool(known) and all(re.match(r"[\W_]*\d", cell) for cell in known)
