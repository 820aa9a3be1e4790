"""All measures of a run on one of its splits, for one way to search or several."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields

from regard import __version__
from regard.data import Batches, digest_examples
from regard.evaluation.alignment import alignment_accuracy
from regard.evaluation.bleu import bleu, chrf
from regard.evaluation.error_rates import phoneme_error
from regard.evaluation.losses import compute_losses
from regard.inference.translation import Translation
from regard.inference.translator import ProgressCallback, Translator, no_progress
from regard.search import GREEDY, SearchOptions
from regard.tasks import Split, Task


@dataclass(frozen=True, kw_only=True)
class OwnScores:
    """What only some kinds of text are scored by; None: not this one."""

    bleu: float | None = None  # 0 to 100; None: not a task of words
    bleu_lc: float | None = None  # the same without regard to capitals
    bleu_signature: str | None = None
    bleu_lc_signature: str | None = None
    chrf: float | None = None  # chrF2, 0 to 100
    chrf_signature: str | None = None
    phoneme_error: float | None = None  # None: not a task of pronunciation
    word_error: float | None = None  # words that match none of the pronunciations listed for them


@dataclass(frozen=True, kw_only=True)
class EvaluationResult(OwnScores):
    run: str
    split: str
    sentences: int
    beam: int
    length_penalty: float
    loss: float  # nats a token, teacher-forced
    perplexity: float
    token_accuracy: float  # teacher-forced
    exact_match: float  # of translations with the true texts
    log_probability: float  # of a translation, on average
    unfinished: int  # translations cut off at the maximum length
    aligned: float | None  # content words whose most attended source token is a true one; None: no truth known
    seconds: float  # for translating
    sentences_per_second: float
    seed: int
    version: str


class Evaluator:
    """A run and one of its splits, or one of other `data`. What does not depend on the search is measured once."""

    def __init__(self, translator: Translator, split: Split, data: Task | None = None) -> None:
        if len(translator.runs) > 1:
            raise ValueError("an examination is of one run; of several that vote, there is no one model to measure")
        self.translator, self.split = translator, split
        own, training = translator.experiment.data, translator.experiment.training
        data = data or own
        self.pairs = list(data.pairs(split))
        examples = translator.codec.examples(self.pairs)
        known = translator.runs[0].texts.get(split) if data == own else None
        self.changed = known is not None and known != digest_examples(examples)  # since the run was begun
        batches = Batches(examples, batch_tokens=training.batch_tokens, seed=training.seed)
        self.forced = compute_losses(translator.model, batches.once(), teacher=True)
        self.aligned = alignment_accuracy(translator.model, translator.codec.tokenization, self.pairs, examples)

    def evaluate(self, search: SearchOptions = GREEDY, advance: ProgressCallback = no_progress) -> EvaluationResult:
        """Translate, and score what comes out."""
        evaluation, _ = self.translate(search, advance)
        return evaluation

    def translate(
        self, search: SearchOptions, advance: ProgressCallback = no_progress
    ) -> tuple[EvaluationResult, list[Translation]]:
        """The score, and what was scored."""
        began = time.perf_counter()
        translations = self.translator.translate([pair.source for pair in self.pairs], search, advance)
        seconds = time.perf_counter() - began
        texts = [translation.text for translation in translations]
        truths = [(pair.target, *pair.other_targets) for pair in self.pairs]
        exact_match = sum(text in known for text, known in zip(texts, truths, strict=True)) / len(texts)
        evaluation = EvaluationResult(
            run=str(self.translator.runs[0].path),
            split=self.split,
            sentences=len(texts),
            beam=search.beam,
            length_penalty=self.translator.length_penalty(search),
            loss=self.forced.loss,
            perplexity=math.exp(min(self.forced.loss, 700.0)),
            token_accuracy=self.forced.token_accuracy,
            exact_match=exact_match,
            log_probability=sum(translation.score for translation in translations) / len(texts),
            unfinished=sum(not translation.finished for translation in translations),
            aligned=self.aligned,
            **asdict(self._own_scores(texts, truths, exact_match)),
            seconds=round(seconds, 3),
            sentences_per_second=round(len(texts) / seconds, 1),
            seed=self.translator.experiment.training.seed,
            version=__version__,
        )
        return evaluation, translations

    def _own_scores(self, texts: Sequence[str], truths: Sequence[Sequence[str]], exact_match: float) -> OwnScores:
        """What texts of this kind are scored by besides exact matches."""
        match self.translator.experiment.data.scored_by:
            case "bleu":
                first = [known[0] for known in truths]
                cased, lowercased = bleu(texts, first), bleu(texts, first, lowercase=True)
                characters = chrf(texts, first)
                return OwnScores(
                    bleu=cased.score,
                    bleu_signature=cased.signature,
                    bleu_lc=lowercased.score,
                    bleu_lc_signature=lowercased.signature,
                    chrf=characters.score,
                    chrf_signature=characters.signature,
                )
            case "phonemes":
                return OwnScores(phoneme_error=phoneme_error(texts, truths), word_error=1 - exact_match)
        return OwnScores()


def evaluate(translator: Translator, split: Split) -> EvaluationResult:
    """Greedy translations of a split, scored."""
    return Evaluator(translator, split).evaluate()


def evaluation_to_dict(evaluation: EvaluationResult) -> dict[str, object]:
    """What is not known is left out; what not every kind of text has comes last."""
    known = {key: value for key, value in asdict(evaluation).items() if value is not None}
    own = {field.name for field in fields(OwnScores)}
    return dict(sorted(known.items(), key=lambda item: item[0] in own))
