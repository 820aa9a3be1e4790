"""A cost model of training with several processes, fitted to the output of `processes.py --json`, and its predictions.

    T(P) = (u n/P + o + k c n/P) (1 + w) + e(P) + r N + (V(P) + s N) / steps           seconds of a step
    e(P) = 2 (P − 1)/P · 4 N / B + 2 (P − 1) λ                                         a ring all-reduce of gradients
    V(P) = v · max( m/P, n )                                                           a batch is not divided

P: processes, n: target tokens of a batch, N: parameters. u: seconds per token to read and pad the input, o: seconds to
start the operations of a step, c: seconds per token of computing, k: how much slower a core computes while its
neighbor does, w: share that the slowest process takes longer. (A GPU computes while the CPU prepares, so the longer of
both counts.) B: bytes per second and λ: latency between processes, r: seconds per parameter of clipping and the
optimizer, v: seconds per token of a validation with m tokens, s: seconds per parameter of saving, once per epoch of
`steps` steps.

    python benchmarks/processes.py --json > measured.json; python benchmarks/cost_model.py measured.json

The constants of GPUs and of networks are assumptions, in `HARDWARE`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

FLOP = 6  # per parameter and target token: 2 forward, 4 backward
BYTES = 4  # of a gradient


@dataclass(frozen=True)
class Hardware:
    """What computes, and what connects it. The constants of a model on a CPU are measured.

    Args:
        bandwidth: Bytes per second between two processes.
        latency: Seconds until a message arrives.
        flops: Operations per second of a GPU in products of this size; None for a CPU.
        start: Seconds to start one operation of a GPU.
        memory: Bytes per second of a GPU's memory.
    """

    bandwidth: float
    latency: float
    flops: float | None = None
    start: float = 5e-6
    memory: float = 1.5e12


HARDWARE = {
    "CPU cores, 1 Gbit/s": Hardware(bandwidth=0.117e9, latency=100e-6),
    "CPU cores, 10 Gbit/s": Hardware(bandwidth=1.17e9, latency=30e-6),
    "GPUs of one machine": Hardware(bandwidth=100e9, latency=10e-6, flops=60e12),
    "GPUs, 100 Gbit/s": Hardware(bandwidth=11e9, latency=20e-6, flops=60e12),
}


@dataclass(frozen=True)
class Costs:
    """The constants of one model on one kind of hardware; the letters of the formulas are in parentheses."""

    tokens: float  # of a batch (n)
    parameters: float  # (N)
    steps: float  # of an epoch
    input: float  # seconds per token (u)
    start: float  # seconds (o)
    computing: float  # seconds per token (c)
    contention: float  # a factor (k)
    waiting: float  # a share (w)
    bandwidth: float  # bytes per second (B)
    latency: float  # seconds (λ)
    repeated: float  # seconds per parameter (r)
    validation: float  # seconds per token (v)
    validation_tokens: float  # (m)
    saving: float  # seconds per parameter (s)
    overlaps: bool = False  # whether computing and preparing are at the same time

    def step(self, processes: int) -> dict[str, float]:
        """The seconds of each part of a step."""
        tokens = self.tokens / processes
        several = processes > 1
        computing = self.computing * tokens * (self.contention if several else 1.0)
        preparing = self.input * tokens + self.start
        if self.overlaps:
            preparing = max(0.0, preparing - computing)
        validated = max(self.validation_tokens / processes, min(self.tokens, self.validation_tokens))
        return {
            "computing": computing,
            "preparing": preparing,
            "waiting": self.waiting * (preparing + computing) if several else 0.0,
            "exchange": 2 * (processes - 1) * (BYTES * self.parameters / processes / self.bandwidth + self.latency),
            "optimizer": self.repeated * self.parameters,
            "validation": self.validation * validated / self.steps,
            "saving": self.saving * self.parameters / self.steps,
        }

    def rate(self, processes: int) -> float:
        """Target tokens per second."""
        return self.tokens / sum(self.step(processes).values())

    def grown(self, processes: int) -> Costs:
        """The same with a batch, and an epoch, that have grown with the number of processes."""
        return replace(self, tokens=self.tokens * processes)

    def on(self, hardware: Hardware, measured: dict[str, float]) -> Costs:
        """The same model on other hardware.

        Args:
            hardware: Its constants.
            measured: The numbers of operations of a step and of a validation.
        """
        connected = replace(self, bandwidth=hardware.bandwidth, latency=hardware.latency, contention=1.0)
        if hardware.flops is None:
            return connected
        return replace(
            connected,
            start=measured["operations"] * hardware.start,
            computing=FLOP * self.parameters / hardware.flops,
            repeated=10 * BYTES / hardware.memory,  # the optimizer reads and writes ten numbers per parameter
            # Most of it searches, token by token: the GPU waits for operations to be started.
            validation=measured["validation_operations"] * hardware.start / measured["validation_tokens"],
            overlaps=True,
        )


def fit(measured: dict[str, dict[str, float]], epoch_tokens: float) -> Costs:
    """The constants that measurements imply: one process with two sizes of batches, and two processes.

    Args:
        measured: The layouts of one recipe, from `processes.py`.
        epoch_tokens: The target tokens of an epoch.
    """
    one, small, two = (measured[name] for name in ("1 process", "1 process, small batch", "2 processes"))
    computing = (one["divided"] - small["divided"]) / (one["tokens"] - small["tokens"]) / 1_000
    alone, half = one["divided"] / 1_000, computing * one["tokens"] / 2
    return Costs(
        tokens=one["tokens"],
        parameters=one["parameters"],
        steps=epoch_tokens / one["tokens"],
        input=one["input"] / 1_000 / one["tokens"],
        start=max(0.0, alone - computing * one["tokens"]),
        computing=computing,
        contention=max(1.0, (two["divided"] / 1_000 - (alone - 2 * half)) / half),
        waiting=two["waiting"] / two["divided"],
        bandwidth=BYTES * one["parameters"] / (two["exchange"] / 1_000),
        latency=0.0,
        repeated=one["repeated"] / 1_000 / one["parameters"],
        validation=one["validation"] / 1_000 / one["validation_tokens"],
        validation_tokens=0.035 * epoch_tokens,
        saving=one["saving"] / 1_000 / one["parameters"],
    )


EPOCH_TOKENS = 420_000  # of the recipes on Multi30k
GPU_RECIPE = "multi30k-transformer"  # cuDNN runs recurrences in other operations than the CPU
BASE = {"parameters": 65e6, "tokens": 25_000.0}  # a Transformer of the base size, with its usual batch


def print_predictions(title: str, costs: Costs, processes: Sequence[int], *, grows: bool) -> None:
    """A table of milliseconds: one row for each number of processes."""
    tokens = f"{costs.tokens:,.0f} tokens"
    print(f"\n  {title}; {f'{tokens} per process' if grows else f'a batch of {tokens}'}")
    print("  processes   speedup  efficiency   " + "  ".join(f"{part:>10}" for part in costs.step(1)))
    for count in processes:
        at = costs.grown(count) if grows else costs
        speedup = at.rate(count) / costs.rate(1)
        parts = "  ".join(f"{1_000 * seconds:10.2f}" for seconds in at.step(count).values())
        print(f"  {count:9}{speedup:10.2f}{speedup / count:11.0%}    {parts}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("measured", type=Path, help="what processes.py --json has printed")
    for recipe, measured in json.loads(parser.parse_args().measured.read_text()).items():
        here, one = fit(measured, EPOCH_TOKENS), measured["1 process"]
        print(f"\n{recipe}: {here}, {one['operations']:,.0f} operations")
        steps_only = replace(here, steps=float("inf"))  # the benchmark neither validates nor saves between steps
        predicted = steps_only.rate(2) / steps_only.rate(1)
        print(f"  2 processes: predicted {predicted:.2f}, measured {measured['2 processes']['ratio']:.2f}")
        for name, hardware in HARDWARE.items():
            if hardware.flops is not None and recipe != GPU_RECIPE:
                continue
            counts = (1, 2, 4, 8) if name == "GPUs of one machine" else (1, 2, 8, 100)
            costs = here.on(hardware, one)
            print_predictions(name, costs, counts, grows=False)
            print_predictions(name, costs, counts, grows=True)
            if hardware.flops is not None:
                large = replace(here, **BASE, steps=1_000).on(hardware, {**one, "operations": 2 * one["operations"]})
                print_predictions(f"{name}, 65 million parameters", large, counts, grows=True)


if __name__ == "__main__":
    main()
