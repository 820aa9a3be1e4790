"""Which settings may change when a training continues, and the message about those that may not."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from regard.config.schema import Experiment
from regard.errors import UserError
from regard.runs import Run
from regard.training.learning_rates import build_learning_rate


def _anything(old: Any, new: Any) -> bool:
    return True


def _more(old: int | None, new: int | None) -> bool:
    """True if a limit grows; None is no limit."""
    return (math.inf if new is None else new) >= (math.inf if old is None else old)


# Settings that change nothing of what was learned so far. (Another device, thread count or compiler may change the last
# bits of what is learned from then on.)
MAY_CHANGE: dict[str, Callable[[Any, Any], bool]] = {
    "description": _anything,
    "training.epochs": _more,
    "training.max_steps": _more,
    "training.patience": _more,
    "training.device": _anything,
    "training.compile": _anything,
    "training.threads": _anything,
    "training.save_every": _anything,
    "training.keep_checkpoints": _anything,
    "training.log": _anything,
    "decoding.batch_size": _anything,
}
LENGTH = ("training.epochs", "training.max_steps")
RATE = "training.rate."


def changed_settings(run: Run, experiment: Experiment) -> list[str]:
    """The keys of the settings that differ from those of a run, all of which may change when it continues.

    A new `training.rate` is allowed if the training becomes longer: it is then the schedule of the additional steps.

    Args:
        run: A run directory.
        experiment: The settings to continue with.

    Raises:
        UserError: Some may not change; all of them are listed. Or a longer training would need another schedule.
    """
    changed = run.experiment.diff(experiment.of_format(run.metadata["format"]))
    if changed.get("training.precision", ("", ""))[1] == run.precision:  # what `auto` has selected
        del changed["training.precision"]
    is_longer = any(key in changed and MAY_CHANGE[key](*changed[key]) for key in LENGTH)
    has_new_rate = any(key.startswith(RATE) for key in changed)
    refused = {
        key: values
        for key, values in changed.items()
        if not (is_longer if key.startswith(RATE) else key in MAY_CHANGE and MAY_CHANGE[key](*values))
    }
    if refused:
        raise UserError(_refused_settings(run, refused))
    rate = run.experiment.training.rate
    if is_longer and not has_new_rate and build_learning_rate(rate).depends_on_steps:
        raise UserError(
            f"{run.path}: the learning rate of this run ({rate.kind}) depends on the number of all steps, so more "
            "epochs would have been another training from the first step on; set a schedule for the additional steps "
            "(--set training.rate.kind=constant --set training.rate.peak=…), or fine-tune the weights in another run "
            f"directory (--from {run.path})"
        )
    return list(changed)


def _refused_settings(run: Run, refused: dict[str, tuple[Any, Any]]) -> str:
    lines = [f"  {key} = {old!r}, not {new!r}{_limit_hint(key)}" for key, (old, new) in refused.items()]
    return "\n".join(
        [
            f"{run.path}: this run was started with other settings, which may not change:",
            *lines,
            f"choose another run directory (--out), or the settings of the run ('regard train {run.path}'), or "
            f"fine-tune its weights (--from {run.path} --out …)",
        ]
    )


def _limit_hint(key: str) -> str:
    return " (it may only grow)" if MAY_CHANGE.get(key) is _more else ""
