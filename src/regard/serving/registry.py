"""The runs that are served: their names, their models, and examples to begin with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from regard.errors import UserError
from regard.inference.translator import Translator, load
from regard.runs import named_weights
from regard.serving.memory import MemoryEstimator

EXAMPLES = 5
LOOK_AT = 200  # test sentences among which examples are chosen


@dataclass(frozen=True, eq=False)
class ServedRun:
    name: str
    translator: Translator
    memory: MemoryEstimator
    examples: tuple[str, ...]

    def about(self) -> dict[str, Any]:
        settings, model = self.translator.experiment, self.translator.model
        return {
            "name": self.name,
            "description": settings.description,
            "task": settings.data.model_dump()["task"],
            "encoder": settings.model.encoder.kind,
            "decoder": settings.model.decoder.kind,
            "attention": settings.model.attention.kind,
            "weights": sum(weight.numel() for weight in named_weights(model).values()),
            "axes": model.decoder.weight_axes,
            "length_penalty": settings.decoding.length_penalty,
            "examples": self.examples,
        }

    def most_tokens(self, source: int) -> int:
        """How many an answer may have to a source of so many tokens."""
        limits = self.translator.experiment.decoding
        return int(source * limits.length_factor) + limits.length_extra


def open_runs(paths: Sequence[Path]) -> list[ServedRun]:
    """Load the runs; a `UserError` if one is not there, damaged, or named twice."""
    resolved = [path.resolve() for path in paths]
    for path, place in zip(paths, resolved, strict=True):
        if resolved.count(place) > 1:
            raise UserError(f"{path}: this run is given twice; once is enough")
    names = _names(resolved)
    translators = [load(path) for path in paths]
    return [
        ServedRun(name, translator, MemoryEstimator.from_translator(translator), examples_for(translator))
        for name, translator in zip(names, translators, strict=True)
    ]


def _names(paths: Sequence[Path]) -> list[str]:
    """The last parts of each path, as many as it takes to tell all of them apart."""
    parts = [path.relative_to(path.anchor).parts for path in paths]
    counts = range(1, max(map(len, parts)) + 1)
    named = (["/".join(each[-count:]) for each in parts] for count in counts)
    return next((names for names in named if len(set(names)) == len(names)), [""])  # nothing is left of "/" alone


def examples_for(translator: Translator) -> tuple[str, ...]:
    """Test sentences, from short to long; none where the test set is not at hand any more."""
    try:
        sources = [pair.source for pair in islice(translator.experiment.data.pairs("test"), LOOK_AT)]
    except (UserError, OSError):
        return ()
    by_length = sorted(dict.fromkeys(sources), key=len)
    places = [len(by_length) * (2 * number + 1) // (2 * EXAMPLES) for number in range(EXAMPLES)]
    return tuple(dict.fromkeys(by_length[place] for place in places if by_length))
