"""Translators: from the texts of users to searches over trained models, and back to texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from regard.data import Codec, EncodedSource, Example, collate, pad
from regard.errors import UserError
from regard.inference.model_loading import check_same_vocabularies, load_model
from regard.inference.translation import (
    EMPTY_TRANSLATION,
    Alternative,
    Alternatives,
    Score,
    Translation,
    mean_attention,
)
from regard.nn import Seq2Seq
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
from regard.text import Pair, Vocabulary
from regard.text.word_boundaries import token_labels

ProgressCallback = Callable[[int], None]  # called with the number of texts done, batch by batch
FULL_BATCH_WIDTH = 16  # wider beams search fewer sentences at once: more hypotheses are slower and need more memory


def no_progress(count: int) -> None:
    """A `ProgressCallback` that does nothing."""


class Translator:
    """The best model of a run, or of several runs as an ensemble, ready to translate.

    Every text argument may also be an `EncodedSource` from `encode`, which is then not tokenized again.

    Args:
        run: A run directory.
        others: More run directories with the same vocabularies; the log-probabilities of all are averaged.

    Raises:
        UserError: If a run has no model, or the runs have different vocabularies.
    """

    def __init__(self, run: Run, *others: Run) -> None:
        self.runs = (run, *others)
        self.experiment = run.experiment
        self.codecs: list[Codec] = [each.codec() for each in self.runs]
        self.codec = self.codecs[0]
        for other, codec in zip(others, self.codecs[1:], strict=True):
            check_same_vocabularies(run, self.codec, other, codec)
        self.ensemble = Ensemble([load_model(*each) for each in zip(self.runs, self.codecs, strict=True)])

    @property
    def model(self) -> Seq2Seq:
        """The model of the first run."""
        return self.ensemble.models[0]

    @property
    def device(self) -> torch.device:
        """The device of the models, on which every search runs."""
        return next(self.model.parameters()).device

    @property
    def banned_tokens(self) -> tuple[int, ...]:
        """The ids of tokens that are never generated."""
        always = (Vocabulary.pad, Vocabulary.begin)
        return always if self.experiment.decoding.copy_unknown else (*always, Vocabulary.unknown)

    def encode(self, text: str | EncodedSource) -> EncodedSource:
        """A source text as token ids; those of a text without tokens are empty.

        Args:
            text: A source text.

        Raises:
            UserError: If a model cannot process this text.
        """
        if isinstance(text, EncodedSource):
            return text
        _check_unicode(text)
        source = self.codec.encode_source(text) if text else EncodedSource("", (), (), Vocabulary.begin)
        if not source.ids:
            return source
        for run, codec in zip(self.runs[1:], self.codecs[1:], strict=True):
            other = codec.encode_source(text)
            if (other.ids, other.start) != (source.ids, source.start):
                raise UserError(
                    f"{run.path} tokenizes this text differently from {self.runs[0].path}: they cannot form an ensemble"
                )
        limit = self.ensemble.max_source_length
        if limit is not None and len(source.ids) > limit:
            raise UserError(f"this text has {len(source.ids)} tokens, <end> included; this model has {limit} positions")
        return source

    def encode_pair(self, source: str | EncodedSource, target: str) -> Example:
        """A source text and its translation as token ids; both are empty if both texts are.

        Args:
            source: A source text.
            target: A translation of it.

        Raises:
            UserError: If a model cannot process one of them.
        """
        encoded = self.encode(source)
        if not encoded.ids:
            if target:
                raise UserError("its source is empty, and an empty text has an empty translation")
            return Example((), ())
        _check_unicode(target)
        output = self.codec.target(Pair(encoded.text, target))
        self._check_target_length("this target", len(output))
        return Example(encoded.ids, (encoded.start, *output))

    def encode_translation(self, text: str | EncodedSource, translation: Translation) -> Example:
        """A source text and its translation by this model as token ids.

        Args:
            text: The source text.
            translation: What `translate` returned for it.
        """
        source = self.encode(text)
        return Example(source.ids, (source.start, *self.codec.target_vocabulary.output_to_ids(translation.tokens)))

    def length_penalty(self, options: SearchOptions) -> float:
        """The length penalty of the options or, if it is None, of the run's settings.

        Args:
            options: How to search.
        """
        own = options.length_penalty
        return self.experiment.decoding.length_penalty if own is None else own

    def constraints(self, options: SearchOptions) -> Constraints:
        """The constraints of a search, in token ids.

        Args:
            options: How to search.

        Raises:
            UserError: If the model cannot satisfy them.
        """
        try:
            if isinstance(options.prefix, str):
                _check_unicode(options.prefix)
            prefix = self.codec.prefix(options.prefix)
        except UserError as error:
            text = options.prefix if isinstance(options.prefix, str) else " ".join(options.prefix)
            raise UserError(f"the prefix {text!r}: {error}") from None
        self._check_target_length("an output that begins with the prefix", len(prefix) + 1)
        self._check_target_length(f"an output of min-length {options.min_length}", options.min_length + 1)
        return Constraints(
            banned_tokens=self.banned_tokens,
            prefix=prefix,
            min_length=options.min_length,
            block_ngrams=options.block_ngrams,
            repetition_penalty=options.repetition_penalty,
        )

    def translate(
        self,
        texts: Sequence[str | EncodedSource],
        search: SearchOptions = GREEDY,
        advance: ProgressCallback = no_progress,
        should_stop: Callable[[], bool] = never_stop,
    ) -> list[Translation]:
        """One translation for each text, in order. The translation of an empty text is empty.

        Args:
            texts: The source texts.
            search: How to search.
            advance: Called with the number of texts done, batch by batch.
            should_stop: Called before each step of the search.

        Raises:
            UserError: If the model cannot process a text or satisfy the options.
            SearchStopped: If `should_stop` returns True.
        """
        if isinstance(texts, str):
            raise TypeError("translate takes a list of texts; for one text, write [text]")
        constraints = self.constraints(search)
        sources = {index: source for index, text in enumerate(texts) if (source := self.encode(text)).ids}
        translations = [replace(EMPTY_TRANSLATION, length_penalty=self.length_penalty(search))] * len(texts)
        advance(len(texts) - len(sources))
        width = search.n_best if search.sample else search.beam
        for indices in self._batches({index: len(source.ids) for index, source in sources.items()}, width):
            some = [sources[index] for index in indices]
            batch = self._search_batch(some, search, constraints)
            result = run_search(self.ensemble, batch, _selector(search, some, batch), should_stop)
            for index, hypotheses in zip(indices, result.hypotheses(), strict=True):
                translations[index] = self._translation(sources[index], hypotheses, search)
            advance(len(indices))
        return translations

    def score(
        self,
        pairs: Sequence[tuple[str, str] | Example],
        advance: ProgressCallback = no_progress,
        should_stop: Callable[[], bool] = never_stop,
    ) -> list[Score]:
        """The log-probability of given translations, in order.

        Args:
            pairs: Source texts and their translations, or what `encode_pair` returned for them.
            advance: Called with the number of pairs done, batch by batch.
            should_stop: Called before each batch.

        Raises:
            UserError: If the model cannot process a text.
            SearchStopped: If `should_stop` returns True.
        """
        encoded = [pair if isinstance(pair, Example) else self.encode_pair(*pair) for pair in pairs]
        examples = {index: example for index, example in enumerate(encoded) if example.source}
        scores = [Score(())] * len(pairs)
        advance(len(pairs) - len(examples))
        for indices, some in self._example_batches(examples, should_stop):
            for index, log_probs in zip(indices, self.ensemble.score(collate(some).to(self.device)), strict=True):
                scores[index] = Score(tuple(log_probs))
            advance(len(indices))
        return scores

    def alternatives(
        self,
        texts: Sequence[str | EncodedSource],
        translations: Sequence[Translation],
        count: int,
        should_stop: Callable[[], bool] = never_stop,
    ) -> list[tuple[Alternatives, ...]]:
        """The most probable tokens at each position of each translation, whatever the constraints of the search were.

        Args:
            texts: The source texts.
            translations: A translation of each.
            count: Number of tokens for each position.
            should_stop: Called before each batch.

        Raises:
            SearchStopped: If `should_stop` returns True.
        """
        if isinstance(texts, str) or count < 1:
            raise TypeError("alternatives takes a list of texts, their translations, and a number above 0")
        examples = {
            index: self.encode_translation(text, translation)
            for index, (text, translation) in enumerate(zip(texts, translations, strict=True))
            if translation.tokens
        }
        names = self.codec.target_vocabulary.tokens
        alternatives: list[tuple[Alternatives, ...]] = [()] * len(texts)
        for indices, some in self._example_batches(examples, should_stop):
            top_tokens = self.ensemble.top_tokens(collate(some).to(self.device), count, self.banned_tokens)
            for index, rows in zip(indices, top_tokens, strict=True):
                alternatives[index] = tuple(
                    tuple(Alternative(names[token], self.token_label(names[token]), value) for token, value in row)
                    for row in rows
                )
        return alternatives

    def token_label(self, token: str) -> str:
        """A target token as displayed on its own, marked if it continues a word.

        Args:
            token: A target token.
        """
        tokens = ("", token)  # the first token always begins a word
        return token_labels(tokens, self.codec.tokenization.target_starts(tokens))[1]

    def tree(
        self, text: str | EncodedSource, search: SearchOptions, should_stop: Callable[[], bool] = never_stop
    ) -> list[BeamNode]:
        """The tree of a beam search; empty for an empty text.

        Args:
            text: The source text.
            search: How to search; not by sampling.
            should_stop: Called before each step of the search.

        Raises:
            UserError: If `search` samples, or the model cannot process the text.
            SearchStopped: If `should_stop` returns True.
        """
        if search.sample:
            raise UserError("sampling has no tree: each hypothesis has one extension; choose a beam")
        constraints, source = self.constraints(search), self.encode(text)
        if not source.ids:
            return []
        beam = RecordingBeam(search.beam)
        result = run_search(self.ensemble, self._search_batch([source], search, constraints), beam, should_stop)
        (hypotheses,) = result.hypotheses()
        texts = [self._translation(source, [hypothesis], search).text for hypothesis in hypotheses]
        best = list(dict.fromkeys(texts))[: search.n_best]  # as in `translate`, equal texts count once
        ranks = [
            best.index(text) + 1 if text in best and texts.index(text) == index else None
            for index, text in enumerate(texts)
        ]
        return build_tree(result, beam, self.codec.target_vocabulary, ranks, self.token_label)

    def batch_size(self, width: int = 1) -> int:
        """Number of texts that are searched at once.

        Args:
            width: Number of hypotheses of each text.
        """
        size = self.experiment.decoding.batch_size
        return max(1, min(size, size * FULL_BATCH_WIDTH // width))

    def _check_target_length(self, what: str, tokens: int) -> None:
        limit = self.ensemble.max_target_length
        if limit is not None and tokens > limit:
            raise UserError(f"{what} has {tokens} tokens, <end> included; this model has {limit} positions")

    def _batches(self, lengths: Mapping[int, int], width: int = 1) -> Iterator[list[int]]:
        """The keys of `lengths`, in batches of similar lengths."""
        by_length = sorted(lengths, key=lambda key: lengths[key])
        size = self.batch_size(width)
        return (by_length[begin : begin + size] for begin in range(0, len(by_length), size))

    def _example_batches(
        self, examples: Mapping[int, Example], should_stop: Callable[[], bool]
    ) -> Iterator[tuple[list[int], list[Example]]]:
        lengths = {index: len(example.source) + len(example.target) for index, example in examples.items()}
        for indices in self._batches(lengths):
            if should_stop():
                raise SearchStopped
            yield indices, [examples[index] for index in indices]

    def _search_batch(
        self, sources: Sequence[EncodedSource], search: SearchOptions, constraints: Constraints
    ) -> SearchBatch:
        ids, valid = pad([source.ids for source in sources])
        start = torch.tensor([source.start for source in sources], device=ids.device)
        limits = self.experiment.decoding
        max_lengths = len(constraints.prefix) + (valid.sum(1) * limits.length_factor).long() + limits.length_extra
        max_lengths = max_lengths.clamp(min=constraints.min_length + 1, max=self.ensemble.max_target_length)
        # Several hypotheses may have the same text, so the search returns more than are wanted.
        n_best = 1 if search.n_best == 1 else max(search.n_best, search.beam)
        batch = SearchBatch(ids, valid, start, max_lengths, constraints, n_best, self.length_penalty(search))
        return batch.to(self.device)

    def _translation(
        self, source: EncodedSource, hypotheses: Sequence[Hypothesis], search: SearchOptions
    ) -> Translation:
        """The best hypothesis, with the next best that are different texts."""
        tokenization = self.codec.tokenization
        best: dict[str, Translation] = {}
        for hypothesis in hypotheses:
            tokens = tuple(self.codec.target_vocabulary.to_tokens(hypothesis.tokens))
            translation = Translation(
                text=self.codec.text(hypothesis.tokens, copied_words(hypothesis, source.tokens)),
                tokens=tokens,
                source_tokens=source.tokens,
                log_probabilities=tuple(hypothesis.log_probabilities),
                attention=hypothesis.attention,
                finished=hypothesis.finished,
                word_starts=tuple(tokenization.target_starts(tokens)),
                source_word_starts=tuple(tokenization.source_starts(source.tokens)),
                axes=self.model.decoder.weight_axes if len(self.runs) == 1 else (),
                length_penalty=self.length_penalty(search),
            )
            best.setdefault(translation.text, translation)
        first, *next_best = list(best.values())[: search.n_best]
        return replace(first, next_best=tuple(next_best))


def copied_words(hypothesis: Hypothesis, source_tokens: Sequence[str]) -> dict[int, str]:
    """The source word with the largest attention weight for each `<unknown>` of an output, by its index.

    Args:
        hypothesis: The output.
        source_tokens: The source tokens, `<end>` included.
    """
    words = [index for index, token in enumerate(source_tokens[:-1]) if any(map(str.isalnum, token))]
    weights = mean_attention(hypothesis.attention)[:, words]
    return {
        index: source_tokens[words[int(weights[index].argmax())]]
        for index, token in enumerate(hypothesis.tokens)
        if token == Vocabulary.unknown and weights[index].any()
    }


def _check_unicode(text: str) -> None:
    """Refuse lone surrogates, which Python has in place of invalid bytes of the command line."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UserError(
            f"character {error.start + 1}, {text[error.start]!r}, is not Unicode; write it in UTF-8"
        ) from None


def _selector(search: SearchOptions, sources: Sequence[EncodedSource], batch: SearchBatch) -> Selector:
    if not search.sample:
        return Beam(search.beam)
    max_lengths = batch.max_lengths.tolist()
    random_numbers = torch.zeros(len(sources), search.n_best, max(max_lengths), device="cpu")
    for row, source, length in zip(random_numbers, sources, max_lengths, strict=True):
        # Each text has its own random numbers: its samples do not depend on the rest of the batch.
        generator = torch.Generator(device="cpu").manual_seed(seed_for(search.seed, "sample", source.text))
        row[:, :length] = torch.rand(search.n_best, length, generator=generator, device="cpu")
    return Sampling(random_numbers.to(batch.source.device), search.temperature, search.top_k, search.top_p)


def load(path: str | Path, *others: str | Path) -> Translator:
    """The model of a run directory, or of several as an ensemble.

        translation, = regard.load("runs/case").translate(["<U> I am a student"])

    Args:
        path: A run directory, made by `regard train`.
        others: More run directories; the log-probabilities of all models are averaged.

    Raises:
        UserError: If there is no run, or the runs have different vocabularies.
    """
    return Translator(*(Run(Path(each)) for each in (path, *others)))
