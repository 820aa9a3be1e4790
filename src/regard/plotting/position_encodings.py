"""Position encodings as images, and their similarity over the distance between positions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike

from regard.errors import printable
from regard.plotting.figures import fonts, literal
from regard.plotting.palette import SIGNED_COLORMAP, line_style
from regard.plotting.panels import TYPE

TICK_STEPS = (1, 2, 5, 10)  # times a power of ten


def draw_position_encodings(vectors: Mapping[str, ArrayLike], similarity: Mapping[str, Sequence[float]]) -> Figure:
    """An image for each encoding, and below them its similarity over the distance of two positions.

    Args:
        vectors: For each encoding its vectors [positions, size], from −1 to 1.
        similarity: For each encoding the mean cosine at each distance, from 0.
    """
    figure = Figure(figsize=(9.6, 8.0))
    grid = figure.add_gridspec(
        2, len(vectors), left=0.1, right=0.87, top=0.94, bottom=0.08, hspace=0.32, wspace=0.18, height_ratios=(1.35, 1)
    )
    panels = [figure.add_subplot(grid[0, column]) for column in range(len(vectors))]
    for panel, (name, rows) in zip(panels, vectors.items(), strict=True):
        image = _draw_image(panel, name, rows)
    panels[0].set_ylabel("position", fontsize=TYPE)
    _add_value_scale(figure, image, panels[-1])
    _draw_similarity(figure.add_subplot(grid[1, :]), similarity)
    return figure


def _draw_image(panel: Axes, name: str, rows: ArrayLike) -> AxesImage:
    image = panel.imshow(
        np.asarray(rows, dtype=float), cmap=SIGNED_COLORMAP, vmin=-1, vmax=1, aspect="auto", interpolation="nearest"
    )
    panel.set_title(printable(name), loc="left", fontsize=TYPE, **literal())
    panel.set_xlabel("dimension", fontsize=TYPE)
    for axis in (panel.xaxis, panel.yaxis):
        axis.set_major_locator(MaxNLocator(5, steps=TICK_STEPS, integer=True))
    panel.tick_params(labelsize=TYPE - 1, length=0, pad=6)
    panel.spines[:].set_visible(False)
    return image


def _add_value_scale(figure: Figure, image: AxesImage, beside: Axes) -> None:
    box = beside.get_position()
    bar = figure.colorbar(image, cax=figure.add_axes((box.x1 + 0.02, box.y0, 0.016, box.height)), ticks=[-1, 0, 1])
    bar.ax.tick_params(labelsize=TYPE - 1, length=0, pad=6)
    bar.outline.set_visible(False)


def _draw_similarity(panel: Axes, similarity: Mapping[str, Sequence[float]]) -> None:
    for number, (name, values) in enumerate(similarity.items()):
        each = max(1, len(values) // 12)  # hundreds of markers would hide the line
        panel.plot(values, **line_style(number), markersize=6, markevery=(0, each), linewidth=2, label=printable(name))
    panel.set_xlabel("distance between two positions", fontsize=TYPE)
    panel.set_ylabel("cosine", fontsize=TYPE)
    panel.tick_params(labelsize=TYPE - 1, length=0, pad=6)
    panel.xaxis.set_major_locator(MaxNLocator(6, steps=TICK_STEPS, integer=True))
    panel.margins(x=0.015)
    panel.grid(color="0.9", linewidth=0.8)
    panel.set_axisbelow(True)
    panel.spines[["top", "right"]].set_visible(False)
    panel.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, prop={"family": fonts(), "size": TYPE})
