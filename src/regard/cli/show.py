"""The pictures and the output of `regard show`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from regard.errors import UserError
from regard.images import source_label
from regard.plotting import attention_map, beam_tree, figures, learning_curves, picture_map
from regard.terminal.output import print_result

if TYPE_CHECKING:
    from regard.inference.translation import Translation
    from regard.inference.translator import Translator
    from regard.runs import Run
    from regard.search import SearchOptions


def draw_text(
    run: Path,
    text: str,
    search: SearchOptions,
    selection: Mapping[str, int],
    *,
    out: Path | None,
    tree: Path | None,
    as_json: bool,
) -> Run:
    """Translate a text; draw the attention map of the last of its n best hypotheses and the tree of the beam.

    Args:
        run: A run directory.
        text: The source text.
        search: How to search.
        selection: The layer and the head of the map, counted from 1, by the names of the axes; all of them if empty.
        out: The file of the attention map.
        tree: The file of the beam search tree.
        as_json: Print the translation with its tree as JSON.

    Returns:
        The run directory, open.
    """
    from regard.cli.loading import load_and_encode
    from regard.cli.translate import note_truncation

    translator, source = load_and_encode(run, text)
    (best,) = translator.translate([source], search)
    found = len(best.n_best)
    if best.tokens and found < search.n_best:
        raise UserError(f"there is no hypothesis of rank {search.n_best}: the search found {found} different ones")
    translation = best.n_best[-1]
    nodes = translator.tree(source, search) if tree is not None or as_json else []
    note_truncation("this text", translation)
    lines = [translation.text]
    if out is not None:
        draw_attention(translator, translation, selection, out)
        lines.append(f"{out}: attention map, {translator.experiment.model.attention.label} attention")
    if tree is not None:
        figures.save_figure(beam_tree.draw_beam_tree(nodes, title=source_label(source.text)), tree)
        lines.append(f"{tree}: beam search tree, width {search.beam}")
    if as_json:
        lines = [json.dumps(best.to_dict(tree=nodes), ensure_ascii=False)]
    print_result("\n".join(lines))
    return translator.runs[0]


def draw_attention(translator: Translator, translation: Translation, selection: Mapping[str, int], out: Path) -> None:
    """Draw the attention map of a translation, of all layers and heads or of the selected ones."""
    from regard.inference.translation import select_attention

    kind = translator.experiment.model.attention.kind
    if translation.tokens and not translation.attention.any():
        raise UserError(f"this model has no attention to draw: model.attention.kind is '{kind}'")
    axes: Sequence[str] = translator.model.decoder.weight_axes
    weights = select_attention(translation.attention, axes, selection) if translation.tokens else translation.attention
    title = " · ".join([translation.text, *(f"{axis} {number}" for axis, number in selection.items())])
    axes = [axis for axis in axes if axis not in selection] if translation.tokens else ()
    if image := translation.source_image:
        figure = picture_map.draw_picture_map(
            weights, image.pixels, image.boxes, translation.tokens, title, axes, translation.word_starts
        )
    else:
        figure = attention_map.draw_attention_map(
            weights,
            translation.source_tokens,
            translation.tokens,
            title=title,
            axes=axes,
            starts=translation.word_starts,
            source_starts=translation.source_word_starts,
        )
    figures.save_figure(figure, out)


def save_learning_curves(run: Run, out: Path) -> None:
    """Draw the learning curves of a run.

    Args:
        run: An open run directory.
        out: The file of the picture.
    """
    figures.save_figure(learning_curves.draw_learning_curves(run.metrics(), title=str(run.path)), out)
    print_result(f"{out}: learning curves")
