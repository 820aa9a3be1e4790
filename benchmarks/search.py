"""Search throughput: batches against one sentence at a time, and beams against greedy search, in one run.

All search with the same trained model of 2.7 million parameters: embedding 256, bidirectional GRU of 128 in each
direction, GRU of 256 with scaled-dot attention after the step, tied readout with 4,000 outputs. It answers the same
sentences of about 13 words, sorted by length, 64 a batch and fewer with wide beams; every batch is searched in all ways
in turn, and of several turns the fastest counts. `one by one` is greedy search, too, for some of the sentences.

The model is trained first, in some minutes, and kept in a file. Its text is made up: a cipher of words with the
frequencies and the lengths of image captions, in which frequent words change places with the next one or decide its
form, and some words bring another one along, or do not. `--source` and `--target` name a parallel text to train on
instead, one sentence a line, of which the last 1,000 are held out; give it a `--model` file of its own.

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
from regard.inference.translator import FULL_WIDTH
from regard.nn import Seq2Seq
from regard.nn.build import build_model
from regard.nn.recurrent import RecurrentState
from regard.runs import copy_weights, named_weights
from regard.search import Beam, Ensemble, Hypothesis, LogProbs, SearchBatch, search
from regard.search.log_probs import EnsembleState
from regard.text import Vocabulary

SOURCES, TARGETS = 2_500, 4_000  # the sizes of the vocabularies
SPECIAL = 4  # of them
PAIRS, HELD_OUT, PASSES = 21_000, 1_000, 3
LIMITS = DecodingSection()
SINGLES = 100  # so many sentences one by one
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
class Way:
    width: int = 1
    length_penalty: float = 0.0
    batch_size: int = LIMITS.batch_size
    every: int = 1  # only one in so many batches is searched this way


WAYS = {
    "one by one": Way(batch_size=1),
    "greedy": Way(),
    "beam 5": Way(5),
    "beam 5, α 0.6": Way(5, 0.6),
    "beam 10": Way(10),
    "beam 20": Way(20, every=4, batch_size=LIMITS.batch_size * FULL_WIDTH // 20),  # as `regard translate` does
    "beam 50": Way(50, every=4, batch_size=LIMITS.batch_size * FULL_WIDTH // 50),
}


def made_up() -> list[Example]:
    random = Random(1)
    words = range(SPECIAL, SOURCES)
    zipf = list(accumulate(1 / (rank + 3) for rank in range(len(words))))
    examples = []
    for _ in range(PAIRS):
        length = min(40, max(4, round(random.lognormvariate(2.5, 0.33))))
        source = random.choices(words, cum_weights=zipf, k=length)
        examples.append(example(source, cipher(source, random)))
    return examples


def cipher(source: Sequence[int], random: Random) -> list[int]:
    """Frequent words, which have low numbers, do what function words do."""
    target: list[list[int]] = []
    for before, word in zip([Vocabulary.begin, *source], source, strict=False):
        second_form = word + SOURCES - SPECIAL
        said = [second_form if SPECIAL <= before < 24 and second_form < TARGETS else word]
        if word % 11 == 0 and random.random() < 0.5:
            said = [SPECIAL, *said]
        target.insert(len(target) - (24 <= before < 50), said)  # behind a few words, the next one goes first
    return [word for said in target for word in said]


def parallel(source: Path, target: Path) -> list[Example]:
    """The pairs of two files, in words; what is rare is unknown."""
    texts = [split(path.read_text(encoding="utf-8")) for path in (source, target)]
    pairs = [pair for pair in zip(*texts, strict=True) if all(pair)]
    sides = zip(*pairs[:-HELD_OUT], strict=True)
    sizes = (SOURCES, TARGETS)
    read, say = (Vocabulary(Vocabulary.build(side).tokens[:size]) for side, size in zip(sides, sizes, strict=True))
    return [example(read.to_ids(left), say.to_ids(right)) for left, right in pairs]


def split(text: str) -> list[list[str]]:
    return [re.findall(r"\w+|[^\w\s]", line) for line in text.lower().split("\n")]


def example(source: Sequence[int], target: Sequence[int]) -> Example:
    return Example((*source, Vocabulary.end), (Vocabulary.begin, *target, Vocabulary.end))


def trained(examples: list[Example], path: Path, passes: int = PASSES) -> Seq2Seq:
    """The model in the file; if there is none, it is trained on all examples but those that are held out."""
    torch.manual_seed(1)
    model = build_model(MODEL, SOURCES, TARGETS)
    text = hashlib.sha256(repr(examples).encode()).hexdigest()
    if path.exists():
        with safe_open(path, "pt") as file:
            if (file.metadata() or {}).get("text") != text:
                sys.exit(f"{path}: this was trained on another text; choose another --model")
        with torch.no_grad():
            copy_weights(load_file(path), model, path)
        return model.eval()
    train(model, examples[:-HELD_OUT], passes)
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file(named_weights(model), path, {"text": text})
    return model.eval()


def train(model: Seq2Seq, examples: list[Example], passes: int) -> None:
    batches = Batches(examples, batch_tokens=1_000, seed=1)
    steps = passes * batches.per_epoch
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.003, steps, pct_start=0.2, cycle_momentum=False)
    began = time.perf_counter()
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
            passed = time.perf_counter() - began
            print(f"step {step + 1:,} of {steps:,}  loss {loss.item():.3f}  {passed:.0f} s", file=sys.stderr)


def question(sources: Sequence[Sequence[int]], way: Way) -> SearchBatch:
    source, valid = pad(sources)
    longest = (valid.sum(1) * LIMITS.length_factor).long() + LIMITS.length_extra
    first = torch.full((len(sources),), Vocabulary.begin)
    return SearchBatch(source, valid, first, longest, length_penalty=way.length_penalty)


def find(ensemble: Ensemble, sources: Sequence[Sequence[int]], way: Way) -> list[Hypothesis]:
    return [best for best, *_ in search(ensemble, question(sources, way), Beam(way.width)).hypotheses()]


def compare(model: Seq2Seq, sources: Sequence[Sequence[int]], turns: int) -> dict[str, dict[str, float]]:
    """For each way how fast it is, and how likely what it finds."""
    ensemble = Ensemble([model])
    places = sorted(range(len(sources)), key=lambda place: len(sources[place]))
    batches = [places[begin : begin + LIMITS.batch_size] for begin in range(0, len(places), LIMITS.batch_size)]
    parts = {name: [parts_of(batch, way) for batch in batches] for name, way in WAYS.items()}
    seconds: dict[str, list[float]] = {name: [math.inf] * len(batches) for name in WAYS}
    found: dict[str, dict[int, Hypothesis]] = {name: {} for name in WAYS}  # by the places of their sources
    for turn in range(turns):
        for number in range(len(batches)):
            for name, way in WAYS.items():
                if number % way.every == len(batches) // 8 % way.every:
                    began = time.perf_counter()
                    for part in parts[name][number]:
                        answers = find(ensemble, [sources[place] for place in part], way)
                        found[name].update(zip(part, answers, strict=True))
                    seconds[name][number] = min(seconds[name][number], time.perf_counter() - began)
        print(f"turn {turn + 1} of {turns}, {torch.get_num_threads()} thread(s)", file=sys.stderr)

    def rate(name: str, numbers: Sequence[int]) -> float:
        return sum(len(part) for n in numbers for part in parts[name][n]) / sum(seconds[name][n] for n in numbers)

    results = {}
    for name, own in found.items():
        numbers = [number for number, fastest in enumerate(seconds[name]) if fastest < math.inf]
        results[name] = {
            "sentences_per_second": rate(name, numbers),
            "ratio_to_greedy": rate(name, numbers) / rate("greedy", numbers),  # over the same batches
            "log_p_above_greedy": fmean(own[place].score - found["greedy"][place].score for place in own),
            "finished": fmean(answer.finished for answer in own.values()),
        }
    return results


def parts_of(batch: Sequence[int], way: Way) -> list[Sequence[int]]:
    """What is searched at once; one by one, only some of the sentences."""
    some = batch if way.batch_size > 1 else [place for place in batch if place < SINGLES]
    return [some[begin : begin + way.batch_size] for begin in range(0, len(some), way.batch_size)]


class WeighedEnsemble(Ensemble):
    """An ensemble of recurrent decoders that writes down how many bytes its search holds, at the most."""

    def __init__(self, models: Sequence[Seq2Seq]) -> None:
        super().__init__(models)
        self.bytes = {"source": 0, "states": 0, "logits": 0}

    def step(self, token: Tensor, state: EnsembleState) -> tuple[LogProbs, EnsembleState]:
        chances, state = super().step(token, state)
        parts: dict[str, list[Tensor]] = {"source": [], "states": [], "logits": [chances.logits]}
        for member in state.members:
            assert isinstance(member, RecurrentState)
            assert member.weights is not None
            parts["source"] += [member.memory.keys, member.memory.values, member.memory.valid]
            parts["states"] += [*member.hidden, member.weights]
        for name, tensors in parts.items():
            self.bytes[name] = max(self.bytes[name], sum(tensor.nbytes for tensor in tensors))
        return chances, state


def weigh(model: Seq2Seq, sources: Sequence[Sequence[int]], way: Way) -> dict[str, int]:
    """The bytes that the search of one batch holds: at its largest step, and its whole history."""
    ensemble = WeighedEnsemble([model])
    found = search(ensemble, question(sources, way), Beam(way.width))
    history = sum(getattr(record, field.name).nbytes for record in found.history for field in fields(record))
    return {**ensemble.bytes, "history": history}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sentences", type=int, default=HELD_OUT, help=f"so many, {HELD_OUT:,} at the most")
    parser.add_argument("--turns", type=int, default=3, help="the fastest of so many counts")
    parser.add_argument("--threads", type=int, default=1, help="measure with so many, too, after one")
    parser.add_argument("--model", type=Path, default=Path("runs/bench/search.safetensors"), help="made if missing")
    parser.add_argument("--source", type=Path, help="a text to train on, one sentence a line")
    parser.add_argument("--target", type=Path, help="the same text in another language")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if (arguments.source is None) != (arguments.target is None):
        parser.error("--source and --target: either both or none")
    if not 1 <= arguments.sentences <= HELD_OUT:
        parser.error(f"--sentences: between 1 and {HELD_OUT:,}")
    torch.set_num_threads(1)
    examples = parallel(arguments.source, arguments.target) if arguments.source else made_up()
    model = trained(examples, arguments.model)
    examples = examples[-HELD_OUT:][: arguments.sentences]
    sources = [example.source for example in examples]
    accuracy = compute_losses(model, Batches(examples, batch_tokens=1_000, seed=1).once(), teacher=True).token_accuracy
    report: dict[str, Any] = {
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "token_accuracy": accuracy,
        "threads": {},
        "bytes": {name: weigh(model, sources[: LIMITS.batch_size], WAYS[name]) for name in ("greedy", "beam 50")},
    }
    for threads in sorted({1, arguments.threads}):
        torch.set_num_threads(threads)
        report["threads"][threads] = compare(model, sources, arguments.turns)
    print(json.dumps(report) if arguments.json else table(report))


def table(report: dict[str, Any]) -> str:
    lines = [f"{report['parameters']:,} parameters, {report['token_accuracy']:.1%} of the held-out tokens right"]
    for threads, ways in report["threads"].items():
        title = f"{threads} thread" + "s" * (threads > 1)
        lines += ["", f"{title:16}sentences a second   times greedy   log p above greedy   come to their end"]
        for name, result in ways.items():
            rate, ratio, gain, finished = result.values()
            lines.append(f"{name:16}{rate:18,.1f}{ratio:15.3f}{gain:z21.2f}{finished:20.1%}")
        lines.append(
            f"greedy search in batches is {1 / ways['one by one']['ratio_to_greedy']:.1f} times as fast as one by one"
        )
    heads = ("source", "states", "logits", "history")
    lines += ["", "kilobytes held  " + "".join(f"{head:>12}" for head in heads)]
    for name, held in report["bytes"].items():
        lines.append(f"{name:16}" + "".join(f"{held[head] / 1_000:12,.1f}" for head in heads))
    return "\n".join(lines)


if __name__ == "__main__":
    main()
