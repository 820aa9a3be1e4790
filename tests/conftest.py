"""Shared fixtures: a tiny experiment, a run trained on it, and the command line in this process."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import settings

from pretend_device import CPU, PretendDevice
from regard import cli
from regard.cli import options
from regard.config import loading, plugins
from regard.config.schema import Experiment
from regard.data import Codec
from regard.runs import Run
from regard.tasks import Split
from regard.tasks.clauses import ClausesDataset, ClausesSection
from regard.training.callbacks import Callback
from regard.training.encoded_splits import encode_splits
from regard.training.train_run import train_run
from regard.training.trainer import Trainer

# One thread here and in every process that a test starts: results are then the same, bit by bit.
os.environ["OMP_NUM_THREADS"] = "1"
torch.set_num_threads(1)

settings.register_profile("regard", deadline=None)
settings.load_profile("regard")

TINY = """\
description: Copies a few letters, learned in two seconds.
data: {task: copy, alphabet: abcde, max_length: 5, train: 600, validation: 40, test: 50}
model:
  encoder: {cell: tanh, embedding: 16, size: 16, positions: {kind: sine, width: 8}}
  decoder: {cell: tanh, embedding: 16, size: 32, positions: {kind: sine, width: 8}}
  attention: {kind: dot}
training: {epochs: 15, batch_tokens: 400, rate: {peak: 0.03}, save_every: 1000}
"""
# A few steps of a smaller model: 4 batches per epoch, 12 steps, 3 validations, with dropout and scheduled sampling.
BRIEF = (
    "data.train=120",
    "data.validation=20",
    "training.batch_tokens=300",
    "training.epochs=3",
    "training.teacher_forcing.ratio=0.7",
    "model.encoder.size=8",
    "model.decoder.size=16",
    "model.dropout=0.2",
)


def pytest_xdist_auto_num_workers() -> int:
    """One worker more than cores for `-n auto`: tests often wait for processes, sockets or the browser."""
    return (os.cpu_count() or 1) + 1


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests that need Unix on Windows."""
    if os.name == "nt":
        for item in items:
            if item.get_closest_marker("unix"):
                item.add_marker(pytest.mark.skip(reason="Windows does not have what this test needs"))


class RecordingCallback(Callback):
    """A callback that records its calls, and stops after a number of steps."""

    def __init__(self, stop_after: int | None = None) -> None:
        self.stop_after = stop_after
        self.read: dict[Split, int] = {}
        self.train_begins: list[tuple[int, int]] = []
        self.losses: list[float] = []
        self.rows: list[dict[str, Any]] = []
        self.best: list[bool] = []

    def on_examples_read(self, split: Split, pairs: int) -> None:
        self.read[split] = pairs

    def on_train_begin(self, trainer: Trainer) -> None:
        self.train_begins.append((trainer.progress.step, trainer.steps))

    def on_step_end(self, trainer: Trainer, loss: torch.Tensor) -> None:
        self.losses.append(loss.item())

    def on_validation_end(self, trainer: Trainer, metrics: dict[str, Any], best: bool) -> None:
        self.rows.append(metrics)
        self.best.append(best)

    def should_stop(self) -> bool:
        return self.stop_after is not None and len(self.losses) >= self.stop_after


@pytest.fixture
def forget_plugins() -> Callable[[], None]:
    """Forget what was imported from files, as a new process would."""

    def forget() -> None:
        for file in plugins._sources:
            sys.modules.pop(plugins._module_name(file), None)
        plugins._objects.clear()
        plugins._sources.clear()

    return forget


@pytest.fixture
def fresh_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """No plug-in has been looked up, moved or trusted so far."""
    for name, empty in (("_objects", {}), ("_sources", {}), ("_moved", {}), ("_trusted_runs", [False])):
        monkeypatch.setattr(plugins, name, empty)
    monkeypatch.setattr(sys, "path", list(sys.path))
    plugins.registered_names.cache_clear()
    plugins._distributions.cache_clear()


@pytest.fixture(scope="session")
def new_callback() -> type[RecordingCallback]:
    return RecordingCallback


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with train.de, train.en, validation.de, …: sentences with capitals and full stops."""
    folder = tmp_path_factory.mktemp("corpus")
    for split, pairs in ClausesDataset(ClausesSection(train=400, validation=20, test=30)).splits().items():
        for language, side in (("de", "source"), ("en", "target")):
            texts = [getattr(pair, side).replace(" ,", ",").replace(" .", ".").capitalize() for pair in pairs]
            (folder / f"{split}.{language}").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def dictionary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pronouncing dictionary in the format of the CMU's, of a language that is easy to pronounce."""
    path = tmp_path_factory.mktemp("dictionary") / "easy.dict"
    sounds = {"a": "AA1", "e": "EH0", "k": "K", "s": "S", "t": "T"}
    words = ["".join(letters) for size in (2, 3, 4) for letters in product(sounds, repeat=size)]
    lines = [f"{word} {' '.join(sounds[letter] for letter in word)}" for word in words]
    lines.insert(1, "aa(2) AA0 # said twice")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def new_trainer(tmp_path: Path) -> Iterator[Callable[..., Trainer]]:
    """A trainer before its first step, in a new run directory."""
    with ExitStack() as stack:

        def make(
            experiment: Experiment,
            callback: Callback | None = None,
            *,
            device: torch.device = CPU,
            name: str = "run",
        ) -> Trainer:
            pairs = experiment.task.dataset.splits()
            codec = Codec.build(experiment.task.learn_tokenization(pairs["train"]), pairs["train"])
            encoded = stack.enter_context(encode_splits(codec, pairs, tmp_path / name))
            run = Run.create(tmp_path / name, experiment, codec)
            return Trainer(run, encoded, callback or RecordingCallback(), device)

        yield make


@pytest.fixture
def pretend_device() -> Iterator[PretendDevice]:
    """Within the test, tensors can be on the pretend device."""
    with PretendDevice() as mode:
        yield mode


@pytest.fixture(scope="session")
def tiny_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An experiment file: `regard train` takes two seconds."""
    path = tmp_path_factory.mktemp("experiment") / "tiny.yaml"
    path.write_text(TINY)
    return path


@pytest.fixture(scope="session")
def tiny(tiny_file: Path) -> Callable[..., Experiment]:
    """The tiny experiment, with settings such as `"training.seed=2"` changed."""
    return lambda *overrides: loading.load_experiment(str(tiny_file), overrides)


@pytest.fixture(scope="session")
def brief_settings() -> tuple[str, ...]:
    return BRIEF


@pytest.fixture(scope="session")
def brief(tiny: Callable[..., Experiment]) -> Callable[..., Experiment]:
    """An experiment of 12 steps that learns nothing, with settings changed."""
    return lambda *overrides: tiny(*BRIEF, *overrides)


@pytest.fixture(scope="session")
def trained(tiny: Callable[..., Experiment], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run that copies every string correctly. Not to be modified: damage a copy."""
    path = tmp_path_factory.mktemp("runs") / "trained"
    assert train_run(tiny(), path, RecordingCallback()).progress.finished == "all epochs done"
    return path


@pytest.fixture(scope="session")
def trained_brief(brief: Callable[..., Experiment], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Finished runs of the brief experiment with settings changed, trained once each. Not to be modified."""
    made: dict[tuple[str, ...], Path] = {}

    def make(*overrides: str) -> Path:
        if overrides not in made:
            path = tmp_path_factory.mktemp("runs") / "brief"
            assert train_run(brief(*overrides), path, RecordingCallback()).progress.finished
            made[overrides] = path
        return made[overrides]

    return make


@pytest.fixture(scope="session")
def reads_pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run that has hardly learned to read pictures of three digits. Not to be modified."""
    small = {"data.train": 60, "data.validation": 8, "data.test": 12, "data.max_length": 3, "training.epochs": 2}
    sizes = {"model.encoder.size": 8, "model.encoder.embedding": 8, "model.decoder.size": 16}
    path = tmp_path_factory.mktemp("runs") / "pictures"
    assert train_run(Experiment.load("digits", {**small, **sizes}), path, RecordingCallback()).progress.finished
    return path


@dataclass(frozen=True)
class CommandResult:
    code: int
    out: str
    err: str


@pytest.fixture
def regard(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., CommandResult]:
    """`regard ARGUMENTS < stdin`, within this process: an exception that `main` lets through fails the test."""

    def run(*arguments: object, stdin: bytes = b"") -> CommandResult:
        capsys.readouterr()
        with monkeypatch.context() as patch:
            patch.setattr(sys, "argv", ["regard", *map(str, arguments)])
            patch.setattr(options, "MODEL_OPTIONS", options.ModelOptions())  # as in a new process
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
            try:
                cli.main()
                code: Any = 0
            except SystemExit as end:
                code = end.code or 0
        captured = capsys.readouterr()
        return CommandResult(code, captured.out, captured.err)

    return run


@pytest.fixture
def start_regard() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """`regard ARGUMENTS` as a process of its own, which is killed at the end of the test."""
    processes: list[subprocess.Popen[bytes]] = []

    def start(*arguments: object, **options: Any) -> subprocess.Popen[bytes]:
        command: Sequence[str] = [sys.executable, "-m", "regard", *map(str, arguments)]
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        processes.append(subprocess.Popen(command, **(pipes | options)))
        return processes[-1]

    yield start
    for process in processes:
        if process.poll() is None:
            process.kill()
        with process:
            pass
