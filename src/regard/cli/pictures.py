"""The pictures of `regard show`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from regard.errors import UserError
from regard.inspection import attention_map, beam_tree, figures
from regard.inspection import curves as learning_curves

if TYPE_CHECKING:
    from regard.search import Search
    from regard.translation import Translation
    from regard.translator import Translator


def draw_text(
    run: Path,
    text: str,
    search: Search,
    numbers: Mapping[str, int],
    *,
    out: Path | None,
    tree: Path | None,
    as_json: bool,
) -> None:
    """What the model makes of a text: the last of its n best hypotheses, its attention, its beam."""
    from regard.cli.lines import Line, check
    from regard.cli.loading import load
    from regard.cli.translating import details, note_cut_off
    from regard.translation import brief

    translator = load(run)
    check([Line(text, "this text")], translator)
    (best,) = translator.translate([text], search)
    found = len(best.n_best)
    if best.tokens and found < search.n_best:
        raise UserError(f"there is no hypothesis of rank {search.n_best}: the search found {found} different ones")
    translation = best.n_best[-1]
    nodes = translator.tree(text, search) if tree is not None or as_json else []
    note_cut_off("this text", translation)
    told = [translation.text]
    if out is not None:
        draw_attention(translator, translation, numbers, out)
        told.append(f"{out}: where the model looked, {translator.experiment.model.attention.kind} attention")
    if tree is not None:
        figures.save(beam_tree.draw(nodes, title=text), tree)
        told.append(f"{tree}: how a beam of width {search.beam} went")
    if as_json:
        others = {"n_best": [brief(each) for each in best.n_best], "tree": [asdict(node) for node in nodes]}
        told = [json.dumps(details(translation) | others, ensure_ascii=False)]
    print("\n".join(told))


def draw_attention(translator: Translator, translation: Translation, numbers: Mapping[str, int], out: Path) -> None:
    """Where the model looked; `numbers` says which layer or head, where not all of them are wanted."""
    from regard.translation import part_of

    kind = translator.experiment.model.attention.kind
    if translation.tokens and not translation.attention.any():
        raise UserError(f"this model looks nowhere, there is nothing to draw: model.attention.kind is '{kind}'")
    axes = translator.model.decoder.weight_axes
    weights = part_of(translation.attention, axes, numbers) if translation.tokens else translation.attention
    figure = attention_map.draw(
        weights,
        translation.source_tokens,
        translation.tokens,
        title=" · ".join([translation.text, *(f"{axis} {number}" for axis, number in numbers.items())]),
        axes=[axis for axis in axes if axis not in numbers] if translation.tokens else (),
        starts=translation.starts,
        source_starts=translation.source_starts,
    )
    figures.save(figure, out)


def draw_curves(run: Path, out: Path) -> None:
    from regard.runs import Run

    figures.save(learning_curves.draw(Run(run).metrics(), title=str(run)), out)
    print(f"{out}: how the model learned")
