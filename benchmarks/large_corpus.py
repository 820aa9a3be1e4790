"""Measures the memory that training needs on a corpus of millions of pairs.

Generates two corpora, one a hundred times larger than the other, and starts training on each in its own process. Prints
the size of the text and the peak memory of each process. Token ids stay on disk; only the lengths and offsets of the
pairs and the order of an epoch are in memory. The peak memory of a process is measured by the module `resource`, which
Windows does not have.

    python benchmarks/large_corpus.py --pairs 2000000
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from importlib.util import find_spec
from itertools import accumulate
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

EXPERIMENT = """\
description: A small model, and a corpus of any size.
data: {{task: files, train: train, validation: validation, source: a, target: b, text: {{unit: {unit}, size: 1000}}}}
model:
  encoder: {{embedding: 64, size: 64}}
  decoder: {{embedding: 64, size: 64, readout: tied}}
training: {{epochs: 1, batch_tokens: 2000}}
"""
STEPS = 100
SYLLABLES = [a + b for a in "bdfgklmnprst" for b in ("a", "e", "i", "o", "u", "an", "er")]


def make_corpus(folder: Path, pairs: int) -> int:
    """Write sentences of random words, most of which are rare; return the size of the text in bytes."""
    random = Random(1)
    words = ["".join(random.choices(SYLLABLES, k=random.randint(1, 4))) for _ in range(50_000)]
    frequencies = list(accumulate(1 / (rank + 3) for rank in range(len(words))))
    for split, size in (("train", pairs), ("validation", 100)):
        with (folder / f"{split}.a").open("w") as source, (folder / f"{split}.b").open("w") as target:
            for _ in range(size):
                sentence = random.choices(words, cum_weights=frequencies, k=random.randint(4, 20))
                print(*sentence, file=source)
                print(*reversed(sentence), file=target)
    return sum(file.stat().st_size for file in folder.glob("train.*"))


def train_briefly(folder: Path) -> None:
    """Print the seconds until the first step and the peak memory of this process in megabytes."""
    import resource

    import regard

    class BriefTraining(regard.Callback):
        """Prints the seconds until the first step, and stops after some steps."""

        def __init__(self) -> None:
            self.start = time.monotonic()
            self.steps = 0

        def on_train_begin(self, trainer: object) -> None:
            print(f"{time.monotonic() - self.start:.0f}", end=" ")

        def on_step_end(self, trainer: object, loss: float) -> None:
            self.steps += 1

        def should_stop(self) -> bool:
            return self.steps >= STEPS

    regard.train(folder / "experiment.yaml", folder / "run", callbacks=[BriefTraining()], progress=False)
    unit = 1_000_000 if sys.platform == "darwin" else 1_000  # macOS counts bytes
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // unit)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=2_000_000)
    parser.add_argument("--unit", choices=("characters", "words", "subwords"), default="subwords")
    parser.add_argument("--folder", type=Path, help="where to write the corpus; it is removed afterwards")
    parser.add_argument("--train", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if find_spec("resource") is None:
        parser.error("this benchmark needs the module resource, which Python has on Linux and macOS only")
    if arguments.train:
        return train_briefly(arguments.train)
    print("    pairs  text in MB  seconds to first step  peak memory in MB")
    for pairs in (max(arguments.pairs // 100, 1), arguments.pairs):
        with TemporaryDirectory(dir=arguments.folder) as name:
            size = make_corpus(Path(name), pairs)
            (Path(name) / "experiment.yaml").write_text(EXPERIMENT.format(unit=arguments.unit))
            command = [sys.executable, __file__, "--train", name]
            output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
            seconds, memory = output.split()
            print(f"{pairs:>9,}  {size / 1e6:>10,.0f}  {seconds:>21}  {memory:>17}", flush=True)
    return None


if __name__ == "__main__":
    main()
