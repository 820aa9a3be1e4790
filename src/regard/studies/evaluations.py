"""Evaluations of a study's runs: on which sentences, how they are decoded, and where the result is stored."""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from pydantic import Field

from regard.config.base import Section
from regard.search.options import SearchOptions, search_field
from regard.tasks import TASKS, DataSection, Split

FOLDER = "evaluations"  # of a run directory
OLD_FOLDER = "exams"  # its name in Regard 0.5 and before, which is still read


class DecodeOptions(Section):
    """How a test set is decoded: keys of a study's `test` section."""

    split: Split = Field(default="test", description="The split to decode.")
    beam: int = search_field("beam")
    length_penalty: float | None = search_field("length_penalty")

    def search_options(self) -> SearchOptions:
        return SearchOptions(**self.model_dump(exclude={"split"}))


@dataclass(frozen=True)
class EvaluationSpec:
    """What to evaluate a run on.

    Args:
        data: The `data` section whose sentences to use: that of the run's own settings, or another.
        options: How to decode them.
    """

    data: DataSection
    options: DecodeOptions

    def to_dict(self) -> dict[str, Any]:
        return {"data": self.data.model_dump(), "options": self.options.model_dump()}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> EvaluationSpec:
        data = TASKS.section_class(values["data"]).model_validate(values["data"])
        return cls(data, DecodeOptions.model_validate(values["options"]))

    @property
    def file_name(self) -> str:
        """The name of the result file: that of Regard 0.5, so newer options count only if they are set."""
        options = self.options.model_dump(include={"split", "beam", "length_penalty"})
        options |= self.options.model_dump(exclude_defaults=True)
        return f"{fingerprint({'data': identifying_settings(self.data), 'manner': options})}.json"

    def file(self, run: Path) -> Path:
        """Where to write the result.

        Args:
            run: A run directory.
        """
        return run / FOLDER / self.file_name

    def find(self, run: Path) -> Path | None:
        """The file with the result, if there is one.

        Args:
            run: A run directory, perhaps of an older version, or one that does not exist yet.
        """
        candidates = (self.file(run), run / OLD_FOLDER / self.file_name)
        return next((path for path in candidates if path.is_file()), None)


def identifying_settings(data: DataSection) -> dict[str, Any]:
    """The settings that names of runs and results depend on: those of Regard 0.5, and a test set if one is chosen.

    Args:
        data: The section `data`.
    """
    newer = {data.test_set_key} if data.test_set_key else set()
    return data.model_dump(exclude=newer) | data.model_dump(include=newer, exclude_defaults=True)


def fingerprint(settings: dict[str, Any]) -> str:
    """Ten characters that identify settings.

    Renamed keys are hashed under the names of 0.5, so that the runs and results of older studies are still found.

    Args:
        settings: Values that JSON has.
    """
    text = json.dumps(settings, sort_keys=True).replace('"regularization": ', '"regularisation": ')
    return sha256(text.encode()).hexdigest()[:10]
