"""What a model can be asked to do. Equal work for several askers is done at once."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from regard.errors import UserError
from regard.search import Search
from regard.serving.served import ServedRun
from regard.translation import Alternatives, Translation, rounded, whole


@dataclass(frozen=True)
class Translating:
    run: ServedRun
    search: Search
    attention: bool = False
    alternatives: int = 0
    tree: bool = False

    def numbers(self, texts: Sequence[str]) -> int:
        """How many are held in memory at most, about; a `UserError` if the model cannot do it."""
        translator, search = self.run.translator, self.search
        prefix = len(translator.rules(search).prefix)
        vocabulary = len(translator.codec.target_vocabulary)
        total = 0
        for place, text in enumerate(texts):
            with_place = f"texts[{place}]"
            source = _told_at(with_place, translator.check, text)
            steps = max(self.run.most_tokens(source), search.min_length) + prefix
            # Where each hypothesis has looked at each step, and the chances of all tokens in the places of the best.
            total += max(search.beam, search.n_best) * len(source) * steps * self.run.maps
            total += search.n_best * steps * vocabulary * (self.alternatives > 0)
        return total

    def do(self, texts: Sequence[str]) -> list[str]:
        """An answer to each text, as JSON."""
        translations = self.run.translator.translate(texts, self.search)
        answers = [whole(translation, attention=self.attention) for translation in translations]
        if self.alternatives:
            self._add_alternatives(texts, translations, answers)
        if self.tree:
            for text, answer in zip(texts, answers, strict=True):
                answer["tree"] = self._tree(text)
        return [json.dumps(answer, ensure_ascii=False) for answer in answers]

    def _add_alternatives(
        self, texts: Sequence[str], translations: Sequence[Translation], answers: Sequence[dict[str, Any]]
    ) -> None:
        sources = [text for text, best in zip(texts, translations, strict=True) for _ in best.n_best]
        outputs = [each for best in translations for each in best.n_best]
        hypotheses = [hypothesis for answer in answers for hypothesis in answer["n_best"]]
        found = self.run.translator.alternatives(sources, outputs, self.alternatives)
        for hypothesis, rows in zip(hypotheses, found, strict=True):
            hypothesis["alternatives"] = [self._named(row) for row in rows]

    def _named(self, row: Alternatives) -> list[dict[str, Any]]:
        name = self.run.translator.name
        return [{"token": each, "label": name(each), "probability": round(math.exp(log), 6)} for each, log in row]

    def _tree(self, text: str) -> list[dict[str, Any]]:
        translator = self.run.translator
        nodes = translator.tree(text, self.search)
        return [asdict(node) | {"label": translator.name(node.token), "score": round(node.score, 6)} for node in nodes]


@dataclass(frozen=True)
class Scoring:
    run: ServedRun

    def numbers(self, pairs: Sequence[tuple[str, str]]) -> int:
        """As `Translating.numbers`."""
        translator = self.run.translator
        vocabulary = len(translator.codec.target_vocabulary)
        total = 0
        for place, pair in enumerate(pairs):
            example = _told_at(f"pairs[{place}]", translator.check_pair, *pair)
            if example is not None:
                total += len(example.target) * (vocabulary + len(example.source) * self.run.maps)
        return total

    def do(self, pairs: Sequence[tuple[str, str]]) -> list[str]:
        """A score for each pair, as JSON."""
        return [
            json.dumps(
                {
                    "log_probability": round(score.log_probability, 6),
                    "perplexity": round(score.perplexity, 6),
                    "log_probabilities": rounded(list(score.log_probabilities)),
                }
            )
            for score in self.run.translator.score(pairs)
        ]


def _told_at(place: str, check: Any, *texts: str) -> Any:
    """What `check` says of the texts; if that is a `UserError`, with their place in the request."""
    try:
        return check(*texts)
    except UserError as error:
        raise UserError(f"{place}: {error}") from None
