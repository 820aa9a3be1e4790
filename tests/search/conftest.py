"""Every kind of decoder with every mechanism, untrained and yet with something to say; models that are mere tables of
chances; and searches in plain Python, which the real one has to agree with.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate, pairwise, product
from random import Random
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from pairwise import FULL, pairwise_sample
from regard import nn
from regard.config import kinds
from regard.config.kinds import DECODERS
from regard.config.schema import ModelSection
from regard.data import pad
from regard.nn.build import build_model
from regard.search import Beam, Constraints, Ensemble, Hypothesis, LogProbs, Sampling, SearchBatch, Selector, search
from regard.text import Vocabulary

TOKENS = 7  # few, so that `<end>` is said now and then
SAYABLE = (4, 5, 6)  # and `<end>`
LONGEST = 6
NEVER = Constraints().banned_tokens

# Every kind of decoder with every mechanism


def choose_sections() -> dict[str, ModelSection]:
    decoders = {wiring: {"wiring": wiring, "cell": "lstm"} for wiring in kinds.WIRINGS}
    decoders |= {kind: {"kind": kind, "heads": 2, "inner_size": 11} for kind in DECODERS if kind != "recurrent"}
    common = {"embedding": 3, "size": 6, "layers": 2, "positions": {"kind": "sine-added"}}
    return {
        f"{decoder}-{mechanism}": ModelSection.model_validate(
            {
                "encoder": {"embedding": 5, "size": 3},
                "decoder": decoders[decoder] | common,
                "attention": {"kind": mechanism} | ({"heads": 3} if mechanism == "multi-head" else {}),
            }
        )
        for decoder, mechanism in product(decoders, kinds.MECHANISMS)
    }


SECTIONS = choose_sections()


@cache
def draw_sources() -> list[list[int]]:
    generator = torch.Generator().manual_seed(3)
    return [torch.randint(3, TOKENS, (length,), generator=generator).tolist() for length in (1, 7, 2, 5, 3, 6, 4, 5)]


FIRSTS = [1, 4, 5, 1, 6, 4, 1, 3]  # what the decoder reads first need not be `<begin>`


@pytest.fixture(scope="session")
def sources() -> list[list[int]]:
    return draw_sources()


@pytest.fixture(scope="session")
def firsts() -> list[int]:
    return FIRSTS


SCALES = (1, 2, 3, 4, 6)  # some models need large weights for what they say to depend on what they read


def build(section: ModelSection, seed: int) -> nn.Seq2Seq:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = build_model(section, TOKENS, TOKENS).eval().requires_grad_(False)
    for parameter in model.parameters():
        parameter.mul_(SCALES[seed % len(SCALES)])
    return model


def say(model: nn.Seq2Seq, sources: list[list[int]], firsts: list[int]) -> Tensor:
    """What it reads when it is left to itself: [sources, 1 + LONGEST]."""
    read, start = torch.tensor(firsts).unsqueeze(1), model.start(*pad(sources))
    for _ in range(LONGEST):
        logits, _ = model.decoder.teacher_forced(read, start)
        logits[..., NEVER] = -math.inf
        read = torch.cat([read, logits[:, -1:].argmax(-1)], 1)
    return read


@torch.inference_mode()
def is_lively(model: nn.Seq2Seq) -> bool:
    """What was said matters; some outputs end sooner than others, and some do not end; rounding does not matter."""
    outputs = list(product(SAYABLE, repeat=2))
    rows = torch.tensor([[first, *said, *said] for first in FIRSTS for said in outputs])
    sources = pad([source for source in draw_sources() for _ in outputs])
    logits, _ = model.decoder.teacher_forced(rows, model.start(*sources))
    if logits[:, -1].unflatten(0, (-1, len(outputs))).std(1).mean() < 0.2:
        return False
    ended = (say(model, draw_sources(), FIRSTS)[:, 1:] == Vocabulary.end).cumsum(1) > 0
    lengths = set((LONGEST + 1 - ended.sum(1)).tolist())
    if len(lengths) < 3 or LONGEST + 1 not in lengths:
        return False
    exact = copy.deepcopy(model).double()
    return bool((exact.decoder.teacher_forced(rows, exact.start(*sources))[0] - logits).abs().max() < 5e-6)


@cache
def build_lively(name: str) -> nn.Seq2Seq:
    """The first of these that is."""
    models = (build(SECTIONS[name], seed) for seed in range(1_000))
    return next(model for model in models if is_lively(model))


def partner(name: str) -> str:
    """Another model to vote with: of another kind of decoder, and with another mechanism."""
    names = list(SECTIONS)
    return names[(names.index(name) + len(kinds.MECHANISMS) + 1) % len(names)]


@pytest.fixture(scope="module", params=SECTIONS)
def model(request: pytest.FixtureRequest) -> nn.Seq2Seq:
    return build_lively(request.param)


# What may be asked of them

SAMPLES = 3
DRAWS = torch.rand(len(FIRSTS), SAMPLES, LONGEST, generator=torch.Generator().manual_seed(5))


@dataclass(frozen=True)
class Manner:
    """A manner of searching: a beam, or with a temperature, sampling."""

    width: int = 1
    n_best: int = 1
    length_penalty: float = 0.0
    rules: Constraints = field(default_factory=Constraints)
    voters: int = 1  # how many models
    temperature: float | None = None
    top_k: int | None = None
    top_p: float = 1.0

    @property
    def draws(self) -> Tensor:
        """The random numbers of each row."""
        return DRAWS[:, : self.n_best]

    def chooser(self, rows: list[int]) -> Selector:
        if self.temperature is None:
            return Beam(self.width)
        return Sampling(self.draws[rows], self.temperature, self.top_k, self.top_p)


MANNERS = {
    "greedy": Manner(),
    "beam": Manner(width=3),
    "n-best": Manner(5, 3, 0.6),
    "n-best-ruled": Manner(5, 3, 1.0, Constraints(prefix=(5, 4), min_length=3)),
    "n-best-unrepeated": Manner(3, 3, 0.6, Constraints(block_ngrams=2, repetition_penalty=1.5)),
    "n-best-voted": Manner(3, 3, 1.0, Constraints(repetition_penalty=1.2), voters=2),
    "samples": Manner(n_best=SAMPLES, temperature=1.3),
    "samples-ruled": Manner(1, 3, 0.6, Constraints(NEVER, (6,), 2, 1, 1.5), temperature=0.7, top_k=3, top_p=0.9),
    "samples-voted": Manner(n_best=2, voters=2, temperature=1.0),
}


@pytest.fixture(scope="session", params=MANNERS)
def manner(request: pytest.FixtureRequest) -> Manner:
    return MANNERS[request.param]


@pytest.fixture(scope="session", params=[name for name, manner in MANNERS.items() if not manner.temperature])
def beam(request: pytest.FixtureRequest) -> Manner:
    return MANNERS[request.param]


@pytest.fixture(scope="session", params=[name for name, manner in MANNERS.items() if manner.temperature])
def sampling(request: pytest.FixtureRequest) -> Manner:
    return MANNERS[request.param]


After = Callable[[tuple[int, ...]], Sequence[float]]  # log p of every token, given what was said


@dataclass(frozen=True)
class Bench:
    """Models and what they are asked, by the number of a row."""

    models: tuple[nn.Seq2Seq, ...]
    sources: list[list[int]]
    firsts: list[int]
    memory: dict[object, object] = field(default_factory=dict)

    @property
    def rows(self) -> list[int]:
        return list(range(len(self.sources)))

    def ensemble(self, manner: Manner) -> Ensemble:
        return Ensemble(self.models[: manner.voters])

    def ask(
        self, rows: list[int], manner: Manner, *, padding: int = 0, longest: list[int] | None = None
    ) -> SearchBatch:
        source, valid = pad([self.sources[row] for row in rows])
        source = torch.nn.functional.pad(source, (0, padding), value=SAYABLE[-1])  # padding, too, looks like something
        return SearchBatch(
            source=source,
            valid=torch.nn.functional.pad(valid, (0, padding)),
            start=torch.tensor([self.firsts[row] for row in rows]),
            max_lengths=torch.tensor(longest or [LONGEST] * len(rows)),
            constraints=manner.rules,
            n_best=manner.n_best,
            length_penalty=manner.length_penalty,
        )

    def search(
        self, rows: list[int], manner: Manner, *, padding: int = 0, longest: list[int] | None = None
    ) -> list[list[Hypothesis]]:
        question = self.ask(rows, manner, padding=padding, longest=longest)
        return search(self.ensemble(manner), question, manner.chooser(rows)).hypotheses()

    def found(self, manner: Manner) -> list[list[Hypothesis]]:
        """What all rows together give."""
        key = "found", manner
        if key not in self.memory:
            self.memory[key] = self.search(self.rows, manner)
        return self.memory[key]

    def outcomes(self, manner: Manner) -> list[tuple[int, Hypothesis]]:
        """The same, one after the other, with the numbers of their rows."""
        return [(row, hypothesis) for row, found in enumerate(self.found(manner)) for hypothesis in found]

    @torch.inference_mode()
    def read(self, rows: list[int], outputs: Sequence[Sequence[int]], voters: int = 1) -> tuple[Tensor, Tensor]:
        """Without a search: log-probabilities [outputs, steps, vocabulary] of what comes first and of what follows
        each token of these outputs, and where the models looked [outputs, …, steps, positions].
        """
        source = pad([self.sources[row] for row in rows])
        target, _ = pad([[self.firsts[row], *output] for row, output in zip(rows, outputs, strict=True)])
        unrolled = [model.decoder.teacher_forced(target, model.start(*source)) for model in self.models[:voters]]
        chances = torch.stack([logits.log_softmax(-1) for logits, _ in unrolled]).mean(0)
        weights = [weights for _, weights in unrolled]
        if voters > 1:  # of layers and heads the mean, and then of the models that look anywhere
            weights = [each.flatten(1, -3).mean(1) if each.dim() > 3 else each for each in weights if each.any()]
        return chances, torch.stack(weights).mean(0)

    def after(self, row: int, voters: int = 1) -> After:
        """What a row's next token may be after anything that can be said at all."""
        key = "after", row, voters
        if key not in self.memory:
            outputs = list(product(SAYABLE, repeat=LONGEST - 1))
            chances, _ = self.read([row] * len(outputs), outputs, voters)
            self.memory[key] = {
                output[:length]: steps[length]
                for output, steps in zip(outputs, chances.double().tolist(), strict=True)
                for length in range(LONGEST)
            }
        return self.memory[key].__getitem__


@cache
def build_bench(name: str) -> Bench:
    return Bench((build_lively(name), build_lively(partner(name))), draw_sources(), FIRSTS)


@pytest.fixture(scope="module", params=SECTIONS)
def bench(request: pytest.FixtureRequest) -> Bench:
    return build_bench(request.param)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep a pairwise sample of decoder × mechanism × way to search, or all of them with REGARD_TEST_FULL=1."""
    if FULL:
        return
    decoders = dict.fromkeys(name.partition("-")[0] for name in SECTIONS)
    sampled = {
        (f"{decoder}-{mechanism}", way)
        for decoder, mechanism, way in pairwise_sample(product(decoders, kinds.MECHANISMS, MANNERS))
    }

    def is_sampled(item: pytest.Item) -> bool:
        chosen = item.callspec.params if hasattr(item, "callspec") else {}
        ways = [chosen[name] for name in ("manner", "beam", "sampling") if chosen.get(name) in MANNERS]
        return chosen.get("bench") not in SECTIONS or not ways or (chosen["bench"], ways[0]) in sampled

    dropped = [item for item in items if not is_sampled(item)]
    config.hook.pytest_deselected(items=dropped)
    items[:] = [item for item in items if is_sampled(item)]


# Searches in plain Python


@dataclass(frozen=True)
class Output:
    tokens: tuple[int, ...] = ()
    score: float = 0.0  # Σ log p
    total: float = 0.0  # the same, less penalties

    @property
    def finished(self) -> bool:
        return self.tokens[-1] == Vocabulary.end

    def rank(self, length_penalty: float) -> float:
        return self.total / ((5 + len(self.tokens)) / 6) ** length_penalty


def repeats(tokens: tuple[int, ...], size: int) -> bool:
    """Whether the latest so many tokens stood together before."""
    return any(tokens[begin : begin + size] == tokens[-size:] for begin in range(len(tokens) - size))


def extend(output: Output, after: After, rules: Constraints) -> Iterator[Output]:
    """An output with each token that may come next."""
    said, chances = output.tokens, after(output.tokens)
    forced = len(said) < len(rules.prefix)
    if forced:
        tokens = [rules.prefix[len(said)]]
    else:
        tokens = [token for token in range(len(chances)) if token not in rules.banned_tokens]
        if len(said) < rules.min_length:
            tokens.remove(Vocabulary.end)
        if rules.block_ngrams:
            tokens = [token for token in tokens if not repeats((*said, token), rules.block_ngrams)]
            tokens = tokens or [Vocabulary.end]
    for token in tokens:
        penalty = math.log(rules.repetition_penalty) if token in said and not forced else 0.0
        score, total = output.score + chances[token], output.total + chances[token] - penalty
        if total > -math.inf:
            yield Output((*said, token), score, total)


@dataclass(frozen=True)
class Naive:
    """What a search in plain Python finds."""

    outputs: list[Output]
    margin: float  # how clear its closest decision was: where this is tiny, rounding decides

    @classmethod
    def of(cls, outputs: Sequence[Output], manner: Manner, margin: float) -> Naive:
        """The best of all outputs: finished ones first."""

        def key(output: Output) -> tuple[bool, float]:
            return output.finished, output.rank(manner.length_penalty)

        best = sorted(outputs, key=key, reverse=True)[: manner.n_best + 1]
        close = [pair for pair in pairwise(best) if pair[0].finished == pair[1].finished and pair[0] != pair[1]]
        return cls(best[: manner.n_best], min([margin, *(key(one)[1] - key(two)[1] for one, two in close)]))

    @property
    def clear(self) -> bool:
        return self.margin > 1e-4

    def check(self, hypotheses: Sequence[Hypothesis]) -> None:
        """These are the same, and as likely."""
        assert [tuple(hypothesis.tokens) for hypothesis in hypotheses] == [output.tokens for output in self.outputs]
        assert [hypothesis.finished for hypothesis in hypotheses] == [output.finished for output in self.outputs]
        scores = [output.score for output in self.outputs]
        assert [hypothesis.score for hypothesis in hypotheses] == pytest.approx(scores, abs=1e-4)


def naive_beam(after: After, manner: Manner, longest: int = LONGEST) -> Naive:
    """A beam that goes on as long as it can, and compares at the end."""
    beam, over, margin = [Output()], [], math.inf
    for _ in range(longest):
        extensions = [extension for output in beam for extension in extend(output, after, manner.rules)]
        extensions.sort(key=lambda output: output.total, reverse=True)
        kept, rest = extensions[: manner.width], extensions[manner.width :]
        if rest:
            margin = min(margin, kept[-1].total - rest[0].total)
        over += [output for output in kept if output.finished]
        beam = [output for output in kept if not output.finished]
    return Naive.of([*over, *beam], manner, margin)


def naive_samples(after: After, manner: Manner, draws: Sequence[Sequence[float]], longest: int = LONGEST) -> Naive:
    """One after the other, each by its own random numbers."""
    over, margin = [], math.inf
    for numbers in draws:
        output = Output()
        for number in numbers[:longest]:
            extensions = list(extend(output, after, manner.rules))
            weights = [math.exp((each.total - output.total) / manner.temperature) for each in extensions]
            if manner.top_k is not None or manner.top_p < 1:  # then the likeliest come first
                order = sorted(range(len(weights)), key=lambda place: -weights[place])[: manner.top_k]
                extensions, weights = [extensions[place] for place in order], [weights[place] for place in order]
            bounds = [bound / sum(weights) for bound in accumulate(weights)]
            within = [bound for bound in bounds[:-1] if bound < manner.top_p]
            nucleus = bounds[len(within)]
            place = sum(bound <= number * nucleus for bound in within)
            if manner.top_p < 1:
                margin = min([margin, *(abs(bound - manner.top_p) for bound in bounds)])
            margin = min([margin, *(abs(bound - number * nucleus) for bound in within)])
            output = extensions[place]
            if output.finished:
                break
        over.append(output)
    return Naive.of(over, manner, margin)


def enumerate_all(after: After, manner: Manner, longest: int = LONGEST) -> Naive:
    """Everything that can be said."""
    going, over = [Output()], []
    for _ in range(longest):
        extensions = [extension for output in going for extension in extend(output, after, manner.rules)]
        over += [output for output in extensions if output.finished]
        going = [output for output in extensions if not output.finished]
    return Naive.of([*over, *going], manner, math.inf)


@pytest.fixture(scope="session")
def naive() -> SimpleNamespace:
    """These searches, for tests cannot import from here."""
    return SimpleNamespace(beam=naive_beam, samples=naive_samples, everything=enumerate_all)


# Models that are tables

Logits = Callable[[int, tuple[int, ...]], Sequence[float]]  # by the source's only token, and what was said


@dataclass(frozen=True)
class TableState:
    sources: int
    read: Tensor  # [rows, 1 + steps]: the source's only token, and what was read
    weights: Tensor | None = None

    def select(self, index: Tensor) -> TableState:
        index = index if index.dim() == 2 else index.unsqueeze(1)
        origins = index // (len(self.read) // self.sources)
        assert (origins == origins[:, :1]).all(), "hypotheses of one source stand together"
        weights = None if self.weights is None else self.weights[index.flatten()]
        return TableState(len(index), self.read[index.flatten()], weights)


class Table:
    """In place of an ensemble: what comes next is looked up. It counts the rows that it is given at each step.

    It looks at the number that its prefix spells in base 8, so that everyone can see which prefix this was.
    """

    longest = None

    def __init__(self, logits: Logits) -> None:
        self.logits = cache(logits)
        self.rows: list[int] = []

    def start(self, source: Tensor, valid: Tensor) -> TableState:
        return TableState(len(source), source[:, :1])

    def step(self, token: Tensor, state: TableState) -> tuple[LogProbs, TableState]:
        self.rows.append(len(token))
        read = torch.cat([state.read, token.unsqueeze(1)], 1)
        looked = torch.tensor([[self.spell(row[2:])] for row in read.tolist()])
        logits = torch.tensor([self.logits(row[0], tuple(row[2:])) for row in read.tolist()])  # [1]: `<begin>`
        return LogProbs.mean([logits]), TableState(state.sources, read, looked)

    @staticmethod
    def spell(said: Sequence[int]) -> float:
        """A number for a prefix; exact for up to 7 tokens."""
        return float(sum(token * 8**place for place, token in enumerate(said)))

    def after(self, source: int) -> After:
        @cache
        def chances(said: tuple[int, ...]) -> list[float]:
            logits = self.logits(source, said)
            total = math.log(sum(map(math.exp, logits)))
            return [logit - total for logit in logits]

        return chances

    def search(self, manner: Manner, longest: Sequence[int]) -> list[list[Hypothesis]]:
        """For as many sources as there are limits."""
        source = torch.arange(len(longest)).unsqueeze(1)
        question = SearchBatch(
            source=source,
            valid=torch.ones_like(source, dtype=torch.bool),
            start=torch.full((len(longest),), Vocabulary.begin),
            max_lengths=torch.tensor(longest),
            constraints=manner.rules,
            n_best=manner.n_best,
            length_penalty=manner.length_penalty,
        )
        return search(self, question, Beam(manner.width)).hypotheses()

    @classmethod
    def drawn(cls, seed: int, tokens: int = TOKENS, *, spread: float = 1.5, forgetful: bool = False) -> Table:
        """Logits from a bell curve, for each prefix its own; a forgetful table knows its length and latest token."""

        def logits(source: int, said: tuple[int, ...]) -> list[float]:
            known = (len(said), said[-1:]) if forgetful else said
            random = Random(repr((seed, source, known)))
            return [random.gauss(0, spread) for _ in range(tokens)]

        return cls(logits)

    @classmethod
    def fixed(cls, chances: dict[tuple[int, ...], dict[int, float]], otherwise: dict[int, float]) -> Table:
        """Probabilities that are written down, by what was said; what is not written has none."""

        def logits(source: int, said: tuple[int, ...]) -> list[float]:
            known = chances.get(said, otherwise)
            return [math.log(known[token]) if token in known else -math.inf for token in range(TOKENS)]

        return cls(logits)


@pytest.fixture(scope="session")
def table() -> type[Table]:
    return Table


@pytest.fixture(scope="session")
def manner_of() -> type[Manner]:
    return Manner
