"""How far translating in bfloat16 is from translating in float32: log-probabilities, outputs and CPU time.

The model of a run is loaded twice. Both score the target of each pair of sentences and translate its source by greedy
search, in batches, of which both take the same one after the other. Time is CPU time of one thread, which other load on
the machine changes little; ratios are the median over batches, after one to warm up.

    python benchmarks/precision.py RUN --source FILE --target FILE [--limit 1000] [--json]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median
from typing import TypeVar

import torch

import regard

PRECISIONS = ("float32", "bfloat16")
BATCH = 64  # sentences
Result = TypeVar("Result")


def read_lines(path: Path, limit: int) -> list[str]:
    with path.open(encoding="utf-8") as lines:
        return [line.rstrip("\n") for line in islice(lines, limit)]


def timed(action: Callable[[], Result]) -> tuple[Result, float]:
    start = time.process_time()
    return action(), time.process_time() - start


def ratio(seconds: Sequence[Sequence[float]]) -> float:
    """How many times as long the first precision takes as the second."""
    full, half = seconds
    return median(one / other for one, other in zip(full[1:] or full, half[1:] or half, strict=True))


def measure(run: Path, pairs: Sequence[tuple[str, str]]) -> dict[str, float]:
    """The largest and the mean |Δ log p| of a token, the share of equal outputs, and how much faster bfloat16 is."""
    translators = [regard.load(run, device="cpu", precision=precision) for precision in PRECISIONS]
    torch.set_num_threads(1)
    changes: list[float] = []
    outputs: list[list[str]] = [[], []]
    score_seconds: list[list[float]] = [[], []]
    search_seconds: list[list[float]] = [[], []]
    for begin in range(0, len(pairs), BATCH):
        batch, scores = pairs[begin : begin + BATCH], []
        for index, translator in enumerate(translators):
            found, seconds = timed(partial(translator.score, batch))
            scores.append([value for score in found for value in score.log_probabilities])
            score_seconds[index].append(seconds)
            translations, seconds = timed(partial(translator.translate, [source for source, _ in batch]))
            outputs[index] += [translation.text for translation in translations]
            search_seconds[index].append(seconds)
        changes += [abs(one - other) for one, other in zip(*scores, strict=True)]
    return {
        "sentences": len(pairs),
        "tokens": len(changes),
        "largest_change": max(changes),
        "mean_change": sum(changes) / len(changes),
        "equal_outputs": sum(one == other for one, other in zip(*outputs, strict=True)) / len(pairs),
        "score_speed": ratio(score_seconds),
        "search_speed": ratio(search_seconds),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, help="a run directory")
    parser.add_argument("--source", type=Path, required=True, help="source texts, one per line")
    parser.add_argument("--target", type=Path, required=True, help="their translations, one per line")
    parser.add_argument("--limit", type=int, default=1000, help="number of sentences")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    texts = [read_lines(path, arguments.limit) for path in (arguments.source, arguments.target)]
    found = measure(arguments.run, list(zip(*texts, strict=True)))
    if arguments.json:
        print(json.dumps(found))
        return
    print(f"{found['sentences']:,} sentences, {found['tokens']:,} target tokens; bfloat16 compared with float32")
    print(f"largest change in log p    {found['largest_change']:.4f}")
    print(f"mean change in log p       {found['mean_change']:.5f}")
    print(f"equal greedy outputs       {100 * found['equal_outputs']:.1f} %")
    print(f"times as fast, scoring     {found['score_speed']:.2f}")
    print(f"times as fast, searching   {found['search_speed']:.2f}")


if __name__ == "__main__":
    main()
