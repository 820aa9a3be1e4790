"""Studies that answer a question about attention, one YAML file each."""

from __future__ import annotations

from importlib.resources import files

from regard.errors import UserError, suggest


def names() -> list[str]:
    return sorted(file.name.removesuffix(".yaml") for file in files(__name__).iterdir() if file.name.endswith(".yaml"))


def read(name: str) -> str:
    if name not in names():
        raise UserError(f"there is no study {name!r}; {suggest(name, names())}; 'regard study list' tells of each")
    return files(__name__).joinpath(f"{name}.yaml").read_text(encoding="utf-8")


def question(name: str) -> str:
    """What it asks."""
    from regard.studies.reading import parse

    return next((leaf.value for leaf in parse(read(name), f"study {name}") if leaf.path == ("question",)), "")
