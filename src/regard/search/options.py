"""Search options: the one definition from which the CLI's flags, the API's fields and the studies' axes are derived.

This module imports neither torch nor the search itself, so that `regard --help` stays fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, model_validator
from pydantic.fields import FieldInfo

from regard.errors import UserError, suggest

MAX_WIDTH = 10_000  # hypotheses of one text
MAX_TOKENS = 1_000_000
SEARCH: dict[str, JsonValue] = {"group": "Search"}  # the heading of an option in help texts
SAMPLING: dict[str, JsonValue] = {"group": "Sampling"}
CONSTRAINTS: dict[str, JsonValue] = {"group": "Constraints"}


class SearchOptions(BaseModel):
    """How to search for an output; greedy search by default.

        SearchOptions(beam=5, n_best=3)
        SearchOptions(sample=True, top_p=0.9, seed=7)

    A value that is out of range, or does not fit the other options, is a `UserError`.

    Args:
        beam: Beam width; 1 is greedy search.
        n_best: Number of outputs for each text; at most `beam`, unless `sample`.
        length_penalty: α in score / ((5 + length) / 6)^α, by which finished hypotheses are ranked; 0 ranks by the score
            alone, None takes the setting of the run.
        sample: Sample at random instead of beam search.
        temperature: Sampling temperature; the logits are divided by it.
        top_k: Sample from the k most probable tokens; None samples from all.
        top_p: Sample from the smallest set of most probable tokens with this total probability.
        seed: Seed for sampling.
        prefix: What every output starts with: a text, or tokens as `Translation.tokens` has them.
        min_length: Minimum number of tokens of every output, `<end>` not counted.
        block_ngrams: Do not repeat any n-gram of this many tokens; 0 allows all.
        repetition_penalty: Divides the probability of a token that the output already contains; 1 is none.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    beam: int = Field(
        default=1, ge=1, le=MAX_WIDTH, description="Beam width; 1 is greedy search.", json_schema_extra=SEARCH
    )
    n_best: int = Field(
        default=1,
        ge=1,
        le=MAX_WIDTH,
        description="Number of outputs for each text; at most the beam width, unless sampling.",
        json_schema_extra=SEARCH,
    )
    length_penalty: float | None = Field(
        default=None,
        ge=0,
        le=10,
        description="α in score / ((5 + length) / 6)^α, the rank of a hypothesis; 0 is none (default: the run's).",
        json_schema_extra=SEARCH,
    )
    sample: bool = Field(
        default=False, description="Sample at random instead of beam search.", json_schema_extra=SAMPLING
    )
    temperature: float = Field(
        default=1.0,
        gt=0,
        description="Sampling temperature; below 1, probable tokens become more probable.",
        json_schema_extra=SAMPLING,
    )
    top_k: int | None = Field(
        default=None, ge=1, description="Sample from the k most probable tokens only.", json_schema_extra=SAMPLING
    )
    top_p: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description="Sample from the fewest most probable tokens with this total probability.",
        json_schema_extra=SAMPLING,
    )
    seed: int = Field(default=1, ge=0, lt=2**63, description="Seed for sampling.", json_schema_extra=SAMPLING)
    prefix: str | tuple[str, ...] = Field(
        default="",
        description="What every output starts with: a text; in Python and the API also a list of tokens.",
        json_schema_extra=CONSTRAINTS,
    )
    min_length: int = Field(
        default=0,
        ge=0,
        le=MAX_TOKENS,
        description="Minimum number of tokens of every output, `<end>` not counted.",
        json_schema_extra=CONSTRAINTS,
    )
    block_ngrams: int = Field(
        default=0,
        ge=0,
        le=MAX_TOKENS,
        description="Do not repeat any n-gram of this many tokens; 0 allows all.",
        json_schema_extra=CONSTRAINTS,
    )
    repetition_penalty: float = Field(
        default=1.0,
        ge=1,
        description="Divides the probability of a token that the output already contains; 1 is none.",
        json_schema_extra=CONSTRAINTS,
    )

    if not TYPE_CHECKING:  # the type checker knows the fields

        def __init__(self, **options: Any) -> None:
            try:
                super().__init__(**options)
            except ValidationError as error:
                raise UserError(_explain(error)) from None

    @model_validator(mode="after")
    def _check_combination(self) -> Self:
        """Refuse options that have no meaning with, or without, others."""
        if self.sample and self.beam > 1:
            raise UserError(f"beam {self.beam} and sample: choose either beam search or sampling")
        if not self.sample and self.n_best > self.beam:
            more = "make the beam wider, or n-best smaller"
            raise UserError(f"n-best {self.n_best}: a beam of width {self.beam} has no more than {self.beam}; {more}")
        for name, field in type(self).model_fields.items():
            if not self.sample and option_group(name) == "Sampling" and getattr(self, name) != field.default:
                raise UserError(f"{flag_name(name)} {getattr(self, name)}: applies to sampling only; add sample")
        return self


def option_group(name: str) -> str:
    """The heading under which an option is listed: Search, Sampling or Constraints.

    Args:
        name: The name of an option, a field of `SearchOptions`.
    """
    extra = SearchOptions.model_fields[name].json_schema_extra
    assert isinstance(extra, dict)
    return str(extra["group"])


def option_bounds(field: FieldInfo) -> dict[str, Any]:
    """The bounds of a field of any model, by pydantic's names: `ge`, `gt`, `le`, `lt`.

    Args:
        field: The field.
    """
    names = ("ge", "gt", "le", "lt")
    return {name: getattr(bound, name) for name in names for bound in field.metadata if hasattr(bound, name)}


def search_field(name: str) -> Any:
    """A pydantic field with the default, the bounds and the description of a search option, for another model.

    Args:
        name: The name of an option, a field of `SearchOptions`.
    """
    field = SearchOptions.model_fields[name]
    return Field(default=field.default, description=field.description, **option_bounds(field))


def flag_name(name: str) -> str:
    """An option as users write it: `n-best`.

    Args:
        name: The name of an option, a field of `SearchOptions`.
    """
    return name.replace("_", "-")


def expected_value(name: str) -> str:
    """What the value of an option should be: "a whole number, 1 to 10,000".

    Args:
        name: The name of an option, a field of `SearchOptions`.
    """
    field = SearchOptions.model_fields[name]
    types = {field.annotation, *get_args(field.annotation)}
    if str in types:
        return "a text, or a tuple of tokens"
    if bool in types:
        return "true or false"
    return f"{'a whole number' if int in types else 'a number'}, {bounds_text(name)}"


def bounds_text(name: str) -> str:
    """The bounds of an option: "1 to 10,000", "above 0", "at least 1"; empty if it has none.

    Args:
        name: The name of an option, a field of `SearchOptions`.
    """
    match option_bounds(SearchOptions.model_fields[name]):
        case {"ge": low, "le": high}:
            return f"{low:,} to {high:,}"
        case {"gt": low, "le": high}:
            return f"above {low:,}, at most {high:,}"
        case {"gt": low}:
            return f"above {low:,}"
        case {"ge": low}:  # an upper bound of 2^63 needs no mention
            return f"at least {low:,}"
    return ""


def _explain(error: ValidationError) -> str:
    """The first mistake in one sentence: the option, its value and what would be right."""
    first = error.errors()[0]
    if first["type"] == "value_error":
        return str(first["ctx"]["error"])
    name = str(first["loc"][0])
    if first["type"] == "extra_forbidden":
        return f"there is no search option {name!r}; {suggest(name, SearchOptions.model_fields)}"
    value = first["input"]
    return f"{flag_name(name)} {value}: should be {expected_value(name)}"


GREEDY = SearchOptions()
