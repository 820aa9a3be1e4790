"""Properties of a task's tokenization, and of training on its data.

Each function checks one property, and raises `PropertyError` if it does not hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from regard.config.schema import ModelSection
from regard.data import Codec, collate
from regard.errors import UserError
from regard.nn.build import build_model
from regard.tasks import Pair, Split, Task
from regard.testing.failures import checks_that, expect, reported_for
from regard.testing.modules import check_training_step
from regard.testing.sections import seeded
from regard.text import Tokenization

SMALL_MODEL = {
    "encoder": {"embedding": 5, "size": 7},
    "decoder": {"embedding": 3, "size": 11},
    "attention": {"kind": "additive"},
}


@dataclass(frozen=True)
class TaskSample:
    """A task with some of its pairs and its tokenization.

    Args:
        task: The task.
        train: Its training split.
        splits: The first pairs of each split.
        tokenization: What it has learned from its training split.
    """

    task: Task[Any]
    train: Iterable[Pair]
    splits: Mapping[Split, list[Pair]]
    tokenization: Tokenization

    @property
    def subject(self) -> str:
        """The name of the task's class, for messages."""
        return type(self.task).__name__

    @property
    def pairs(self) -> list[Pair]:
        """The pairs of all splits."""
        return [pair for pairs in self.splits.values() for pair in pairs]


@checks_that("texts become tokens")
def check_task_tokens(sample: TaskSample) -> None:
    """Sources and targets become lists of tokens, with one entry of `starts` each.

    Args:
        sample: The task.
    """
    tokenization = sample.tokenization
    for pair in sample.pairs:
        source, target = tokenization.source_tokens(pair.source), tokenization.target_tokens(pair)
        expect(bool(source), f"the source {pair.source!r} has no tokens", "an encoder needs at least one token")
        for tokens, starts in (
            (source, tokenization.source_starts(source)),
            (target, tokenization.target_starts(target)),
        ):
            expect(
                isinstance(tokens, list) and all(isinstance(token, str) and token for token in tokens),
                f"the tokens of {pair} are {tokens!r}",
                "tokens are a list of strings that are not empty",
            )
            expect(
                len(starts) == len(tokens),
                f"{len(starts)} entries tell where words start in {tokens}",
                "`source_starts` and `target_starts` have one entry for each token",
            )


@checks_that("target tokens become the target again")
def check_target_texts(sample: TaskSample) -> None:
    """Tokens of a target spell the target; with an open vocabulary, their text has the same tokens.

    Args:
        sample: The task.
    """
    tokenization = sample.tokenization
    for pair in sample.pairs:
        for target in (pair.target, *pair.other_targets):
            tokens = tokenization.target_tokens(Pair(pair.source, target))
            text = tokenization.target_text(tokens)
            if tokenization.open_vocabulary:
                again = tokenization.target_tokens(Pair(pair.source, text))
                expect(
                    again == tokens,
                    f"the target tokens {tokens} become {text!r}, which has the tokens {again}",
                    "`target_tokens` and `target_text` must agree, since outputs are scored as texts",
                )
            else:
                expect(
                    text == target,
                    f"the target {target!r} becomes {text!r} when it is tokenized and joined again",
                    "`target_text(target_tokens(pair))` is the target; else a correct output counts as an error",
                )


@checks_that("alignments are within the tokens")
def check_alignments(sample: TaskSample) -> None:
    """Alignments are pairs of a source token's and a target token's index.

    Args:
        sample: The task.
    """
    for pair in sample.pairs:
        sources = len(sample.tokenization.source_tokens(pair.source))
        targets = len(sample.tokenization.target_tokens(pair))
        for source, target in pair.alignment:
            expect(
                0 <= source < sources and 0 <= target < targets,
                f"the alignment {(source, target)} of {pair.source!r} and {pair.target!r} is outside their {sources} "
                f"and {targets} tokens",
                "alignments are (source token, target token), counted from 0 in tokens, not characters",
            )


@checks_that("the training split has all tokens of a closed vocabulary")
def check_vocabulary(sample: TaskSample) -> None:
    """Every pair can be encoded, and with a joint vocabulary both sides have the same one.

    Args:
        sample: The task.
    """
    codec = Codec.build(sample.tokenization, sample.train)
    for split, pairs in sample.splits.items():
        for pair in pairs:
            try:
                codec.example(pair)
            except UserError as error:
                advice = (
                    "a closed vocabulary has the tokens of the training split; choose a larger `train` for this check, "
                    "draw all splits alike, or set `open_vocabulary` in the tokenization"
                )
                expect(False, f"{pair.source!r} of the {split} split cannot be encoded ({error})", advice)
    expect(
        not sample.task.has_joint_vocabulary or codec.source_vocabulary == codec.target_vocabulary,
        "`has_joint_vocabulary` is True, but the vocabularies of both sides differ",
        "return the same vocabulary twice from `vocabularies` of the tokenization",
    )


@checks_that("the tokenization is restored from its files")
def check_stored_tokenization(sample: TaskSample) -> None:
    """`load_tokenization` restores from `files` what `learn_tokenization` returned.

    Args:
        sample: The task.
    """
    learned, files = sample.tokenization, sample.tokenization.files()
    expect(
        isinstance(files, dict) and all(isinstance(content, bytes) for content in files.values()),
        f"`files` of the tokenization returns {type(files).__name__} of other things than bytes",
        "it returns a dictionary from file names to bytes",
    )

    def read(name: str, parse: Callable[[bytes], Any]) -> Any:
        expect(
            name in files,
            f"`load_tokenization` reads {name!r}, but `files` has {sorted(files)}",
            "a run directory keeps what `files` of the tokenization returns",
        )
        return parse(files[name])

    loaded = sample.task.load_tokenization(read)
    for pair in sample.pairs:
        for before, after in zip(_tokenized(learned, pair), _tokenized(loaded, pair), strict=True):
            expect(
                before == after,
                f"the learned tokenization gives {before} for {pair.source!r}, the loaded one {after}",
                "return in `files` everything that was learned, and restore it in `load_tokenization`",
            )
    codec = Codec.build(learned, sample.splits["train"])
    expect(
        loaded.matches(codec.source_vocabulary, codec.target_vocabulary),
        "the loaded tokenization does not match the vocabularies of the learned one",
        "`matches` returns True for vocabularies that belong to the tokenization",
    )


def _tokenized(tokenization: Tokenization, pair: Pair) -> tuple[list[str], list[str], str, str]:
    target = tokenization.target_tokens(pair)
    source = tokenization.source_tokens(pair.source)
    return source, target, tokenization.target_text(target), tokenization.start_token(pair.source)


@checks_that("segmentations drawn at random spell the same texts")
def check_resampling(sample: TaskSample) -> None:
    """`resample` returns tokens of the same texts, which depend on the random numbers alone.

    Args:
        sample: The task; if its tokenization does not resample, nothing is checked.
    """
    tokenization = sample.tokenization
    for pair in sample.splits["validation"] if tokenization.can_resample else ():
        source, target = tokenization.source_tokens(pair.source), tokenization.target_tokens(pair)
        new, again = (tokenization.resample(source, target, Random(3)) for _ in range(2))
        expect(new == again, "`resample` differs for the same random numbers", "draw them from its argument `random`")
        old_text, new_text = tokenization.target_text(target), tokenization.target_text(new[1])
        expect(
            new_text == old_text,
            f"`resample` turns the target {old_text!r} into {new_text!r}",
            "it returns other tokens of the same text",
        )


def check_task_training(sample: TaskSample) -> None:
    """A small model can be trained on the task: its loss is finite and falls.

    Args:
        sample: The task.
    """
    pairs = sample.splits["train"]
    codec = Codec.build(sample.tokenization, pairs)
    batch = collate(codec.examples(pairs[:8]))
    model = seeded(lambda: build_model(ModelSection.model_validate(SMALL_MODEL), *codec.sizes), 1)
    with reported_for(type(sample.task), "with a small model"):
        check_training_step(model, batch)
