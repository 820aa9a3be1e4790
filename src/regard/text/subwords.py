"""Subwords learned from text by SentencePiece: a word of known characters is never unknown."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from io import BytesIO
from random import Random
from typing import Literal, Self

import sentencepiece

from regard.errors import UserError
from regard.text.sections import SubwordRegularizationSection, TextSection
from regard.text.tokenizers import SPACE, Tokenizer
from regard.text.vocabulary import SPECIAL

DEFAULT_SIZE = 4_000  # subwords


class SubwordTokenizer(Tokenizer):
    """A SentencePiece tokenizer: `Ein Weinberg.` → `▁Ein ▁Wein berg .`

    Args:
        model: A serialized SentencePiece model, the `model` of a tokenizer that `learn` returned.
        regularization: Subword regularization, for `resample`.

    Raises:
        ValueError: If `model` is not a SentencePiece model.
    """

    Section = TextSection
    has_model = True

    def __init__(self, model: bytes, regularization: SubwordRegularizationSection | None = None) -> None:
        self._model = model
        self.regularization = regularization or SubwordRegularizationSection()
        try:
            if not model:
                raise RuntimeError  # SentencePiece itself would only notice when it is used
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        except RuntimeError:
            raise ValueError("this is not a SentencePiece model") from None

    @classmethod
    def from_texts(cls, texts: Iterable[str], settings: TextSection) -> Self:
        size = settings.size or DEFAULT_SIZE
        learned = cls.learn(texts, size, algorithm=settings.algorithm, coverage=settings.coverage)
        return cls(learned.model, settings.regularization)

    @classmethod
    def from_model(cls, model: bytes, settings: TextSection) -> Self:
        return cls(model, settings.regularization)

    @classmethod
    def learn(
        cls, texts: Iterable[str], size: int, *, algorithm: Literal["unigram", "bpe"], coverage: float
    ) -> SubwordTokenizer:
        """Learn subwords from texts.

        Args:
            texts: The texts to learn from.
            size: The number of subwords, SentencePiece's own unknown token included.
            algorithm: `unigram` or `bpe`.
            coverage: The share of all characters in `texts` that the subwords cover; the rarest are unknown.

        Raises:
            UserError: If `texts` have too few, or too many different, characters for `size` subwords.
        """
        model = BytesIO()
        guarded = _ExceptionKeeper(texts)
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(guarded),
                model_writer=model,
                vocab_size=size,
                model_type=algorithm,
                character_coverage=coverage,
                normalization_rule_name="identity",  # nothing is rewritten: … stays …
                bos_id=-1,  # Regard has its own tokens for begin and end
                eos_id=-1,
                max_sentence_length=1_000_000,  # bytes; longer ones are skipped without a warning
                num_threads=1,  # so that the same texts give the same subwords
                minloglevel=2,
            )
        except (RuntimeError, OSError) as error:
            if guarded.exception is not None:
                raise guarded.exception from None
            reason = _explain_failure(error)
            raise UserError(f"data.text: {size} subwords cannot be learned from these texts: {reason}") from None
        return cls(model.getvalue())

    @property
    def model(self) -> bytes:
        return self._model

    @property
    def pieces(self) -> list[str]:
        """All subwords in SentencePiece's order, without its unknown token."""
        ids = range(self._processor.get_piece_size())
        return [self._processor.id_to_piece(index) for index in ids if not self._processor.is_unknown(index)]

    def tokenize(self, text: str) -> list[str]:
        """The most likely segmentation of `text`."""
        return self._processor.encode(text, out_type=str)

    def detokenize(self, tokens: Sequence[str]) -> str:
        """The text that `tokens` spell, with runs of spaces reduced to one."""
        return re.sub(" +", " ", "".join(tokens).replace(SPACE, " ")).strip(" ")

    def starts(self, tokens: Sequence[str]) -> list[bool]:
        """True for tokens with a space in front, for special tokens and for the first one."""
        return [token.startswith(SPACE) or token in SPECIAL or index == 0 for index, token in enumerate(tokens)]

    @property
    def can_resample(self) -> bool:
        return self.regularization.best > 1

    def resample(self, tokens: Sequence[str], random: Random) -> list[str]:
        options = self.regularization
        return self.sample(tokens, random, alpha=options.alpha, n_best=options.best)

    def sample(self, tokens: Sequence[str], random: Random, *, alpha: float, n_best: int) -> list[str]:
        """Another segmentation of the same text: one of the `n_best` most likely, with p ∝ P(segmentation)^alpha.

        Args:
            tokens: Any segmentation of the text.
            random: The source of randomness.
            alpha: 0 for a uniform distribution, 1 for the unigram model's own.
            n_best: The number of segmentations to choose from.
        """
        segmentations: list[list[str]] = self._processor.nbest_encode(
            self.detokenize(tokens), nbest_size=n_best, out_type=str
        )
        log_probs, unknown = self._log_probs, self._processor.get_score(self._processor.unk_id())
        log_weights = [alpha * sum([log_probs.get(piece, unknown) for piece in each]) for each in segmentations]
        highest = max(log_weights)
        return random.choices(segmentations, [math.exp(each - highest) for each in log_weights])[0]

    @cached_property
    def _log_probs(self) -> dict[str, float]:
        """log P of each subword. To ask SentencePiece for each one takes twice as long as to find the segmentations."""
        processor = self._processor
        return {processor.id_to_piece(index): processor.get_score(index) for index in range(len(processor))}


class _ExceptionKeeper:
    """Iterates over texts and keeps the exception that ends the iteration, which SentencePiece would replace."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.texts = texts
        self.exception: BaseException | None = None

    def __iter__(self) -> Iterator[str]:
        try:
            yield from self.texts
        except GeneratorExit:
            raise
        except BaseException as error:  # KeyboardInterrupt, too
            self.exception = error
            raise


def _explain_failure(error: Exception) -> str:
    """SentencePiece's error message in terms of Regard's settings."""
    text = str(error)
    if "Vocabulary size too high" in text:
        most = "".join(character for character in text.rpartition("<=")[2] if character.isdecimal())
        return f"they have only enough for {most}; make data.text.size smaller"
    if "required_chars" in text:
        return "they have more different characters than that; make data.text.size larger"
    if "sentences_.empty()" in text:
        return "they are empty"
    return text.strip().splitlines()[-1] if text.strip() else "SentencePiece gives no reason"
