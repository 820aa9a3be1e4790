"""Attention over a picture: the picture once for each output token, its patches in the colors of their weights.

Shapes: weights [..., output, source], pixels [height, width]. Lengths are in inches, and in pixels of the picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike, NDArray

from regard.plotting.attention_map import piece_labels, validated_weights
from regard.plotting.figures import ems, literal, message_figure
from regard.plotting.palette import ATTENTION_COLORMAP
from regard.plotting.panels import truncate

Box = tuple[int, int, int, int]
GAP = 5  # pixels between two strips, and between a picture and the end of the source
STRIP_HEIGHT = 0.62  # a strip shrinks to keep the figure this large ...
LARGEST_SIDE = 10.0
LIGHT_INK_FROM = 0.5  # weight: the color map is dark from there on
INK, LIGHT_INK = np.array([0.1, 0.1, 0.1]), np.array([1.0, 1.0, 1.0])


def draw_picture_map(
    weights: ArrayLike,
    pixels: NDArray[np.uint8],
    boxes: Sequence[Box],
    target_tokens: Sequence[str],
    title: str | None = None,
    axes: Sequence[str] = (),
    starts: Sequence[bool] | None = None,
) -> Figure:
    """The picture with the attention of each output token to its patches: darker is more.

    The first strip is the picture itself. To the right of each picture is the end of the source.

    Args:
        weights: [..., output, source], from 0 to 1; the last source position is the end of the source.
        pixels: Ink from 0 to 255, [height, width].
        boxes: The place of each patch, as (left, top, right, bottom) in pixels.
        target_tokens: One for each output.
        title: Drawn above, literally.
        axes: Names of the leading axes of `weights`, such as layer and head: there is one column of strips for each.
        starts: Which output tokens begin a word, where words are split into subwords.

    Raises:
        ValueError: If the weights do not fit the patches, the tokens or the axes.
    """
    maps = validated_weights(weights, len(boxes) + 1, len(target_tokens), axes)
    if not len(target_tokens):
        return message_figure("empty output", title)
    lead = maps.shape[:-2]
    strips = [picture_strips(maps[index], pixels, boxes) for index in np.ndindex(lead)]
    labels = ["", *piece_labels(target_tokens, starts)]
    columns = lead[-1] if len(lead) > 1 else min(len(strips), 4)
    rows = ceil(len(strips) / columns)
    height, width, _ = strips[0].shape
    scale = min(STRIP_HEIGHT / len(pixels), LARGEST_SIDE / (rows * height), LARGEST_SIDE / (columns * width))
    type_size = max(5.0, 72 * 0.5 * scale * len(pixels))
    left, head, foot = type_size / 72 * (max(map(ems, labels)) + 0.6), 0.55, 0.35 if lead else 0.0
    panel_width, panel_height = width * scale, height * scale
    full_width = left + columns * (panel_width + 0.2) + 0.8
    full_height = head + rows * (panel_height + foot)
    figure = Figure(figsize=(full_width, full_height))
    for number, index in enumerate(np.ndindex(lead)):
        row, column = divmod(number, columns)
        x = left + column * (panel_width + 0.2)
        y = full_height - head - row * (panel_height + foot) - panel_height
        place = (x / full_width, y / full_height, panel_width / full_width, panel_height / full_height)
        panel = figure.add_axes(place)
        _draw_strips(panel, strips[number], pixels, boxes)
        ticks = [(len(pixels) + GAP) * number + len(pixels) / 2 for number in range(len(labels))]
        panel.set_yticks(ticks, labels if column == 0 else [""] * len(labels), fontsize=type_size, **literal())
        name = " · ".join(f"{axis} {i + 1}" for axis, i in zip(axes, index, strict=True))
        panel.set_title(name, y=0, pad=-5, va="top", fontsize=10, **literal())
    bar_height = min(2.4, full_height - head)
    place = ((full_width - 0.65) / full_width, 0, 0.13 / full_width, bar_height / full_height)
    bar = figure.colorbar(ScalarMappable(cmap=ATTENTION_COLORMAP), cax=figure.add_axes(place), ticks=[0, 0.5, 1])
    bar.set_label("attention weight", fontsize=10)
    bar.ax.tick_params(labelsize=9, length=2)
    bar.outline.set(edgecolor="0.75", linewidth=0.8)
    if title:
        room = max(40, int(72 * full_width / 8))  # characters
        figure.text(left / full_width, 1 - 0.3 / full_height, truncate(title, room), fontsize=13, **literal())
    return figure


def picture_strips(
    weights: NDArray[np.float64], pixels: NDArray[np.uint8], boxes: Sequence[Box]
) -> NDArray[np.float64]:
    """The picture, and below it once for each output, its patches in the colors of the output's weights.

        color = (1 − ink) · color(α_ti) + ink · black        at the patch i; white in place of black on dark colors

    Args:
        weights: α, [output, source].
        pixels: Ink from 0 to 255, [height, width].
        boxes: The place of each patch.

    Returns:
        Colors, [height of all strips, width, 3], each from 0 to 1.
    """
    height, width = pixels.shape
    end = boxes[0][2] - boxes[0][0]  # the end of the source is as wide as a patch
    places = [*boxes, (width + GAP, 0, width + GAP + end, height)]
    ink = np.pad(pixels / 255.0, ((0, 0), (0, GAP + end)))[..., None]
    strips = [np.zeros(ink.shape[:2])]
    for row in weights:
        strip = np.zeros(ink.shape[:2])
        for weight, (left, top, right, bottom) in zip(row, places, strict=True):
            strip[top:bottom, left:right] = weight
        strips.append(strip)
    between = np.ones((GAP, width + GAP + end, 3))
    colored = []
    for strip in strips:
        ground = ATTENTION_COLORMAP(strip)[..., :3]
        pen = np.where(strip[..., None] > LIGHT_INK_FROM, LIGHT_INK, INK)
        colored += [(1 - ink) * ground + ink * pen, between]
    return np.concatenate(colored[:-1])


def _draw_strips(panel: Axes, strips: NDArray[np.float64], pixels: NDArray[np.uint8], boxes: Sequence[Box]) -> None:
    """The strips with a frame around each picture and around each end of the source."""
    height, width = pixels.shape
    panel.imshow(strips, interpolation="nearest", extent=(0, strips.shape[1], strips.shape[0], 0), aspect="auto")
    panel.axis("on")
    panel.tick_params(length=0, pad=5)
    panel.set_xticks([])
    panel.spines[:].set_visible(False)
    end = boxes[0][2] - boxes[0][0]
    middle = width + GAP + end / 2, height / 2
    panel.text(*middle, "<end>", rotation=90, ha="center", va="center", fontsize=7, color="dimgray")
    for number in range((len(strips) + GAP) // (height + GAP)):
        top = number * (height + GAP)
        frames = ((0, width), (width + GAP, end)) if number else ((0, width),)
        for left, size in frames:
            frame = Rectangle((left, top), size, height, fill=False, edgecolor="0.7", linewidth=0.7, clip_on=False)
            panel.add_patch(frame)
