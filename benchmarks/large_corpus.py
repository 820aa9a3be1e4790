"""Memory and time until the first step of a training on a corpus of millions of pairs, in shards or generated.

Generates two corpora, one a hundred times larger than the other, and starts training on each in processes of their own.
Prints, for each process, the peak memory after each phase, as the module `resource` measures it (Windows lacks it): it
includes pages of files that processes share. The sentences have 8 random words on average, most of which are rare.

    python benchmarks/large_corpus.py [--pairs 10000000] [--processes 2] [--task clauses] [--json]

10 million pairs need 5 GB of disk space in the folder for temporary files, or in that of `--folder`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

EXPERIMENT = """\
description: A small model, and a corpus of any size.
data: {data}
model:
  encoder: {{embedding: 64, size: 64}}
  decoder: {{embedding: 64, size: 64, readout: tied}}
training: {{epochs: 1, batch_tokens: 2000}}
"""
FILES = """\
{{task: files, train: train.*, validation: validation, source: a, target: b, text: {{unit: {unit}, size: 2000}}}}"""
STEPS, SHARDS, CHUNK = 20, 10, 50_000
SYLLABLES = [a + b for a in "bdfgklmnprst" for b in ("a", "e", "i", "o", "u", "an", "er")]


def make_corpus(folder: Path, pairs: int) -> int:
    """Write a corpus whose targets are the reversed sources; return the size of the text in bytes."""
    sentences = random_sentences()
    for shard in range(SHARDS):
        write_pairs(folder / f"train.{shard}", sentences, pairs * (shard + 1) // SHARDS - pairs * shard // SHARDS)
    write_pairs(folder / "validation", sentences, 100)
    return sum(file.stat().st_size for file in folder.glob("train.*"))


def random_sentences() -> Iterator[list[str]]:
    """Endless sentences of random words, with frequencies by Zipf's law."""
    random = np.random.default_rng(1)
    words = ["".join(random.choice(SYLLABLES, size)) for size in random.integers(1, 5, 50_000)]
    spellings = np.array(words, dtype=object)
    frequencies = np.cumsum(1 / (np.arange(len(words)) + 3))
    while True:
        lengths = random.integers(4, 13, CHUNK)
        text = spellings[np.searchsorted(frequencies, random.random(lengths.sum()) * frequencies[-1])].tolist()
        ends = lengths.cumsum().tolist()
        yield from (text[end - length : end] for end, length in zip(ends, lengths.tolist(), strict=True))


def write_pairs(path: Path, sentences: Iterator[list[str]], count: int) -> None:
    with Path(f"{path}.a").open("w") as source, Path(f"{path}.b").open("w") as target:
        for _, sentence in zip(range(count), sentences, strict=False):
            source.write(" ".join(sentence) + "\n")
            target.write(" ".join(reversed(sentence)) + "\n")


def train_briefly(folder: Path) -> None:
    """Train for some steps in this process, or in this one of several; write what was measured to a file."""
    import resource

    import regard
    from regard.data import Batches, Codec, OnDiskExamples
    from regard.text.learned_tokenization import LearnedTokenization

    seconds: dict[str, float] = {}
    memory: dict[str, int] = {}

    def end_phase(phase: str, duration: float) -> None:
        seconds[phase] = round(seconds.get(phase, 0) + duration, 1)
        unit = 1_000_000 if sys.platform == "darwin" else 1_000  # macOS counts bytes
        memory[phase] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // unit

    def measured(phase: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            begin = time.monotonic()
            result = function(*arguments, **options)
            end_phase(phase, time.monotonic() - begin)
            return result

        return call

    class BriefTraining(regard.Callback):
        """Measures until the first step, and stops after some steps."""

        steps = disk = 0

        def on_train_begin(self, trainer: Any) -> None:
            self.disk = sum(file.stat().st_size for file in folder.glob(".run.*/**/*") if file.is_file())

        def on_step_end(self, trainer: Any, loss: Any) -> None:
            self.steps += 1
            if self.steps == 1:
                end_phase("first step", time.monotonic() - start)

        def should_stop(self) -> bool:
            return self.steps >= STEPS

    LearnedTokenization.learn = measured("learning tokens", LearnedTokenization.learn)  # type: ignore[method-assign]
    Codec.build = measured("counting tokens", Codec.build)  # type: ignore[method-assign]
    OnDiskExamples.write = measured("encoding", OnDiskExamples.write)  # type: ignore[method-assign]
    for method in ("__init__", "_shuffle"):
        setattr(Batches, method, measured("batches", getattr(Batches, method)))
    training, start = BriefTraining(), time.monotonic()
    end_phase("imports", 0)
    regard.train(folder / "experiment.yaml", folder / "run", callbacks=[training], progress=False)
    end_phase(f"{STEPS} steps", time.monotonic() - start)
    result = {"disk": training.disk, "seconds": seconds, "megabytes": memory}
    (folder / f"process-{os.environ.get('RANK', 0)}.json").write_text(json.dumps(result))


def measure(pairs: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """Write a corpus, unless a task generates it, and train on it."""
    with TemporaryDirectory(dir=arguments.folder) as name:
        begin = time.monotonic()
        size = 0 if arguments.task else make_corpus(Path(name), pairs)
        generated = time.monotonic() - begin
        data = f"{{task: {arguments.task}, train: {pairs}}}" if arguments.task else FILES.format(unit=arguments.unit)
        (Path(name) / "experiment.yaml").write_text(EXPERIMENT.format(data=data))
        launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={arguments.processes}"]
        command = [sys.executable, *(launcher if arguments.processes > 1 else []), __file__, "--train", name]
        subprocess.run(command, check=True, env={"OMP_NUM_THREADS": "1", **os.environ})
        results = [json.loads(file.read_text()) for file in sorted(Path(name).glob("process-*.json"))]
    return {"pairs": pairs, "text_bytes": size, "generation_seconds": round(generated, 1), "processes": results}


def print_measured(results: Sequence[dict[str, Any]]) -> None:
    for result in results:
        pairs, disk = result["pairs"], result["processes"][0]["disk"]
        text = f"{result['text_bytes'] / 1e6:,.0f} MB of text" if result["text_bytes"] else "generated"
        print(f"\n{pairs:,} pairs, {text}", end=", ")
        print(f"{disk / 1e6:,.0f} MB of token ids on disk ({disk / pairs:.0f} bytes for each pair)")
        for rank, process in enumerate(result["processes"]):
            print(f"process {rank:<16}  seconds  peak memory in MB")
            for phase, seconds in process["seconds"].items():
                print(f"  {phase:<22}  {seconds:>7,.1f}  {process['megabytes'][phase]:>17,}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=10_000_000)
    parser.add_argument("--processes", type=int, default=1, help="that train together")
    parser.add_argument("--task", help="that generates the pairs, such as clauses, in place of shards")
    parser.add_argument("--unit", choices=("characters", "words", "subwords"), default="subwords")
    parser.add_argument("--folder", type=Path, help="where to write the corpus; it is removed afterwards")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--train", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if find_spec("resource") is None:
        parser.error("this benchmark needs the module resource, which Python has on Linux and macOS only")
    if arguments.train:
        return train_briefly(arguments.train)
    results = [measure(pairs, arguments) for pairs in (max(arguments.pairs // 100, 10_000), arguments.pairs)]
    if arguments.json:
        print(json.dumps(results, indent=2))
    else:
        print_measured(results)
    return None


if __name__ == "__main__":
    main()
