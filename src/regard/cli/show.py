"""The pictures of `regard show`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from regard.errors import UserError
from regard.plotting import attention_map, beam_tree, figures
from regard.plotting import learning_curves as learning_curves

if TYPE_CHECKING:
    from regard.inference.translation import Translation
    from regard.inference.translator import Translator
    from regard.search import SearchOptions


def draw_text(
    run: Path,
    text: str,
    search: SearchOptions,
    numbers: Mapping[str, int],
    *,
    out: Path | None,
    tree: Path | None,
    as_json: bool,
) -> None:
    """What the model makes of a text: the last of its n best hypotheses, its attention, its beam."""
    from regard.cli.input_lines import InputLine, encode_input
    from regard.cli.loading import load_translator
    from regard.cli.translate import note_truncation

    translator = load_translator(run)
    (source,) = encode_input([InputLine(text, "this text")], translator)
    (best,) = translator.translate([source], search)
    found = len(best.n_best)
    if best.tokens and found < search.n_best:
        raise UserError(f"there is no hypothesis of rank {search.n_best}: the search found {found} different ones")
    translation = best.n_best[-1]
    nodes = translator.tree(source, search) if tree is not None or as_json else []
    note_truncation("this text", translation)
    told = [translation.text]
    if out is not None:
        draw_attention(translator, translation, numbers, out)
        told.append(f"{out}: where the model looked, {translator.experiment.model.attention.kind} attention")
    if tree is not None:
        figures.save_figure(beam_tree.draw_beam_tree(nodes, title=text), tree)
        told.append(f"{tree}: how a beam of width {search.beam} went")
    if as_json:
        told = [json.dumps(best.to_dict(tree=nodes), ensure_ascii=False)]
    print("\n".join(told))


def draw_attention(translator: Translator, translation: Translation, numbers: Mapping[str, int], out: Path) -> None:
    """Where the model looked; `numbers` says which layer or head, where not all of them are wanted."""
    from regard.inference.translation import select_attention

    kind = translator.experiment.model.attention.kind
    if translation.tokens and not translation.attention.any():
        raise UserError(f"this model has no attention to draw: model.attention.kind is '{kind}'")
    axes = translator.model.decoder.weight_axes
    weights = select_attention(translation.attention, axes, numbers) if translation.tokens else translation.attention
    figure = attention_map.draw_attention_map(
        weights,
        translation.source_tokens,
        translation.tokens,
        title=" · ".join([translation.text, *(f"{axis} {number}" for axis, number in numbers.items())]),
        axes=[axis for axis in axes if axis not in numbers] if translation.tokens else (),
        starts=translation.word_starts,
        source_starts=translation.source_word_starts,
    )
    figures.save_figure(figure, out)


def save_learning_curves(run: Path, out: Path) -> None:
    from regard.runs import Run

    figures.save_figure(learning_curves.draw_learning_curves(Run(run).metrics(), title=str(run)), out)
    print(f"{out}: how the model learned")
