"""How to search: everything that a user can choose, checked when it is made."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from types import NoneType

from regard.errors import UserError

WIDEST = 10_000  # hypotheses of one text
LONGEST = 1_000_000  # tokens
KINDS: dict[object, tuple[str, tuple[type, ...]]] = {
    "int": ("a whole number", (int,)),
    "int | None": ("a whole number", (int, NoneType)),
    "float": ("a number", (float, int)),
    "float | None": ("a number", (float, int, NoneType)),
    "bool": ("true or false", (bool,)),
    "str | tuple[str, ...]": ("a text, or a tuple of tokens", (str, tuple)),
}


@dataclass(frozen=True)
class SearchOptions:
    """Greedy search by default; `SearchOptions(beam=5, n_best=3)`, `SearchOptions(sample=True, seed=7)`."""

    beam: int = 1  # the width; 1: greedy
    n_best: int = 1  # how many hypotheses to return for each text; with `sample`, how many to draw
    # α in total / ((5 + length) / 6)^α; 0: the total alone ranks; None: what the run's settings say
    length_penalty: float | None = None
    sample: bool = False  # draw by chance
    temperature: float = 1.0  # of sampling: below 1 likely tokens become likelier
    top_k: int | None = None  # of sampling: only the so many likeliest tokens; None: all
    top_p: float = 1.0  # of sampling: only the fewest likeliest tokens that have this probability together
    seed: int = 1  # of sampling
    prefix: str | tuple[str, ...] = ""  # what every output begins with: a text, or tokens as translations name them
    min_length: int = 0  # tokens of every output, without its end
    block_ngrams: int = 0  # no sequence of so many tokens is said twice; 0: no such rule
    repetition_penalty: float = 1.0  # what the probability of a token is divided by once it has been said

    def __post_init__(self) -> None:
        for field in fields(self):
            kind, types = KINDS[field.type]
            self._check(field.name, type(getattr(self, field.name)) in types, f"should be {kind}")
        self._check("prefix", all(isinstance(part, str) for part in self.prefix), "each token should be a text")
        self._check("beam", 1 <= self.beam <= WIDEST, f"a beam is 1 to {WIDEST:,} wide; 1 is greedy search")
        self._check("n_best", 1 <= self.n_best <= WIDEST, f"1 to {WIDEST:,} hypotheses can be returned")
        if not self.sample:
            wider = f"a beam of width {self.beam} has no more than {self.beam}; make the beam wider, or n-best smaller"
            self._check("n_best", self.n_best <= self.beam, wider)
        penalty = self.length_penalty
        self._check("length_penalty", penalty is None or 0 <= penalty <= 10, "should be 0, which is none, to 10")
        self._check("temperature", 0 < self.temperature < math.inf, "should be above 0; near 0 the likeliest is drawn")
        self._check("top_k", self.top_k is None or self.top_k >= 1, "at least 1 token takes part")
        self._check("top_p", 0 < self.top_p <= 1, "should be a probability above 0, up to 1, which is all tokens")
        self._check("min_length", 0 <= self.min_length <= LONGEST, f"should be 0 to {LONGEST:,} tokens")
        self._check("block_ngrams", 0 <= self.block_ngrams <= LONGEST, "should be 1 token or more, or 0 for no rule")
        self._check(
            "repetition_penalty", 1 <= self.repetition_penalty < math.inf, "should be 1, which is none, or more"
        )
        self._check_company()

    def _check(self, name: str, right: bool, expected: str) -> None:
        if not right:
            raise UserError(f"{name.replace('_', '-')} {getattr(self, name)}: {expected}")

    def _check_company(self) -> None:
        """Some settings mean nothing without, or with, others."""
        if self.sample and self.beam > 1:
            raise UserError(f"beam {self.beam} and sample: a beam searches and sampling draws; choose one of them")
        if not self.sample:
            for field in fields(self):
                if field.name in ("temperature", "top_k", "top_p", "seed"):
                    given = getattr(self, field.name)
                    means = "this is about sampling, and means nothing without sample"
                    self._check(field.name, given == field.default, means)


GREEDY = SearchOptions()
