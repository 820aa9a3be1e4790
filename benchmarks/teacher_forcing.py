"""Training throughput: all steps at once against a step-by-step loop, on the homework's sizes, in one run.

Both train the same model on the same batches, in turn: embedding 256, bidirectional GRU of 512, key size 512,
vocabularies of 6,000, dropout 0.5, 128 sentences a batch with the lengths of image captions, not sorted by length.
The loop is what a course's notebook does: one decoder step after the other, every position through the output layer.

    python benchmarks/teacher_forcing.py [--batches 4] [--json]
"""

from __future__ import annotations

import argparse
import json
import time
from random import Random

import torch
from torch.nn.functional import cross_entropy

from regard.assembly import build_model
from regard.config import ModelSection
from regard.data import Batch, Example, collate
from regard.nn import Seq2Seq
from regard.text import Vocabulary

VOCABULARY, SENTENCES = 6_000, 128
HOMEWORK = ModelSection.model_validate(
    {
        "encoder": {"cell": "gru", "embedding": 256, "size": 512, "bidirectional": True},
        "decoder": {"cell": "gru", "embedding": 256, "size": 512, "wiring": "after", "start": "relu"},
        "attention": {"kind": "scaled-dot", "key_size": 512},
        "dropout": 0.5,
    }
)


def caption(random: Random) -> tuple[int, ...]:
    """Random words; 13 on average, 4 to 40, most between 9 and 18, as in Multi30k."""
    length = min(40, max(4, round(random.lognormvariate(2.5, 0.33))))
    return tuple(random.randrange(4, VOCABULARY) for _ in range(length))


def draw_batch(random: Random) -> Batch:
    return collate(
        [
            Example((*caption(random), Vocabulary.end), (Vocabulary.begin, *caption(random), Vocabulary.end))
            for _ in range(SENTENCES)
        ]
    )


def loss_at_once(model: Seq2Seq, batch: Batch) -> torch.Tensor:
    logits = model(batch.source, batch.source_valid, batch.inputs, batch.valid)
    return cross_entropy(logits, batch.outputs[batch.valid])


def loss_step_by_step(model: Seq2Seq, batch: Batch) -> torch.Tensor:
    state = model.start(batch.source, batch.source_valid)
    logits = model.decoder.unroll_by_coin(batch.inputs, state, torch.ones_like(batch.valid))
    return cross_entropy(logits.flatten(0, 1), batch.outputs.flatten(), ignore_index=Vocabulary.pad)


WAYS = {"step by step": loss_step_by_step, "all at once": loss_at_once}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, default=4, help="so many for each way, after one to warm up")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    torch.manual_seed(1)
    random = Random(1)
    models = {name: build_model(HOMEWORK, VOCABULARY, VOCABULARY).train() for name in WAYS}
    optimizers = {name: torch.optim.Adam(model.parameters(), fused=True) for name, model in models.items()}
    seconds = dict.fromkeys(WAYS, 0.0)
    tokens = 0
    for turn in range(arguments.batches + 1):
        batch = draw_batch(random)
        for name, loss_of in WAYS.items():
            began = time.perf_counter()
            optimizers[name].zero_grad()
            loss_of(models[name], batch).backward()
            optimizers[name].step()
            seconds[name] += (time.perf_counter() - began) * (turn > 0)
        tokens += int(batch.valid.sum()) * (turn > 0)
    rates = {name: tokens / seconds[name] for name in WAYS}
    ratio = rates["all at once"] / rates["step by step"]
    if arguments.json:
        print(json.dumps({"tokens_per_second": rates, "ratio": ratio, "threads": torch.get_num_threads()}))
        return
    for name, rate in rates.items():
        print(f"{name:14}{rate:8,.0f} target tokens a second")
    print(f"ratio         {ratio:8.2f}")


if __name__ == "__main__":
    main()
