"""The pictures and the output of `regard show`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from regard.errors import UserError
from regard.images import source_label
from regard.plotting import attention_map, beam_tree, figures, learning_curves, picture_map
from regard.terminal.output import print_result
from regard.torch_state import private_torch_state

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import Tensor

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
    attention: str,
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
        attention: What it shows: the attention to the source, or the self-attention of encoder or decoder.
        tree: The file of the beam search tree.
        as_json: Print the translation with its tree as JSON.

    Returns:
        The run directory, open.
    """
    from regard.cli.loading import load_and_encode
    from regard.inference.line_translation import note_truncation

    translator, source = load_and_encode(run, text)
    (best,) = translator.translate([source], search, self_attention=as_json or attention != "source")
    found = len(best.n_best)
    if best.tokens and found < search.n_best:
        raise UserError(f"there is no hypothesis of rank {search.n_best}: the search found {found} different ones")
    translation = best.n_best[-1]
    nodes = translator.tree(source, search) if tree is not None or as_json else []
    note_truncation("this text", translation)
    lines = [translation.text]
    if out is not None:
        shown = shown_attention(translator, translation, attention)
        figures.save_figure(shown.draw(translation, selection), out)
        lines.append(f"{out}: attention map, {shown.about}")
    if tree is not None:
        figures.save_figure(beam_tree.draw_beam_tree(nodes, title=source_label(source.text)), tree)
        lines.append(f"{tree}: beam search tree, width {search.beam}")
    if as_json:
        lines = [json.dumps(best.to_dict(tree=nodes), ensure_ascii=False)]
    print_result("\n".join(lines))
    return translator.runs[0]


@dataclass(frozen=True)
class ShownAttention:
    """The attention that a map shows.

    Args:
        about: What it is.
        title: What it is, for the title of the map; () for the attention to the source.
        weights: The weights [rows, columns], after the axes for layers and heads.
        axes: The names of these axes.
        columns: The tokens of the columns, and which of them begin a word.
        rows: The same for the rows.
        sides: What the tokens of columns and rows are.
    """

    about: str
    title: tuple[str, ...]
    weights: Tensor
    axes: Sequence[str]
    columns: tuple[Sequence[str], Sequence[bool]]
    rows: tuple[Sequence[str], Sequence[bool]]
    sides: tuple[str, str]

    def draw(self, translation: Translation, selection: Mapping[str, int]) -> Figure:
        """The map of all layers and heads or of the selected ones."""
        from regard.inference.translation import select_attention

        tokens, starts = self.columns
        row_tokens, row_starts = self.rows
        weights = select_attention(self.weights, self.axes, selection) if row_tokens else self.weights
        axes = [axis for axis in self.axes if axis not in selection] if row_tokens else ()
        title = " · ".join([translation.text, *self.title, *(f"{axis} {n}" for axis, n in selection.items())])
        if (image := translation.source_image) and self.sides == ("source", "output"):
            return picture_map.draw_picture_map(weights, image.pixels, image.boxes, row_tokens, title, axes, row_starts)
        return attention_map.draw_attention_map(
            weights,
            tokens,
            row_tokens,
            title=title,
            axes=axes,
            starts=row_starts,
            source_starts=starts,
            sides=self.sides,
        )


def shown_attention(translator: Translator, translation: Translation, name: str) -> ShownAttention:
    """The attention of a translation that `--attention` names; a `UserError` if the model does not have it."""
    model = translator.experiment.model
    source = translation.source_tokens, translation.source_word_starts
    output = translation.tokens, translation.word_starts
    if name == "source" or not translation.tokens:
        if translation.tokens and not translation.attention.any():
            raise UserError(f"this model has no attention to draw: model.attention.kind is '{model.attention.kind}'")
        axes, about = translator.model.decoder.weight_axes, f"{model.attention.label} attention"
        return ShownAttention(about, (), translation.attention, axes, source, output, ("source", "output"))
    attentions = {"encoder": translation.encoder_attention, "decoder": translation.decoder_attention}
    attention = attentions[name]
    if attention is None:
        shown = ["source"] * bool(translation.attention.any()) + [each for each in attentions if attentions[each]]
        raise UserError(
            f"--attention {name}: this model has no self-attention in its {name}; model.{name}.kind is "
            f"'{getattr(model, name).label}', kinds with self-attention: {', '.join(kinds_with_self_attention(name))}; "
            f"this model can show: {', '.join(shown) or 'no attention'}"
        )
    columns = attention.tokens, attention.word_starts
    rows, sides = (source, ("source", "source")) if name == "encoder" else (output, ("input", "output"))
    about = f"{name} self-attention"
    return ShownAttention(about, (about,), attention.weights, attention.axes, columns, rows, sides)


def kinds_with_self_attention(side: str) -> list[str]:
    """The kinds of encoder or decoder that have self-attention by default."""
    from regard.config import kinds
    from regard.config.schema import ModelSection
    from regard.nn.build import build_model

    names = [*kinds.ENCODERS] if side == "encoder" else [*kinds.DECODERS]
    with private_torch_state():
        models = {kind: build_model(ModelSection.model_validate({side: {"kind": kind}}), 9, 9) for kind in names}
    return [kind for kind, model in models.items() if getattr(model, side).self_attentions]


def save_learning_curves(run: Run, out: Path) -> None:
    """Draw the learning curves of a run.

    Args:
        run: An open run directory.
        out: The file of the picture.
    """
    figures.save_figure(learning_curves.draw_learning_curves(run.metrics(), title=str(run.path)), out)
    print_result(f"{out}: learning curves")
