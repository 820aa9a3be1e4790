"""A finished run at work: texts in, translations with their scores and attention out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from regard.assembly import build_model
from regard.data.batches import pad
from regard.errors import UserError
from regard.runs import Run
from regard.search import Hypothesis, greedy


@dataclass(frozen=True)
class Translation:
    """What a model made of one text. `tokens` name the rows of `attention`, `source_tokens` its columns."""

    text: str
    tokens: tuple[str, ...]  # `<end>` included, if it was reached
    source_tokens: tuple[str, ...]  # `<end>` included
    score: float  # log-probability
    attention: Tensor  # [output, source], with axes for layers and heads before them where the decoder has any
    finished: bool  # False: cut off at the maximum length


NOTHING = Translation("", (), (), 0.0, torch.zeros(0, 0), finished=True)


class Translator:
    """The best model of a run, ready to translate."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.experiment = run.experiment
        self.codec = run.codec()
        sizes = len(self.codec.source_vocabulary), len(self.codec.target_vocabulary)
        # Weights are about to be replaced: drawing them must not disturb the caller's random numbers.
        with torch.random.fork_rng(devices=[]):
            self.model = build_model(run.experiment.model, *sizes).eval()
        run.load_weights(self.model)

    def check(self, text: str) -> tuple[int, ...]:
        """The numbers of the source tokens; a text that this model cannot read is a `UserError`."""
        numbers = self.codec.source(text)
        longest = self.model.encoder.longest
        if longest is not None and len(numbers) > longest:
            raise UserError(
                f"this text has {len(numbers)} tokens, its end included, and this model has {longest} positions"
            )
        return numbers

    def translate(self, texts: Sequence[str]) -> list[Translation]:
        """One translation for each text, in order. An empty text has an empty one."""
        if isinstance(texts, str):
            raise TypeError("translate takes a list of texts; for one text, write [text]")
        translations = [NOTHING] * len(texts)
        sources = {place: self.check(text) for place, text in enumerate(texts) if text}
        by_length = sorted(sources, key=lambda place: len(sources[place]))
        size = self.experiment.decoding.batch_size
        for begin in range(0, len(by_length), size):
            places = by_length[begin : begin + size]
            hypotheses = self._search([sources[place] for place in places], [texts[place] for place in places])
            for place, hypothesis in zip(places, hypotheses, strict=True):
                translations[place] = self._translation(sources[place], hypothesis)
        return translations

    def _search(self, sources: Sequence[tuple[int, ...]], texts: Sequence[str]) -> list[Hypothesis]:
        source, valid = pad(sources)
        first = torch.tensor([self.codec.start(text) for text in texts])
        limits = self.experiment.decoding
        longest = (valid.sum(1) * limits.length_factor).long() + limits.length_extra
        if self.model.decoder.longest is not None:
            longest = longest.clamp(max=self.model.decoder.longest)
        return greedy(self.model, source, valid, first, longest)

    def _translation(self, source: tuple[int, ...], hypothesis: Hypothesis) -> Translation:
        return Translation(
            text=self.codec.text(hypothesis.tokens),
            tokens=tuple(self.codec.target_vocabulary.spell(hypothesis.tokens)),
            source_tokens=tuple(self.codec.source_vocabulary.spell(source)),
            score=hypothesis.score,
            attention=hypothesis.attention,
            finished=hypothesis.finished,
        )


def load(path: str | Path) -> Translator:
    """The model in a run directory."""
    return Translator(Run(Path(path)))
