import re
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from regard.plotting.palette import ATTENTION_COLORMAP, ATTENTION_COLORS, LINE_COLORS, SIGNED_COLORMAP, line_style
from regard.reports import interactive

CSS = (interactive.VIEW / "view.css").read_text(encoding="utf-8")


def page_colors(css: str) -> list[str]:
    return [color for _, color in sorted(re.findall(r"--attention-(\d): (#[0-9a-f]{6});", css))]


def luminance(color: str) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(color)]
    return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))


def test_the_page_has_the_attention_colors_of_the_figures() -> None:
    light, dark = CSS.split("prefers-color-scheme: dark", 1)
    assert tuple(page_colors(light)) == ATTENTION_COLORS
    dark_luminances = [luminance(color) for color in page_colors(dark)]
    assert len(dark_luminances) == len(ATTENTION_COLORS)
    assert dark_luminances == sorted(dark_luminances), "in dark mode, higher weights are brighter"
    cells = (Path(interactive.VIEW) / "cells.js").read_text(encoding="utf-8")
    assert f"LAST_ANCHOR = {len(ATTENTION_COLORS) - 1};" in cells
    assert "color-mix(in srgb" in cells, "linear in sRGB, as matplotlib interpolates"


@pytest.mark.parametrize("weight", np.linspace(0, 1, 33))
def test_anchors_are_interpolated_linearly(weight: float) -> None:
    anchors = np.array([to_rgb(color) for color in ATTENTION_COLORS])
    expected = [np.interp(weight, np.linspace(0, 1, len(anchors)), channel) for channel in anchors.T]
    np.testing.assert_allclose(ATTENTION_COLORMAP(weight)[:3], expected, atol=0.01)


def test_zero_is_the_paper_color_and_luminance_decreases() -> None:
    assert ATTENTION_COLORS[0] == "#ffffff"
    luminances = [luminance(color) for color in ATTENTION_COLORS]
    assert luminances == sorted(luminances, reverse=True)
    assert to_rgb(SIGNED_COLORMAP(0.5)) == pytest.approx((1, 1, 1), abs=0.01)


def test_line_styles_are_distinguishable() -> None:
    styles = [(style["color"], style["linestyle"]) for style in map(line_style, range(28))]
    assert len(set(styles)) == 28
    for index in range(27):
        first, second = line_style(index), line_style(index + 1)
        assert all(first[key] != second[key] for key in first)
    assert all(luminance(color) < 0.5 for color in LINE_COLORS), "visible on white"


def test_no_other_file_defines_these_colors() -> None:
    folder = Path(interactive.__file__).parents[1]
    for path in [*folder.glob("plotting/*.py"), *folder.glob("reports/*.py"), *folder.glob("laboratory/*.py")]:
        if path.name != "palette.py":
            text = path.read_text(encoding="utf-8").lower()
            assert not [color for color in LINE_COLORS if color.lower() in text and color != "#000000"], path
            assert "inferno" not in text, path
