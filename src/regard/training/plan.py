"""What the arguments of `regard train` and `regard.train` mean: settings, run directory, initial weights."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.config.draft import Override
from regard.config.loading import resolve_experiment
from regard.config.recipes import recipe_names
from regard.config.schema import Experiment
from regard.errors import UserError
from regard.files import parse_path
from regard.runs import Run
from regard.training.fine_tuning import Pretrained, with_tags, without_embedding_files


@dataclass(frozen=True)
class TrainingPlan:
    """A training that was requested.

    Args:
        experiment: The settings.
        path: The run directory.
        pretrained: The run whose weights a new run starts with.
    """

    experiment: Experiment
    path: Path
    pretrained: Pretrained | None = None


def plan_training(
    experiment: str | os.PathLike[str] | Mapping[str, Any] | Experiment | Run,
    out: str | os.PathLike[str] | None = None,
    overrides: Mapping[str, Any] | Sequence[Override] | None = None,
    *,
    from_run: str | os.PathLike[str] | Run | None = None,
    reuse_vocabulary: bool = True,
    trust_code: bool = False,
) -> TrainingPlan:
    """What the arguments of `regard.train` mean, which has the same ones.

    Args:
        experiment: A recipe, file, dictionary or `Experiment`; or a run directory, for its settings.
        out: The run directory; by default that of `experiment`, or `runs/NAME`.
        overrides: Settings that replace those of the experiment.
        from_run: The run whose weights a new run starts with. What the experiment does not set is as in that run.
        reuse_vocabulary: Whether the new run has the tokenization and vocabularies of that run.
        trust_code: Whether both runs may execute code outside Regard.

    Raises:
        UserError: An argument or a setting is not valid.
    """
    if from_run is None and not reuse_vocabulary:
        raise UserError(
            "reuse-vocabulary: this is about the vocabulary of another run; name it (--from RUN, from_run=…)"
        )
    folder = find_run(experiment)
    if out is None and folder is None and isinstance(experiment, Mapping | Experiment):
        raise UserError("out: give a run directory, such as out='runs/mine'; only recipes and files have a default")
    path = default_run_path(str(folder or experiment)) if out is None else parse_path(out, "out")
    pretrained = None
    if from_run is not None:
        source = from_run if isinstance(from_run, Run) else Run(parse_path(from_run, "from"), trust_code=trust_code)
        pretrained = Pretrained(source, reuse_vocabulary)
    settings = Run(folder, trust_code=trust_code).experiment if folder else experiment
    assert not isinstance(settings, Run)  # which has a folder
    defaults = None
    if pretrained is not None:
        defaults = without_embedding_files(pretrained.run.experiment)
        defaults = with_tags(defaults) if reuse_vocabulary else defaults
        settings = without_embedding_files(settings) if isinstance(settings, Experiment) else settings
    resolved = resolve_experiment(settings, overrides, defaults=defaults, check_files=not path.exists())
    return TrainingPlan(resolved, path, pretrained)


def find_run(experiment: object) -> Path | None:
    """The run directory that an argument names, which otherwise names an experiment. A recipe's name is that recipe.

    Args:
        experiment: The argument.
    """
    if isinstance(experiment, Run):
        return experiment.path
    if not isinstance(experiment, str | os.PathLike) or experiment in recipe_names():
        return None
    return Path(experiment) if os.path.isfile(os.path.join(experiment, "run.json")) else None


def default_run_path(experiment: str | os.PathLike[str]) -> Path:
    """The run directory of a training for which none is named.

    Args:
        experiment: The name of a recipe, or the path of a YAML file; or a run directory, which is its own.
    """
    return find_run(experiment) or Path("runs") / Path(experiment).stem
