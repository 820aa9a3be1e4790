"""Built-in studies, one YAML file each. Each answers a question about attention."""

from __future__ import annotations

from importlib.resources import files

from regard.errors import UserError, suggest


def study_names() -> list[str]:
    """The names of all built-in studies."""
    return sorted(file.name.removesuffix(".yaml") for file in files(__name__).iterdir() if file.name.endswith(".yaml"))


def read_study(name: str) -> str:
    """The YAML text of a built-in study.

    Args:
        name: One of `study_names`.
    """
    if name not in study_names():
        raise UserError(f"there is no study {name!r}; {suggest(name, study_names())}; 'regard study list' lists them")
    return files(__name__).joinpath(f"{name}.yaml").read_text(encoding="utf-8")


def study_question(name: str) -> str:
    """The question of a built-in study.

    Args:
        name: One of `study_names`.
    """
    from regard.studies.parsing import parse_study

    return next(
        (leaf.value for leaf in parse_study(read_study(name), f"study {name}") if leaf.path == ("question",)), ""
    )
