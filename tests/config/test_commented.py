"""`commented_yaml` loads as an equal experiment, and explains every setting."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.config import recipes
from regard.config.base import Section, documented_attributes
from regard.config.commented import list_settings, settings_to_dict
from regard.config.families import Kinds, subsection_class, subsection_kinds
from regard.config.loading import parse_experiment
from regard.config.schema import Experiment, flatten_settings


@pytest.mark.parametrize("name", recipes.recipe_names())
def test_the_yaml_of_every_recipe_loads_as_an_equal_experiment(name: str, tmp_path: Path):
    experiment = Experiment.load(name)
    file = tmp_path / "all.yaml"
    file.write_text(experiment.commented_yaml(), encoding="utf-8")
    assert Experiment.load(file) == experiment


@given(st.text())
def test_texts_of_any_form_survive(description: str):
    experiment = Experiment.load("copy", {"description": description})
    assert parse_experiment(experiment.commented_yaml(), "here") == experiment


def test_all_settings_have_their_value():
    experiment = Experiment.load("multi30k")
    values = {key: each["value"] for key, each in settings_to_dict(experiment).items()}
    assert values == flatten_settings(experiment.model_dump())


def test_a_default_is_shown_if_it_is_another_value():
    lines = Experiment.load("copy", {"training.epochs": 7, "training.seed": 1}).commented_yaml().splitlines()
    assert lines[lines.index("  epochs: 7") - 1].endswith(" Default: 10.")
    assert "Default" not in lines[lines.index("  seed: 1") - 1]


def test_the_default_of_a_kind_is_that_of_its_family():
    settings = settings_to_dict(Experiment.load("copy", {"model.attention.kind": "additive"}))
    kind, key_size = settings["model.attention.kind"], settings["model.attention.key_size"]
    assert (kind["value"], kind["default"]) == ("additive", "scaled-dot")
    assert "Choices: none, last, mean" in kind["description"]
    assert key_size["default"] is None, "that of the option in its own kind"


def all_sections(section: type[Section]) -> set[type[Section]]:
    """A section and those of all kinds below it."""
    found = {section}
    for name in section.model_fields:
        kinds: Kinds[Any] | None = subsection_kinds(section, name)
        inner = subsection_class(section, name, None)
        for each in [kinds[kind].Section for kind in kinds] if kinds else [inner] if inner else []:
            found |= all_sections(each)
    return found


def test_every_setting_of_every_kind_has_a_description():
    sections = all_sections(Experiment)
    assert len(sections) > 40
    for section in sections:
        assert section.descriptions().keys() == section.model_fields.keys(), section


def test_the_entries_of_a_docstring_are_read():
    class Documented:
        """Has attributes.

        Attributes:
            first: One line: with a colon.
            second: Two
                lines; None is YAML's null.

        More text: not an attribute.
        """

    expected = {"first": "One line: with a colon.", "second": "Two lines; null is YAML's null."}
    assert documented_attributes(Documented) == expected
    assert documented_attributes(int) == {}


def test_every_section_comes_before_its_settings():
    paths = [setting.path for setting in list_settings(Experiment.load("copy"))]
    assert all(path[:-1] in paths[:number] for number, path in enumerate(paths) if len(path) > 1)
