"""The run directory: everything about one experiment, readable without Regard, none of it pickle.

- `run.json`: what wrote it, format and version, and digests of the texts it was begun with
- `config.yaml`: all settings, as used
- `vocabulary.json`: the tokens of both sides, in the order of their numbers, and the length of the longest source
- `subwords.model`, or `source.model` and `target.model`: how SentencePiece splits words, where it does
- `model.safetensors`: the best weights so far
- `state.safetensors`: weights, optimizer and progress, to go on from
- `metrics.jsonl`: a line for each validation
- `scores.json`: how it did on the test set, after training on real text
- `examples/`: attention maps of test sentences, after training on real text
- `exams/`: what it said on a test set, and the scores of that, for each way in which a study tested it
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from regard import __version__, files
from regard.config import loading
from regard.config.schema import Experiment
from regard.data import Codec
from regard.errors import UserError
from regard.tasks import Split
from regard.text import Vocabulary

FORMAT = 1
MODEL, STATE, METRICS = "model.safetensors", "state.safetensors", "metrics.jsonl"
SCORES, EXAMPLES = "scores.json", "examples"
Value = TypeVar("Value")


def named_weights(model: nn.Module) -> dict[str, Tensor]:
    """All weights by name; one that serves in two places stands once."""
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def copy_weights(weights: Mapping[str, Tensor], model: nn.Module, origin: Path) -> None:
    own = named_weights(model)
    if {name: weight.shape for name, weight in own.items()} != {name: w.shape for name, w in weights.items()}:
        raise UserError(f"{origin}: these are not the weights of the model that config.yaml describes")
    for name, weight in own.items():
        weight.copy_(weights[name])


class Run:
    """A run directory. What is in it is read when asked for, and refused if it is damaged."""

    def __init__(self, path: Path) -> None:
        """Open what `create` has made."""
        self.path = path
        if not path.is_dir():
            problem = "this is a file, not a run directory" if path.exists() else "there is no such run directory"
            raise UserError(f"{path}: {problem}; 'regard train' makes one")
        if not (path / "run.json").is_file():
            raise UserError(f"{path}: this is not a run directory: it has no run.json, which 'regard train' writes")
        self.about: dict[str, Any] = self._read("run.json", json.loads)
        if not isinstance(self.about, dict) or self.about.get("format") != FORMAT:
            found = self.about.get("format") if isinstance(self.about, dict) else self.about
            raise UserError(
                f"{path / 'run.json'}: this run has format {found!r}; Regard {__version__} reads format {FORMAT}"
            )
        self.experiment = self._read(
            "config.yaml", lambda text: loading.parse_experiment(text, str(path / "config.yaml"))
        )

    @classmethod
    def create(cls, path: Path, experiment: Experiment, codec: Codec, texts: Mapping[Split, str] | None = None) -> Run:
        """A new run directory, there as a whole or not at all. `texts` are digests of what is in the splits."""
        vocabulary = {
            "source": codec.source_vocabulary.tokens,
            "target": codec.target_vocabulary.tokens,
            "longest_source": codec.longest_source,
        }
        about = {"format": FORMAT, "regard": __version__, "torch": torch.__version__, "texts": dict(texts or {})}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as folder:
                draft = Path(folder) / "run"
                draft.mkdir()
                files.write_atomic(draft / "config.yaml", loading.dump_experiment(experiment).encode())
                files.write_atomic(draft / "vocabulary.json", json.dumps(vocabulary, ensure_ascii=False).encode())
                for name, content in codec.tokenization.files().items():
                    files.write_atomic(draft / name, content)
                files.write_atomic(draft / "run.json", json.dumps(about).encode())
                files.rename_folder(draft, path)
        except OSError as error:
            raise UserError(f"{path}: cannot be made: {error.strerror}") from None
        return cls(path)

    @property
    def texts(self) -> dict[str, Any]:
        """A digest of what was in each split when the run was begun; nothing is known of those of older versions."""
        known = self.about.get("texts")
        return known if isinstance(known, dict) else {}

    def codec(self) -> Codec:
        def parse(text: str) -> Codec:
            known = json.loads(text)
            source, target = Vocabulary(known["source"]), Vocabulary(known["target"])
            if not tokenization.matches(source, target):
                raise ValueError("these are not the tokens of the .model files beside it")
            return Codec(tokenization, source, target, int(known["longest_source"]))

        tokenization = self.experiment.task.load_tokenization(self._read_bytes)
        return self._read("vocabulary.json", parse)

    def write_tensors(self, name: str, tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> None:
        """One file, all at once; `about` goes into its header, so that the two cannot part."""
        metadata = {"regard": json.dumps(about)}
        files.write_atomic(
            self.path / name, save({key: tensor.contiguous() for key, tensor in tensors.items()}, metadata)
        )

    def read_tensors(self, name: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
        path = self.path / name
        if not path.is_file():
            raise UserError(
                f"{path}: not there yet; 'regard train' writes it at the first validation, and goes on when run again"
            )
        try:
            with safe_open(path, framework="pt") as file:
                about = json.loads(file.metadata()["regard"])
                if not isinstance(about, dict):
                    raise ValueError("its header is not Regard's")
                return {key: file.get_tensor(key) for key in file.keys()}, about  # noqa: SIM118
        except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(f"{path}: this file is damaged or not Regard's: {error}") from None

    def load_weights(self, model: nn.Module) -> None:
        """Put the best weights into a model."""
        weights, _ = self.read_tensors(MODEL)
        copy_weights(weights, model, self.path / MODEL)

    def has(self, name: str) -> bool:
        return (self.path / name).exists()

    def sweep(self) -> None:
        """Remove what a killed process has left half-written."""
        for name in (MODEL, STATE, METRICS, SCORES, EXAMPLES):
            for leftover in self.path.glob(f".{name}.*"):
                shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()

    def append_metrics(self, row: Mapping[str, Any]) -> None:
        with (self.path / METRICS).open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
            file.flush()
            os.fsync(file.fileno())  # on the disk before the state that knows of it

    def metrics(self) -> list[dict[str, Any]]:
        """All validations; a last line that a crash has cut short does not count."""
        path = self.path / METRICS
        *lines, _cut_short = path.read_bytes().split(b"\n") if path.is_file() else [b""]
        return [self._parse_metrics(line, f"{path}, line {number}") for number, line in enumerate(lines, start=1)]

    @staticmethod
    def _parse_metrics(line: bytes, origin: str) -> dict[str, Any]:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict) or not isinstance(row.get("step"), int):
            raise UserError(f"{origin}: this file is damaged: a line should be a JSON object with a step")
        return row

    def forget_metrics_after(self, step: int) -> None:
        """What lies behind the state that training goes on from will be measured anew."""
        rows = [row for row in self.metrics() if row["step"] <= step]
        files.write_atomic(self.path / METRICS, "".join(json.dumps(row) + "\n" for row in rows).encode())

    def _read(self, name: str, parse: Callable[[str], Value]) -> Value:
        return self._read_bytes(name, lambda content: parse(content.decode()))

    def _read_bytes(self, name: str, parse: Callable[[bytes], Value]) -> Value:
        path = self.path / name
        try:
            return parse(path.read_bytes())
        except FileNotFoundError:
            raise UserError(f"{path}: this file is missing; the run directory is incomplete") from None
        except OSError as error:
            raise UserError(f"{path}: cannot be read: {error.strerror}") from None
        except UserError:
            raise
        except KeyError as error:
            raise UserError(f"{path}: this file is damaged: it lacks {error}") from None
        except (ValueError, TypeError, RecursionError) as error:
            raise UserError(f"{path}: this file is damaged: {error}") from None
