"""The pictures of `regard show`."""

from __future__ import annotations

from pathlib import Path

from regard.errors import UserError
from regard.inspection import attention_map, figures
from regard.inspection import curves as learning_curves


def draw_attention(run: Path, text: str, out: Path) -> None:
    from regard.cli.loading import load

    translator = load(run)
    (translation,) = translator.translate([text])
    kind = translator.experiment.model.attention.kind
    if text and not translation.attention.any():
        raise UserError(f"{run}: this model looks nowhere, there is nothing to draw: model.attention.kind is '{kind}'")
    figure = attention_map.draw(
        translation.attention,
        translation.source_tokens,
        translation.tokens,
        title=translation.text,
        axes=translator.model.decoder.weight_axes if text else (),
    )
    figures.save(figure, out)
    print(f"{translation.text}\n{out}: where the model looked, {kind} attention")


def draw_curves(run: Path, out: Path) -> None:
    from regard.runs import Run

    figures.save(learning_curves.draw(Run(run).metrics(), title=str(run)), out)
    print(f"{out}: how the model learned")
