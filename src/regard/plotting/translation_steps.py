"""One translation, step by step: the scores, the weights and the most likely next tokens of each step.

Lengths are in inches and font sizes in points, 72 to the inch, as in matplotlib.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from regard.plotting.attention_map import piece_labels, token_label
from regard.plotting.figures import ems, literal, message_figure
from regard.plotting.palette import ATTENTION_COLORMAP, BLUE, GRAY
from regard.plotting.panels import truncate
from regard.plotting.symbols import Formula, figure_text

MAX_STEPS = 8  # more would not fit on a slide; the others are counted
MAX_NEXT_TOKENS = 3
FIGURE_WIDTH = 10.0
ROW_HEIGHT = 0.7
ROW_GAP = 0.2
FONT_SIZE = 10.0
TICK_FONT = 9.0


@dataclass(frozen=True)
class TranslationStep:
    """What the decoder computed at one step.

    Args:
        token: The token that the step put out.
        scores: e_t, one for each source token; None where several heads or layers are averaged, and for a mechanism
            without scores.
        weights: α_t, one for each source token; None for a model without attention.
        next_tokens: The most likely tokens with their probabilities, the most likely first.
    """

    token: str
    scores: Sequence[float] | None
    weights: Sequence[float] | None
    next_tokens: Sequence[tuple[str, float]]


def draw_translation_steps(
    steps: Sequence[TranslationStep],
    source_tokens: Sequence[str],
    source_starts: Sequence[bool] | None = None,
    title: str | None = None,
) -> Figure:
    """A row for each step: its scores and weights as bars over the source tokens, and the most likely next tokens.

    At most `MAX_STEPS` steps are drawn; a line below them counts the others.

    Args:
        steps: The steps in their order.
        source_tokens: The tokens that scores and weights refer to.
        source_starts: Which source tokens begin a word, where words are cut into pieces.
        title: Drawn above, literally.
    """
    if not steps:
        return message_figure("empty output", title)
    shown = steps[:MAX_STEPS]
    columns = [
        *(["scores"] if all(step.scores is not None for step in shown) else []),
        *(["weights"] if all(step.weights is not None for step in shown) else []),
        "next tokens",
    ]
    layout = StepsLayout.fit(columns, len(shown), piece_labels(source_tokens, source_starts), [s.token for s in shown])
    figure = Figure(figsize=(FIGURE_WIDTH, layout.height))
    limits = _score_limits(shown) if "scores" in columns else (0.0, 1.0)
    for row, step in enumerate(shown):
        label = truncate(token_label(step.token), 16)
        y = layout.bottom(row) + ROW_HEIGHT / 2
        figure.text(0.05 / FIGURE_WIDTH, y / layout.height, str(row + 1), va="center", color=GRAY, fontsize=FONT_SIZE)
        x = layout.left - 0.15
        figure.text(x / FIGURE_WIDTH, y / layout.height, label, ha="right", va="center", fontsize=13, **literal())
        for column in columns:
            axes = figure.add_axes(layout.position(row, column))
            if row == 0:
                heading, style = figure_text(HEADINGS[column])
                start = layout.position(row, column)[0] - (0.05 if column == "next tokens" else 0) / FIGURE_WIDTH
                figure.text(start, 1 - 0.72 / layout.height, heading, fontsize=12, **style)
            if column == "next tokens":
                _draw_next_tokens(axes, step)
                continue
            values = step.scores if column == "scores" else step.weights
            _draw_source_bars(axes, np.asarray(values, dtype=float), limits if column == "scores" else (0.0, 1.0))
            _label_source_tokens(axes, layout, last=row == len(shown) - 1)
    if len(steps) > len(shown):
        text = f"… {len(steps) - len(shown)} more steps"
        figure.text(0.05 / FIGURE_WIDTH, 0.08 / layout.height, text, color=GRAY, fontsize=FONT_SIZE + 1)
    if title:
        y = 1 - 0.05 / layout.height
        figure.text(0.05 / FIGURE_WIDTH, y, truncate(title, 90), va="top", fontsize=14, **literal())
    return figure


HEADINGS = {
    "scores": Formula("scores e_t"),
    "weights": Formula("weights α_t"),
    "next tokens": Formula("next token, p(y_t)"),
}


@dataclass(frozen=True)
class StepsLayout:
    """Positions of all parts: the token of a step on the left, then its columns.

    Args:
        columns: Names of the columns.
        rows: Number of steps.
        source_labels: Labels of the source tokens.
        left: Space for the tokens of the steps.
        slanted: Whether source labels are slanted.
    """

    columns: Sequence[str]
    rows: int
    source_labels: Sequence[str]
    left: float
    slanted: bool

    @classmethod
    def fit(cls, columns: Sequence[str], rows: int, source_labels: Sequence[str], tokens: Sequence[str]) -> StepsLayout:
        widest = max(ems(truncate(token_label(token), 16)) for token in tokens)
        slanted = sum(ems(label) > 1.5 for label in source_labels) > len(source_labels) / 2
        return cls(columns, rows, source_labels, 0.5 + widest * 13 / 72, slanted)

    @property
    def foot(self) -> float:
        """Room below the last row for source tokens and the number of steps that are not shown."""
        widest = max(map(ems, self.source_labels), default=1) * TICK_FONT / 72
        return 0.4 + (0.75 if self.slanted else 1) * widest

    @property
    def height(self) -> float:
        return 0.85 + self.rows * (ROW_HEIGHT + ROW_GAP) + self.foot

    def bottom(self, row: int) -> float:
        """The lower edge of a row, from the lower edge of the figure."""
        return self.foot + (self.rows - 1 - row) * (ROW_HEIGHT + ROW_GAP)

    def position(self, row: int, column: str) -> tuple[float, float, float, float]:
        """Left, bottom, width and height of a panel, as fractions of the figure's size."""
        gap, index = 0.45, list(self.columns).index(column)
        next_width = 2.2 if len(self.columns) > 1 else FIGURE_WIDTH - self.left - 0.1
        share = (FIGURE_WIDTH - self.left - 0.1 - next_width) / max(len(self.columns) - 1, 1)
        x = self.left + index * share
        if column != "next tokens":
            return (
                (x + (gap - 0.2) * (column == "scores")) / FIGURE_WIDTH,
                self.bottom(row) / self.height,
                (share - gap) / FIGURE_WIDTH,
                ROW_HEIGHT / self.height,
            )
        return x / FIGURE_WIDTH, self.bottom(row) / self.height, next_width / FIGURE_WIDTH, ROW_HEIGHT / self.height


def _score_limits(steps: Sequence[TranslationStep]) -> tuple[float, float]:
    """One axis for the scores of all steps, so that rows can be compared."""
    scores = [score for step in steps for score in step.scores or ()]
    low, high = min(0.0, *scores), max(0.0, *scores)
    margin = 0.08 * (high - low) or 1.0
    return (low - margin * (low < 0), high + margin * (high > 0 or low == 0))


def _draw_source_bars(axes: Axes, values: np.ndarray, limits: tuple[float, float]) -> None:
    """A bar for each source token. Weights have the color that the attention map gives them."""
    is_weight = limits == (0.0, 1.0)
    colors = ATTENTION_COLORMAP(0.15 + 0.85 * np.clip(values, 0, 1)) if is_weight else "0.6"
    axes.bar(range(len(values)), values, width=0.78, color=colors)
    axes.set(xlim=(-0.6, len(values) - 0.4), ylim=limits)
    axes.axhline(0, color=GRAY, linewidth=0.8)
    axes.set_yticks([0, 1] if is_weight else sorted({0.0, float(f"{limits[0]:.1g}"), float(f"{limits[1]:.1g}")}))
    axes.tick_params(labelsize=TICK_FONT, length=0, colors=GRAY)
    axes.spines[["top", "right", "bottom"]].set_visible(False)
    axes.spines["left"].set_color("0.8")


def _label_source_tokens(axes: Axes, layout: StepsLayout, last: bool) -> None:
    """The source tokens below the last row; every second, third … where there is no room for all."""
    labels = layout.source_labels if last else []
    width = axes.get_position().width * FIGURE_WIDTH
    every = ceil(len(labels) * 1.4 * TICK_FONT / 72 / width) or 1
    axes.set_xticks(range(0, len(labels), every), labels[::every], fontsize=TICK_FONT, color="black", **literal())
    for text in axes.get_xticklabels():
        if layout.slanted:
            text.set(rotation=45, ha="right", rotation_mode="anchor")
        elif ems(text.get_text()) > 1.5:  # such as <end> among single characters
            text.set(rotation=90)


def _draw_next_tokens(axes: Axes, step: TranslationStep) -> None:
    """Horizontal bars with tokens and probabilities; the one that was put out is blue."""
    top = step.next_tokens[:MAX_NEXT_TOKENS]
    for row, (token, probability) in enumerate(top):
        axes.barh(row, probability, height=0.72, color=BLUE if token == step.token else "0.75")
        axes.text(-0.04, row, token_label(token), ha="right", va="center", fontsize=FONT_SIZE, **literal())
        axes.text(probability + 0.03, row, f"{probability:.2f}", va="center", fontsize=FONT_SIZE - 1, color=GRAY)
    axes.set(xlim=(-0.75, 1.3), ylim=(MAX_NEXT_TOKENS - 0.5, -0.5))
    axes.axis("off")
