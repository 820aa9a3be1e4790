"""The jobs that a server runs on a model: translating and scoring. Requests with equal jobs share a batch."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

from regard.data import EncodedSource, Example
from regard.errors import UserError
from regard.inference.translation import Alternatives, Translation, rounded
from regard.search import SearchOptions
from regard.serving.batch_queue import RequestSize
from regard.serving.registry import ServedRun

Checked = TypeVar("Checked")


@dataclass(frozen=True)
class TranslateJob:
    """Translate texts.

    Args:
        run: The run whose model translates.
        options: How to search.
        attention: True to return the weights of the attention to the source.
        self_attention: True to return those of the self-attention of encoder and decoder.
        alternatives: The number of most likely tokens to return for each position.
        tree: True to return the beam tree.
    """

    run: ServedRun
    options: SearchOptions
    attention: bool = False
    self_attention: bool = False
    alternatives: int = 0
    tree: bool = False

    def encode(self, texts: Sequence[str]) -> list[EncodedSource]:
        """The texts as token ids; a `UserError` if the model cannot process one of them."""
        encode = self.run.translator.encode
        return [with_location(f"texts[{index}]", encode, text) for index, text in enumerate(texts)]

    def measure_size(self, texts: Sequence[EncodedSource]) -> RequestSize:
        """The size of a request; a `UserError` if the model cannot satisfy its options."""
        prefix = len(self.run.translator.constraints(self.options).prefix)
        longest = max((len(text.ids) for text in texts), default=0)
        target = max(self.run.max_output_length(longest), self.options.min_length) + prefix
        return RequestSize(len(texts), longest, target)

    def megabytes(self, size: RequestSize) -> float:
        """An upper bound: most outputs are shorter than they may be."""
        batch_size, options = self.run.translator.batch_size, self.options
        width, outputs = max(options.beam, options.n_best), options.n_best * size.items
        source, target, memory = size.source, size.target, self.run.memory
        total = memory.search_bytes(min(size.items, batch_size(width)), width, source, target)
        total += memory.response_bytes(
            outputs, source, target, attention=self.attention, alternatives=self.alternatives
        )
        if self.alternatives or self.self_attention:
            total += memory.teacher_forcing_bytes(min(outputs, batch_size()), source, target)
        if self.self_attention:
            total += memory.self_attention_bytes(min(outputs, batch_size()), size.items, outputs, source, target)
        if self.tree:
            total += memory.tree_bytes(size.items, width, target)
        return total / 1e6

    def run_batch(self, texts: Sequence[EncodedSource], should_stop: Callable[[], bool]) -> list[bytes]:
        """A translation of each text, as JSON."""
        translator = self.run.translator
        translations = translator.translate(
            texts, self.options, should_stop=should_stop, self_attention=self.self_attention
        )
        alternatives = self._alternatives(texts, translations, should_stop)
        trees = [translator.tree(text, self.options, should_stop) if self.tree else None for text in texts]
        return [
            to_json(translation.to_dict(attention=self.attention, alternatives=rows, tree=nodes)).encode()
            for translation, rows, nodes in zip(translations, alternatives, trees, strict=True)
        ]

    def _alternatives(
        self, texts: Sequence[EncodedSource], translations: Sequence[Translation], should_stop: Callable[[], bool]
    ) -> list[list[tuple[Alternatives, ...]] | None]:
        """The alternatives of each hypothesis of each translation; None if they are not requested."""
        if not self.alternatives:
            return [None] * len(translations)
        sources = [text for text, best in zip(texts, translations, strict=True) for _ in best.n_best]
        outputs = [hypothesis for best in translations for hypothesis in best.n_best]
        rows = iter(self.run.translator.alternatives(sources, outputs, self.alternatives, should_stop))
        return [list(islice(rows, len(best.n_best))) for best in translations]


@dataclass(frozen=True)
class ScoreJob:
    """Score pairs of source and target.

    Args:
        run: The run whose model scores.
    """

    run: ServedRun

    def encode(self, pairs: Sequence[tuple[str, str]]) -> list[Example]:
        """The pairs as token ids; a `UserError` if the model cannot process one of them."""
        encode = self.run.translator.encode_pair
        return [with_location(f"pairs[{index}]", encode, *pair) for index, pair in enumerate(pairs)]

    def measure_size(self, pairs: Sequence[Example]) -> RequestSize:
        """The size of a request."""
        source = max((len(pair.source) for pair in pairs), default=0)
        return RequestSize(len(pairs), source, max((len(pair.target) for pair in pairs), default=0))

    def megabytes(self, size: RequestSize) -> float:
        """An upper bound."""
        memory, batch_size = self.run.memory, min(size.items, self.run.translator.batch_size())
        total = memory.teacher_forcing_bytes(batch_size, size.source, size.target)
        total += memory.response_bytes(size.items, size.source, size.target, attention=False, alternatives=0)
        return total / 1e6

    def run_batch(self, pairs: Sequence[Example], should_stop: Callable[[], bool]) -> list[bytes]:
        """A score of each pair, as JSON."""
        return [
            to_json(
                {
                    "log_probability": round(score.log_probability, 6),
                    "perplexity": round(score.perplexity, 6),
                    "log_probabilities": rounded(list(score.log_probabilities)),
                }
            ).encode()
            for score in self.run.translator.score(pairs, should_stop=should_stop)
        ]


def with_location(location: str, check: Callable[..., Checked], *texts: str) -> Checked:
    """The result of `check(*texts)`; a `UserError` from it gets the location in the request in front."""
    try:
        return check(*texts)
    except UserError as error:
        raise UserError(f"{location}: {error}") from None


def to_json(value: Any) -> str:
    """JSON of a value, large values in chunks: `json.dumps` holds the GIL until it returns."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(name)}: {to_json(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list) and value and isinstance(value[0], list | dict):
        return "[" + ", ".join(map(to_json, value)) + "]"
    return json.dumps(value, ensure_ascii=False)
