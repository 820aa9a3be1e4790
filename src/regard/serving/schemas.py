"""What requests and answers look like. The description of the API is made of this."""

from __future__ import annotations

from dataclasses import fields
from reprlib import repr as in_short
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from regard.errors import suggest
from regard.inference.schema import TranslationSchema
from regard.search import SearchOptions


class Message(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class TextsRequest(Message):
    """What somebody asks, who may be mistaken."""

    @model_validator(mode="before")
    @classmethod
    def _check_names(cls, given: Any) -> Any:
        """One unknown name is told, with the nearest right one: a body might have a hundred thousand of them."""
        for name in given if isinstance(given, dict) else ():
            if name not in cls.model_fields:
                told = {"name": in_short(name).strip("'"), "hint": suggest(name, cls.model_fields)}
                raise PydanticCustomError("unknown_field", "{name}: there is no such field; {hint}", told)
        return given


RunName = Annotated[str | None, Field(description="Which run, by its name in /api/runs; null: the first.")]


class TranslateRequest(TextsRequest):
    """Texts, and how to search for their translations. Only `texts` must be given."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"texts": ["Ein Mann schläft."], "beam": 5, "n_best": 3}},
    )

    texts: list[str] = Field(fail_fast=True, description="What to translate.")  # one wrong item is told, not a million
    run: RunName = None
    beam: int = Field(1, ge=1, description="The width of the beam; 1 is greedy search.")
    n_best: int = Field(
        1, ge=1, description="Up to so many different answers to a text; at most `beam`, or any number with `sample`."
    )
    length_penalty: float | None = Field(
        None, ge=0, le=10, description="α in score / ((5 + length) / 6)^α; 0 is none, null is the run's own."
    )
    sample: bool = Field(False, description="Draw by chance, in place of a beam.")
    temperature: float = Field(1.0, gt=0, description="Of sampling: below 1, likely tokens become likelier.")
    top_k: int | None = Field(None, ge=1, description="Of sampling: only so many likeliest tokens; null is all.")
    top_p: float = Field(1.0, gt=0, le=1, description="Of sampling: only the likeliest with this probability together.")
    seed: int = Field(1, ge=0, lt=2**63, description="Of sampling: the same seed, the same draws.")
    prefix: str | list[str] = Field(
        "", description="What every output begins with: a text, or target tokens as answers name them."
    )
    min_length: int = Field(0, ge=0, le=1_000, description="Tokens that every output has at least.")
    block_ngrams: int = Field(0, ge=0, le=1_000, description="Say no sequence of so many tokens twice; 0 is no rule.")
    repetition_penalty: float = Field(1.0, ge=1, description="Divides the probability of what was said already.")
    attention: bool = Field(False, description="Tell where each token looked.")
    alternatives: int = Field(0, ge=0, le=20, description="Tell so many likeliest tokens in place of each.")
    tree: bool = Field(False, description="Tell how the beam went, step by step.")

    @field_validator("prefix", mode="before")
    @classmethod
    def _check_prefix(cls, given: Any) -> Any:
        if not isinstance(given, str | list) or not all(isinstance(part, str) for part in given):
            raise PydanticCustomError("prefix", "should be a text, or a list of tokens")
        return given

    def search(self) -> SearchOptions:
        """A `UserError` if its settings do not fit each other."""
        settings = {field.name: getattr(self, field.name) for field in fields(SearchOptions)}
        if isinstance(self.prefix, list):
            settings["prefix"] = tuple(self.prefix)
        return SearchOptions(**settings)


class TranslateAnswer(Message):
    run: str
    translations: list[TranslationSchema] = Field(description="One for each text, in order.")


class SourceAndTarget(TextsRequest):
    source: str
    target: str


class ScoreRequest(TextsRequest):
    """Texts with translations of theirs, to be judged by a model."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"pairs": [{"source": "Ein Mann schläft.", "target": "A man sleeps."}]}},
    )

    pairs: list[SourceAndTarget] = Field(fail_fast=True)
    run: RunName = None


class ScoreOfPair(Message):
    log_probability: float
    perplexity: float = Field(description="e to the mean surprise of a token.")
    log_probabilities: list[float] = Field(description="Of each token, `<end>` included.")


class ScoreAnswer(Message):
    run: str
    scores: list[ScoreOfPair] = Field(description="One for each pair, in order.")


class RunAbout(Message):
    name: str
    description: str
    task: str
    encoder: str
    decoder: str
    attention: str
    weights: int = Field(description="How many numbers the model has learned.")
    axes: list[str]
    length_penalty: float
    examples: list[str] = Field(description="Sentences to begin with.")


class LimitsAbout(Message):
    characters: int = Field(description="Of one text.")
    texts: int = Field(description="Of one request.")
    beam: int = Field(description="The widest; also the most hypotheses that are drawn.")
    waiting: int = Field(description="Texts that nobody has begun with.")
    seconds: float = Field(description="Until an answer.")
    memory: float = Field(description="Megabytes that one batch may take, about.")
    batch: int = Field(description="Texts of several requests that are done together.")


class RunsAnswer(Message):
    runs: list[RunAbout]
    limits: LimitsAbout


class Health(Message):
    status: Literal["ok"]
    version: str


class ErrorSchema(Message):
    """What was wrong, and what would be right."""

    detail: str
