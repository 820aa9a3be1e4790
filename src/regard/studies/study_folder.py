"""The folder of a study: its definition, from which it can be continued, beside its report."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from regard import files
from regard.config import loading, plugins, yaml_source
from regard.config.base import KeyPath
from regard.config.schema import Experiment
from regard.errors import UserError
from regard.studies.definition import Study
from regard.studies.parsing import extends_study

DEFINITION = "study.yaml"  # what --config reads again
FOREIGN = "the experiment in this folder names it, and that of this study does not; choose another folder"
EXPERIMENT = "experiment.yaml"  # what the definition refers to, if the experiment was given as Python values
# The first line of a definition that may be overwritten; a file without it is the user's own.
MARK = "# Written by regard, which may write it anew.\n"


class Wording(NamedTuple):
    """What messages call options and the call itself, in Python or on the command line.

    Args:
        out: The folder of the study.
        report: Report on finished runs only.
        call: What runs the study.
    """

    out: str = "out"
    report: str = "report_only=True"
    call: str = "code"


def default_folder(experiment: str | None, config: Path | None) -> Path:
    """The folder of a study for which none was chosen: `studies/NAME`, or that of a definition that is continued.

    Args:
        experiment: A recipe's name, or the path of an experiment file.
        config: The file that defines the study, in place of `experiment`.
    """
    if config and config.name == DEFINITION and read_definition(config.parent) is not None:
        return config.parent
    return Path("studies") / Path(str(config or experiment)).stem


def read_definition(folder: Path) -> str | None:
    """The definition that `write_definition` has written there, if any.

    Args:
        folder: Any folder, which need not exist.
    """
    known = yaml_source.read_text_file(folder / DEFINITION)
    return known if known is not None and known.startswith(MARK) else None


def write_definition(study: Study, out: Path, experiment: Experiment | None) -> None:
    """Write what `regard compare --config` needs to continue the study.

    Args:
        study: The study.
        out: Its folder.
        experiment: Its experiment if it has no file of its own.
    """
    if experiment:
        files.write_atomic(out / EXPERIMENT, (MARK + loading.dump_experiment(experiment)).encode())
    files.write_atomic(out / DEFINITION, (MARK + study.dump()).encode())


def check_study_folder(
    study: Study, out: Path, experiment: Experiment | None, wording: Wording, *, must_exist: bool
) -> None:
    """Refuse the folder of another study, or of something else.

    Args:
        study: The study.
        out: Its folder.
        experiment: Its experiment if it has no file of its own.
        wording: What options are called in messages.
        must_exist: Whether the folder must have the definition of this study already.

    Raises:
        UserError: The folder belongs to something else, or does not exist although it must.
    """
    if out.exists() and not out.is_dir():
        raise UserError(f"{out}: this is a file; choose another {wording.out}")
    known = read_definition(out)
    if known is None and out.is_dir() and any(out.iterdir()):
        raise UserError(
            f"{out}: this is not the folder of a study: it has no {DEFINITION} of ours; choose another {wording.out}"
        )
    if known is None and must_exist:
        raise UserError(f"{out}: there is no such study yet; run it without {wording.report}")
    if known is not None and not extends_study(study, known, str(out / DEFINITION)):
        raise UserError(f"{out}: this folder has another study, see its {DEFINITION}; choose another {wording.out}")
    if experiment and (changed := _changed_settings(out / EXPERIMENT, experiment)):
        raise UserError(
            f"{out / EXPERIMENT}: the study in this folder has another experiment, which differs in "
            f"{', '.join(changed)}; choose another {wording.out}"
        )


def _changed_settings(path: Path, experiment: Experiment) -> list[str]:
    """The settings that differ from those in a file; none if there is no file."""
    text = yaml_source.read_text_file(path)
    if text is None:
        return []
    with plugins.refuse_code(FOREIGN):
        old, new = _settings(loading.parse_experiment(text, str(path), ignore_unused=True)), _settings(experiment)
    differ = [key for key in old | new if (key in old, old.get(key)) != (key in new, new.get(key))]
    return [".".join(key) for key in differ if key != ("description",)]


def _settings(experiment: Experiment) -> dict[KeyPath, Any]:
    return {leaf.path: leaf.value for leaf in loading.parse_settings(loading.dump_experiment(experiment), "")}
