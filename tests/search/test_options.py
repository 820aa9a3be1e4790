"""What a user can ask of a search, and what is refused with a word about it."""

from __future__ import annotations

import math
from typing import Any

import pytest

from regard.errors import UserError
from regard.search import GREEDY, SearchOptions

NAN, INFINITY = math.nan, math.inf


def test_unless_something_is_chosen_a_search_is_greedy() -> None:
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
def test_what_makes_sense_is_taken(settings: dict[str, Any]) -> None:
    search = SearchOptions(**settings)
    assert {name: getattr(search, name) for name in settings} == settings


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"beam": 10_001}, "beam 10001: a beam is 1 to 10,000 wide; 1 is greedy search"),
        ({"sample": True, "n_best": 10_001}, "n-best 10001: 1 to 10,000 hypotheses can be returned"),
        *(({"beam": wrong}, f"beam {wrong}: should be a whole number") for wrong in (True, 2.5, INFINITY, "3", None)),
        *(({"n_best": wrong}, f"n-best {wrong}: should be a whole number") for wrong in (1.0, True)),
        *(({"sample": True, "top_k": wrong}, f"top-k {wrong}: should be a whole number") for wrong in (2.5, True)),
        *(({"sample": True, "seed": wrong}, f"seed {wrong}: should be a whole number") for wrong in (1.5, NAN)),
        *(({"min_length": wrong}, f"min-length {wrong}: should be a whole number") for wrong in (1.5, "1")),
        ({"length_penalty": "0.6"}, "length-penalty 0.6: should be a number"),
        ({"length_penalty": True}, "length-penalty True: should be a number"),
        ({"prefix": None}, "prefix None: should be a text, or a tuple of tokens"),
        ({"prefix": ["a"]}, "prefix ['a']: should be a text, or a tuple of tokens"),
        ({"prefix": ("a", 1)}, "prefix ('a', 1): each token should be a text"),
        ({"sample": "no"}, "sample no: should be true or false"),
        ({"beam": 0}, "beam 0: a beam is 1 to 10,000 wide; 1 is greedy search"),
        ({"beam": -3}, "beam -3: a beam is 1 to 10,000 wide; 1 is greedy search"),
        ({"n_best": 0}, "n-best 0: 1 to 10,000 hypotheses can be returned"),
        ({"n_best": -1, "beam": 5}, "n-best -1: 1 to 10,000 hypotheses can be returned"),
        ({"n_best": 0, "sample": True}, "n-best 0: 1 to 10,000 hypotheses can be returned"),
        (
            {"beam": 3, "n_best": 5},
            "n-best 5: a beam of width 3 has no more than 3; make the beam wider, or n-best smaller",
        ),
        ({"n_best": 2}, "n-best 2: a beam of width 1 has no more than 1; make the beam wider, or n-best smaller"),
        *(
            ({"length_penalty": wrong}, f"length-penalty {wrong}: should be 0, which is none, to 10")
            for wrong in (-1, 10.1, NAN, INFINITY)
        ),
        *(
            (
                {"sample": True, "temperature": wrong},
                f"temperature {wrong}: should be above 0; near 0 the likeliest is drawn",
            )
            for wrong in (0, -0.5, NAN, INFINITY)
        ),
        *(({"sample": True, "top_k": wrong}, f"top-k {wrong}: at least 1 token takes part") for wrong in (0, -2)),
        *(
            (
                {"sample": True, "top_p": wrong},
                f"top-p {wrong}: should be a probability above 0, up to 1, which is all tokens",
            )
            for wrong in (0, -0.1, 1.1, NAN, INFINITY)
        ),
        ({"min_length": -1}, "min-length -1: should be 0 to 1,000,000 tokens"),
        ({"block_ngrams": -1}, "block-ngrams -1: should be 1 token or more, or 0 for no rule"),
        *(
            ({"repetition_penalty": wrong}, f"repetition-penalty {wrong}: should be 1, which is none, or more")
            for wrong in (0.9, 0, -2, NAN, INFINITY)
        ),
        (
            {"beam": 5, "sample": True},
            "beam 5 and sample: a beam searches and sampling draws; choose one of them",
        ),
        *(
            (
                {name: value, "beam": 3},
                f"{name.replace('_', '-')} {value}: this is about sampling, and means nothing without sample",
            )
            for name, value in {"temperature": 0.7, "top_k": 7, "top_p": 0.9, "seed": 2}.items()
        ),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_what_makes_no_sense_is_refused_with_its_name_and_value(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as error:
        SearchOptions(**settings)
    assert str(error.value) == message


@pytest.mark.parametrize("name", ["min_length", "block_ngrams"])
def test_numbers_that_no_tensor_can_hold_are_refused(name: str) -> None:
    with pytest.raises(UserError, match=f"{name.replace('_', '-')} {10**30}"):
        SearchOptions(**{name: 10**30})


def test_a_length_penalty_of_its_own_may_be_none_or_a_number() -> None:
    assert SearchOptions(beam=2).length_penalty is None
    assert SearchOptions(beam=2, length_penalty=0).length_penalty == 0
    with pytest.raises(UserError, match="length-penalty -1: should be 0, which is none, to 10"):
        SearchOptions(beam=2, length_penalty=-1)
