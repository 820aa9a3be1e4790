"""Evaluation: losses, BLEU, chrF, error rates, alignment and attention statistics, significance, final evaluation.

To add a metric, see `regard.evaluation.metrics`. Names are imported when they are first used, because importing torch
takes a second.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.evaluation.evaluation_result import EvaluationResult
    from regard.evaluation.evaluator import evaluate
    from regard.evaluation.metrics import Metric
    from regard.evaluation.sentence_statistics import SentenceStatistics, mean_statistics

__all__ = ["EvaluationResult", "Metric", "SentenceStatistics", "evaluate", "mean_statistics"]
MODULE_OF = {
    "EvaluationResult": "evaluation_result",
    "Metric": "metrics",
    "SentenceStatistics": "sentence_statistics",
    "evaluate": "evaluator",
    "mean_statistics": "sentence_statistics",
}


def __getattr__(name: str) -> Any:
    if name not in MODULE_OF:
        raise AttributeError(f"module 'regard.evaluation' has no attribute '{name}'")
    return getattr(import_module(f"regard.evaluation.{MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return __all__
