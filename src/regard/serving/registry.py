"""The runs of a server: their names, translators, memory estimators and example sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from regard.config.references import short_reference
from regard.errors import UserError
from regard.inference.translator import Translator, load
from regard.runs import named_weights
from regard.serving.memory import MemoryEstimator

EXAMPLES = 5
EXAMPLE_CANDIDATES = 200  # test sentences from which examples are selected


@dataclass(frozen=True, eq=False)
class ServedRun:
    """A run that clients can choose by name.

    Args:
        name: Its name in the API.
        translator: Its model.
        memory: Estimates the memory of its requests.
        examples: Sentences to try.
    """

    name: str
    translator: Translator
    memory: MemoryEstimator
    examples: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """The run's description, as `/api/runs` lists it."""
        settings, model = self.translator.experiment, self.translator.model
        return {
            "name": self.name,
            "description": settings.description,
            # Without the folder of a class in a file, which clients need not know.
            "task": short_reference(settings.data.task),
            "encoder": settings.model.encoder.label,
            "decoder": settings.model.decoder.label,
            "attention": settings.model.attention.label,
            "parameters": sum(weight.numel() for weight in named_weights(model).values()),
            "axes": model.decoder.weight_axes,
            "self_attention": [side for side in ("encoder", "decoder") if getattr(model, side).self_attentions],
            "length_penalty": settings.decoding.length_penalty,
            "source": "image" if self.translator.reads_pictures else "text",
            "examples": self.examples,
        }

    def max_output_length(self, source: int) -> int:
        """The most tokens that a translation can have.

        Args:
            source: The number of source tokens.
        """
        decoding = self.translator.experiment.decoding
        return int(source * decoding.length_factor) + decoding.length_extra


def open_runs(paths: Sequence[Path], *, device: str = "auto", precision: str = "float32") -> list[ServedRun]:
    """Load runs; a `UserError` if one is missing, damaged, or given twice, or there is no such device.

    Args:
        paths: Run directories.
        device: The device of the models.
        precision: The precision in which they compute.
    """
    resolved = [path.resolve() for path in paths]
    for path, target in zip(paths, resolved, strict=True):
        if resolved.count(target) > 1:
            raise UserError(f"{path}: this run is given twice; once is enough")
    names = _unique_names(resolved)
    translators = [load(path, device=device, precision=precision) for path in paths]
    return [
        ServedRun(name, translator, MemoryEstimator.from_translator(translator), example_sources(translator))
        for name, translator in zip(names, translators, strict=True)
    ]


def _unique_names(paths: Sequence[Path]) -> list[str]:
    """The last parts of each path, as many as all names need to be different."""
    parts = [path.relative_to(path.anchor).parts for path in paths]
    counts = range(1, max(map(len, parts)) + 1)
    candidates = (["/".join(each[-count:]) for each in parts] for count in counts)
    return next((names for names in candidates if len(set(names)) == len(names)), [""])  # "/" alone has no parts


def example_sources(translator: Translator) -> tuple[str, ...]:
    """Test sentences from short to long; none where the test set is no longer available.

    Args:
        translator: A translator of one run.
    """
    try:
        sources = [pair.source for pair in islice(translator.experiment.task.dataset.pairs("test"), EXAMPLE_CANDIDATES)]
    except (UserError, OSError):
        return ()
    by_length = sorted(dict.fromkeys(sources), key=len)
    indices = [len(by_length) * (2 * number + 1) // (2 * EXAMPLES) for number in range(EXAMPLES)]
    return tuple(dict.fromkeys(by_length[index] for index in indices if by_length))
