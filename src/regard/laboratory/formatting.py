"""Numbers as text, as they appear in tables and paragraphs of reports."""

from __future__ import annotations


def format_number(value: float) -> str:
    """The value with four significant digits, without an exponent if it is between 0.0001 and a million.

    Args:
        value: The number.
    """
    if value == 0:
        return "0"  # not "-0"
    if not 1e-4 <= abs(value) < 1e6:
        return f"{value:.3g}"
    return f"{value:.4g}" if abs(value) < 1e4 else f"{value:,.0f}"


def format_percent(share: float | None) -> str:
    """The share as a percentage with one decimal; "–" for None.

    Args:
        share: A fraction from 0 to 1, or None if it is undefined.
    """
    return "–" if share is None else f"{100 * share:.1f} %"


def format_decimal(value: float | None) -> str:
    """The value with three decimals; "–" for None.

    Args:
        value: The number, or None if it is undefined.
    """
    return "–" if value is None else f"{value:.3f}"
