"""Regard: sequence-to-sequence learning with attention: train, translate and inspect.

    import regard
    run = regard.train("case", out="runs/case")
    translation, = regard.load(run).translate(["<U> I am a student"])
    translation.text, translation.attention.shape

`regard.nn` has every mechanism, cell, encoder and decoder as an ordinary `torch.nn.Module`, `regard.data` the data of
tasks, and `regard.testing` the properties that extensions should have.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard import data, nn, testing
    from regard.config.schema import Experiment
    from regard.errors import UserError
    from regard.evaluation import EvaluationResult, evaluate
    from regard.inference.file_translation import translate_file
    from regard.inference.translation import Score, Translation
    from regard.inference.translator import Translator, load
    from regard.runs.directory import Run
    from regard.search.options import SearchOptions as Search
    from regard.studies.execution import compare
    from regard.studies.results import StudyResults
    from regard.training.api import dry_run, train
    from regard.training.averaging import average
    from regard.training.callbacks import Callback

__version__ = "0.5.0"
__all__ = [
    "Callback",
    "EvaluationResult",
    "Experiment",
    "Run",
    "Score",
    "Search",
    "StudyResults",
    "Translation",
    "Translator",
    "UserError",
    "__version__",
    "average",
    "compare",
    "data",
    "dry_run",
    "evaluate",
    "load",
    "nn",
    "testing",
    "train",
    "translate_file",
]
PACKAGES = (
    *("config", "data", "errors", "evaluation", "inference", "nn", "plotting", "reports", "runs", "search", "studies"),
    *("tasks", "testing", "text", "training"),
)
MODULE_OF = {
    "Callback": "regard.training.callbacks",
    "EvaluationResult": "regard.evaluation",
    "Experiment": "regard.config.schema",
    "Run": "regard.runs",
    "Score": "regard.inference.translation",
    "Search": "regard.search",
    "StudyResults": "regard.studies.results",
    "Translation": "regard.inference.translation",
    "Translator": "regard.inference.translator",
    "UserError": "regard.errors",
    "average": "regard.training.averaging",
    "compare": "regard.studies.execution",
    "dry_run": "regard.training.api",
    "evaluate": "regard.evaluation",
    "load": "regard.inference.translator",
    "train": "regard.training.api",
    "translate_file": "regard.inference.file_translation",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, because importing torch takes a second."""
    if name in PACKAGES:
        return import_module(f"regard.{name}")
    if name in MODULE_OF:
        return getattr(import_module(MODULE_OF[name]), name)
    raise AttributeError(f"module 'regard' has no attribute '{name}'")


def __dir__() -> list[str]:
    """The public names, also those that are not imported yet, for tab completion."""
    return __all__
