"""What a model can be asked to do. Equal work for several askers is done at once."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

from regard.errors import UserError
from regard.inference.translation import Alternatives, Translation, rounded
from regard.search import SearchOptions
from regard.serving.batch_queue import RequestSize
from regard.serving.registry import ServedRun

Checked = TypeVar("Checked")


@dataclass(frozen=True)
class Translating:
    run: ServedRun
    search: SearchOptions
    attention: bool = False
    alternatives: int = 0
    tree: bool = False

    def extent(self, texts: Sequence[str]) -> RequestSize:
        """How much there is to do; a `UserError` if the model cannot do it."""
        translator = self.run.translator
        prefix = len(translator.rules(self.search).prefix)
        longest = max((len(told_at(f"texts[{n}]", translator.check, text)) for n, text in enumerate(texts)), default=0)
        return RequestSize(len(texts), longest, max(self.run.most_tokens(longest), self.search.min_length) + prefix)

    def megabytes(self, extent: RequestSize) -> float:
        """At most: most outputs are shorter than they may be."""
        at_once, search = self.run.translator.at_once, self.search
        width, outputs = max(search.beam, search.n_best), search.n_best * extent.items
        source, target, memory = extent.source, extent.target, self.run.memory
        total = memory.search_bytes(min(extent.items, at_once(width)), width, source, target)
        total += memory.response_bytes(
            outputs, source, target, attention=self.attention, alternatives=self.alternatives
        )
        if self.alternatives:
            total += memory.teacher_forcing_bytes(min(outputs, at_once()), source, target)
        if self.tree:
            total += memory.tree_bytes(extent.items, width, target)
        return total / 1e6

    def do(self, texts: Sequence[str], should_stop: Callable[[], bool]) -> list[bytes]:
        """An answer to each text, as JSON."""
        translations = self.run.translator.translate(texts, self.search, should_stop=should_stop)
        alternatives = self._alternatives(texts, translations, should_stop)
        tree = self.run.translator.tree
        trees = [tree(text, self.search, should_stop) if self.tree else None for text in texts]
        return [
            write_json(each.to_dict(attention=self.attention, alternatives=rows, tree=nodes)).encode()
            for each, rows, nodes in zip(translations, alternatives, trees, strict=True)
        ]

    def _alternatives(
        self, texts: Sequence[str], translations: Sequence[Translation], should_stop: Callable[[], bool]
    ) -> list[list[tuple[Alternatives, ...]] | None]:
        """For each translation those of each of its `n_best`; None if they are not requested."""
        if not self.alternatives:
            return [None] * len(translations)
        sources = [text for text, best in zip(texts, translations, strict=True) for _ in best.n_best]
        outputs = [each for best in translations for each in best.n_best]
        rows = iter(self.run.translator.alternatives(sources, outputs, self.alternatives, should_stop))
        return [list(islice(rows, len(best.n_best))) for best in translations]


@dataclass(frozen=True)
class Scoring:
    run: ServedRun

    def extent(self, pairs: Sequence[tuple[str, str]]) -> RequestSize:
        """As `Translating.extent`."""
        check = self.run.translator.check_pair
        found = [told_at(f"pairs[{number}]", check, *pair) for number, pair in enumerate(pairs)]
        examples = [example for example in found if example is not None]
        source = max((len(example.source) for example in examples), default=0)
        return RequestSize(len(pairs), source, max((len(example.target) for example in examples), default=0))

    def megabytes(self, extent: RequestSize) -> float:
        at_once = min(extent.items, self.run.translator.at_once())
        total = self.run.memory.teacher_forcing_bytes(at_once, extent.source, extent.target)
        total += self.run.memory.response_bytes(
            extent.items, extent.source, extent.target, attention=False, alternatives=0
        )
        return total / 1e6

    def do(self, pairs: Sequence[tuple[str, str]], should_stop: Callable[[], bool]) -> list[bytes]:
        """A score for each pair, as JSON."""
        return [
            write_json(
                {
                    "log_probability": round(score.log_probability, 6),
                    "perplexity": round(score.perplexity, 6),
                    "log_probabilities": rounded(list(score.log_probabilities)),
                }
            ).encode()
            for score in self.run.translator.score(pairs, should_stop=should_stop)
        ]


def told_at(place: str, check: Callable[..., Checked], *texts: str) -> Checked:
    """What `check` says of the texts; if that is a `UserError`, with their place in the request."""
    try:
        return check(*texts)
    except UserError as error:
        raise UserError(f"{place}: {error}") from None


def write_json(value: Any) -> str:
    """JSON, large values piece by piece: while `json.dumps` is at work, no other thread gets a word in."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(name)}: {write_json(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list) and value and isinstance(value[0], list | dict):
        return "[" + ", ".join(map(write_json, value)) + "]"
    return json.dumps(value, ensure_ascii=False)
