"""The result of a laboratory experiment: a page for people (text, HTML, one picture) and data for programs (JSON)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure

from regard.reports.report_page import Picture, ReportPage


@dataclass(frozen=True)
class LabReport:
    """A report page and the same results as data.

    Args:
        page: The page; it has exactly one picture, which is what `--out` draws.
        data: The results as JSON-serializable values; includes everything on the page.
    """

    page: ReportPage
    data: Mapping[str, Any]

    @property
    def figure(self) -> Figure:
        """The one picture of the page."""
        figures = [b.figure for section in self.page.sections for b in section.blocks if isinstance(b, Picture)]
        assert len(figures) == 1, "a report has one picture"
        return figures[0]
