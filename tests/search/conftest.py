"""Every kind of decoder with every mechanism, untrained but with varied outputs; models that are lookup tables of
log-probabilities; and searches in plain Python that the real search is compared with.
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

TOKENS = 7  # few, so that `<end>` is generated now and then
ORDINARY_TOKENS = (4, 5, 6)  # and `<end>`
MAX_LENGTH = 6
BANNED = Constraints().banned_tokens

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


START_TOKENS = [1, 4, 5, 1, 6, 4, 1, 3]  # the start token need not be `<begin>`


@pytest.fixture(scope="session")
def sources() -> list[list[int]]:
    return draw_sources()


@pytest.fixture(scope="session")
def start_tokens() -> list[int]:
    return START_TOKENS


SCALES = (1, 2, 3, 4, 6)  # some models need large weights for outputs to depend on inputs


def build(section: ModelSection, seed: int) -> nn.Seq2Seq:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = build_model(section, TOKENS, TOKENS).eval().requires_grad_(False)
    for parameter in model.parameters():
        parameter.mul_(SCALES[seed % len(SCALES)])
    return model


def greedy_decode(model: nn.Seq2Seq, sources: list[list[int]], start_tokens: list[int]) -> Tensor:
    """Greedy outputs with their start tokens: [sources, 1 + MAX_LENGTH]."""
    prefixes, start = torch.tensor(start_tokens).unsqueeze(1), model.start(*pad(sources))
    for _ in range(MAX_LENGTH):
        logits, _ = model.decoder.teacher_forced(prefixes, start)
        logits[..., BANNED] = -math.inf
        prefixes = torch.cat([prefixes, logits[:, -1:].argmax(-1)], 1)
    return prefixes


@torch.inference_mode()
def has_varied_outputs(model: nn.Seq2Seq) -> bool:
    """True if logits depend on the prefix, lengths vary, some outputs are truncated, and rounding does not matter."""
    outputs = list(product(ORDINARY_TOKENS, repeat=2))
    rows = torch.tensor([[first, *generated, *generated] for first in START_TOKENS for generated in outputs])
    sources = pad([source for source in draw_sources() for _ in outputs])
    logits, _ = model.decoder.teacher_forced(rows, model.start(*sources))
    if logits[:, -1].unflatten(0, (-1, len(outputs))).std(1).mean() < 0.2:
        return False
    ended = (greedy_decode(model, draw_sources(), START_TOKENS)[:, 1:] == Vocabulary.end).cumsum(1) > 0
    lengths = set((MAX_LENGTH + 1 - ended.sum(1)).tolist())
    if len(lengths) < 3 or MAX_LENGTH + 1 not in lengths:
        return False
    exact = copy.deepcopy(model).double()
    return bool((exact.decoder.teacher_forced(rows, exact.start(*sources))[0] - logits).abs().max() < 5e-6)


@cache
def build_varied(name: str) -> nn.Seq2Seq:
    """The first seed's model that has varied outputs."""
    models = (build(SECTIONS[name], seed) for seed in range(1_000))
    return next(model for model in models if has_varied_outputs(model))


def ensemble_partner(name: str) -> str:
    """Another model for the ensemble: of another kind of decoder, and with another mechanism."""
    names = list(SECTIONS)
    return names[(names.index(name) + len(kinds.MECHANISMS) + 1) % len(names)]


@pytest.fixture(scope="module", params=SECTIONS)
def model(request: pytest.FixtureRequest) -> nn.Seq2Seq:
    return build_varied(request.param)


# Search settings

SAMPLES = 3
DRAWS = torch.rand(len(START_TOKENS), SAMPLES, MAX_LENGTH, generator=torch.Generator().manual_seed(5))


@dataclass(frozen=True)
class SearchSetting:
    """Settings of a search: a beam, or with a temperature, sampling."""

    width: int = 1
    n_best: int = 1
    length_penalty: float = 0.0
    rules: Constraints = field(default_factory=Constraints)
    n_models: int = 1  # size of the ensemble
    temperature: float | None = None
    top_k: int | None = None
    top_p: float = 1.0

    @property
    def draws(self) -> Tensor:
        """The random numbers of each row."""
        return DRAWS[:, : self.n_best]

    def selector(self, rows: list[int]) -> Selector:
        if self.temperature is None:
            return Beam(self.width)
        return Sampling(self.draws[rows], self.temperature, self.top_k, self.top_p)


SEARCH_SETTINGS = {
    "greedy": SearchSetting(),
    "beam": SearchSetting(width=3),
    "n-best": SearchSetting(5, 3, 0.6),
    "n-best-ruled": SearchSetting(5, 3, 1.0, Constraints(prefix=(5, 4), min_length=3)),
    "n-best-unrepeated": SearchSetting(3, 3, 0.6, Constraints(block_ngrams=2, repetition_penalty=1.5)),
    "n-best-voted": SearchSetting(3, 3, 1.0, Constraints(repetition_penalty=1.2), n_models=2),
    "samples": SearchSetting(n_best=SAMPLES, temperature=1.3),
    "samples-ruled": SearchSetting(
        1, 3, 0.6, Constraints(BANNED, (6,), 2, 1, 1.5), temperature=0.7, top_k=3, top_p=0.9
    ),
    "samples-voted": SearchSetting(n_best=2, n_models=2, temperature=1.0),
}


@pytest.fixture(scope="session", params=SEARCH_SETTINGS)
def setting(request: pytest.FixtureRequest) -> SearchSetting:
    return SEARCH_SETTINGS[request.param]


@pytest.fixture(scope="session", params=[name for name, setting in SEARCH_SETTINGS.items() if not setting.temperature])
def beam(request: pytest.FixtureRequest) -> SearchSetting:
    return SEARCH_SETTINGS[request.param]


@pytest.fixture(scope="session", params=[name for name, setting in SEARCH_SETTINGS.items() if setting.temperature])
def sampling(request: pytest.FixtureRequest) -> SearchSetting:
    return SEARCH_SETTINGS[request.param]


NextLogProbs = Callable[[tuple[int, ...]], Sequence[float]]  # log p of every token, given the prefix


@dataclass(frozen=True)
class Bench:
    """Models with their inputs, by row."""

    models: tuple[nn.Seq2Seq, ...]
    sources: list[list[int]]
    start_tokens: list[int]
    memory: dict[object, object] = field(default_factory=dict)

    @property
    def rows(self) -> list[int]:
        return list(range(len(self.sources)))

    def ensemble(self, setting: SearchSetting) -> Ensemble:
        return Ensemble(self.models[: setting.n_models])

    def search_batch(
        self, rows: list[int], setting: SearchSetting, *, padding: int = 0, longest: list[int] | None = None
    ) -> SearchBatch:
        source, valid = pad([self.sources[row] for row in rows])
        source = torch.nn.functional.pad(
            source, (0, padding), value=ORDINARY_TOKENS[-1]
        )  # padding holds an ordinary token
        return SearchBatch(
            source=source,
            valid=torch.nn.functional.pad(valid, (0, padding)),
            start=torch.tensor([self.start_tokens[row] for row in rows]),
            max_lengths=torch.tensor(longest or [MAX_LENGTH] * len(rows)),
            constraints=setting.rules,
            n_best=setting.n_best,
            length_penalty=setting.length_penalty,
        )

    def search(
        self, rows: list[int], setting: SearchSetting, *, padding: int = 0, longest: list[int] | None = None
    ) -> list[list[Hypothesis]]:
        batch = self.search_batch(rows, setting, padding=padding, longest=longest)
        return search(self.ensemble(setting), batch, setting.selector(rows)).hypotheses()

    def results(self, setting: SearchSetting) -> list[list[Hypothesis]]:
        """The hypotheses of all rows, searched as one batch."""
        key = "results", setting
        if key not in self.memory:
            self.memory[key] = self.search(self.rows, setting)
        return self.memory[key]

    def outcomes(self, setting: SearchSetting) -> list[tuple[int, Hypothesis]]:
        """The same hypotheses as one list, each with its row."""
        return [(row, hypothesis) for row, results in enumerate(self.results(setting)) for hypothesis in results]

    @torch.inference_mode()
    def rescore(self, rows: list[int], outputs: Sequence[Sequence[int]], n_models: int = 1) -> tuple[Tensor, Tensor]:
        """Without a search: log-probabilities [outputs, steps, vocabulary] of the first token and of what follows
        each token of these outputs, and the attention weights [outputs, …, steps, positions].
        """
        source = pad([self.sources[row] for row in rows])
        target, _ = pad([[self.start_tokens[row], *output] for row, output in zip(rows, outputs, strict=True)])
        outputs_of_models = [
            model.decoder.teacher_forced(target, model.start(*source)) for model in self.models[:n_models]
        ]
        log_probs = torch.stack([logits.log_softmax(-1) for logits, _ in outputs_of_models]).mean(0)
        weights = [weights for _, weights in outputs_of_models]
        if n_models == 1:
            return log_probs, weights[0]
        # The mean over layers and heads, and then over the models that have attention at a step.
        by_model = torch.stack([each.flatten(1, -3).mean(1) if each.dim() > 3 else each for each in weights])
        attending = by_model.any(-1, keepdim=True).sum(0)
        return log_probs, by_model.sum(0) / attending.clamp(min=1)

    def next_log_probs(self, row: int, n_models: int = 1) -> NextLogProbs:
        """The next token's log-probabilities of a row after any possible prefix."""
        key = "after", row, n_models
        if key not in self.memory:
            outputs = list(product(ORDINARY_TOKENS, repeat=MAX_LENGTH - 1))
            log_probs, _ = self.rescore([row] * len(outputs), outputs, n_models)
            self.memory[key] = {
                output[:length]: steps[length]
                for output, steps in zip(outputs, log_probs.double().tolist(), strict=True)
                for length in range(MAX_LENGTH)
            }
        return self.memory[key].__getitem__


@cache
def build_bench(name: str) -> Bench:
    return Bench((build_varied(name), build_varied(ensemble_partner(name))), draw_sources(), START_TOKENS)


@pytest.fixture(scope="module", params=SECTIONS)
def bench(request: pytest.FixtureRequest) -> Bench:
    return build_bench(request.param)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep a pairwise sample of decoder × mechanism × search setting, or all of them with REGARD_TEST_FULL=1."""
    if FULL:
        return
    decoders = dict.fromkeys(name.partition("-")[0] for name in SECTIONS)
    sampled = {
        (f"{decoder}-{mechanism}", setting_name)
        for decoder, mechanism, setting_name in pairwise_sample(product(decoders, kinds.MECHANISMS, SEARCH_SETTINGS))
    }

    def is_sampled(item: pytest.Item) -> bool:
        chosen = item.callspec.params if hasattr(item, "callspec") else {}
        setting_names = [
            chosen[name] for name in ("setting", "beam", "sampling") if chosen.get(name) in SEARCH_SETTINGS
        ]
        return (
            chosen.get("bench") not in SECTIONS or not setting_names or (chosen["bench"], setting_names[0]) in sampled
        )

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
    """True if the last `size` tokens occurred before in the same order."""
    return any(tokens[begin : begin + size] == tokens[-size:] for begin in range(len(tokens) - size))


def extend(output: Output, next_log_probs: NextLogProbs, rules: Constraints) -> Iterator[Output]:
    """The output extended by each token that may come next."""
    generated, log_probs = output.tokens, next_log_probs(output.tokens)
    forced = len(generated) < len(rules.prefix)
    if forced:
        tokens = [rules.prefix[len(generated)]]
    else:
        tokens = [token for token in range(len(log_probs)) if token not in rules.banned_tokens]
        if len(generated) < rules.min_length:
            tokens.remove(Vocabulary.end)
        if rules.block_ngrams:
            tokens = [token for token in tokens if not repeats((*generated, token), rules.block_ngrams)]
            tokens = tokens or [Vocabulary.end]
    for token in tokens:
        penalty = math.log(rules.repetition_penalty) if token in generated and not forced else 0.0
        score, total = output.score + log_probs[token], output.total + log_probs[token] - penalty
        if total > -math.inf:
            yield Output((*generated, token), score, total)


@dataclass(frozen=True)
class NaiveResult:
    """The result of a search in plain Python."""

    outputs: list[Output]
    margin: float  # the smallest difference that decided something; where it is tiny, rounding decides

    @classmethod
    def of(cls, outputs: Sequence[Output], setting: SearchSetting, margin: float) -> NaiveResult:
        """The best of all outputs: finished ones first."""

        def key(output: Output) -> tuple[bool, float]:
            return output.finished, output.rank(setting.length_penalty)

        best = sorted(outputs, key=key, reverse=True)[: setting.n_best + 1]
        close = [pair for pair in pairwise(best) if pair[0].finished == pair[1].finished and pair[0] != pair[1]]
        return cls(best[: setting.n_best], min([margin, *(key(one)[1] - key(two)[1] for one, two in close)]))

    @property
    def clear(self) -> bool:
        return self.margin > 1e-4

    def assert_matches(self, hypotheses: Sequence[Hypothesis]) -> None:
        """Assert that tokens and scores are the same."""
        assert [tuple(hypothesis.tokens) for hypothesis in hypotheses] == [output.tokens for output in self.outputs]
        assert [hypothesis.finished for hypothesis in hypotheses] == [output.finished for output in self.outputs]
        scores = [output.score for output in self.outputs]
        assert [hypothesis.score for hypothesis in hypotheses] == pytest.approx(scores, abs=1e-4)


def naive_beam(next_log_probs: NextLogProbs, setting: SearchSetting, longest: int = MAX_LENGTH) -> NaiveResult:
    """A beam that never stops early, and ranks at the end."""
    beam, done, margin = [Output()], [], math.inf
    for _ in range(longest):
        extensions = [extension for output in beam for extension in extend(output, next_log_probs, setting.rules)]
        extensions.sort(key=lambda output: output.total, reverse=True)
        kept, rest = extensions[: setting.width], extensions[setting.width :]
        if rest:
            margin = min(margin, kept[-1].total - rest[0].total)
        done += [output for output in kept if output.finished]
        beam = [output for output in kept if not output.finished]
    return NaiveResult.of([*done, *beam], setting, margin)


def naive_samples(
    next_log_probs: NextLogProbs, setting: SearchSetting, draws: Sequence[Sequence[float]], longest: int = MAX_LENGTH
) -> NaiveResult:
    """Samples one by one, each with its own random numbers."""
    done, margin = [], math.inf
    for numbers in draws:
        output = Output()
        for number in numbers[:longest]:
            extensions = list(extend(output, next_log_probs, setting.rules))
            weights = [math.exp((each.total - output.total) / setting.temperature) for each in extensions]
            if setting.top_k is not None or setting.top_p < 1:  # then the most likely come first
                order = sorted(range(len(weights)), key=lambda index: -weights[index])[: setting.top_k]
                extensions, weights = [extensions[index] for index in order], [weights[index] for index in order]
            bounds = [bound / sum(weights) for bound in accumulate(weights)]
            within = [bound for bound in bounds[:-1] if bound < setting.top_p]
            nucleus = bounds[len(within)]
            index = sum(bound <= number * nucleus for bound in within)
            if setting.top_p < 1:
                margin = min([margin, *(abs(bound - setting.top_p) for bound in bounds)])
            margin = min([margin, *(abs(bound - number * nucleus) for bound in within)])
            output = extensions[index]
            if output.finished:
                break
        done.append(output)
    return NaiveResult.of(done, setting, margin)


def exhaustive_search(next_log_probs: NextLogProbs, setting: SearchSetting, longest: int = MAX_LENGTH) -> NaiveResult:
    """An exhaustive search of all outputs."""
    open_outputs, done = [Output()], []
    for _ in range(longest):
        extensions = [
            extension for output in open_outputs for extension in extend(output, next_log_probs, setting.rules)
        ]
        done += [output for output in extensions if output.finished]
        open_outputs = [output for output in extensions if not output.finished]
    return NaiveResult.of([*done, *open_outputs], setting, math.inf)


@pytest.fixture(scope="session")
def naive() -> SimpleNamespace:
    """The searches above, as a fixture because tests cannot import them."""
    return SimpleNamespace(beam=naive_beam, samples=naive_samples, exhaustive=exhaustive_search)


# Models that are tables

Logits = Callable[[int, tuple[int, ...]], Sequence[float]]  # by the source's only token, and the prefix


@dataclass(frozen=True)
class TableState:
    sources: int
    read: Tensor  # [rows, 1 + steps]: the source's only token, and the decoder inputs
    weights: Tensor | None = None

    def select(self, index: Tensor) -> TableState:
        index = index if index.dim() == 2 else index.unsqueeze(1)
        origins = index // (len(self.read) // self.sources)
        assert (origins == origins[:, :1]).all(), "hypotheses of one source are adjacent"
        weights = None if self.weights is None else self.weights[index.flatten()]
        return TableState(len(index), self.read[index.flatten()], weights)


class Table:
    """Replaces an ensemble: logits are looked up by prefix. It counts the rows that it is given at each step.

    Its attention weight is the number that its prefix spells in base 8, which identifies the prefix.
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
        attended = torch.tensor([[self.spell(row[2:])] for row in read.tolist()])
        logits = torch.tensor([self.logits(row[0], tuple(row[2:])) for row in read.tolist()])  # [1]: `<begin>`
        return LogProbs.mean([logits]), TableState(state.sources, read, attended)

    @staticmethod
    def spell(generated: Sequence[int]) -> float:
        """A number for a prefix; exact for up to 7 tokens."""
        return float(sum(token * 8**position for position, token in enumerate(generated)))

    def next_log_probs(self, source: int) -> NextLogProbs:
        @cache
        def log_probs(generated: tuple[int, ...]) -> list[float]:
            logits = self.logits(source, generated)
            total = math.log(sum(map(math.exp, logits)))
            return [logit - total for logit in logits]

        return log_probs

    def search(self, setting: SearchSetting, longest: Sequence[int]) -> list[list[Hypothesis]]:
        """Search with one source per maximum length."""
        source = torch.arange(len(longest)).unsqueeze(1)
        batch = SearchBatch(
            source=source,
            valid=torch.ones_like(source, dtype=torch.bool),
            start=torch.full((len(longest),), Vocabulary.begin),
            max_lengths=torch.tensor(longest),
            constraints=setting.rules,
            n_best=setting.n_best,
            length_penalty=setting.length_penalty,
        )
        return search(self, batch, Beam(setting.width)).hypotheses()

    @classmethod
    def drawn(cls, seed: int, tokens: int = TOKENS, *, spread: float = 1.5, forgetful: bool = False) -> Table:
        """Normally distributed logits per prefix; a forgetful table depends only on the length and the last token."""

        def logits(source: int, generated: tuple[int, ...]) -> list[float]:
            known = (len(generated), generated[-1:]) if forgetful else generated
            random = Random(repr((seed, source, known)))
            return [random.gauss(0, spread) for _ in range(tokens)]

        return cls(logits)

    @classmethod
    def fixed(cls, probabilities: dict[tuple[int, ...], dict[int, float]], otherwise: dict[int, float]) -> Table:
        """Given probabilities by prefix; tokens that are not listed have probability 0."""

        def logits(source: int, generated: tuple[int, ...]) -> list[float]:
            known = probabilities.get(generated, otherwise)
            return [math.log(known[token]) if token in known else -math.inf for token in range(TOKENS)]

        return cls(logits)


@pytest.fixture(scope="session")
def table() -> type[Table]:
    return Table


@pytest.fixture(scope="session")
def search_setting() -> type[SearchSetting]:
    return SearchSetting
