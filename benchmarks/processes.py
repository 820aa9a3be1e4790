"""Speed of training with two processes, against one process with one thread and one with two.

Trains the recipes `multi30k` and `multi30k-transformer`, without R-Drop, for some steps with each, in turns, on random
words or, with `--corpus`, on real text: `FOLDER/train.de`, `train.en`, `val.de`, `val.en`. Prints target tokens per
second of the median round, the ratio to one process with one thread (the median of the ratios of each round), and the
parts of a step in milliseconds: forward and backward, which the processes divide; reading and padding the batch;
waiting for the slowest process; the exchange of gradients; clipping and the optimizer, which every process repeats.
Nothing else should run on the machine.

    python benchmarks/processes.py [--steps 40] [--rounds 3] [--precision auto] [--batch-tokens 1500]
        [--corpus FOLDER] [--json]

One process with a quarter of the batch shows how much of a step does not depend on the batch. `--json` adds what else
`cost_model.py` needs: milliseconds of one validation and of saving, and the sizes of model and data.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

import regard
from regard.training import trainer as trainer_module

RECIPES = ("multi30k", "multi30k-transformer")
# Processes, threads in all, and the share of the tokens of a batch.
LAYOUTS = {
    "1 process": (1, 1, 1.0),
    "1 process, 2 threads": (1, 2, 1.0),
    "2 processes": (2, 1, 1.0),
    "1 process, small batch": (1, 1, 0.25),
}
WARM_UP = 10  # steps
PAIRS, WORDS = 6_000, 8_000  # of the random corpus
PARTS = ("divided", "input", "waiting", "exchange", "repeated")
ONCE = ("validation", "saving", "operations", "validation_operations", "parameters", "validation_tokens")
MEASURED = ("rate", "tokens", *PARTS, *ONCE)
TIMED = {"average_gradients": "exchange", "clip_grad_norm_": "repeated", "collate": "input"}  # functions of the loop


class CountOperations(TorchDispatchMode):
    """Counts the operations of PyTorch that a GPU would have to start."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += not func.is_view
        return func(*args, **(kwargs or {}))


class TimedSteps(regard.Callback):
    """Trains for some steps, and prints their rate and their parts as JSON.

    Args:
        steps: The number of steps to time, after those to warm up.
    """

    def __init__(self, steps: int) -> None:
        self.last = WARM_UP + steps
        self.step = 0
        self.start, self.tokens = 0.0, 0
        self.seconds = {"input": 0.0, "exchange": 0.0, "repeated": 0.0}

    def on_train_begin(self, trainer: Any) -> None:
        for name, part in TIMED.items():
            setattr(trainer_module, name, self.timed(part, getattr(trainer_module, name)))
        trainer.batches.own = self.timed("input", trainer.batches.own)
        trainer.optimizer.step = self.timed("repeated", trainer.optimizer.step)

    def timed(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            start = time.perf_counter()
            result = function(*arguments, **options)
            self.seconds[part] += time.perf_counter() - start
            return result

        return call

    def on_step_end(self, trainer: Any, loss: object) -> None:
        self.step += 1
        if self.step == WARM_UP:
            self.seconds = dict.fromkeys(self.seconds, 0.0)
            self.start, self.tokens = time.perf_counter(), trainer.progress.tokens
        if self.step == self.last:
            result = self.parts(trainer)
            result |= measure_once(trainer)
            if trainer.group.is_first:
                print(json.dumps(result))

    def parts(self, trainer: Any) -> dict[str, float]:
        """Target tokens per second, and milliseconds of each part of a step."""
        seconds, steps, tokens = time.perf_counter() - self.start, self.last - WARM_UP, trainer.progress.tokens
        exchanges = [each["exchange"] for each in trainer.group.gather(self.seconds)]
        exchange = min(exchanges)  # the slowest process does not wait
        shares = {**self.seconds, "exchange": exchange, "waiting": sum(exchanges) / len(exchanges) - exchange}
        shares["divided"] = seconds - sum(shares.values())
        rate, tokens_per_step = (tokens - self.tokens) / seconds, (tokens - self.tokens) / steps
        return {"rate": rate, "tokens": tokens_per_step} | {part: 1_000 * shares[part] / steps for part in PARTS}

    def should_stop(self) -> bool:
        return self.step >= self.last


def measure_once(trainer: Any) -> dict[str, float]:
    """Milliseconds of a validation and of saving; numbers of operations; sizes."""

    def validate() -> None:
        trainer.validation.losses()
        trainer.validation.scores()

    measured: dict[str, float] = {}
    for name, action in (("validation", validate), ("saving", trainer.save)):
        start = time.perf_counter()
        action()
        measured[name] = 1_000 * (time.perf_counter() - start)
    trainer.precision = "float32"  # a mode that counts cannot be within autocast
    for name, action in (("validation_operations", validate), ("operations", trainer.step)):
        with CountOperations() as operations:
            action()
        measured[name] = operations.count
    measured["parameters"] = sum(parameter.numel() for parameter in trainer.model.parameters())
    measured["validation_tokens"] = sum(int(batch.valid.sum()) for batch in trainer.validation.batches.once())
    return measured


def write_corpus(folder: Path) -> None:
    """Sentences of random words, with the lengths of captions."""
    random = Random(1)
    words = ["".join(random.choices("abcdefghijklmnopqrstuvwxyz", k=random.randint(2, 9))) for _ in range(WORDS)]
    weights = [1 / (rank + 10) for rank in range(WORDS)]
    for name, pairs in (("train", PAIRS), ("val", 100)):
        for language in ("de", "en"):
            lengths = [min(40, max(4, round(random.lognormvariate(2.4, 0.33)))) for _ in range(pairs)]
            lines = (" ".join(random.choices(words, weights, k=length)) for length in lengths)
            (folder / f"{name}.{language}").write_text("".join(f"{line}\n" for line in lines))


def train(recipe: str, corpus: Path, threads: int, batch_tokens: int, precision: str, steps: int, out: Path) -> None:
    """Train for some steps; in each of the processes."""
    settings = {
        "data.task": "files",
        "data.train": str(corpus / "train"),
        "data.validation": str(corpus / "val"),
        "training.threads": threads,
        "training.batch_tokens": batch_tokens,
        "training.precision": precision,
        "training.consistency.kind": "none",
        "training.validate_every": 1_000_000,
        "training.save_every": 1_000_000,
        "training.device": "cpu",
    }
    regard.train(recipe, out, overrides=settings, callbacks=[TimedSteps(steps)], progress=False)


def measure(recipe: str, layout: str, corpus: Path, arguments: argparse.Namespace) -> dict[str, float]:
    """Rate and parts of a step of one training, in processes of its own."""
    processes, threads, share = LAYOUTS[layout]
    with TemporaryDirectory() as folder:
        options = {"recipe": recipe, "threads": threads, "batch_tokens": round(share * arguments.batch_tokens)}
        options |= {"precision": arguments.precision, "steps": arguments.steps, "out": folder}
        launcher = ["-m", "torch.distributed.run", f"--nproc-per-node={processes}"] if processes > 1 else []
        command = [sys.executable, *launcher, __file__, f"--corpus={corpus}", "--worker", json.dumps(options)]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout
    result: dict[str, float] = json.loads(output)
    return result


def summarize(rounds: list[dict[str, dict[str, float]]]) -> dict[str, dict[str, float]]:
    """The medians of all rounds, by layout."""
    summary = {}
    for layout in LAYOUTS:
        ratios = [each[layout]["rate"] / each["1 process"]["rate"] for each in rounds]
        medians = {name: median(each[layout][name] for each in rounds) for name in MEASURED}
        summary[layout] = {**medians, "ratio": median(ratios)}
    return summary


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=40, help="number of steps of a training")
    parser.add_argument("--rounds", type=int, default=3, help="number of trainings with each layout")
    parser.add_argument("--precision", choices=("auto", "float32", "bfloat16"), default="auto")
    parser.add_argument("--batch-tokens", type=int, default=1500, help="size of a batch; that of the recipes is 1500")
    parser.add_argument("--corpus", type=Path, help="the folder of train.de, train.en, val.de and val.en")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        options = json.loads(arguments.worker)
        train(corpus=arguments.corpus, **{**options, "out": Path(options["out"]) / "run"})
        return
    with TemporaryDirectory() as folder:
        if arguments.corpus is None:
            write_corpus(Path(folder))
        corpus = (arguments.corpus or Path(folder)).absolute()
        found = {}
        for recipe in RECIPES:
            rounds = []
            for _ in range(arguments.rounds):
                rounds.append({layout: measure(recipe, layout, corpus, arguments) for layout in LAYOUTS})
            found[recipe] = summarize(rounds)
    if arguments.json:
        print(json.dumps(found))
        return
    print(" " * 46 + "tokens/s   ratio   " + "  ".join(f"{part:>8}" for part in PARTS))
    for recipe, layouts in found.items():
        for layout, values in layouts.items():
            parts = "  ".join(f"{values[part]:8.1f}" for part in PARTS)
            print(f"{recipe:22}{layout:24}{values['rate']:8,.0f}{values['ratio']:8.2f}   {parts}")


if __name__ == "__main__":
    main()
