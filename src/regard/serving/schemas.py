"""Request and response schemas of the API, from which its OpenAPI description is generated."""

from __future__ import annotations

from reprlib import repr as short_repr
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from regard.errors import suggest
from regard.inference.schema import TranslationSchema
from regard.search.options import SearchOptions, search_field


class ApiSchema(BaseModel):
    """Base of all schemas: strict types, no unknown fields, no NaN."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class RequestSchema(ApiSchema):
    """Base of requests."""

    @model_validator(mode="before")
    @classmethod
    def _check_names(cls, given: Any) -> Any:
        """Report one unknown field with the nearest known one; a body might have a hundred thousand of them."""
        for name in given if isinstance(given, dict) else ():
            if name not in cls.model_fields:
                context = {"name": short_repr(name).strip("'"), "hint": suggest(name, cls.model_fields)}
                raise PydanticCustomError("unknown_field", "{name}: unknown field; {hint}", context)
        return given


RunName = Annotated[str | None, Field(description="The run's name in /api/runs; null: the first run.")]


class TranslateRequest(RequestSchema):
    """Texts and search options. Only `texts` is required."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"texts": ["Ein Mann schläft."], "beam": 5, "n_best": 3}},
    )

    texts: list[str] = Field(
        fail_fast=True, description="The texts to translate; of a run that reads images, pictures as data URIs."
    )  # fail_fast: report one invalid item, not a million
    run: RunName = None
    beam: int = search_field("beam")
    n_best: int = search_field("n_best")
    length_penalty: float | None = search_field("length_penalty")
    sample: bool = search_field("sample")
    temperature: float = search_field("temperature")
    top_k: int | None = search_field("top_k")
    top_p: float = search_field("top_p")
    seed: int = search_field("seed")
    prefix: str | list[str] = search_field("prefix")
    min_length: int = search_field("min_length")
    block_ngrams: int = search_field("block_ngrams")
    repetition_penalty: float = search_field("repetition_penalty")
    attention: bool = Field(default=False, description="Return the weights of the attention to the source.")
    self_attention: bool = Field(
        default=False, description="Return the self-attention weights of encoder and decoder, where they have any."
    )
    alternatives: int = Field(
        default=0, ge=0, le=20, description="Return this many most likely tokens for each position."
    )
    tree: bool = Field(default=False, description="Return the beam tree, step by step.")

    @field_validator("prefix", mode="before")
    @classmethod
    def _check_prefix(cls, given: Any) -> Any:
        if not isinstance(given, str | list) or not all(isinstance(part, str) for part in given):
            raise PydanticCustomError("prefix", "should be a string or a list of tokens")
        return given

    def search_options(self) -> SearchOptions:
        """The search options; a `UserError` if they contradict each other."""
        settings = {name: getattr(self, name) for name in SearchOptions.model_fields}
        if isinstance(self.prefix, list):
            settings["prefix"] = tuple(self.prefix)
        return SearchOptions(**settings)


class TranslateResponse(ApiSchema):
    """The response of `/api/translate`."""

    run: str = Field(description="The run that translated.")
    translations: list[TranslationSchema] = Field(description="One translation for each text, in order.")


class ScorePair(RequestSchema):
    """A source and a target text."""

    source: str = Field(description="The source text.")
    target: str = Field(description="The target text.")


class ScoreRequest(RequestSchema):
    """Texts with translations to score."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"pairs": [{"source": "Ein Mann schläft.", "target": "A man sleeps."}]}},
    )

    pairs: list[ScorePair] = Field(fail_fast=True, description="The pairs to score.")
    run: RunName = None


class ScoreSchema(ApiSchema):
    """The score of one pair."""

    log_probability: float = Field(description="Log-probability of the target.")
    perplexity: float = Field(description="e to the mean negative log-probability of a token.")
    log_probabilities: list[float] = Field(description="Log-probability of each token, `<end>` included.")


class ScoreResponse(ApiSchema):
    """The response of `/api/score`."""

    run: str = Field(description="The run that scored.")
    scores: list[ScoreSchema] = Field(description="One score for each pair, in order.")


class RunSchema(ApiSchema):
    """A run of this server."""

    name: str = Field(description="Name of the run, for requests.")
    description: str = Field(description="One line about its experiment.")
    task: str = Field(description="Kind of its task.")
    encoder: str = Field(description="Kind of its encoder.")
    decoder: str = Field(description="Kind of its decoder.")
    attention: str = Field(description="Kind of its attention.")
    parameters: int = Field(description="Number of trained parameters.")
    axes: list[str] = Field(description="The axes of its attention weights before target and source.")
    self_attention: list[Literal["encoder", "decoder"]] = Field(
        description="Which of encoder and decoder have self-attention."
    )
    length_penalty: float = Field(description="Length penalty of beam search where a request has none.")
    source: Literal["text", "image"] = Field(description="What it reads: texts, or pictures as data URIs.")
    examples: list[str] = Field(description="Sentences or pictures to try.")


class LimitsSchema(ApiSchema):
    """The limits of this server."""

    characters: int = Field(description="Characters in one text.")
    texts: int = Field(description="Texts in one request.")
    beam: int = Field(description="Beam width, and hypotheses per text.")
    waiting: int = Field(description="Texts in the queue.")
    seconds: float = Field(description="Seconds until a response.")
    memory: float = Field(description="Megabytes for one batch, as estimated.")
    batch: int = Field(description="Texts in one batch of several requests.")
    connections: int = Field(description="Open connections.")
    client_connections: int = Field(description="Open connections of one client address.")
    idle_seconds: float = Field(description="Seconds that a connection may be open without a request.")


class RunsResponse(ApiSchema):
    """The response of `/api/runs`."""

    runs: list[RunSchema] = Field(description="The runs, in the order in which the server was given them.")
    limits: LimitsSchema = Field(description="The limits of requests.")


class HealthResponse(ApiSchema):
    """The response of `/healthz`."""

    status: Literal["ok"] = Field(description="Always `ok`.")
    version: str = Field(description="Version of Regard.")


class ErrorSchema(ApiSchema):
    """An error response."""

    detail: str = Field(description="What is wrong, and what would be right.")
