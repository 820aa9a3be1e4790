"""Speed of recurrent cells: training and greedy search with the sizes of the recipe `multi30k`.

Embedding 256, bidirectional encoder of 320, decoder of 384 with scaled-dot attention after the step and a tied readout
of 4,000 outputs. All models have a GRU as the encoder, except for `ssru, both`. Weights and sentences are random. All
models take turns on the same batches. Time is CPU time of one thread, which other load on the machine changes little;
rates are those of the median batch, ratios the median of the ratios of each batch. A search has as many steps as its
longest source has tokens, because no model has learned to stop.

    python benchmarks/cells.py [--batches 10] [--json]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from random import Random
from statistics import median
from typing import Any

import torch

from regard.config.schema import Experiment
from regard.data import Batch
from regard.nn import Seq2Seq
from regard.nn.build import build_model
from regard.search import Beam, Constraints, Ensemble, SearchBatch, search
from teacher_forcing import loss_at_once, random_batch

OUTPUTS, SEARCHED = 4_000, 64  # size of the vocabularies, sentences of a search
CELLS = {"gru": ("gru", "gru"), "lstm": ("gru", "lstm"), "ssru": ("gru", "ssru"), "ssru, both": ("ssru", "ssru")}


def multi30k_model(encoder: str, decoder: str) -> Seq2Seq:
    """The model of the recipe with other cells."""
    overrides = {"model.encoder.cell": encoder, "model.decoder.cell": decoder}
    return build_model(Experiment.load("multi30k", overrides).model, OUTPUTS, OUTPUTS)


def seconds_of(action: Callable[..., None], *arguments: Any) -> float:
    start = time.process_time()
    action(*arguments)
    return time.process_time() - start


def train_step(model: Seq2Seq, optimizer: torch.optim.Optimizer, batch: Batch) -> None:
    model.train()
    optimizer.zero_grad()
    loss_at_once(model, batch).backward()
    optimizer.step()


def greedy_search(model: Seq2Seq, batch: Batch) -> None:
    """Translate some of the sentences, all with the same number of steps."""
    source, valid = batch.source[:SEARCHED], batch.source_valid[:SEARCHED]
    steps = source.shape[1]
    limits = torch.full((SEARCHED,), steps)
    constraints = Constraints(min_length=steps)
    search(
        Ensemble([model.eval()]), SearchBatch(source, valid, batch.inputs[:SEARCHED, 0], limits, constraints), Beam(1)
    )


def measure(batches: int) -> dict[str, dict[str, dict[str, float]]]:
    """Rates and ratios to the GRU: target tokens of training and sentences of greedy search per second."""
    torch.manual_seed(1)
    random = Random(1)
    models = {name: multi30k_model(*cells) for name, cells in CELLS.items()}
    optimizers = {name: torch.optim.Adam(model.parameters(), fused=True) for name, model in models.items()}
    rates: dict[str, dict[str, list[float]]] = {"training": {}, "search": {}}
    for number in range(batches + 1):
        batch = random_batch(random, OUTPUTS)
        tokens = int(batch.valid.sum())
        for name, model in models.items():
            training = tokens / seconds_of(train_step, model, optimizers[name], batch)
            searching = SEARCHED / seconds_of(greedy_search, model, batch)
            if number:  # after one batch to warm up
                rates["training"].setdefault(name, []).append(training)
                rates["search"].setdefault(name, []).append(searching)
    return {
        what: {
            name: {
                "per_second": median(own),
                "ratio_to_gru": median(a / b for a, b in zip(own, of_cells["gru"], strict=True)),
            }
            for name, own in of_cells.items()
        }
        for what, of_cells in rates.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, default=10, help="number of batches, after one to warm up")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    found = measure(arguments.batches)
    if arguments.json:
        print(json.dumps(found))
        return
    print("              target tokens/s   times GRU   sentences/s   times GRU")
    for name in CELLS:
        training, searching = found["training"][name], found["search"][name]
        print(
            f"{name:14}{training['per_second']:15,.0f}{training['ratio_to_gru']:12.2f}"
            f"{searching['per_second']:14,.1f}{searching['ratio_to_gru']:12.2f}"
        )


if __name__ == "__main__":
    main()
