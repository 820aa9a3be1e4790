"""The settings of the built-in tokenizers."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field, model_validator

from regard.config.base import Section, invalid_combination
from regard.config.kinds import TokenizerSection


class SubwordRegularizationSection(Section):
    """Subword regularization: in training, a text is segmented at random in one of its `best` most likely ways.

    Attributes:
        best: Number of segmentations; 1 means always the most likely one.
        alpha: p ∝ P(segmentation)^alpha: 0 is uniform, 1 is the distribution of the unigram model.
    """

    best: int = Field(default=1, ge=1, le=512)
    alpha: float = Field(default=0.2, ge=0)


class TextSection(TokenizerSection):
    """The section `data.text` with a built-in tokenizer.

    Attributes:
        algorithm: The algorithm of subwords: `unigram` or `bpe`.
        coverage: Share of the characters that subwords cover; rarer ones are unknown.
        regularization: Subword regularization.
    """

    algorithm: Literal["unigram", "bpe"] = "unigram"
    coverage: float = Field(default=0.9995, ge=0.98, le=1)
    regularization: SubwordRegularizationSection = SubwordRegularizationSection()

    @model_validator(mode="before")
    @classmethod
    def _accept_british_spelling(cls, values: Any) -> Any:
        """Experiments written for 0.5 and earlier spell it `regularisation`."""
        if isinstance(values, dict) and "regularisation" in values and "regularization" not in values:
            return {("regularization" if key == "regularisation" else key): each for key, each in values.items()}
        return values

    @model_validator(mode="after")
    def _check_regularization(self) -> Self:
        if self.regularization.best > 1 and (self.unit, self.algorithm) != ("subwords", "unigram"):
            raise invalid_combination(
                "regularization.best",
                f"{self.regularization.best} segmentations of a text need unigram subwords; "
                "set unit: subwords and algorithm: unigram, or best: 1",
            )
        return self
