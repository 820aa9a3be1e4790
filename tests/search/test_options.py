"""Search options: valid and invalid values, and everything that is derived from them."""

from __future__ import annotations

import math
from typing import Any, get_type_hints

import pytest
from pydantic.fields import FieldInfo

from regard.cli.app import RegardCommands
from regard.config.schema import DecodingSection
from regard.errors import UserError
from regard.search.options import GREEDY, SearchOptions, bounds_text, option_bounds, option_group
from regard.serving.schemas import TranslateRequest
from regard.studies.evaluations import DecodeOptions

NAN, INFINITY = math.nan, math.inf


def test_the_default_is_greedy_search() -> None:
    assert SearchOptions() == GREEDY
    assert (GREEDY.beam, GREEDY.n_best, GREEDY.sample, GREEDY.length_penalty) == (1, 1, False, None)


@pytest.mark.parametrize(
    "settings",
    [
        {"beam": 5},
        {"beam": 5, "n_best": 5},
        {"beam": 5, "n_best": 3, "length_penalty": 0.6},
        {"length_penalty": 0},
        {"sample": True},
        {"sample": True, "n_best": 7, "seed": 0},
        {"sample": True, "beam": 1, "temperature": 0.01, "top_k": 1, "top_p": 0.01},
        {"sample": True, "temperature": 100, "top_p": 1, "top_k": None},
        {"prefix": ("a", "b", "<end>")},
        {"prefix": "a", "min_length": 3, "block_ngrams": 1, "repetition_penalty": 1.2},
        {"min_length": 0, "block_ngrams": 0, "repetition_penalty": 1},
        {"sample": True, "prefix": "a", "min_length": 3, "block_ngrams": 2, "repetition_penalty": 1.2},
    ],
    ids=str,
)
def test_valid_options_are_accepted(settings: dict[str, Any]) -> None:
    search = SearchOptions(**settings)
    assert {name: getattr(search, name) for name in settings} == settings


WHOLE, NUMBER = "should be a whole number, ", "should be a number, "


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        *(
            ({"beam": wrong}, f"beam {wrong}: {WHOLE}1 to 10,000")
            for wrong in (True, 2.5, INFINITY, "3", None, 0, -3, 10_001)
        ),
        *(({"n_best": wrong}, f"n-best {wrong}: {WHOLE}1 to 10,000") for wrong in (1.0, True, 0)),
        ({"n_best": -1, "beam": 5}, f"n-best -1: {WHOLE}1 to 10,000"),
        ({"n_best": 0, "sample": True}, f"n-best 0: {WHOLE}1 to 10,000"),
        ({"sample": True, "n_best": 10_001}, f"n-best 10001: {WHOLE}1 to 10,000"),
        *(({"sample": True, "top_k": wrong}, f"top-k {wrong}: {WHOLE}at least 1") for wrong in (2.5, True, 0, -2)),
        *(({"sample": True, "seed": wrong}, f"seed {wrong}: {WHOLE}at least 0") for wrong in (1.5, NAN, -1, 2**63)),
        *(({"min_length": wrong}, f"min-length {wrong}: {WHOLE}0 to 1,000,000") for wrong in (1.5, "1", -1)),
        ({"block_ngrams": -1}, f"block-ngrams -1: {WHOLE}0 to 1,000,000"),
        *(
            ({"length_penalty": wrong}, f"length-penalty {wrong}: {NUMBER}0 to 10")
            for wrong in ("0.6", True, -1, 10.1, NAN, INFINITY)
        ),
        ({"prefix": None}, "prefix None: should be a text, or a tuple of tokens"),
        ({"prefix": ["a"]}, "prefix ['a']: should be a text, or a tuple of tokens"),
        ({"prefix": ("a", 1)}, "prefix ('a', 1): should be a text, or a tuple of tokens"),
        ({"sample": "no"}, "sample no: should be true or false"),
        (
            {"beam": 3, "n_best": 5},
            "n-best 5: a beam of width 3 has no more than 3; make the beam wider, or n-best smaller",
        ),
        ({"n_best": 2}, "n-best 2: a beam of width 1 has no more than 1; make the beam wider, or n-best smaller"),
        *(
            ({"sample": True, "temperature": wrong}, f"temperature {wrong}: {NUMBER}above 0")
            for wrong in (0, -0.5, NAN, INFINITY)
        ),
        *(
            ({"sample": True, "top_p": wrong}, f"top-p {wrong}: {NUMBER}above 0, at most 1")
            for wrong in (0, -0.1, 1.1, NAN, INFINITY)
        ),
        *(
            ({"repetition_penalty": wrong}, f"repetition-penalty {wrong}: {NUMBER}at least 1")
            for wrong in (0.9, 0, -2, NAN, INFINITY)
        ),
        ({"beam": 5, "sample": True}, "beam 5 and sample: choose either beam search or sampling"),
        *(
            ({name: value, "beam": 3}, f"{name.replace('_', '-')} {value}: applies to sampling only; add sample")
            for name, value in {"temperature": 0.7, "top_k": 7, "top_p": 0.9, "seed": 2}.items()
        ),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_an_invalid_option_is_refused_with_its_name_and_value(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as error:
        SearchOptions(**settings)
    assert str(error.value) == message


def test_an_unknown_option_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UserError, match=r"^there is no search option 'bean'; did you mean 'beam'\? choices: beam, "):
        SearchOptions(bean=3)  # type: ignore[call-arg]


def test_options_are_keywords_and_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        SearchOptions(3)  # type: ignore[misc]
    with pytest.raises(ValueError, match="frozen"):
        GREEDY.beam = 2  # type: ignore[misc]
    assert len({GREEDY, SearchOptions(), SearchOptions(beam=2)}) == 2


@pytest.mark.parametrize("name", ["min_length", "block_ngrams"])
def test_integers_too_large_for_a_tensor_are_refused(name: str) -> None:
    with pytest.raises(UserError, match=f"{name.replace('_', '-')} {10**30}"):
        SearchOptions(**{name: 10**30})


def test_the_length_penalty_is_none_or_a_number() -> None:
    assert SearchOptions(beam=2).length_penalty is None
    assert SearchOptions(beam=2, length_penalty=0).length_penalty == 0
    with pytest.raises(UserError, match="length-penalty -1: should be a number, 0 to 10"):
        SearchOptions(beam=2, length_penalty=-1)


# Commands, API and studies take names, bounds, defaults and help from `SearchOptions`


COMMANDS = {
    "translate": set(SearchOptions.model_fields),
    "show": {"beam", "length_penalty", "prefix"},
    "explain": {"beam", "length_penalty"},
    "evaluate": {"beam", "length_penalty"},
}
STRINGS = {("evaluate", "beam")}  # several widths, separated by commas


@pytest.mark.parametrize("command", COMMANDS)
def test_the_flags_of_a_command_are_those_of_the_options(command: str) -> None:
    loaded = RegardCommands().load_command(command)
    parameters = {each.name: each for each in loaded.params}
    assert parameters.keys() & SearchOptions.model_fields.keys() == COMMANDS[command]
    types = get_type_hints(loaded.callback)
    for name in COMMANDS[command]:
        flag, field = parameters[name], SearchOptions.model_fields[name]
        assert flag.opts == [f"--{name.replace('_', '-')}"]
        bounds = bounds_text(name)
        assert flag.help.startswith(field.description.rstrip(".)"))
        assert flag.help.endswith(f"{bounds})." if bounds else field.description)
        assert flag.rich_help_panel == option_group(name)
        expected = str(field.default) if (command, name) in STRINGS else field.default
        assert flag.default == expected
        if (command, name) not in STRINGS and name != "prefix":
            assert types[name] == field.annotation
        assert (getattr(flag, "min", None), getattr(flag, "max", None)) == (None, None), "the options check the bounds"


def test_no_other_command_has_flags_of_the_same_names() -> None:
    names = {"beam", "n_best", "length_penalty", "temperature", "top_k", "top_p", "block_ngrams", "repetition_penalty"}
    group = RegardCommands()
    for command in group.lazy_commands:
        parameters = {each.name for each in group.load_command(command).params}
        assert command in COMMANDS or command == "serve" or not names & parameters, command


def described(field: FieldInfo) -> tuple[Any, ...]:
    return field.default, field.description, option_bounds(field)


def test_the_fields_of_the_api_are_those_of_the_options() -> None:
    for name, field in SearchOptions.model_fields.items():
        assert described(TranslateRequest.model_fields[name]) == described(field), name
        if name != "prefix":  # a list of tokens in JSON
            assert TranslateRequest.model_fields[name].annotation == field.annotation, name
    others = {"texts", "run", "attention", "self_attention", "alternatives", "tree"}
    assert TranslateRequest.model_fields.keys() - SearchOptions.model_fields.keys() == others


def test_the_openapi_description_has_the_bounds_of_the_options() -> None:
    own = SearchOptions.model_json_schema()["properties"]
    properties = TranslateRequest.model_json_schema()["properties"]
    for name, expected in own.items():
        if name != "prefix":
            assert properties[name] == {key: value for key, value in expected.items() if key != "group"}, name


def test_the_axes_of_studies_are_those_of_the_options() -> None:
    fields = DecodeOptions.model_fields
    assert fields.keys() == {"split", "beam", "length_penalty"}
    for name in ("beam", "length_penalty"):
        assert described(fields[name]) == described(SearchOptions.model_fields[name])
        assert fields[name].annotation == SearchOptions.model_fields[name].annotation


def test_the_length_penalty_of_an_experiment_has_the_same_bounds() -> None:
    ours, theirs = SearchOptions.model_fields["length_penalty"], DecodingSection.model_fields["length_penalty"]
    assert option_bounds(ours) == option_bounds(theirs) == {"ge": 0, "le": 10}


def test_the_docstring_describes_every_option() -> None:
    assert SearchOptions.__doc__ is not None
    for name in SearchOptions.model_fields:
        assert f"\n        {name}: " in SearchOptions.__doc__
