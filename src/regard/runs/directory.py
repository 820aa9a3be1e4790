"""The run directory: all files of one experiment, readable without Regard and without pickle.

- `run.json`: format, versions of Regard and PyTorch, digests of the data that the run was started with
- `config.yaml`: all settings
- `vocabulary.json`: the tokens of both sides in the order of their ids, and the length of the longest source
- `subwords.model`, or `source.model` and `target.model`: the SentencePiece models, if subwords are used
- `model.safetensors`: the best weights so far
- `state.safetensors`: weights, optimizer and progress, to continue from
- `metrics.jsonl`: one line for each validation
- `scores.json`: the scores of the test set, after training on real text
- `examples/`: attention maps of test sentences, after training on real text
- `evaluations/`: outputs and scores of each evaluation by a study (`exams/` in Regard 0.5, which is still read)
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

FORMAT = 3
READABLE_FORMATS = range(1, FORMAT + 1)  # before format 3, config.yaml may list options of unused kinds
MODEL, STATE, METRICS = "model.safetensors", "state.safetensors", "metrics.jsonl"
SCORES, EXAMPLES = "scores.json", "examples"
Value = TypeVar("Value")


def named_weights(model: nn.Module) -> dict[str, Tensor]:
    """The parameters of a model by name; a shared parameter is listed once.

    Args:
        model: The model.
    """
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def copy_weights(weights: Mapping[str, Tensor], model: nn.Module, origin: Path) -> None:
    """Copy weights into a model; a `UserError` if names or shapes differ.

    Args:
        weights: The weights by name.
        model: The model whose parameters are overwritten.
        origin: The file that the weights come from, for the error message.
    """
    own = named_weights(model)
    if {name: weight.shape for name, weight in own.items()} != {name: w.shape for name, w in weights.items()}:
        raise UserError(f"{origin}: these are not the weights of the model that config.yaml describes")
    for name, weight in own.items():
        weight.copy_(weights[name])


class Run:
    """An open run directory: its metadata and settings. Other files are read on demand; a damaged one is a `UserError`.

    Args:
        path: A directory that `create` has made.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.is_dir():
            problem = "this is a file, not a run directory" if path.exists() else "there is no such run directory"
            raise UserError(f"{path}: {problem}; 'regard train' creates one")
        if not (path / "run.json").is_file():
            raise UserError(f"{path}: this is not a run directory: it has no run.json, which 'regard train' writes")
        self.metadata: dict[str, Any] = self._read("run.json", json.loads)
        if not isinstance(self.metadata, dict) or self.metadata.get("format") not in READABLE_FORMATS:
            found = self.metadata.get("format") if isinstance(self.metadata, dict) else self.metadata
            raise UserError(
                f"{path / 'run.json'}: this run has format {found!r}; Regard {__version__} reads formats 1 to {FORMAT}"
            )
        self.experiment = self._read("config.yaml", self._parse_settings)

    @classmethod
    def create(
        cls, path: Path, experiment: Experiment, codec: Codec, digests: Mapping[Split, str] | None = None
    ) -> Run:
        """Create a run directory, completely or not at all.

        Args:
            path: The directory, which must not exist or be empty.
            experiment: The settings.
            codec: The tokenizers and vocabularies.
            digests: A digest of each split.
        """
        vocabulary = {
            "source": codec.source_vocabulary.tokens,
            "target": codec.target_vocabulary.tokens,
            "longest_source": codec.longest_source,
        }
        metadata = {"format": FORMAT, "regard": __version__, "torch": torch.__version__, "texts": dict(digests or {})}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as folder:
                draft = Path(folder) / "run"
                draft.mkdir()
                files.write_atomic(draft / "config.yaml", loading.dump_experiment(experiment).encode())
                files.write_atomic(draft / "vocabulary.json", json.dumps(vocabulary, ensure_ascii=False).encode())
                for name, content in codec.tokenization.files().items():
                    files.write_atomic(draft / name, content)
                files.write_atomic(draft / "run.json", json.dumps(metadata).encode())
                files.rename_folder(draft, path)
        except OSError as error:
            raise UserError(f"{path}: cannot be created: {error.strerror}") from None
        return cls(path)

    def _parse_settings(self, text: str) -> Experiment:
        origin = str(self.path / "config.yaml")
        return loading.parse_experiment(text, origin, ignore_unused=self.metadata["format"] < FORMAT)

    @property
    def data_digests(self) -> dict[str, Any]:
        """A digest of each split when the run was started; empty for runs of versions that did not record it."""
        known = self.metadata.get("texts")
        return known if isinstance(known, dict) else {}

    def codec(self) -> Codec:
        """The tokenizers and vocabularies of the run."""

        def parse(text: str) -> Codec:
            known = json.loads(text)
            source, target = Vocabulary(known["source"]), Vocabulary(known["target"])
            if not tokenization.matches(source, target):
                raise ValueError("the tokens differ from those of the .model files in the same directory")
            return Codec(tokenization, source, target, int(known["longest_source"]))

        tokenization = self.experiment.task.load_tokenization(self._read_bytes)
        return self._read("vocabulary.json", parse)

    def write_tensors(self, name: str, tensors: Mapping[str, Tensor], metadata: Mapping[str, Any]) -> None:
        """Write a safetensors file atomically.

        Args:
            name: The name of the file.
            tensors: Its content.
            metadata: JSON values for the header of the same file.
        """
        header = {"regard": json.dumps(metadata)}
        files.write_atomic(
            self.path / name, save({key: tensor.contiguous() for key, tensor in tensors.items()}, header)
        )

    def read_tensors(self, name: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The tensors of a safetensors file and the metadata in its header.

        Args:
            name: The name of the file.
        """
        path = self.path / name
        if not path.is_file():
            raise UserError(
                f"{path}: does not exist yet; 'regard train' writes it at the first validation, and continues "
                "when run again"
            )
        try:
            with safe_open(path, framework="pt") as file:
                metadata = json.loads(file.metadata()["regard"])
                if not isinstance(metadata, dict):
                    raise ValueError("its header was not written by Regard")
                # A copy: otherwise the file remains mapped into memory, and Windows does not replace a mapped file.
                return {key: file.get_tensor(key).clone() for key in file.keys()}, metadata  # noqa: SIM118
        except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(f"{path}: this file is damaged or was not written by Regard: {error}") from None

    def load_weights(self, model: nn.Module) -> None:
        """Copy the best weights into a model.

        Args:
            model: The model that the run's settings describe.
        """
        weights, _ = self.read_tensors(MODEL)
        copy_weights(weights, model, self.path / MODEL)

    def has_file(self, name: str) -> bool:
        """True if the run directory has this file or folder.

        Args:
            name: Its name.
        """
        return (self.path / name).exists()

    def remove_temporary_files(self) -> None:
        """Remove the temporary files that a killed process has left."""
        for name in (MODEL, STATE, METRICS, SCORES, EXAMPLES):
            for leftover in self.path.glob(f".{name}.*"):
                shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()

    def append_metrics(self, row: Mapping[str, Any]) -> None:
        """Append the results of a validation.

        Args:
            row: JSON values, `step` among them.
        """
        with (self.path / METRICS).open("a", encoding="utf-8", newline="\n") as file:
            file.write(json.dumps(row) + "\n")
            file.flush()
            os.fsync(file.fileno())  # on the disk before the checkpoint that refers to it

    def metrics(self) -> list[dict[str, Any]]:
        """The results of all validations. An incomplete last line, which a crash leaves, is ignored."""
        path = self.path / METRICS
        *lines, _incomplete = path.read_bytes().split(b"\n") if path.is_file() else [b""]
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

    def truncate_metrics(self, step: int) -> None:
        """Remove the validations after a step, because training continues from there.

        Args:
            step: The step of the last checkpoint.
        """
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
