"""The page of a report: its tables, its figures and what several models made of the same sentences, in one file."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from matplotlib.figure import Figure

from regard.plotting import figures
from regard.reports import pages

TEMPLATE = Path(__file__).with_name("report_page.html")
MARKS = {True: '<span class="mark right">✓ right</span>', False: '<span class="mark wrong">✗ wrong</span>', None: ""}
NOTHING_MEASURED = ("", "-", "–", "—", "…")


@dataclass(frozen=True)
class Table:
    """Rows of cells under a head. A column of numbers is set to the right, except the first, which names the rows."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str = ""

    def numeric_columns(self) -> list[bool]:
        columns = range(1, max(map(len, [self.head, *self.rows])))
        return [False, *(_numeric([row[column] for row in self.rows if column < len(row)]) for column in columns)]


@dataclass(frozen=True)
class Picture:
    """A figure; `alt` says in words what it shows, to those who cannot see it."""

    figure: Figure
    alt: str
    caption: str = ""


@dataclass(frozen=True)
class SystemOutput:
    """What one model made of a sentence, and where it looked."""

    label: str
    output: str
    right: bool | None
    picture: bytes | None  # its attention map, as SVG, if it has attention
    note: str = ""


@dataclass(frozen=True)
class ComparedSentence:
    """A sentence and what each model made of it."""

    heading: str
    source: str
    reference: str
    attempts: tuple[SystemOutput, ...]


@dataclass(frozen=True)
class ReportSection:
    """A part of the page: paragraphs, then tables, pictures and sentences."""

    title: str
    text: tuple[str, ...]
    blocks: tuple[Table | Picture | ComparedSentence, ...]


@dataclass(frozen=True)
class ReportPage:
    """All that a page says. Every text in it may come from outside: none is taken for HTML."""

    title: str
    lead: str
    facts: Mapping[str, str]
    sections: tuple[ReportSection, ...]


def render_report(page: ReportPage) -> bytes:
    """The whole page as UTF-8. It holds its pictures, and needs neither the network nor a script."""
    return pages.fill(
        TEMPLATE,
        title=escape(page.title),
        lead=_paragraph(page.lead, "lead"),
        facts=f"<dl>\n{pages.describe(page.facts)}\n</dl>" if page.facts else "",
        contents=_contents(page.sections),
        sections="\n".join(_section(number, section) for number, section in enumerate(page.sections, start=1)),
    )


def _contents(sections: Sequence[ReportSection]) -> str:
    if len(sections) < 2:
        return ""
    items = "\n".join(
        f'<li><a href="#section-{number}" dir="auto">{escape(section.title)}</a></li>'
        for number, section in enumerate(sections, start=1)
    )
    return f'<nav aria-label="Contents">\n<ul>\n{items}\n</ul>\n</nav>'


def _section(number: int, section: ReportSection) -> str:
    head = f'<section id="section-{number}">\n<h2 dir="auto">{escape(section.title)}</h2>'
    text = [_paragraph(paragraph) for paragraph in section.text]
    return "\n".join([head, *text, *map(_block, section.blocks), "</section>"])


def _paragraph(text: str, name: str = "") -> str:
    named = f' class="{name}"' if name else ""
    return f'<p{named} dir="auto">{escape(text)}</p>' if text.strip() else ""


def _block(block: Table | Picture | ComparedSentence) -> str:
    match block:
        case Table():
            return _table(block)
        case Picture():
            return _picture(block)
        case ComparedSentence():
            return _sentence(block)


def _table(table: Table) -> str:
    """A table in a box in which it can be scrolled, by keyboard too, so that the page need not be."""
    numeric = table.numeric_columns()
    caption = f'<caption dir="auto">{escape(table.caption)}</caption>\n' if table.caption else ""
    head = "".join(_cell("th", text, right, ' scope="col"') for text, right in zip(table.head, numeric, strict=False))
    body = "\n".join(_row(row, numeric) for row in table.rows)
    return f"""<div class="wide" tabindex="0" role="region" aria-label="{escape(table.caption or "table")}">
<table>
{caption}<thead><tr>{head}</tr></thead>
<tbody>
{body}
</tbody>
</table>
</div>"""


def _row(row: Sequence[str], numeric: Sequence[bool]) -> str:
    """The first cell names the row."""
    names = [("th", ' scope="row"'), *[("td", "")] * len(row)]
    cells = [_cell(tag, text, right, more) for (tag, more), text, right in zip(names, row, numeric, strict=False)]
    return "".join(["<tr>", *cells, "</tr>"])


def _cell(tag: str, text: str, right: bool, more: str) -> str:
    number = ' class="number"' if right else ' dir="auto"'
    return f"<{tag}{more}{number}>{escape(text)}</{tag}>"


def _numeric(cells: Sequence[str]) -> bool:
    """Whether these are numbers, which may have signs, units and intervals: `+1.2`, `[0.3, 0.4]`, `97.1 %`, `—`."""
    known = [cell.strip() for cell in cells if cell.strip() not in NOTHING_MEASURED]
    return bool(known) and all(re.match(r"[\W_]*\d", cell) for cell in known)


def _picture(picture: Picture) -> str:
    image = _embed(figures.render_figure(picture.figure, ".svg"), picture.alt)
    caption = f'\n<figcaption dir="auto">{escape(picture.caption)}</figcaption>' if picture.caption else ""
    return f'<figure>\n<div class="picture chart">{image}</div>{caption}\n</figure>'


def _embed(picture: bytes, alt: str) -> str:
    return pages.show(f"data:image/svg+xml;base64,{b64encode(picture).decode('ascii')}", picture, alt)


def _sentence(sentence: ComparedSentence) -> str:
    attempts = "\n".join(map(_attempt, sentence.attempts))
    return f"""<article>
<header><h3 dir="auto">{escape(sentence.heading)}</h3></header>
<dl>
{pages.quote_named("source", sentence.source)}
{pages.quote_named("reference", sentence.reference)}
</dl>
<div class="attempts">
{attempts}
</div>
</article>"""


def _attempt(attempt: SystemOutput) -> str:
    image = _embed(attempt.picture, f"attention of {attempt.label}") if attempt.picture else ""
    return f"""<div class="attempt">
<header><h4 dir="auto">{escape(attempt.label)}</h4>{MARKS[attempt.right]}</header>
{pages.quote("output", attempt.output, attempt.note, tag="p")}
{f'<div class="picture">{image}</div>' if image else ""}
</div>"""
