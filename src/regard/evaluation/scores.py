"""All measures of a run on one of its splits, for one way to search or several."""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass

from regard import __version__
from regard.data import Batches
from regard.evaluation.alignment import share_aligned
from regard.evaluation.bleu import bleu
from regard.evaluation.measures import measure
from regard.search import GREEDY, Search
from regard.tasks import Split
from regard.text import Words
from regard.translator import Advance, Translator, ignore


@dataclass(frozen=True)
class Evaluation:
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
    bleu: float | None  # 0 to 100; None: the task is not one of words
    bleu_signature: str | None
    seconds: float  # for translating
    sentences_per_second: float
    seed: int
    version: str


class Examination:
    """A run and one of its splits. What does not depend on the search is measured once."""

    def __init__(self, translator: Translator, split: Split) -> None:
        if len(translator.runs) > 1:
            raise ValueError("an examination is of one run; of several that vote, there is no one model to measure")
        self.translator, self.split = translator, split
        task, training = translator.experiment.data, translator.experiment.training
        self.pairs = task.splits()[split]
        examples = translator.codec.examples(self.pairs)
        batches = Batches(examples, batch_tokens=training.batch_tokens, seed=training.seed)
        self.forced = measure(translator.model, batches.once(), teacher=True)
        self.aligned = share_aligned(translator.model, task, self.pairs, examples)

    def evaluate(self, search: Search = GREEDY, advance: Advance = ignore) -> Evaluation:
        """Translate, and score what comes out."""
        began = time.perf_counter()
        translations = self.translator.translate([pair.source for pair in self.pairs], search, advance)
        seconds = time.perf_counter() - began
        texts, truths = [translation.text for translation in translations], [pair.target for pair in self.pairs]
        words = isinstance(self.translator.experiment.data.tokenizer, Words)
        score = bleu(texts, truths) if words else None
        return Evaluation(
            run=str(self.translator.runs[0].path),
            split=self.split,
            sentences=len(texts),
            beam=search.beam,
            length_penalty=search.length_penalty,
            loss=self.forced.loss,
            perplexity=math.exp(min(self.forced.loss, 700.0)),
            token_accuracy=self.forced.token_accuracy,
            exact_match=sum(text == truth for text, truth in zip(texts, truths, strict=True)) / len(texts),
            log_probability=sum(translation.score for translation in translations) / len(texts),
            unfinished=sum(not translation.finished for translation in translations),
            aligned=self.aligned,
            bleu=score.score if score else None,
            bleu_signature=score.signature if score else None,
            seconds=round(seconds, 3),
            sentences_per_second=round(len(texts) / seconds, 1),
            seed=self.translator.experiment.training.seed,
            version=__version__,
        )


def evaluate(translator: Translator, split: Split) -> Evaluation:
    """Greedy translations of a split, scored."""
    return Examination(translator, split).evaluate()


def as_json(evaluation: Evaluation) -> dict[str, object]:
    """What is not known is left out."""
    return {key: value for key, value in asdict(evaluation).items() if value is not None}
