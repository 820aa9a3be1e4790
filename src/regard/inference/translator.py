"""Finished runs at work: texts in, translations with their scores and attention out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path

import torch

from regard.data import Codec, Example, collate, pad
from regard.errors import UserError
from regard.inference.translation import (
    EMPTY_TRANSLATION,
    Alternative,
    Alternatives,
    Score,
    Translation,
    mean_attention,
)
from regard.nn import Seq2Seq
from regard.nn.build import build_model
from regard.runs import Run
from regard.search import (
    GREEDY,
    Beam,
    BeamNode,
    Constraints,
    Ensemble,
    Hypothesis,
    RecordingBeam,
    Sampling,
    SearchBatch,
    SearchOptions,
    SearchStopped,
    Selector,
    build_tree,
)
from regard.search import search as run_search
from regard.search.beam import never_stop
from regard.seeding import seed_for
from regard.tasks import Pair
from regard.text import END, Vocabulary
from regard.text.word_boundaries import token_labels

ProgressCallback = Callable[[int], None]  # is told how many texts are done, batch by batch
FULL_WIDTH = 16  # up to this width a batch is a full one; more hypotheses at once are slower, and need more memory


def no_progress(count: int) -> None:
    """An `ProgressCallback` for those who can wait."""


class Translator:
    """The best model of a run, ready to translate; or those of several runs, which vote."""

    def __init__(self, run: Run, *others: Run) -> None:
        self.runs = (run, *others)
        self.experiment = run.experiment
        self.codecs = [each.codec() for each in self.runs]
        self.codec = self.codecs[0]
        for other, codec in zip(others, self.codecs[1:], strict=True):
            _check_vocabularies(run, self.codec, other, codec)
        self.ensemble = Ensemble([load_model(*each) for each in zip(self.runs, self.codecs, strict=True)])

    @property
    def model(self) -> Seq2Seq:
        """The model of the first run."""
        return self.ensemble.models[0]

    def check(self, text: str) -> tuple[int, ...]:
        """The numbers of the source tokens, its end included; none if there is nothing to read.

        A text that this model cannot read is a `UserError`.
        """
        _check_unicode(text)
        numbers = self.codec.source(text) if text else ()
        if len(numbers) < 2:
            return ()
        for run, codec in zip(self.runs[1:], self.codecs[1:], strict=True):
            if (codec.source(text), codec.start(text)) != (numbers, self.codec.start(text)):
                raise UserError(f"{run.path} reads this text in another way than {self.runs[0].path}: they cannot vote")
        longest = self.ensemble.longest_source
        if longest is not None and len(numbers) > longest:
            raise UserError(
                f"this text has {len(numbers)} tokens, its end included, and this model has {longest} positions"
            )
        return numbers

    def check_pair(self, source: str, target: str) -> Example | None:
        """Both texts in numbers; None if there is nothing to read and nothing to say.

        What this model cannot read, or cannot say, is a `UserError`.
        """
        if not self.check(source):
            if target:
                raise UserError("its source is empty, and an empty text has an empty translation")
            return None
        _check_unicode(target)
        example = self.codec.example(Pair(source, target))
        self._check_room("this target", len(example.target) - 1)
        return example

    def example(self, text: str, translation: Translation) -> Example:
        """A text and what was made of it, in numbers."""
        said = self.codec.target_vocabulary.output_to_ids(translation.tokens)
        return Example(self.check(text), (self.codec.start(text), *said))

    def length_penalty(self, search: SearchOptions) -> float:
        """That of the search or, where it has none of its own, that of the run's settings."""
        own = search.length_penalty
        return self.experiment.decoding.length_penalty if own is None else own

    def rules(self, search: SearchOptions) -> Constraints:
        """The rules in numbers; a `UserError` if the model cannot follow them."""
        try:
            if isinstance(search.prefix, str):
                _check_unicode(search.prefix)
            prefix = self.codec.prefix(search.prefix)
        except UserError as error:
            said = search.prefix if isinstance(search.prefix, str) else " ".join(search.prefix)
            raise UserError(f"the prefix {said!r}: {error}") from None
        self._check_room("an output that begins with the prefix", len(prefix) + 1)
        self._check_room(f"an output of min-length {search.min_length}", search.min_length + 1)
        return Constraints(
            banned_tokens=self.banned_tokens,
            prefix=prefix,
            min_length=search.min_length,
            block_ngrams=search.block_ngrams,
            repetition_penalty=search.repetition_penalty,
        )

    @property
    def banned_tokens(self) -> tuple[int, ...]:
        """The tokens that are never said."""
        banned_tokens = (Vocabulary.pad, Vocabulary.begin)
        return banned_tokens if self.experiment.decoding.copy_unknown else (*banned_tokens, Vocabulary.unknown)

    def _check_room(self, what: str, tokens: int) -> None:
        longest = self.ensemble.longest_target
        if longest is not None and tokens > longest:
            raise UserError(f"{what} has {tokens} tokens, its end included, and this model has {longest} positions")

    def translate(
        self,
        texts: Sequence[str],
        search: SearchOptions = GREEDY,
        advance: ProgressCallback = no_progress,
        should_stop: Callable[[], bool] = never_stop,
    ) -> list[Translation]:
        """One translation for each text, in order. An empty text has an empty one.

        `should_stop` is called before each step of the search; if it returns True, `SearchStopped` is raised.
        """
        if isinstance(texts, str):
            raise TypeError("translate takes a list of texts; for one text, write [text]")
        rules = self.rules(search)
        sources = {place: source for place, text in enumerate(texts) if (source := self.check(text))}
        translations = [replace(EMPTY_TRANSLATION, length_penalty=self.length_penalty(search))] * len(texts)
        advance(len(texts) - len(sources))
        width = search.n_best if search.sample else search.beam
        for places in self._batches({place: len(source) for place, source in sources.items()}, width):
            some = [texts[place] for place in places]
            question = self._question(some, [sources[place] for place in places], search, rules)
            found = run_search(self.ensemble, question, _chooser(search, some, question), should_stop)
            for place, hypotheses in zip(places, found.hypotheses(), strict=True):
                translations[place] = self._translation(texts[place], hypotheses, search)
            advance(len(places))
        return translations

    def score(
        self,
        pairs: Sequence[tuple[str, str]],
        advance: ProgressCallback = no_progress,
        should_stop: Callable[[], bool] = never_stop,
    ) -> list[Score]:
        """What the model thinks of each (source, target), in order. An empty text has an empty translation, surely."""
        examples = {place: e for place, pair in enumerate(pairs) if (e := self.check_pair(*pair))}
        scores = [Score(())] * len(pairs)
        advance(len(pairs) - len(examples))
        for places in self._batches({place: len(e.source) + len(e.target) for place, e in examples.items()}):
            if should_stop():
                raise SearchStopped
            batch = collate([examples[place] for place in places])
            for place, log_probabilities in zip(places, self.ensemble.score(batch), strict=True):
                scores[place] = Score(tuple(log_probabilities))
            advance(len(places))
        return scores

    def alternatives(
        self,
        texts: Sequence[str],
        translations: Sequence[Translation],
        count: int,
        should_stop: Callable[[], bool] = never_stop,
    ) -> list[tuple[Alternatives, ...]]:
        """For each token of each translation the `count` likeliest in its place, each with its log p.

        These are the chances that the model gives them, whatever rules a search may have.
        """
        if isinstance(texts, str) or count < 1:
            raise TypeError("alternatives takes a list of texts, their translations, and a number above 0")
        said = enumerate(zip(texts, translations, strict=True))
        examples = {place: self.example(*both) for place, both in said if both[1].tokens}
        spelled = self.codec.target_vocabulary.tokens
        alternatives: list[tuple[Alternatives, ...]] = [()] * len(texts)
        for places in self._batches({place: len(e.source) + len(e.target) for place, e in examples.items()}):
            if should_stop():
                raise SearchStopped
            batch = collate([examples[place] for place in places])
            for place, rows in zip(places, self.ensemble.likeliest(batch, count, self.banned_tokens), strict=True):
                alternatives[place] = tuple(
                    tuple(Alternative(spelled[token], self.label(spelled[token]), log_prob) for token, log_prob in row)
                    for row in rows
                )
        return alternatives

    def label(self, token: str) -> str:
        """What to show of a target token that stands alone, as a piece of its word."""
        tokens = ("", token)  # the first begins a word, whatever it is
        return token_labels(tokens, self.codec.tokenization.target_starts(tokens))[1]

    def tree(self, text: str, search: SearchOptions, should_stop: Callable[[], bool] = never_stop) -> list[BeamNode]:
        """The beam of a text, step by step; that of an empty text is empty."""
        if search.sample:
            raise UserError("sampling has no tree: each hypothesis has one extension; choose a beam")
        rules, source = self.rules(search), self.check(text)
        if not source:
            return []
        beam = RecordingBeam(search.beam)
        found = run_search(self.ensemble, self._question([text], [source], search, rules), beam, should_stop)
        (hypotheses,) = found.hypotheses()
        texts = [self._translation(text, [hypothesis], search).text for hypothesis in hypotheses]
        best = list(dict.fromkeys(texts))[: search.n_best]  # as in `translate`, a text counts once
        ranks = [
            best.index(text) + 1 if text in best and texts.index(text) == place else None
            for place, text in enumerate(texts)
        ]
        return build_tree(found, beam, self.codec.target_vocabulary, ranks, self.label)

    def at_once(self, width: int = 1) -> int:
        """How many texts are searched for together with a beam of that width."""
        wanted = self.experiment.decoding.batch_size
        return max(1, min(wanted, wanted * FULL_WIDTH // width))

    def _batches(self, lengths: dict[int, int], width: int = 1) -> Iterator[list[int]]:
        """The keys of `lengths`, those of like length together; the wider the beam, the fewer at once."""
        by_length = sorted(lengths, key=lambda key: lengths[key])
        size = self.at_once(width)
        return (by_length[begin : begin + size] for begin in range(0, len(by_length), size))

    def _question(
        self, texts: Sequence[str], sources: Sequence[tuple[int, ...]], search: SearchOptions, rules: Constraints
    ) -> SearchBatch:
        source, valid = pad(sources)
        first = torch.tensor([self.codec.start(text) for text in texts])
        limits = self.experiment.decoding
        longest = len(rules.prefix) + (valid.sum(1) * limits.length_factor).long() + limits.length_extra
        longest = longest.clamp(min=rules.min_length + 1, max=self.ensemble.longest_target)
        # Several hypotheses may be the same text, so more are asked for than are wanted.
        n_best = 1 if search.n_best == 1 else max(search.n_best, search.beam)
        return SearchBatch(source, valid, first, longest, rules, n_best, self.length_penalty(search))

    def _translation(self, text: str, hypotheses: Sequence[Hypothesis], search: SearchOptions) -> Translation:
        """The first of the best, with the others that are different texts."""
        tokenization = self.codec.tokenization
        source_tokens = (*tokenization.source_tokens(text), END)  # an unknown one as it is spelled
        best: dict[str, Translation] = {}
        for hypothesis in hypotheses:
            tokens = tuple(self.codec.target_vocabulary.to_tokens(hypothesis.tokens))
            translation = Translation(
                text=self.codec.text(hypothesis.tokens, copied_words(hypothesis, source_tokens)),
                tokens=tokens,
                source_tokens=source_tokens,
                log_probabilities=tuple(hypothesis.log_probabilities),
                attention=hypothesis.attention,
                finished=hypothesis.finished,
                starts=tuple(tokenization.target_starts(tokens)),
                source_starts=tuple(tokenization.source_starts(source_tokens)),
                axes=self.model.decoder.weight_axes if len(self.runs) == 1 else (),
                length_penalty=self.length_penalty(search),
            )
            best.setdefault(translation.text, translation)
        first, *others = list(best.values())[: search.n_best]
        return replace(first, others=tuple(others))


def copied_words(hypothesis: Hypothesis, source_tokens: Sequence[str]) -> dict[int, str]:
    """For each `<unknown>` in the output, by its place, the source word that was looked at most."""
    words = [place for place, token in enumerate(source_tokens[:-1]) if any(map(str.isalnum, token))]
    weights = mean_attention(hypothesis.attention)[:, words]
    return {
        place: source_tokens[words[int(weights[place].argmax())]]
        for place, number in enumerate(hypothesis.tokens)
        if number == Vocabulary.unknown and weights[place].any()
    }


def _check_unicode(text: str) -> None:
    """Python's texts may hold halves of characters, and bytes of the command line that are none."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UserError(
            f"character {error.start + 1}, {text[error.start]!r}, is not Unicode; write it in UTF-8"
        ) from None


def _chooser(search: SearchOptions, texts: Sequence[str], question: SearchBatch) -> Selector:
    if not search.sample:
        return Beam(search.beam)
    draws = torch.zeros(len(texts), search.n_best, int(question.longest.max()))
    for own, text, longest in zip(draws, texts, question.longest.tolist(), strict=True):
        # A text's own random numbers: what it draws does not depend on what else is in the batch.
        generator = torch.Generator().manual_seed(seed_for(search.seed, "sample", text))
        own[:, :longest] = torch.rand(search.n_best, longest, generator=generator)
    return Sampling(draws, search.temperature, search.top_k, search.top_p)


def _check_vocabularies(run: Run, codec: Codec, other_run: Run, other: Codec) -> None:
    sides = {
        "source": (codec.source_vocabulary, other.source_vocabulary),
        "target": (codec.target_vocabulary, other.target_vocabulary),
    }
    for side, (own, others) in sides.items():
        for number, (token, other_token) in enumerate(zip_longest(own.tokens, others.tokens)):
            if token != other_token:
                raise UserError(
                    f"{run.path} and {other_run.path} cannot vote: their {side} vocabularies differ, token {number} is "
                    f"{token!r} in the first and {other_token!r} in the second; train both on the same data"
                )


def load_model(run: Run, codec: Codec) -> Seq2Seq:
    """The best model of a run."""
    # Weights are about to be replaced: drawing them must not disturb the caller's random numbers.
    with torch.random.fork_rng(devices=[]):
        model = build_model(run.experiment.model, *codec.sizes).eval()
    run.load_weights(model)
    return model


def load(path: str | Path, *others: str | Path) -> Translator:
    """The model in a run directory; with several, they vote: their log-probabilities are averaged."""
    return Translator(*(Run(Path(each)) for each in (path, *others)))
