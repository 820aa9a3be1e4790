"""Training throughput: all steps in one call compared with step-by-step loops.

The model has the sizes of the CS224n-style homework (docs/sources.md): embedding 256, bidirectional GRU of 512, key
size 512, vocabularies of 6,000, dropout 0.5. Batches have 128 sentences with the lengths of image captions, not sorted
by length. Three implementations alternate, on the same batches:

- `as written`: the equations of the CS224n-style homework, step by step. Each step computes attention from the encoder
  states, including the keys, and every position goes through the output layer.
- `keys once`: the same loop, but the keys are computed once for all steps, as in all decoders of Regard.
- `all at once`: one call for all steps, with only real positions through the output layer.

    python benchmarks/teacher_forcing.py [--batches 4] [--json]
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from random import Random

import torch
from torch.nn.functional import cross_entropy

from regard.config.schema import ModelSection
from regard.data import Batch, Example, collate
from regard.nn import Seq2Seq
from regard.nn.build import build_model
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


def random_caption(random: Random, vocabulary: int) -> tuple[int, ...]:
    """Random token ids: 13 on average, 4 to 40, most between 9 and 18, as in Multi30k."""
    length = min(40, max(4, round(random.lognormvariate(2.5, 0.33))))
    return tuple(random.randrange(4, vocabulary) for _ in range(length))


def random_batch(random: Random, vocabulary: int = VOCABULARY) -> Batch:
    return collate(
        [
            Example(
                (*random_caption(random, vocabulary), Vocabulary.end),
                (Vocabulary.begin, *random_caption(random, vocabulary), Vocabulary.end),
            )
            for _ in range(SENTENCES)
        ]
    )


def loss_at_once(model: Seq2Seq, batch: Batch) -> torch.Tensor:
    logits = model(batch.source, batch.source_valid, batch.inputs, batch.valid)
    return cross_entropy(logits, batch.outputs[batch.valid])


def loss_keys_once(model: Seq2Seq, batch: Batch) -> torch.Tensor:
    state = model.start(batch.source, batch.source_valid)
    logits = model.decoder.scheduled_sampling(batch.inputs, state, torch.ones_like(batch.valid))
    return loss_of_all_positions(logits, batch)


def loss_as_written(model: Seq2Seq, batch: Batch) -> torch.Tensor:
    encoding = model.encoder(batch.source, batch.source_valid)
    state = model.decoder.start(encoding)
    logits = []
    for token in batch.inputs.unbind(1):
        state = replace(state, memory=model.decoder.attention.prepare(encoding.states, encoding.valid))
        output, state = model.decoder.step(token, state)
        logits.append(output)
    return loss_of_all_positions(torch.stack(logits, 1), batch)


def loss_of_all_positions(logits: torch.Tensor, batch: Batch) -> torch.Tensor:
    return cross_entropy(logits.flatten(0, 1), batch.outputs.flatten(), ignore_index=Vocabulary.pad)


IMPLEMENTATIONS = {"as written": loss_as_written, "keys once": loss_keys_once, "all at once": loss_at_once}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, default=4, help="number of batches, after one to warm up")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    torch.manual_seed(1)
    random = Random(1)
    models = {name: build_model(HOMEWORK, VOCABULARY, VOCABULARY).train() for name in IMPLEMENTATIONS}
    optimizers = {name: torch.optim.Adam(model.parameters(), fused=True) for name, model in models.items()}
    seconds = dict.fromkeys(IMPLEMENTATIONS, 0.0)
    tokens = 0
    for number in range(arguments.batches + 1):
        batch = random_batch(random)
        for name, loss_of in IMPLEMENTATIONS.items():
            start = time.perf_counter()
            optimizers[name].zero_grad()
            loss_of(models[name], batch).backward()
            optimizers[name].step()
            seconds[name] += (time.perf_counter() - start) * (number > 0)
        tokens += int(batch.valid.sum()) * (number > 0)
    rates = {name: tokens / seconds[name] for name in IMPLEMENTATIONS}
    ratios = {name: rates["all at once"] / rate for name, rate in rates.items()}
    if arguments.json:
        print(json.dumps({"tokens_per_second": rates, "ratios": ratios, "threads": torch.get_num_threads()}))
        return
    print("              target tokens/s   times slower than all at once")
    for name, rate in rates.items():
        print(f"{name:14}{rate:15,.0f}{ratios[name]:32.2f}")


if __name__ == "__main__":
    main()
