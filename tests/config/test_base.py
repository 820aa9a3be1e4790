"""Validation errors of a section are explained by key, value and choices."""

from __future__ import annotations

from typing import Literal, Self

import pytest
from pydantic import Field, ValidationError, model_validator

from regard.config.base import KeyPath, Section, invalid_combination
from regard.config.explanations import explain_validation_error
from regard.errors import suggest


class Inner(Section):
    color: Literal["red", "green"] = "red"
    size: int = Field(3, ge=1)
    share: float = 0.5

    @model_validator(mode="after")
    def _limit_size_of_green(self) -> Self:
        if self.color == "green" and self.size > 5:
            raise invalid_combination("size", f"{self.size} is too much for green")
        return self


class Outer(Section):
    name: str
    inner: Inner = Inner()

    @model_validator(mode="after")
    def _limit_name_length(self) -> Self:
        if len(self.name) > self.inner.size:
            raise invalid_combination("inner.size", f"{self.inner.size} is less than the name has")
        return self


def reported_lines(values: dict[str, object], prefix: KeyPath = ()) -> list[str]:
    with pytest.raises(ValidationError) as error:
        Outer.model_validate(values)
    return explain_validation_error(error.value, Outer, prefix, lambda path: f"at {'/'.join(path)}").splitlines()


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({}, "at name: name: missing; this key is required"),
        ({"name": "a", "nam": 1}, "at nam: nam: unknown key; did you mean 'name'? choices: name, inner"),
        (
            {"name": "a", "inner": {"color": "gren"}},
            "at inner/color: inner.color: 'gren' is not a valid choice; did you mean 'green'? choices: red, green",
        ),
        (
            {"name": "a", "inner": {"color": 7}},
            "at inner/color: inner.color: 7 is not a valid choice; choices: red, green",
        ),
        ({"name": "a", "inner": 7}, "at inner: inner: 7 is not a section; it has the keys color, size, share"),
        (
            {"name": "a", "inner": {"size": 0}},
            "at inner/size: inner.size: 0 is invalid: input should be greater than or equal to 1",
        ),
        ({"name": 1}, "at name: name: 1 is invalid: input should be a valid string"),
        (
            {"name": "a", "inner": {"color": "green", "size": 6}},
            "at inner/size: inner.size: 6 is too much for green",
        ),
        ({"name": "abcd"}, "at inner/size: inner.size: 3 is less than the name has"),
    ],
)
def test_an_invalid_value_is_explained(values: dict[str, object], line: str):
    assert reported_lines(values) == [line]


def test_each_mistake_is_reported_on_one_line_with_the_prefix_before_the_key():
    lines = reported_lines({"name": 1, "inner": {"size": "x", "share": float("nan")}}, prefix=("data",))
    assert [line.split(": ")[:2] for line in lines] == [
        ["at data/name", "data.name"],
        ["at data/inner/size", "data.inner.size"],
        ["at data/inner/share", "data.inner.share"],
    ]


def test_a_section_is_frozen():
    with pytest.raises(ValidationError, match="frozen"):
        Inner().size = 4


def test_an_int_is_accepted_as_a_float_and_nothing_else_is_converted():
    assert Inner(share=1).share == 1.0
    for wrong in ("1", True):
        with pytest.raises(ValidationError):
            Inner(size=wrong)


def test_a_suggestion_names_the_nearest_choice_and_all_choices():
    assert suggest("reed", ["red", "green"]) == "did you mean 'red'? choices: red, green"
    assert suggest(7, ["red", "green"]) == "choices: red, green"
