"""Attention maps: how much each output token attends to each source token.

Shapes: weights [..., output, source]; the leading axes, such as layer and head, become small multiples.
Lengths are in inches and font sizes in points, 72 to the inch, as in matplotlib.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import ceil
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from numpy.typing import ArrayLike, NDArray

from regard.plotting.figures import ems, literal, message_figure
from regard.plotting.map_layout import SMALLEST_CELL, MapLayout
from regard.plotting.palette import ATTENTION_COLORMAP, BLACK, ORANGE
from regard.plotting.panels import truncate
from regard.text.word_boundaries import token_labels, visible, word_spans, word_starts

LONGEST_LABEL = 16  # characters
SHORTEST_TITLE = 40  # characters that a title has room for, however small the map


def draw_attention_map(
    weights: ArrayLike,
    source_tokens: Sequence[str],
    target_tokens: Sequence[str],
    title: str | None = None,
    axes: Sequence[str] = (),
    starts: Sequence[bool] | None = None,
    source_starts: Sequence[bool] | None = None,
    names: Sequence[str] = (),
    links: Collection[tuple[int, int]] = (),
    measure: str = "attention weight",
    sides: tuple[str, str] = ("source", "output"),
) -> Figure:
    """A map of attention weights: source tokens are columns, output tokens rows, and darker is more.

    A map of self-attention has the tokens that are attended to as columns, and other `sides`.

    Args:
        weights: [..., output, source], from 0 to 1; each leading axis has a name in `axes`.
        source_tokens: One for each column.
        target_tokens: One for each row.
        title: Drawn above the map, literally.
        axes: Names of the leading axes of `weights`: with ("head",) or ("layer", "head") there is one map for each,
            and a layer is a row of maps. A single leading axis is wrapped into rows of four.
        starts: Which output tokens begin a word, where words are split into subwords: there are lines between words,
            and the subwords of a word share a bracket.
        source_starts: The same for the source tokens.
        names: Titles of the maps, in place of "head 1", "head 2" and so on.
        links: Cells to ring, such as gold alignments, as (source, output) from 0.
        measure: The label of the color bar.
        sides: What the tokens of columns and rows are, written next to them.

    Raises:
        ValueError: If the weights do not fit the tokens or the axes.
    """
    axes = axes or ("map",) * bool(names)
    maps = validated_weights(weights, len(source_tokens), len(target_tokens), axes)
    if not len(source_tokens) or not len(target_tokens):
        return message_figure("empty source" if len(target_tokens) else "empty output", title)
    source, target = piece_labels(source_tokens, source_starts), piece_labels(target_tokens, starts)
    source_words = word_spans(word_starts(source_tokens, source_starts), len(source))
    words = word_spans(word_starts(target_tokens, starts), len(target))
    layout = MapLayout.fit(source, target, maps.shape[:-2])
    figure = Figure(figsize=(layout.width, layout.height))
    for number, index in enumerate(np.ndindex(maps.shape[:-2])):
        row, column = divmod(number, layout.columns)
        panel = figure.add_axes(layout.map_position(row, column))
        image = _draw_attention_cells(panel, maps[index])
        _draw_word_lines(panel, words, source_words)
        _label_source(panel, source if row == 0 else [], layout, sides[0])
        _label_target(panel, target if column == 0 else [], layout, sides[1])
        _draw_brackets(panel, words if column == 0 else [], source_words if row == 0 else [], layout)
        _draw_rings(panel, links, layout)
        name = names[number] if names else " · ".join(f"{axis} {i + 1}" for axis, i in zip(axes, index, strict=True))
        name_size = min(layout.caption, 72 * layout.map_width / max(ems(name), 1))
        panel.set_title(name, y=0, pad=-5, va="top", fontsize=name_size, **literal())
    _add_weight_scale(figure, image, layout, measure)
    if title:
        size = layout.caption * 1.25
        room = max(SHORTEST_TITLE, int(72 * layout.width / (0.65 * size)))  # characters
        figure.text(*layout.title_position(), truncate(title, room), fontsize=size, **literal())
    return figure


def token_label(token: str) -> str:
    """The label of a token: invisible characters are made visible, a long token is cut.

    Args:
        token: The token.
    """
    return shorten_label(visible(token))


def piece_labels(tokens: Sequence[str], starts: Sequence[bool] | None) -> list[str]:
    """A label for each token; tokens within a word are marked as subwords.

    Args:
        tokens: The tokens.
        starts: Which tokens begin a word; None if each token is a word.
    """
    return [shorten_label(name) for name in token_labels(tokens, starts)]


def shorten_label(name: str) -> str:
    """The label, cut to `LONGEST_LABEL` characters.

    Args:
        name: The label.
    """
    return name if len(name) <= LONGEST_LABEL else name[: LONGEST_LABEL - 1] + "…"


def _draw_attention_cells(panel: Axes, weights: NDArray[np.float64]) -> AxesImage:
    image = panel.imshow(weights, cmap=ATTENTION_COLORMAP, vmin=0, vmax=1, aspect="equal", interpolation="nearest")
    outputs, sources = weights.shape
    panel.tick_params(which="both", length=0, pad=5)
    if max(weights.shape) <= 24:  # lines between many cells would dominate the map
        panel.set_xticks(np.arange(1, sources) - 0.5, minor=True)
        panel.set_yticks(np.arange(1, outputs) - 0.5, minor=True)
        panel.grid(which="minor", color="0.9", linewidth=0.6)
    panel.spines[:].set(color="0.75", linewidth=0.8)
    panel.autoscale(False)  # lines that are drawn later do not move the map
    return image


def _draw_word_lines(panel: Axes, words: Sequence[range], source_words: Sequence[range]) -> None:
    """A line between one word and the next, clearer than those between cells."""
    outputs, sources = words[-1].stop, source_words[-1].stop
    if len(words) < outputs or len(source_words) < sources:  # otherwise the lines between cells are enough
        style: dict[str, Any] = {"color": "0.6", "linewidth": 0.9}
        panel.hlines([word.start - 0.5 for word in words[1:]], -0.5, sources - 0.5, **style)
        panel.vlines([word.start - 0.5 for word in source_words[1:]], -0.5, outputs - 0.5, **style)


def _draw_brackets(panel: Axes, words: Sequence[range], source_words: Sequence[range], layout: MapLayout) -> None:
    """A bracket between the map and its labels for each word of several subwords."""
    style: dict[str, Any] = {"color": "dimgray", "linewidth": 1.2, "clip_on": False}
    edge = -0.5 - 2.5 / 72 / layout.cell  # in cells
    for word in words:
        if len(word) > 1:
            panel.vlines(edge, word.start - 0.35, word.stop - 0.65, **style)
    for word in source_words:
        if len(word) > 1:
            panel.hlines(edge, word.start - 0.35, word.stop - 0.65, **style)


def _draw_rings(panel: Axes, links: Collection[tuple[int, int]], layout: MapLayout) -> None:
    """A ring in each of these cells, in a color that the map does not have, with dark edges.

    On dark cells the ring is visible, on light ones its edges; on those in between, and in gray print, both.
    """
    sources, outputs = [source for source, _ in links], [output for _, output in links]
    style: dict[str, Any] = {"markerfacecolor": "none", "linestyle": "none", "marker": "o"}
    for color, width in ((BLACK, 0.15), (ORANGE, 0.08)):
        style |= {"markersize": 72 * 0.66 * layout.cell, "markeredgewidth": 72 * width * layout.cell}
        panel.plot(sources, outputs, markeredgecolor=color, **style)


def _label_source(panel: Axes, labels: Sequence[str], layout: MapLayout, side: str) -> None:
    panel.tick_params(axis="x", top=True, bottom=False, labeltop=True, labelbottom=False)
    panel.xaxis.set_label_position("top")
    panel.set_xlabel(side if labels else "", fontsize=layout.caption, color="dimgray")
    panel.set_xticks(*_thinned_labels(labels, layout), fontsize=layout.type_size, **literal())
    for text in panel.get_xticklabels():
        if layout.slanted:
            text.set(rotation=45, ha="left", va="baseline", rotation_mode="anchor")
        elif ems(text.get_text()) > 1.5:  # such as <end> among single characters
            text.set(rotation=90)


def _label_target(panel: Axes, labels: Sequence[str], layout: MapLayout, side: str) -> None:
    panel.set_ylabel(side if labels else "", fontsize=layout.caption, color="dimgray")
    panel.set_yticks(*_thinned_labels(labels, layout), fontsize=layout.type_size, **literal())


def _thinned_labels(labels: Sequence[str], layout: MapLayout) -> tuple[Sequence[int], Sequence[str]]:
    """Positions and labels: all of them, or each second, third ... where cells are smaller than type."""
    each = ceil(SMALLEST_CELL / layout.cell)
    return range(0, len(labels), each), labels[::each]


def _add_weight_scale(figure: Figure, image: AxesImage, layout: MapLayout, measure: str) -> None:
    bar = figure.colorbar(image, cax=figure.add_axes(layout.scale_position()), ticks=[0, 0.5, 1])
    bar.set_label(measure, fontsize=layout.caption)
    bar.ax.tick_params(labelsize=layout.caption * 0.9, length=2)
    bar.outline.set(edgecolor="0.75", linewidth=0.8)


def validated_weights(weights: ArrayLike, sources: int, outputs: int, axes: Sequence[str]) -> NDArray[np.float64]:
    """The weights as an array, checked against the numbers of tokens and the names of the leading axes.

    Args:
        weights: [..., output, source].
        sources: Number of source positions.
        outputs: Number of output tokens.
        axes: Names of the leading axes.

    Raises:
        ValueError: If they do not fit.
    """
    if hasattr(weights, "detach"):  # a tensor, which may be part of a graph or on another device
        weights = weights.detach().cpu()
    maps = np.asarray(weights, dtype=float)
    if not outputs and not maps.size:  # [] has lost the number of sources
        return maps
    if maps.shape[-2:] != (outputs, sources):
        raise ValueError(
            f"weights of shape {list(maps.shape)} do not end in [{outputs} target tokens, {sources} source tokens]"
        )
    if maps.ndim != len(axes) + 2:
        raise ValueError(
            f"weights of shape {list(maps.shape)} have {maps.ndim - 2} leading axes, "
            f"but axes={tuple(axes)} names {len(axes)}"
        )
    if 0 in maps.shape[:-2]:
        raise ValueError(f"weights of shape {list(maps.shape)} hold no map to draw")
    return maps
