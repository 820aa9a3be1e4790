"""Pieces of words, learned from a text by SentencePiece: no word is unknown that has known letters."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from io import BytesIO
from random import Random
from typing import Literal

import sentencepiece

from regard.errors import UserError
from regard.text.tokenizers import SPACE
from regard.text.vocabulary import SPECIAL


class Subwords:
    """`Ein Weinberg.` → `▁Ein ▁Wein berg .`"""

    def __init__(self, model: bytes) -> None:
        """`model` is what `learn` gives."""
        self.model = model
        try:
            if not model:
                raise RuntimeError  # which SentencePiece would notice only when it is used
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        except RuntimeError:
            raise ValueError("this is not a SentencePiece model") from None

    @classmethod
    def learn(
        cls, texts: Iterable[str], size: int, *, algorithm: Literal["unigram", "bpe"], coverage: float
    ) -> Subwords:
        """`size` pieces that suit `texts`; characters that are not in the share `coverage` of them stay unknown."""
        model = BytesIO()
        guarded = _Guarded(texts)
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(guarded),
                model_writer=model,
                vocab_size=size,
                model_type=algorithm,
                character_coverage=coverage,
                normalization_rule_name="identity",  # nothing is rewritten: … stays …
                bos_id=-1,  # begin and end are Regard's own
                eos_id=-1,
                max_sentence_length=1_000_000,  # bytes; what is longer would be left out without a word
                num_threads=1,  # so that the same texts give the same pieces
                minloglevel=2,
            )
        except (RuntimeError, OSError) as error:
            if guarded.failure is not None:
                raise guarded.failure from None
            raise UserError(f"data.text: {size} pieces cannot be learned from these texts: {_reason(error)}") from None
        return cls(model.getvalue())

    @property
    def pieces(self) -> list[str]:
        """All of them, the most useful first, without SentencePiece's own sign for what is unknown."""
        numbers = range(self._processor.get_piece_size())
        return [self._processor.id_to_piece(n) for n in numbers if not self._processor.is_unknown(n)]

    def split(self, text: str) -> list[str]:
        return self._processor.encode(text, out_type=str)

    def join(self, tokens: Sequence[str]) -> str:
        return re.sub(" +", " ", "".join(tokens).replace(SPACE, " ")).strip(" ")

    def starts(self, tokens: Sequence[str]) -> list[bool]:
        return [token.startswith(SPACE) or token in SPECIAL or place == 0 for place, token in enumerate(tokens)]

    def resplit(self, tokens: Sequence[str], random: Random, *, alpha: float, best: int) -> list[str]:
        """Another way to split the same text, drawn from the `best` likeliest with p ∝ P(pieces)^alpha."""
        ways: list[list[str]] = self._processor.nbest_encode(self.join(tokens), nbest_size=best, out_type=str)
        chances = [alpha * sum(map(self._score, way)) for way in ways]
        top = max(chances)
        return random.choices(ways, [math.exp(chance - top) for chance in chances])[0]

    def _score(self, piece: str) -> float:
        """log P of a piece."""
        return self._processor.get_score(self._processor.piece_to_id(piece))


class _Guarded:
    """Texts, and what went wrong while they were read: SentencePiece would make an error of its own of it."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.texts = texts
        self.failure: BaseException | None = None

    def __iter__(self) -> Iterator[str]:
        try:
            yield from self.texts
        except GeneratorExit:
            raise
        except BaseException as error:  # Ctrl-C, too
            self.failure = error
            raise


def _reason(error: Exception) -> str:
    """What SentencePiece says, in words that help."""
    text = str(error)
    if "Vocabulary size too high" in text:
        most = "".join(sign for sign in text.rpartition("<=")[2] if sign.isdecimal())
        return f"they have only enough for {most}; make data.text.size smaller"
    if "required_chars" in text:
        return "they have more different characters than that; make data.text.size larger"
    if "sentences_.empty()" in text:
        return "there is nothing in them to learn from"
    return text.strip().splitlines()[-1] if text.strip() else "SentencePiece gives no reason"
