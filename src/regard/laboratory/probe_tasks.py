"""The probing tasks of `regard probe`: which labels are predicted from which states, and their results.

sentences → states of each kind → probing tasks, one probe each → results
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, inf

import torch
from torch import Tensor

from regard.data import Example
from regard.errors import UserError
from regard.inference.translator import ProgressCallback, Translator, no_progress
from regard.laboratory.probes import LabeledStates, ProbeEvaluation, evaluate_probe
from regard.laboratory.sentences import load_examples
from regard.laboratory.states import (
    BOTTLENECK,
    DECODER,
    DECODER_INPUT,
    ENCODER,
    ENCODER_INPUT,
    States,
    collect_states,
)
from regard.tasks import Pair, Split

MAX_STATES = 20_000  # of a kind
MAX_TOKEN_INDEX = 40  # the largest k of the k-th token
MIN_TRAIN_STATES, MIN_TEST_STATES = 100, 30  # an accuracy on fewer states means nothing
MAX_LENGTH_RANGES, MIN_RANGE_SENTENCES = 9, 10
# Which tokens of a sentence are meant, given k and the lengths of the sentences.
TOKEN_SETS: dict[str, Callable[[int, Tensor], Tensor]] = {
    "all": lambda k, lengths: lengths >= k,
    "first": lambda k, lengths: torch.ones_like(lengths) == k,
    "middle": lambda k, lengths: (lengths + 1) // 2 == k,
}


@dataclass(frozen=True)
class ProbedSentence:
    """The labels that a source sentence provides.

    Args:
        tokens: The tokens that the encoder reads, the end token included.
        prompt: The prompt token, if the task has one.
        content: The tokens without prompt and end token.
    """

    tokens: Sequence[str]
    prompt: str | None
    content: Sequence[str]


@dataclass(frozen=True)
class ProbeData:
    """Sentences and the states of a model that reads them.

    Args:
        sentences: The sentences.
        states: The states, by kind.
    """

    sentences: Sequence[ProbedSentence]
    states: Mapping[str, States]


@dataclass(frozen=True)
class ProbeTask:
    """A label to predict from states of one kind.

    Args:
        kind: The kind of states.
        label_name: The name of the label.
        label: The label of a state, given its sentence and its position from 1; None if it has none.
        k: If the label is the k-th token of the content, k.
    """

    kind: str
    label_name: str
    label: Callable[[ProbedSentence, int], Hashable]
    k: int | None = None


@dataclass(frozen=True)
class ProbeResult:
    """The result of one probing task.

    Args:
        task: The task.
        evaluation: The probe with its baselines.
        lengths: The content length of each test state's sentence [test states].
    """

    task: ProbeTask
    evaluation: ProbeEvaluation
    lengths: Tensor

    @property
    def correct(self) -> Tensor:
        """True where probe, majority baseline and control are right [test states, 3]."""
        evaluation = self.evaluation
        return torch.stack([evaluation.probe.correct, evaluation.majority_correct, evaluation.control.correct], 1)


def probe_tasks(max_k: int) -> Iterator[ProbeTask]:
    """All probing tasks.

    Args:
        max_k: The largest k of the tasks that predict the k-th token.
    """
    yield ProbeTask(ENCODER_INPUT, "position i", lambda sentence, position: position)
    yield ProbeTask(ENCODER, "position i", lambda sentence, position: position)
    yield ProbeTask(ENCODER, "token x_i", lambda sentence, position: sentence.tokens[position - 1])
    yield ProbeTask(ENCODER, "prompt", lambda sentence, position: sentence.prompt)
    yield ProbeTask(BOTTLENECK, "prompt", lambda sentence, position: sentence.prompt)
    yield ProbeTask(BOTTLENECK, "length", lambda sentence, position: len(sentence.content))
    yield ProbeTask(
        BOTTLENECK, "last token", lambda sentence, position: sentence.content[-1] if sentence.content else None
    )
    yield ProbeTask(DECODER_INPUT, "step t", lambda sentence, position: position)
    yield ProbeTask(DECODER, "step t", lambda sentence, position: position)
    yield from (ProbeTask(BOTTLENECK, f"k = {k}", kth_token(k), k) for k in range(1, max_k + 1))


def kth_token(k: int) -> Callable[[ProbedSentence, int], str | None]:
    """A label function: the k-th token of a sentence's content, or None if it is shorter.

    Args:
        k: The index of the token, from 1.
    """
    return lambda sentence, position: sentence.content[k - 1] if k <= len(sentence.content) else None


def run_probe(task: ProbeTask, train: ProbeData, test: ProbeData, seed: int) -> ProbeResult | str:
    """The result of a probing task, or the reason why it cannot be run.

    Args:
        task: The task.
        train: Sentences and states to train on.
        test: Sentences and states to test on.
        seed: The seed of the control task.
    """
    label_ids: dict[Hashable, int] = {}
    train_states, _ = _label_states(task, train, label_ids)
    test_states, lengths = _label_states(task, test, label_ids)
    if len(train_states.labels) < MIN_TRAIN_STATES:
        return f"fewer than {MIN_TRAIN_STATES} states to train a probe on"
    if len(test_states.labels) < MIN_TEST_STATES:
        return f"fewer than {MIN_TEST_STATES} states to test a probe on"
    if len(train_states.labels.unique()) == 1:
        return "the label is the same in all states to train on"
    return ProbeResult(task, evaluate_probe(train_states, test_states, seed), lengths)


def _label_states(task: ProbeTask, data: ProbeData, label_ids: dict[Hashable, int]) -> tuple[LabeledStates, Tensor]:
    """The states that have a label, with ids in order of appearance, and the length of each state's sentence."""
    states = data.states[task.kind]
    rows, labels, lengths = [], [], []
    for row, (index, position) in enumerate(zip(states.sentences.tolist(), states.positions.tolist(), strict=True)):
        sentence = data.sentences[index]
        label = task.label(sentence, position)
        if label is not None:
            rows.append(row)
            labels.append(label_ids.setdefault(label, len(label_ids)))
            lengths.append(len(sentence.content))
    device = states.vectors.device
    return LabeledStates(states.vectors[rows], torch.tensor(labels, device=device)), torch.tensor(
        lengths, device=device
    )


def run_probes(
    train: ProbeData,
    test: ProbeData,
    seed: int,
    expect: ProgressCallback = no_progress,
    advance: ProgressCallback = no_progress,
) -> tuple[list[ProbeResult], dict[str, list[str]]]:
    """The results of all tasks that apply, and the skipped tasks by reason.

    Args:
        train: Sentences and states to train on.
        test: Sentences and states to test on.
        seed: The seed of the control tasks.
        expect: Called once with the number of probes.
        advance: Called with the number of probes done.
    """
    results: list[ProbeResult] = []
    skipped: dict[str, list[str]] = defaultdict(list)
    max_k = min(
        _length_of_nth_longest(train, MIN_TRAIN_STATES), _length_of_nth_longest(test, MIN_TEST_STATES), MAX_TOKEN_INDEX
    )
    # Most data have no prompt, for example: tasks without any label are not run.
    tasks = [task for task in probe_tasks(max_k) if any(task.label(s, 1) is not None for s in train.sentences)]
    expect(len(tasks))
    for task in tasks:
        result = run_probe(task, train, test, seed)
        advance(1)
        if isinstance(result, ProbeResult):
            results.append(result)
        else:
            skipped[result].append(f"{task.label_name} from the {task.kind}")
    return results, skipped


def _length_of_nth_longest(data: ProbeData, n: int) -> int:
    return sorted(len(sentence.content) for sentence in data.sentences)[-n]


def load_probe_data(translator: Translator, limit: int | None, seed: int) -> tuple[ProbeData, ProbeData, list[str]]:
    """Training data, test data without the training sources, and notes about omitted sentences.

    Args:
        translator: The translator; its train and test splits are used.
        limit: The maximum number of sentences of each split; None for all.
        seed: The seed of the sample of states.

    Raises:
        UserError: If there are too few sentences.
    """
    train, too_long = _readable_examples(translator, "train", limit)
    readable, too_long_to_test = _readable_examples(translator, "test", limit)
    known = {example.source for _, example in train}
    test = [(pair, example) for pair, example in readable if example.source not in known]
    if len(train) < MIN_TRAIN_STATES or len(test) < MIN_TEST_STATES:
        raise UserError(
            f"probes need {MIN_TRAIN_STATES} sentences to train on and {MIN_TEST_STATES} others to test on; "
            f"here are {len(train)} of the train split and {len(test)} others of the test split"
        )
    reasons = {
        "longer than this model has positions": too_long + too_long_to_test,
        "of the test split that are also in the training data": len(readable) - len(test),
    }
    notes = [f"Omitted: {count:,} sentences {why}." for why, count in reasons.items() if count]
    return _collect_probe_data(translator, train, seed), _collect_probe_data(translator, test, seed), notes


def _readable_examples(
    translator: Translator, split: Split, limit: int | None
) -> tuple[list[tuple[Pair, Example]], int]:
    """Sentences of the split that are not too long for the model, and the number of those that are."""
    both = list(zip(*load_examples(translator, split, limit), strict=True))
    source, target = translator.model.encoder.max_length or inf, translator.model.decoder.max_length or inf
    fits = [(pair, e) for pair, e in both if len(e.source) <= source and len(e.target) - 1 <= target]
    return fits, len(both) - len(fits)


def _collect_probe_data(translator: Translator, some: Sequence[tuple[Pair, Example]], seed: int) -> ProbeData:
    codec, known = translator.codec, []
    for pair, _ in some:
        tokens, prompt = codec.source_tokens(pair.source), codec.tokenization.prompt_token(pair.source)
        known.append(ProbedSentence(tokens, prompt, [token for token in tokens[:-1] if token != prompt]))
    return ProbeData(known, collect_states(translator.model, [example for _, example in some], MAX_STATES, seed))


def length_ranges(lengths: Tensor) -> list[tuple[int, int]]:
    """Ranges of lengths that have enough sentences: the first and the last length of each.

    Args:
        lengths: The content length of each sentence.
    """
    longest = int(lengths.max())
    width = max(1, ceil(longest / MAX_LENGTH_RANGES))
    ranges = [(first, first + width - 1) for first in range(1, longest + 1, width)]
    return [bounds for bounds in ranges if int(within(bounds, lengths).sum()) >= MIN_RANGE_SENTENCES]


def within(bounds: tuple[int, int], lengths: Tensor) -> Tensor:
    """True for lengths in the range.

    Args:
        bounds: The first and the last length.
        lengths: The lengths.
    """
    return (lengths >= bounds[0]) & (lengths <= bounds[1])


def accuracies(correct: Tensor) -> dict[str, float | None]:
    """The accuracy of probe, majority baseline and control; None without test states.

    Args:
        correct: `ProbeResult.correct` or some of its rows [test states, 3].
    """
    shares = correct.cpu().double().mean(0).tolist() if len(correct) else [None] * 3
    return dict(zip(("accuracy", "majority", "control"), shares, strict=True))


def accuracies_by_length(results: Sequence[ProbeResult], bounds: tuple[int, int]) -> dict[str, dict[str, float | None]]:
    """The accuracies on sentences of these lengths: of the k-th tokens by `TOKEN_SETS`, of other tasks by name.

    Args:
        results: The results of all tasks.
        bounds: The first and the last length.
    """
    found: dict[str, dict[str, float | None]] = {}
    inside = [(each, within(bounds, each.lengths)) for each in results]
    for name, is_meant in TOKEN_SETS.items():
        rows = [each.correct[of & is_meant(each.task.k, each.lengths)] for each, of in inside if each.task.k]
        found |= {name: accuracies(torch.cat(rows))} if rows else {}
    return found | {
        f"{each.task.kind}, {each.task.label_name}": accuracies(each.correct[of])
        for each, of in inside
        if not each.task.k
    }
