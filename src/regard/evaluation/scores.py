"""All measures of a run on one of its splits."""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass

from regard import __version__
from regard.data import Batches
from regard.evaluation.alignment import share_aligned
from regard.evaluation.bleu import bleu
from regard.evaluation.measures import measure
from regard.tasks import Split
from regard.text import Words
from regard.translator import Translator


@dataclass(frozen=True)
class Evaluation:
    run: str
    split: str
    sentences: int
    loss: float  # nats a token, teacher-forced
    perplexity: float
    token_accuracy: float  # teacher-forced
    exact_match: float  # of greedy translations with the true texts
    unfinished: int  # translations cut off at the maximum length
    aligned: float | None  # content words whose most attended source token is a true one; None: no truth known
    bleu: float | None  # 0 to 100; None: the task is not one of words
    bleu_signature: str | None
    seconds: float
    seed: int
    version: str


def evaluate(translator: Translator, split: Split) -> Evaluation:
    """Translate a split, and score it with and without the truth before the model's eyes."""
    began = time.monotonic()
    task, training = translator.experiment.data, translator.experiment.training
    pairs = task.splits()[split]
    examples = translator.codec.examples(pairs)
    batches = Batches(examples, batch_tokens=training.batch_tokens, seed=training.seed)
    forced = measure(translator.model, batches.once(), teacher=True)
    translations = translator.translate([pair.source for pair in pairs])
    texts, truths = [translation.text for translation in translations], [pair.target for pair in pairs]
    score = bleu(texts, truths) if isinstance(task.tokenizer, Words) else None
    return Evaluation(
        run=str(translator.run.path),
        split=split,
        sentences=len(pairs),
        loss=forced.loss,
        perplexity=math.exp(min(forced.loss, 700.0)),
        token_accuracy=forced.token_accuracy,
        exact_match=sum(text == truth for text, truth in zip(texts, truths, strict=True)) / len(pairs),
        unfinished=sum(not translation.finished for translation in translations),
        aligned=share_aligned(translator.model, task, pairs, examples),
        bleu=score.score if score else None,
        bleu_signature=score.signature if score else None,
        seconds=round(time.monotonic() - began, 3),
        seed=training.seed,
        version=__version__,
    )


def as_json(evaluation: Evaluation) -> dict[str, object]:
    """What is not known is left out."""
    return {key: value for key, value in asdict(evaluation).items() if value is not None}
