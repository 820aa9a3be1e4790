"""Translators: from the texts of users to searches over trained models, and back to texts."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from regard.config.plugins import CodeChangedWarning
from regard.data import EncodedSource, Example, collate
from regard.errors import UserError
from regard.inference.outputs import rank_texts, to_translation
from regard.inference.run_ensemble import RunEnsemble, check_unicode
from regard.inference.search_setup import make_selector, search_batch, similar_lengths
from regard.inference.self_attention import mean_self_attention, regroup, with_self_attention
from regard.inference.translation import (
    EMPTY_TRANSLATION,
    Alternative,
    Alternatives,
    Score,
    Translation,
)
from regard.runs import Run
from regard.search import (
    GREEDY,
    BeamNode,
    Constraints,
    Hypothesis,
    RecordingBeam,
    SearchBatch,
    SearchOptions,
    SearchStopped,
    build_tree,
)
from regard.search import search as run_search
from regard.search.beam import never_stop
from regard.text.word_boundaries import token_labels

if TYPE_CHECKING:
    import torch

    from regard.inference.run_ensemble import SourceInput

ProgressCallback = Callable[[int], None]  # called with the number of texts done, batch by batch
FULL_BATCH_WIDTH = 16  # wider beams search fewer sentences at once: more hypotheses are slower and need more memory


def no_progress(count: int) -> None:
    """A `ProgressCallback` that does nothing.

    Args:
        count: The number of texts done.
    """


class Translator(RunEnsemble):
    """The best model of a run, or of several runs as an ensemble, ready to translate.

    Every text argument may also be an `EncodedSource` from `encode`, which is then not tokenized again.

    Args:
        run: A run directory.
        others: More run directories with the same vocabularies; the log-probabilities of all are averaged.
        device: The device of the models: `auto`, `cpu`, `mps`, `cuda` or `cuda:N`.
        precision: The precision of the models: `float32`, `bfloat16` or `float16`.

    Raises:
        UserError: If a run has no model, the runs have different vocabularies, or there is no such device.
    """

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
                check_unicode(options.prefix)
            prefix = self.codec.prefix(options.prefix)
        except UserError as error:
            text = options.prefix if isinstance(options.prefix, str) else " ".join(options.prefix)
            raise UserError(f"the prefix {text!r}: {error}") from None
        self.check_target_length("an output that begins with the prefix", len(prefix) + 1)
        self.check_target_length(f"an output of min-length {options.min_length}", options.min_length + 1)
        return Constraints(
            banned_tokens=self.banned_tokens,
            prefix=prefix,
            min_length=options.min_length,
            block_ngrams=options.block_ngrams,
            repetition_penalty=options.repetition_penalty,
        )

    def translate(
        self,
        texts: Iterable[SourceInput],
        search: SearchOptions = GREEDY,
        advance: ProgressCallback = no_progress,
        should_stop: Callable[[], bool] = never_stop,
        *,
        self_attention: bool = False,
    ) -> list[Translation]:
        """One translation for each text, in order. The translation of an empty text is empty.

        Args:
            texts: The source texts; or pictures, each as a data URI, a `pathlib.Path` or a PIL image.
            search: How to search.
            advance: Called with the number of texts done, batch by batch.
            should_stop: Called before each step of the search.
            self_attention: Also record the self-attention of encoder and decoder, by one more pass over the outputs.

        Raises:
            UserError: If the model cannot process a text or satisfy the options.
            SearchStopped: If `should_stop` returns True.
        """
        if isinstance(texts, str) or not isinstance(texts, Iterable):
            raise UserError("translate takes a list of texts; for one text, write [text]")
        if not isinstance(search, SearchOptions):
            raise UserError(f"search should be a regard.Search, such as regard.Search(beam=5), not {search!r:.80}")
        texts = list(texts)
        constraints = self.constraints(search)
        sources = {index: source for index, text in enumerate(texts) if (source := self.encode(text)).ids}
        translations = [replace(EMPTY_TRANSLATION, length_penalty=self.length_penalty(search))] * len(texts)
        advance(len(texts) - len(sources))
        width = search.n_best if search.sample else search.beam
        lengths = {index: len(source.ids) for index, source in sources.items()}
        for indices in similar_lengths(lengths, self.batch_size(width)):
            some = [sources[index] for index in indices]
            batch = self._search_batch(some, search, constraints)
            result = run_search(self.ensemble, batch, make_selector(search, some, batch), should_stop)
            for index, hypotheses in zip(indices, result.hypotheses(), strict=True):
                translations[index] = self._translation(sources[index], hypotheses, search)
            advance(len(indices))
        if not self_attention:
            return translations
        return self._with_self_attention([sources.get(index) for index in range(len(texts))], translations, should_stop)

    def score(
        self,
        pairs: Iterable[tuple[SourceInput, str] | Example],
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
        if not isinstance(pairs, Iterable):
            raise UserError("score takes a list of pairs of texts, such as [(source, translation)]")
        pairs = list(pairs)
        for pair in pairs:
            if not isinstance(pair, Example) and (not isinstance(pair, tuple | list) or len(pair) != 2):
                raise UserError(f"{pair!r:.80} is not a pair of texts, such as (source, translation)")
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
        texts: Sequence[SourceInput],
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

    def _with_self_attention(
        self,
        encoded: Sequence[EncodedSource | None],
        translations: Sequence[Translation],
        should_stop: Callable[[], bool],
    ) -> list[Translation]:
        """The translations with the self-attention of each of their hypotheses; an empty source is None."""
        sources = [source for source, best in zip(encoded, translations, strict=True) for _ in best.n_best]
        outputs = [hypothesis for best in translations for hypothesis in best.n_best]
        examples = {
            index: self.encode_translation(source, output)
            for index, (source, output) in enumerate(zip(sources, outputs, strict=True))
            if source is not None
        }
        for indices, some in self._example_batches(examples, should_stop):
            maps = mean_self_attention(self.ensemble.models, collate(some).to(self.device))
            for index, example, each in zip(indices, some, maps, strict=True):
                (start,) = self.codec.target_vocabulary.to_tokens(example.target[:1])
                outputs[index] = with_self_attention(outputs[index], start, each)
        return regroup(translations, outputs)

    def token_label(self, token: str) -> str:
        """A target token as displayed on its own, marked if it continues a word.

        Args:
            token: A target token.
        """
        tokens = ("", token)  # the first token always begins a word
        return token_labels(tokens, self.codec.tokenization.target_starts(tokens))[1]

    def tree(
        self, text: SourceInput, search: SearchOptions, should_stop: Callable[[], bool] = never_stop
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
        ranks = rank_texts(texts, search.n_best)  # as in `translate`, equal texts count once
        return build_tree(result, beam, self.codec.target_vocabulary, ranks, self.token_label)

    def batch_size(self, width: int = 1) -> int:
        """Number of texts that are searched at once.

        Args:
            width: Number of hypotheses of each text.
        """
        size = self.experiment.decoding.batch_size
        return max(1, min(size, size * FULL_BATCH_WIDTH // width))

    def _example_batches(
        self, examples: Mapping[int, Example], should_stop: Callable[[], bool]
    ) -> Iterator[tuple[list[int], list[Example]]]:
        lengths = {index: len(example.source) + len(example.target) for index, example in examples.items()}
        for indices in similar_lengths(lengths, self.batch_size()):
            if should_stop():
                raise SearchStopped
            yield indices, [examples[index] for index in indices]

    def _search_batch(
        self, sources: Sequence[EncodedSource], search: SearchOptions, constraints: Constraints
    ) -> SearchBatch:
        batch = search_batch(
            sources,
            search,
            constraints,
            length_penalty=self.length_penalty(search),
            limits=self.experiment.decoding,
            max_target_length=self.ensemble.max_target_length,
        )
        return batch.to(self.device)

    def _translation(
        self, source: EncodedSource, hypotheses: Sequence[Hypothesis], search: SearchOptions
    ) -> Translation:
        return to_translation(
            self.codec,
            source,
            hypotheses,
            n_best=search.n_best,
            axes=self.model.decoder.weight_axes if len(self.runs) == 1 else (),
            length_penalty=self.length_penalty(search),
        )


def load(
    path: str | Path | Run,
    *others: str | Path | Run,
    trust_code: bool = False,
    device: str | torch.device = "auto",
    precision: str = "float32",
) -> Translator:
    """The model of a run directory, or of several as an ensemble.

        translation, = regard.load("runs/case").translate(["<U> I am a student"])

    Args:
        path: A run directory, made by `regard train`, or what `regard.train` returned.
        others: More runs; the log-probabilities of all models are averaged.
        trust_code: Whether the runs may execute code outside Regard, if they were trained with some (plug-ins).
        device: The device of the models: `auto` (CUDA if there is a GPU, else MPS, else the CPU), `cpu`, `mps`, `cuda`
            or `cuda:N`.
        precision: The precision in which the models compute: `float32`, `bfloat16` or, on a GPU, `float16`.

    Raises:
        UserError: If there is no run or no such device, the runs have different vocabularies, or code is not trusted.
    """
    runs = [_open_run(each, trust_code) for each in (path, *others)]
    for change in (change for run in runs for change in run.code_changes()):
        warnings.warn(change, CodeChangedWarning, stacklevel=2)
    return Translator(*runs, device=device, precision=precision)


def _open_run(path: object, trust_code: bool) -> Run:
    if isinstance(path, Run):
        return path
    if not isinstance(path, str | os.PathLike):
        raise UserError(f"{path!r:.80} is not a run: give the path of a run directory, or what regard.train returned")
    return Run(path, trust_code=trust_code)
