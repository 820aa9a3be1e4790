"""The run directory: all files of one experiment, readable without Regard and without pickle.

- `run.json`: format, versions of Regard and PyTorch, the precision of the training, digests of the data that the run
  was started with, and which code outside Regard it uses: import path, version and a digest of the source file; and
  where the weights came from, or what was changed when training continued (see `changes`)
- `config.yaml`: all settings
- `vocabulary.json`: the tokens of both sides in the order of their ids, and the length of the longest source
- `subwords.model`, or `source.model` and `target.model`: the SentencePiece models, if subwords are used
- `model.safetensors`: the best weights so far
- `state.safetensors`: weights, optimizer and progress, to continue from
- `checkpoints/`: the weights of the latest validations, if they are kept
- `metrics.jsonl`: one line for each validation
- `tensorboard/`: event files, if they are asked for
- `scores.json`: the scores of the test set, after training on real text
- `examples/`: attention maps of test sentences, after training on real text
- `evaluations/`: outputs and scores of each evaluation by a study (`exams/` in Regard 0.5, which is still read)
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import torch
from markupsafe import Markup
from torch import Tensor

from regard import __version__, files
from regard.config import loading, plugins, yaml_source
from regard.config.families import plugin_names
from regard.config.schema import Experiment
from regard.config.yaml_source import YamlLeaf
from regard.data import Codec
from regard.devices import DTYPES, Precision
from regard.errors import UserError
from regard.runs.changes import initial_settings
from regard.runs.progress import TrainingProgress, parse_progress
from regard.runs.weights import DIGEST, TensorFile, write_tensors
from regard.tasks import Split, Task
from regard.text import Vocabulary

# Before format 3, config.yaml may list options of unused kinds; before format 4, attention had no temperature; before
# format 5, `normalizer: hard` was `hard: true`; before format 6, progress had neither a best score nor consistency.
FORMAT = 6
READABLE_FORMATS = range(1, FORMAT + 1)
MODEL, STATE, METRICS = "model.safetensors", "state.safetensors", "metrics.jsonl"
SCORES, EXAMPLES, CHECKPOINTS = "scores.json", "examples", "checkpoints"
# Settings that may change without making the weights those of another run, besides those that name files.
NOT_IN_DIGEST = (
    "description",
    "decoding",
    "training.threads",
    "training.save_every",
    "training.device",
    "training.log",
)
REFUSED = "loading this run executes it. If you trust it, use --trust-code, or trust_code=True in Python"
Value = TypeVar("Value")


class Run:
    """An open run directory: its metadata and settings. Other files are read on demand; a damaged one is a `UserError`.

    Args:
        path: A directory that `create` has made.
        trust_code: Whether the run may execute code outside Regard, if its settings name some (plug-ins). Nothing else
            in a run directory is ever executed.

    Attributes:
        path: The directory.
        metadata: The content of `run.json`.
        settings: The settings as they are in `config.yaml`.
        experiment: The settings, validated.
    """

    def __init__(self, path: str | os.PathLike[str], *, trust_code: bool = False) -> None:
        self.path = path = Path(path)
        self.metadata = read_metadata(path)
        self.settings: list[YamlLeaf] = self._read("config.yaml", self._parse_settings, yaml_source.MAX_BYTES)
        trusted = trust_code or plugins.runs_are_trusted()
        moved = self._moved_code()
        if trusted:
            plugins.accept_moved_files(moved)
        places = "".join(f"; {name} is now {place}" for name, place in moved.items())
        with plugins.refuse_code("" if trusted else REFUSED + places):
            experiment = loading.build_experiment(
                rename_settings(self.settings, self.metadata["format"]),
                str(path / "config.yaml"),
                ignore_unused=self.metadata["format"] < 3,
            )
        self.experiment = experiment.of_format(self.metadata["format"])

    @classmethod
    def create(
        cls,
        path: Path,
        experiment: Experiment,
        codec: Codec,
        digests: Mapping[Split, str] | None = None,
        precision: Precision = "float32",
        *,
        metadata: Mapping[str, Any] | None = None,
        prepare: Callable[[Run], None] | None = None,
    ) -> Run:
        """Create a run directory, completely or not at all.

        Args:
            path: The directory, which must not exist or be empty.
            experiment: The settings.
            codec: The tokenizers and vocabularies.
            digests: A digest of each split.
            precision: The precision of the training.
            metadata: What `run.json` records besides.
            prepare: Is called with the draft of the directory, to write weights into it.
        """
        vocabulary = {
            "source": codec.source_vocabulary.tokens,
            "target": codec.target_vocabulary.tokens,
            "longest_source": codec.longest_source,
        }
        versions = {"format": FORMAT, "regard": __version__, "torch": torch.__version__}
        about = {**versions, "precision": precision, "texts": dict(digests or {}), **(metadata or {})}
        if code := {name: plugins.describe_code(name, path) for name in plugin_names(experiment)}:
            about["code"] = code
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with files.scratch_folder(path) as folder:
                draft = folder / files.NEW
                draft.mkdir()
                files.write_atomic(draft / "config.yaml", loading.dump_experiment(experiment).encode())
                files.write_atomic(draft / "vocabulary.json", json.dumps(vocabulary, ensure_ascii=False).encode())
                for name, content in codec.tokenization.files().items():
                    files.write_atomic(draft / name, content)
                files.write_atomic(draft / "run.json", json.dumps(about).encode())
                if prepare is not None:
                    prepare(cls(draft))
                files.rename_folder(draft, path)
        except OSError as error:
            if path.is_dir() and any(path.iterdir()):
                raise UserError(
                    f"{path}: another process has just started a run here; choose another run directory (--out)"
                ) from None
            raise UserError(f"{path}: cannot be created: {error.strerror}") from None
        return cls(path)

    def _parse_settings(self, text: str) -> list[YamlLeaf]:
        return list(loading.parse_settings(text, str(self.path / "config.yaml")))

    @property
    def data_digests(self) -> dict[Split, Any]:
        """A digest of each split when the run was started; empty for runs of versions that did not record it."""
        known = self.metadata.get("texts")
        return known if isinstance(known, dict) else {}

    @property
    def precision(self) -> Precision:
        """The precision of the training: that of the settings or, for `auto`, what it was when the run was created."""
        precision = self.metadata.get("precision", "float32")
        if precision not in DTYPES:
            raise UserError(f"{self.path / 'run.json'}: {precision!r} is not a precision; choose {', '.join(DTYPES)}")
        return precision

    @property
    def code(self) -> dict[str, dict[str, Any]]:
        """What was recorded about each plug-in when the run was created."""
        known = self.metadata.get("code")
        return {name: each for name, each in known.items() if isinstance(each, dict)} if isinstance(known, dict) else {}

    def code_changes(self) -> list[str]:
        """A sentence for each plug-in whose source is not the one that the run was trained with."""
        changes = []
        for name in plugin_names(self.experiment):
            then, now = self.code.get(name, {}), plugins.describe_code(name, self.path)
            if then.get("sha256") != now.get("sha256"):
                versions = {each["version"]: None for each in (then, now) if isinstance(each.get("version"), str)}
                detail = f" ({' → '.join(versions)})" if len(versions) > 1 else ""
                changes.append(f"{self.path}: the code of {name} has changed since this run was started{detail}")
        return changes

    def _moved_code(self) -> dict[str, str]:
        """The new place of each plug-in whose file has moved together with the run directory."""
        recorded = {name: each["relative_path"] for name, each in self.code.items() if "relative_path" in each}
        paths = {name: path for name, path in recorded.items() if isinstance(path, str) and "\0" not in path}
        found = {name: plugins.find_moved_file(name, path, self.path) for name, path in paths.items()}
        return {name: place for name, place in found.items() if place}

    @property
    def progress(self) -> TrainingProgress:
        """How far training has come by the last checkpoint; step 0 if there is none."""
        self._check_exists()
        if not self.has_file(STATE):
            return TrainingProgress()
        with self.open_tensors(STATE) as state:
            return parse_progress(state, self.metadata["format"])

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"

    def _repr_html_(self) -> str:
        """In a notebook: a table with the progress of the training."""
        progress = self.progress
        unfinished = "an average of weights" if "average" in self.metadata else "not finished"
        rows = {"run": self.path, "steps": f"{progress.step:,}", "training": progress.finished or unfinished}
        if progress.best_score is not None:
            name = f"best validation {self.experiment.training.best.replace('_', ' ')}"
            rows[name] = f"{progress.best_score:.4f}, after step {progress.best_step:,}"
        cells = (Markup("<tr><th>{}</th><td>{}</td></tr>").format(*row) for row in rows.items())
        return Markup("<table>{}</table>").format(Markup().join(cells))

    @cached_property
    def codec(self) -> Codec:
        """The tokenizers and vocabularies of the run."""
        return self.load_codec(self.experiment.task)

    def load_codec(self, task: Task[Any]) -> Codec:
        """The tokenizers and vocabularies of the run, for a task whose tokenization is the same.

        Args:
            task: The task.
        """

        def parse(text: str) -> Codec:
            known = json.loads(text)
            source, target = Vocabulary(known["source"]), Vocabulary(known["target"])
            if not tokenization.matches(source, target):
                raise ValueError("the tokens differ from those of the .model files in the same directory")
            return Codec(tokenization, source, target, int(known["longest_source"]))

        tokenization = task.load_tokenization(self._read_bytes)
        return self._read("vocabulary.json", parse)

    @cached_property
    def digest(self) -> str:
        """A digest of the settings at the start and the vocabularies, which the weights of this run carry.

        It is computed from what is in the files, not from `experiment`, which may get new settings in later versions.
        """
        paths = {".".join(key) for key in self.experiment.path_keys}
        settings = {".".join(leaf.path): repr(leaf.value) for leaf in self.settings}
        settings = initial_settings(settings, self.metadata, self.path)
        excluded = tuple(f"{key}." for key in (*NOT_IN_DIGEST, *paths))
        own = {key: value for key, value in settings.items() if not f"{key}.".startswith(excluded)}
        vocabularies = [self.codec.source_vocabulary.tokens, self.codec.target_vocabulary.tokens]
        return hashlib.sha256(json.dumps([own, vocabularies], sort_keys=True).encode()).hexdigest()

    def write_tensors(self, name: str, tensors: Mapping[str, Tensor], metadata: Mapping[str, Any]) -> None:
        """Write a safetensors file atomically.

        Args:
            name: The name of the file.
            tensors: Its content.
            metadata: JSON values for the header of the same file.
        """
        write_tensors(self.path / name, tensors, {**metadata, DIGEST: self.digest})

    @contextmanager
    def open_tensors(self, name: str) -> Iterator[TensorFile]:
        """Open a safetensors file of this run.

        Args:
            name: The name of the file.

        Raises:
            UserError: It is missing or damaged, or belongs to another run.
        """
        path = self.path / name
        with ExitStack() as stack:
            try:
                file = stack.enter_context(TensorFile.open(path))
            except FileNotFoundError:
                raise UserError(
                    f"{path}: does not exist yet; 'regard train' writes it at the first validation, and continues "
                    "when run again"
                ) from None
            if file.metadata.pop(DIGEST, self.digest) != self.digest:  # Regard 0.5 wrote none
                raise UserError(
                    f"{path}: these weights belong to a run with other settings or another vocabulary than this "
                    "directory's config.yaml and vocabulary.json; restore the files that belong together"
                )
            yield file

    def has_file(self, name: str) -> bool:
        """True if the run directory has this file or folder.

        Args:
            name: Its name.
        """
        return (self.path / name).exists()

    def remove_temporary_files(self) -> list[Path]:
        """Remove the temporary files that killed processes have left, and return their paths."""
        return remove_temporary_files(self.path)

    def append_metrics(self, row: Mapping[str, Any]) -> None:
        """Append the results of a validation. They are on the disk before the checkpoint that refers to them.

        Args:
            row: JSON values, `step` among them.
        """
        files.append(self.path / METRICS, json.dumps(row).encode() + b"\n")

    def metrics(self) -> list[dict[str, Any]]:
        """The results of all validations. An incomplete last line, which a crash leaves, is ignored."""
        path = self.path / METRICS
        self._check_exists()

        def parse(content: bytes) -> list[dict[str, Any]]:
            *lines, _incomplete = content.split(b"\n")
            rows = []
            for number, line in enumerate(lines, start=1):
                with files.damage_as_user_error(f"{path}, line {number}"):
                    rows.append(_parse_metrics(line))
            return rows

        try:
            return files.read_file(path, parse)
        except FileNotFoundError:
            return []

    def truncate_metrics(self, step: int) -> None:
        """Remove the validations after a step, because training continues from there.

        Args:
            step: The step of the last checkpoint.
        """
        rows = [row for row in self.metrics() if row["step"] <= step]
        files.write_atomic(self.path / METRICS, "".join(json.dumps(row) + "\n" for row in rows).encode())

    def _check_exists(self) -> None:
        if not self.path.is_dir():
            raise UserError(f"{self.path}: this run directory is gone, or the working directory is another one now")

    def _read(self, name: str, parse: Callable[[str], Value], max_bytes: int = files.MAX_BYTES) -> Value:
        return self._read_bytes(name, lambda content: parse(content.decode()), max_bytes)

    def _read_bytes(self, name: str, parse: Callable[[bytes], Value], max_bytes: int = files.MAX_BYTES) -> Value:
        try:
            return files.read_file(self.path / name, parse, max_bytes)
        except FileNotFoundError:
            raise UserError(f"{self.path / name}: this file is missing; the run directory is incomplete") from None


def rename_settings(settings: Iterable[YamlLeaf], format: int) -> Iterator[YamlLeaf]:
    """The settings of a run directory under their present names.

    Args:
        settings: The settings as they are in config.yaml.
        format: The format of the run directory.
    """
    section = ("model", "attention")
    for leaf in settings:
        if format >= 5 or leaf.path != (*section, "hard") or not isinstance(leaf.value, bool):
            yield leaf
        elif leaf.value:
            yield replace(leaf, path=(*section, "normalizer"), value="hard")


def read_metadata(path: Path) -> dict[str, Any]:
    """The content of `run.json`.

    Args:
        path: A run directory.

    Raises:
        UserError: If it is not a run directory that this version can read.
    """
    if not path.is_dir():
        problem = "this is a file, not a run directory" if path.exists() else "there is no such run directory"
        raise UserError(f"{path}: {problem}; 'regard train' creates one")
    file = path / "run.json"
    if not file.is_file():
        raise UserError(f"{path}: this is not a run directory: it has no run.json, which 'regard train' writes")
    metadata = files.read_file(file, json.loads)
    if not isinstance(metadata, dict) or metadata.get("format") not in READABLE_FORMATS:
        found = metadata.get("format") if isinstance(metadata, dict) else metadata
        raise UserError(f"{file}: this run has format {found!r}; Regard {__version__} reads formats 1 to {FORMAT}")
    return metadata


def remove_temporary_files(path: Path) -> list[Path]:
    """Remove the temporary files that killed processes have left in a run directory, and return their paths.

    Args:
        path: The run directory.
    """
    removed = files.remove_abandoned(path / "*") + files.remove_abandoned(path / CHECKPOINTS / "*")
    for name in (MODEL, STATE, METRICS, SCORES, EXAMPLES):
        for leftover in path.glob(f".{name}.*"):  # Regard 0.5 did not lock them
            files.remove_entry(leftover)
            removed.append(leftover)
    return removed


def _parse_metrics(line: bytes) -> dict[str, Any]:
    row = json.loads(line)
    if not isinstance(row, dict) or not isinstance(row.get("step"), int):
        raise ValueError("a line should be a JSON object with a step")
    for name, value in row.items():
        if not isinstance(value, int | float):
            raise ValueError(f"its {name} is not a number")
        float(value)  # an OverflowError if it has hundreds of digits, which no figure could show
    return row
