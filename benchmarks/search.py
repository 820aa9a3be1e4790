"""Search throughput: batches compared with one sentence at a time, and beams compared with greedy search.

All setups use the same trained model of 2.7 million parameters: embedding 256, bidirectional GRU of 128 in each
direction, GRU of 256 with scaled-dot attention after the step, tied readout with 4,000 outputs. They translate the same
sentences of about 13 words, sorted by length, in batches of 64, or fewer with wide beams. In each round, every batch is
searched with all setups, so that other load on the machine affects all; the fastest round counts. `one by one` is
greedy search of some of the sentences.

The model is trained first, which takes a few minutes, and stored in a file. Its text is generated: a cipher of words
with the frequencies and the lengths of image captions, in which frequent words swap with the next word or determine its
form, and some words insert another word at random. `--source` and `--target` name a parallel text to train on instead,
one sentence per line, of which the last 1,000 are held out; use another `--model` file for it.

    python benchmarks/search.py [--sentences 1000] [--threads 2] [--json] [--source FILE --target FILE --model FILE]
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import accumulate
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_

from regard.config.schema import DecodingSection, ModelSection
from regard.data import Batches, Example, pad
from regard.evaluation.losses import compute_losses
from regard.inference.translator import FULL_BATCH_WIDTH
from regard.nn import Seq2Seq
from regard.nn.build import build_model
from regard.nn.recurrent import RecurrentState
from regard.runs import named_weights
from regard.search import Beam, Ensemble, Hypothesis, LogProbs, SearchBatch, search
from regard.search.log_probs import EnsembleState
from regard.text import Vocabulary

SOURCES, TARGETS = 2_500, 4_000  # the sizes of the vocabularies
SPECIAL = 4  # of them
PAIRS, HELD_OUT, EPOCHS = 21_000, 1_000, 3
LIMITS = DecodingSection()
SINGLES = 100  # number of sentences for `one by one`
MODEL = ModelSection.model_validate(
    {
        "encoder": {"cell": "gru", "embedding": 256, "size": 128, "bidirectional": True},
        "decoder": {
            "cell": "gru",
            "embedding": 256,
            "size": 256,
            "wiring": "after",
            "start": "tanh",
            "readout": "tied",
        },
        "attention": {"kind": "scaled-dot"},
        "dropout": 0.2,
    }
)


@dataclass(frozen=True)
class SearchSetup:
    """How to search.

    Args:
        width: Beam width.
        length_penalty: α.
        batch_size: Number of sentences in a batch.
        every: Search one batch out of this many.
    """

    width: int = 1
    length_penalty: float = 0.0
    batch_size: int = LIMITS.batch_size
    every: int = 1


# Wide beams have smaller batches, as in `regard translate`.
SETUPS = {
    "one by one": SearchSetup(batch_size=1),
    "greedy": SearchSetup(),
    "beam 5": SearchSetup(5),
    "beam 5, α 0.6": SearchSetup(5, 0.6),
    "beam 10": SearchSetup(10),
    "beam 20": SearchSetup(20, every=4, batch_size=LIMITS.batch_size * FULL_BATCH_WIDTH // 20),
    "beam 50": SearchSetup(50, every=4, batch_size=LIMITS.batch_size * FULL_BATCH_WIDTH // 50),
}


def generate_examples() -> list[Example]:
    """Random sentences and their ciphers."""
    random = Random(1)
    words = range(SPECIAL, SOURCES)
    zipf = list(accumulate(1 / (rank + 3) for rank in range(len(words))))
    examples = []
    for _ in range(PAIRS):
        length = min(40, max(4, round(random.lognormvariate(2.5, 0.33))))
        source = random.choices(words, cum_weights=zipf, k=length)
        examples.append(make_example(source, cipher(source, random)))
    return examples


def cipher(source: Sequence[int], random: Random) -> list[int]:
    """The target of a source. Frequent words, which have low ids, act as function words."""
    target: list[list[int]] = []
    for before, word in zip([Vocabulary.begin, *source], source, strict=False):
        second_form = word + SOURCES - SPECIAL
        output = [second_form if SPECIAL <= before < 24 and second_form < TARGETS else word]
        if word % 11 == 0 and random.random() < 0.5:
            output = [SPECIAL, *output]
        target.insert(len(target) - (24 <= before < 50), output)  # some words swap with the next one
    return [word for output in target for word in output]


def read_examples(source: Path, target: Path) -> list[Example]:
    """The pairs of two files, as words; rare words are unknown."""
    texts = [split_lines(path.read_text(encoding="utf-8")) for path in (source, target)]
    pairs = [pair for pair in zip(*texts, strict=True) if all(pair)]
    sides = zip(*pairs[:-HELD_OUT], strict=True)
    sizes = (SOURCES, TARGETS)
    vocabularies = [Vocabulary(Vocabulary.build(side).tokens[:size]) for side, size in zip(sides, sizes, strict=True)]
    return [make_example(*(v.to_ids(words) for v, words in zip(vocabularies, pair, strict=True))) for pair in pairs]


def split_lines(text: str) -> list[list[str]]:
    return [re.findall(r"\w+|[^\w\s]", line) for line in text.lower().split("\n")]


def make_example(source: Sequence[int], target: Sequence[int]) -> Example:
    return Example((*source, Vocabulary.end), (Vocabulary.begin, *target, Vocabulary.end))


def load_or_train(examples: list[Example], path: Path, epochs: int = EPOCHS) -> Seq2Seq:
    """The model in a file; if there is none, a model trained on all examples except those that are held out."""
    torch.manual_seed(1)
    model = build_model(MODEL, SOURCES, TARGETS)
    text = hashlib.sha256(repr(examples).encode()).hexdigest()
    if path.exists():
        with safe_open(path, "pt") as file:
            if (file.metadata() or {}).get("text") != text:
                sys.exit(f"{path}: this model was trained on another text; choose another --model")
        with torch.no_grad():
            model.load_state_dict(load_file(path), strict=False)  # a shared parameter is listed once
        return model.eval()
    train(model, examples[:-HELD_OUT], epochs)
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file(named_weights(model), path, {"text": text})
    return model.eval()


def train(model: Seq2Seq, examples: list[Example], epochs: int) -> None:
    batches = Batches(examples, batch_tokens=1_000, seed=1)
    steps = epochs * batches.per_epoch
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.003, steps, pct_start=0.2, cycle_momentum=False)
    start = time.perf_counter()
    model.train()
    for step in range(steps):
        batch = batches.at(step)
        logits = model(batch.source, batch.source_valid, batch.inputs, batch.valid)
        loss = cross_entropy(logits, batch.outputs[batch.valid], label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 100 == 99 or step == steps - 1:
            seconds = time.perf_counter() - start
            print(f"step {step + 1:,} of {steps:,}  loss {loss.item():.3f}  {seconds:.0f} s", file=sys.stderr)


def build_search_batch(sources: Sequence[Sequence[int]], setup: SearchSetup) -> SearchBatch:
    source, valid = pad(sources)
    max_lengths = (valid.sum(1) * LIMITS.length_factor).long() + LIMITS.length_extra
    start = torch.full((len(sources),), Vocabulary.begin)
    return SearchBatch(source, valid, start, max_lengths, length_penalty=setup.length_penalty)


def best_hypotheses(ensemble: Ensemble, sources: Sequence[Sequence[int]], setup: SearchSetup) -> list[Hypothesis]:
    return [best for best, *_ in search(ensemble, build_search_batch(sources, setup), Beam(setup.width)).hypotheses()]


def compare(model: Seq2Seq, sources: Sequence[Sequence[int]], rounds: int) -> dict[str, dict[str, float]]:
    """The speed of each setup, and the log-probability of its outputs."""
    ensemble = Ensemble([model])
    indices = sorted(range(len(sources)), key=lambda index: len(sources[index]))
    batches = [indices[begin : begin + LIMITS.batch_size] for begin in range(0, len(indices), LIMITS.batch_size)]
    parts = {name: [split_batch(batch, setup) for batch in batches] for name, setup in SETUPS.items()}
    seconds: dict[str, list[float]] = {name: [math.inf] * len(batches) for name in SETUPS}
    found: dict[str, dict[int, Hypothesis]] = {name: {} for name in SETUPS}  # by the indices of their sources
    for number in range(rounds):
        for batch in range(len(batches)):
            for name, setup in SETUPS.items():
                if batch % setup.every == len(batches) // 8 % setup.every:
                    start = time.perf_counter()
                    for part in parts[name][batch]:
                        best = best_hypotheses(ensemble, [sources[index] for index in part], setup)
                        found[name].update(zip(part, best, strict=True))
                    seconds[name][batch] = min(seconds[name][batch], time.perf_counter() - start)
        print(f"round {number + 1} of {rounds}, {torch.get_num_threads()} thread(s)", file=sys.stderr)

    def rate(name: str, numbers: Sequence[int]) -> float:
        return sum(len(part) for n in numbers for part in parts[name][n]) / sum(seconds[name][n] for n in numbers)

    greedy = found["greedy"]
    results = {}
    for name, hypotheses in found.items():
        numbers = [number for number, fastest in enumerate(seconds[name]) if fastest < math.inf]
        results[name] = {
            "sentences_per_second": rate(name, numbers),
            "ratio_to_greedy": rate(name, numbers) / rate("greedy", numbers),  # over the same batches
            "log_p_above_greedy": fmean(each.score - greedy[index].score for index, each in hypotheses.items()),
            "finished": fmean(each.finished for each in hypotheses.values()),
        }
    return results


def split_batch(batch: Sequence[int], setup: SearchSetup) -> list[Sequence[int]]:
    """The batches of a setup; `one by one` has some of the sentences only."""
    some = batch if setup.batch_size > 1 else [index for index in batch if index < SINGLES]
    return [some[begin : begin + setup.batch_size] for begin in range(0, len(some), setup.batch_size)]


class MeasuredEnsemble(Ensemble):
    """An ensemble of recurrent decoders that records the maximum number of bytes of its tensors."""

    def __init__(self, models: Sequence[Seq2Seq]) -> None:
        super().__init__(models)
        self.bytes = {"source": 0, "states": 0, "logits": 0}

    def step(self, token: Tensor, state: EnsembleState) -> tuple[LogProbs, EnsembleState]:
        log_probs, state = super().step(token, state)
        parts: dict[str, list[Tensor]] = {"source": [], "states": [], "logits": [log_probs.logits]}
        for member in state.members:
            assert isinstance(member, RecurrentState)
            assert member.weights is not None
            parts["source"] += [member.memory.keys, member.memory.values, member.memory.valid]
            parts["states"] += [*member.hidden, member.weights]
        for name, tensors in parts.items():
            self.bytes[name] = max(self.bytes[name], sum(tensor.nbytes for tensor in tensors))
        return log_probs, state


def measure_memory(model: Seq2Seq, sources: Sequence[Sequence[int]], setup: SearchSetup) -> dict[str, int]:
    """The bytes of the search of one batch: at its largest step, and of its whole history."""
    ensemble = MeasuredEnsemble([model])
    result = search(ensemble, build_search_batch(sources, setup), Beam(setup.width))
    history = sum(getattr(record, field.name).nbytes for record in result.history for field in fields(record))
    return {**ensemble.bytes, "history": history}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sentences", type=int, default=HELD_OUT, help=f"number of sentences, at most {HELD_OUT:,}")
    parser.add_argument("--rounds", type=int, default=3, help="number of rounds, of which the fastest counts")
    parser.add_argument("--threads", type=int, default=1, help="measure with this number of threads as well, after one")
    parser.add_argument("--model", type=Path, default=Path("runs/bench/search.safetensors"), help="trained if missing")
    parser.add_argument("--source", type=Path, help="a text to train on, one sentence per line")
    parser.add_argument("--target", type=Path, help="its translation, line by line")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if (arguments.source is None) != (arguments.target is None):
        parser.error("--source and --target: either both or none")
    if not 1 <= arguments.sentences <= HELD_OUT:
        parser.error(f"--sentences: between 1 and {HELD_OUT:,}")
    torch.set_num_threads(1)
    examples = read_examples(arguments.source, arguments.target) if arguments.source else generate_examples()
    model = load_or_train(examples, arguments.model)
    examples = examples[-HELD_OUT:][: arguments.sentences]
    sources = [example.source for example in examples]
    accuracy = compute_losses(model, Batches(examples, batch_tokens=1_000, seed=1).once(), teacher=True).token_accuracy
    report: dict[str, Any] = {
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "token_accuracy": accuracy,
        "threads": {},
        "bytes": {
            name: measure_memory(model, sources[: LIMITS.batch_size], SETUPS[name]) for name in ("greedy", "beam 50")
        },
    }
    for threads in sorted({1, arguments.threads}):
        torch.set_num_threads(threads)
        report["threads"][threads] = compare(model, sources, arguments.rounds)
    print(json.dumps(report) if arguments.json else format_report(report))


def format_report(report: dict[str, Any]) -> str:
    lines = [f"{report['parameters']:,} parameters, held-out token accuracy {report['token_accuracy']:.1%}"]
    for threads, results in report["threads"].items():
        title = f"{threads} thread" + "s" * (threads > 1)
        lines += ["", f"{title:16}sentences/s   times greedy   log p above greedy   finished"]
        for name, result in results.items():
            rate, ratio, gain, finished = result.values()
            lines.append(f"{name:16}{rate:11,.1f}{ratio:15.3f}{gain:z21.2f}{finished:11.1%}")
        lines.append(
            f"batched greedy search is {1 / results['one by one']['ratio_to_greedy']:.1f} times as fast as one by one"
        )
    heads = ("source", "states", "logits", "history")
    lines += ["", "kB for a batch  " + "".join(f"{head:>12}" for head in heads)]
    for name, held in report["bytes"].items():
        lines.append(f"{name:16}" + "".join(f"{held[head] / 1_000:12,.1f}" for head in heads))
    return "\n".join(lines)


if __name__ == "__main__":
    main()
