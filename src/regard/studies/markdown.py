"""Text as Markdown: whatever a label, a question or an error message contains, it is shown as it is.

Only what has a meaning at its place is escaped, so that names such as `model.attention.kind` and `exact_match` remain
readable. The rules are those of CommonMark and of GitHub's extensions: tables, strikethrough, formulas and bare URLs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from regard.errors import printable
from regard.reports.report_page import Table

_INLINE = re.compile(
    r"[\\`*\[~$]"  # escapes, code, emphasis, links and images, strikethrough, formulas
    r"|(?<![^\W_])_|_(?![^\W_])"  # emphasis, except within a word
    r"|(?<!\S)#"  # headings, and their ends
    r"|:(?=//)|(?<=www)\."  # bare URLs
)
_LINE_START = re.compile(r"^(?=[-+>=:])|^(\d+)(?=[.)](?:\s|$))")  # lists, quotations, underlines of headings


def escape(text: str) -> str:
    """A text within a line, on one line. HTML is escaped as entities, which every renderer understands.

    Args:
        text: Any text.
    """
    line = printable(" ".join(text.split()))
    line = re.sub(r"&(?=#?\w+;)", "&amp;", line)
    line = re.sub(r"<(?=[A-Za-z/!?])", "&lt;", line)
    return _INLINE.sub(r"\\\g<0>", line)


def paragraph(text: str) -> str:
    """A text that begins a line.

    Args:
        text: Any text.
    """
    return _LINE_START.sub(r"\1\\", escape(text))


def heading(text: str, level: int = 1) -> str:
    """A heading.

    Args:
        text: Any text.
        level: 1 for the title of a document.
    """
    return f"{'#' * level} {escape(text)}"


def table(content: Table) -> str:
    """A table without its caption.

    Args:
        content: Its head and rows.
    """

    def line(cells: Iterable[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    rows = [line(map(escape, row)) for row in content.rows]
    return "\n".join([line(map(escape, content.head)), line("---" for _ in content.head), *rows])
