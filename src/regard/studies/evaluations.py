"""Exams: a finished run translates a test set in a certain manner, and what it said is kept with the run."""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from regard.config.base import Section
from regard.search.options import search_field
from regard.tasks import TASKS, DataSection, Split

FOLDER = "exams"


class DecodeOptions(Section):
    """How a test set is translated."""

    split: Split = "test"
    beam: int = search_field("beam")
    length_penalty: float | None = search_field("length_penalty")


@dataclass(frozen=True)
class EvaluationSpec:
    data: DataSection  # whose texts these are: those of the run's own settings, or others
    manner: DecodeOptions

    def as_json(self) -> dict[str, Any]:
        return {"data": self.data.model_dump(), "manner": self.manner.model_dump()}

    @classmethod
    def from_json(cls, known: dict[str, Any]) -> EvaluationSpec:
        return cls(
            TASKS[known["data"]["task"]].Section.model_validate(known["data"]),
            DecodeOptions.model_validate(known["manner"]),
        )

    def file(self, run: Path) -> Path:
        """Where the result of a run is kept."""
        return run / FOLDER / f"{fingerprint(self.as_json())}.json"


def fingerprint(tree: dict[str, Any]) -> str:
    """Ten characters that identify these settings.

    Renamed keys are hashed under the names of 0.5, so that the runs and results of older studies are still found.
    """
    text = json.dumps(tree, sort_keys=True).replace('"regularization": ', '"regularisation": ')
    return sha256(text.encode()).hexdigest()[:10]
