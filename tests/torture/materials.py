"""What the inputs of the attacks are made from: valid runs, a study and texts, made once for each campaign.

`letters` is a finished run on characters, `stopped` the same in the middle, `subwords` a finished run on text files
with a SentencePiece model, scores and examples; `study` is the folder of a study with its `runs`.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

LETTERS = """\
description: Copies a few letters.
data: {task: copy, alphabet: abcde, max_length: 5, train: 60, validation: 10, test: 12}
model:
  encoder: {cell: gru, embedding: 6, size: 5, positions: {kind: sine, width: 4}}
  decoder: {cell: gru, embedding: 6, size: 10, positions: {kind: sine, width: 4}}
  attention: {kind: bilinear}
  dropout: 0.1
training: {epochs: 4, batch_tokens: 160, rate: {peak: 0.03}, save_every: 0, validate_every: 3}
"""
SUBWORDS = """\
data:
  task: files
  source: de
  target: en
  train: corpus/train
  validation: corpus/validation
  test: corpus/test
  text: {unit: subwords, joint: true, size: 90}
model:
  encoder: {cell: gru, embedding: 6, size: 4}
  decoder: {cell: gru, embedding: 6, size: 8}
  attention: {kind: multi-head, heads: 2}
decoding: {length_factor: 0.2, length_extra: 5}
training: {epochs: 1, batch_tokens: 400, rate: {peak: 0.03}, save_every: 1000}
"""
STUDY = """\
question: Does attention help?
experiment: letters.yaml
set: {training.epochs: 2}
vary: {model.attention.kind: [none, dot]}
test: {beam: [1, 2]}
seeds: 2
baseline: {model.attention.kind: none}
metrics: [exact_match, validation_loss]
expect:
  - {order: [none, dot], reason: It should.}
"""
CORPUS = Path(__file__).parents[1] / "fixtures" / "runs-0.5.0" / "corpus"
TEXT = "abcde"
STOPPED_AFTER = 7  # steps


@cache
def prepare() -> Path:
    """The folder of the materials, made in a process of its own; it is removed when this one ends."""
    folder = Path(tempfile.mkdtemp(prefix="regard-torture-materials-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, [Path(__file__).parents[1], *sys.path]))}
    command = [sys.executable, "-m", "torture.materials", str(folder)]
    done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"the materials could not be made:\n{done.stderr}")
    return folder


def make(folder: Path) -> None:
    """Make the materials in an empty folder."""
    from regard.cli import main

    def regard(*arguments: object) -> None:
        sys.argv = ["regard", *map(str, arguments)]
        try:
            main()
        except SystemExit as end:
            if end.code:
                raise

    os.chdir(folder)
    shutil.copytree(CORPUS, "corpus")
    for name, text in (("letters", LETTERS), ("subwords", SUBWORDS), ("study", STUDY)):
        Path(f"{name}.yaml").write_text(text)
    regard("train", "letters.yaml", "--out", "letters")
    regard("train", "subwords.yaml", "--out", "subwords")
    regard("compare", "--config", "study.yaml", "--out", "study", "--jobs", "2")
    _train_partly()
    for metrics in sorted(folder.rglob("metrics.jsonl")):
        _remove_times(metrics.parent)


def _train_partly() -> None:
    from regard.config import loading
    from regard.training.callbacks import Callback
    from regard.training.train_run import train_run

    class Stop(Callback):
        """Stops after some steps."""

        def __init__(self) -> None:
            self.steps = 0

        def on_step_end(self, *_: object) -> None:
            self.steps += 1

        def should_stop(self) -> bool:
            return self.steps == STOPPED_AFTER

    train_run(loading.load_experiment("letters.yaml", []), Path("stopped"), Stop())


def _remove_times(run: Path) -> None:
    """Replace measured seconds, so that the same seed gives the same inputs."""
    metrics, state = run / "metrics.jsonl", run / "state.safetensors"
    rows = [json.loads(line) | {"seconds": 1.0} for line in metrics.read_text().splitlines()]
    metrics.write_text("".join(json.dumps(row) + "\n" for row in rows))
    header, data = split_tensors(state.read_bytes())
    progress = json.loads(header["__metadata__"]["regard"]) | {"seconds": 1.0}
    header["__metadata__"]["regard"] = json.dumps(progress)
    state.write_bytes(join_tensors(json.dumps(header), data))


def split_tensors(content: bytes) -> tuple[dict[str, Any], bytes]:
    """The header and the data of a safetensors file."""
    length = int.from_bytes(content[:8], "little")
    return json.loads(content[8 : 8 + length]), content[8 + length :]


def join_tensors(header: str, data: bytes) -> bytes:
    """A safetensors file; the header is padded as the format demands."""
    encoded = header.encode()
    encoded += b" " * (-len(encoded) % 8)
    return len(encoded).to_bytes(8, "little") + encoded + data


if __name__ == "__main__":
    make(Path(sys.argv[1]))
