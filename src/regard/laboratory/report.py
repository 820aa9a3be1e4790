"""What an experiment gives: a page for people, which becomes text, HTML and a picture, and data for programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure

from regard.reports.report_page import Picture, ReportPage


@dataclass(frozen=True)
class LabReport:
    page: ReportPage  # holds one picture, which is what `--out` draws
    data: Mapping[str, Any]  # the same and more, in what JSON knows

    @property
    def figure(self) -> Figure:
        figures = [b.figure for section in self.page.sections for b in section.blocks if isinstance(b, Picture)]
        assert len(figures) == 1, "a report has one picture"
        return figures[0]


def format_number(value: float) -> str:
    """A number as people read it: four digits that count, without an exponent where it can be helped."""
    if value == 0:
        return "0"  # not "-0"
    if not 1e-4 <= abs(value) < 1e6:
        return f"{value:.3g}"
    return f"{value:.4g}" if abs(value) < 1e4 else f"{value:,.0f}"


def format_percent(share: float | None) -> str:
    """A part of one as people read it; "–" where there is none."""
    return "–" if share is None else f"{100 * share:.1f} %"
