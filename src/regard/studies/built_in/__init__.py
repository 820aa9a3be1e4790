"""Studies that answer a question about attention, one YAML file each."""

from __future__ import annotations

from importlib.resources import files

from regard.errors import UserError, suggest


def study_names() -> list[str]:
    return sorted(file.name.removesuffix(".yaml") for file in files(__name__).iterdir() if file.name.endswith(".yaml"))


def read_study(name: str) -> str:
    if name not in study_names():
        raise UserError(
            f"there is no study {name!r}; {suggest(name, study_names())}; 'regard study list' tells of each"
        )
    return files(__name__).joinpath(f"{name}.yaml").read_text(encoding="utf-8")


def study_question(name: str) -> str:
    """What it asks."""
    from regard.studies.parsing import parse_study

    return next(
        (leaf.value for leaf in parse_study(read_study(name), f"study {name}") if leaf.path == ("question",)), ""
    )
