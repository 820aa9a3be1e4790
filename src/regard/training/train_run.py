"""From settings to a finished run directory: data and tokenizer, then the training loop."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import gettempdir

import torch

from regard.config.schema import Experiment
from regard.data import Codec
from regard.devices import Precision, check_precision, select_precision
from regard.errors import UserError
from regard.files import lock_folder, remove_abandoned
from regard.nn.build import build_model
from regard.process_group import SINGLE, ProcessGroup
from regard.runs import SCORES, Run, expected_shapes
from regard.runs.changes import change_settings
from regard.tasks import Pair, Split
from regard.tasks.file_pairs import JoinedPairs
from regard.training.callbacks import Callback, CallbackList
from regard.training.changed_settings import changed_settings
from regard.training.checkpoints import reopen_run
from regard.training.encoded_splits import (
    EncodedSplits,
    ProgressIterator,
    check_sequence_lengths,
    encode_splits,
    open_splits,
)
from regard.training.fine_tuning import Pretrained, unknown_share
from regard.training.group_checks import (
    check_batches,
    check_compiler,
    check_data,
    check_equal,
    open_shared,
    settings_stamp,
    training_device,
)
from regard.training.pretrained_embeddings import PretrainedEmbeddings, check_vector_sizes
from regard.training.trainer import Trainer

LEARNED_FROM: tuple[Split, ...] = ("train", "validation")  # the test split does not influence a training
# Settings that decide whether training is finished.
ENDS = ("training.epochs", "training.max_steps", "training.patience")


@dataclass(frozen=True)
class Start:
    """How a session of training starts.

    Args:
        experiment: The settings.
        path: The run directory.
        run: The run that is in it; None: a new one is created.
        changed: The keys of its settings that change.
        pretrained: The run whose weights a new run starts with.
    """

    experiment: Experiment
    path: Path
    run: Run | None = None
    changed: Sequence[str] = ()
    pretrained: Pretrained | None = None

    @property
    def is_finished(self) -> bool:
        """True if the run is finished, and no changed setting may continue it."""
        return (
            self.run is not None and bool(self.run.progress.finished) and not any(key in ENDS for key in self.changed)
        )

    @property
    def reused(self) -> Run | None:
        """The run whose tokenization and vocabularies a new run takes over; None: it learns its own."""
        reuses = self.run is None and self.pretrained is not None and self.pretrained.reuse_vocabulary
        return self.pretrained.run if self.pretrained is not None and reuses else None


def train_run(
    experiment: Experiment,
    path: Path,
    callback: Callback,
    group: ProcessGroup = SINGLE,
    pretrained: Pretrained | None = None,
) -> Run:
    """Train, or continue a training, in a run directory, to the end or until the callback stops it.

    Args:
        experiment: The settings; to continue a run, those that it was started with, or some that may change.
        path: The run directory. A new one is created after the data has been read and checked.
        callback: Is called during the training.
        group: The processes that train together, each of which calls this function.
        pretrained: The run whose weights a new run starts with.

    Returns:
        The open run directory. Its `progress.finished` is empty if training was stopped.

    Raises:
        UserError: The settings, the data or the run directory are not valid, or another process is training there.
    """
    if path.name in ("", ".."):
        raise UserError(f"{path}: a run directory has a name, such as {path / 'run'} (--out)")
    device = training_device(experiment.training.device, group)
    if group.is_first:
        for leftovers in (path, path / "*"):  # next to the run directory and in it
            remove_abandoned(leftovers)
    run = open_existing(path)
    if run is not None and not run.progress.finished and group.is_first:
        with _locked(path):  # otherwise, its progress would differ between the processes
            pass
    check_equal(group, experiment, path, run, device)
    start = check_start(experiment, path, run, device, pretrained)
    if run is not None and start.is_finished:
        return run
    if "tensorboard" in experiment.training.log and group.is_first:
        from regard.training.tensorboard import TensorBoardLog  # an extra

        callback = CallbackList([callback, TensorBoardLog()])
    with data_of_machine(start, device, callback, group) as (run, encoded):
        Trainer(run, encoded, callback, device, group).run()
        return run


def open_existing(path: Path) -> Run | None:
    """The run in a directory; None if it does not exist or is empty.

    Args:
        path: The directory.
    """
    return None if not path.exists() or (path.is_dir() and not any(path.iterdir())) else Run(path)


def check_start(
    experiment: Experiment, path: Path, run: Run | None, device: torch.device, pretrained: Pretrained | None = None
) -> Start:
    """How training would start in a run directory; nothing is written.

    Args:
        experiment: The settings.
        path: The run directory.
        run: The run that is in it.
        device: The device of the training.
        pretrained: The run whose weights a new run starts with.

    Raises:
        UserError: It cannot start with these settings.
    """
    start = Start(experiment, path, run, _check_continues(run, experiment, pretrained) if run else (), pretrained)
    if start.is_finished:
        return start
    if run is not None:
        if change := experiment.model.attention.changed_training(run.metadata["format"]):
            raise UserError(
                f"{path}: this run was started by an older version of Regard: {change}; start again with another run "
                "directory (--out)"
            )
        check_precision(run.precision, device)
    else:
        if experiment.training.precision != "auto":
            check_precision(experiment.training.precision, device)
        if pretrained is not None:
            pretrained.check_settings(experiment)
        check_vector_sizes(experiment)
    if experiment.training.compile:
        check_compiler(device)
    return start


@contextmanager
def data_of_machine(
    start: Start, device: torch.device, callback: Callback, group: ProcessGroup
) -> Iterator[tuple[Run, EncodedSplits]]:
    """Read and encode the data once per machine, and open the run directory, which the first process creates.

    Args:
        start: How training starts.
        device: The device of this process.
        callback: Is called while the data is read.
        group: The processes.
    """
    path, run = start.path, start.run
    # Several machines share the folder of the run, but each encodes into its own temporary folder.
    scratch = Path(gettempdir()) / path.name if group.has_several_machines else path
    with ExitStack() as stack:
        encoded = None
        if group.is_first:
            run, encoded = stack.enter_context(_create_or_continue(start, scratch, device, callback, group))
        is_shared = group.is_first and group.size > 1
        stamp = group.gather(settings_stamp(path) if is_shared else "")[0]  # the run directory exists
        if run is None or not group.is_first:
            run = open_shared(path, stamp)
        if group.local_rank == 0 and not group.is_first:
            splits = run.experiment.task.dataset.splits()
            learned_from = {split: splits[split] for split in LEARNED_FROM}
            encoded = stack.enter_context(encode_splits(run.codec, learned_from, scratch))
            check_data(run, encoded.digests)
        folders = group.gather(str(encoded.folder) if encoded else None)
        shared = Path(folders[group.first_of_machine])
        with nullcontext(encoded) if encoded else open_splits(run.codec, shared) as opened:
            group.gather(None)  # all processes have opened the data
            yield run, opened
        group.gather(None)  # no process reads the data any more


@contextmanager
def _create_or_continue(
    start: Start, scratch: Path, device: torch.device, callback: Callback, group: ProcessGroup
) -> Iterator[tuple[Run, EncodedSplits]]:
    """Read and encode the data, and create the run directory unless there is one; lock it."""
    experiment, run = start.experiment, start.run
    splits = experiment.task.dataset.splits()
    pairs = {split: ProgressIterator(those, split, callback) for split, those in splits.items()}
    if known := run or start.reused:
        codec = known.load_codec(experiment.task)
    else:
        codec = _learn_codec(experiment, pairs["train"], callback)
    reused_from = start.reused.path if start.reused else None
    with encode_splits(codec, pairs, scratch, reused_from) as encoded:
        train = splits["train"]
        if isinstance(train, JoinedPairs) and train.left_out:
            callback.on_pairs_left_out(train.left_out)
        check_sequence_lengths(experiment, encoded)
        check_batches(group, encoded.splits["train"], experiment.training.batch_tokens)
        if run is None:
            precision = select_precision(experiment.training.precision, device, count_parameters(experiment, codec))
            run = _create_run(start, encoded, precision)
        _check_same_data(run, encoded)
        with _locked(start.path):
            yield _change(run, start), encoded


def _learn_codec(experiment: Experiment, pairs: Iterable[Pair], callback: Callback) -> Codec:
    if experiment.task.learns_tokenization:
        callback.on_tokenizer_training()
    return Codec.build(experiment.task.learn_tokenization(pairs), pairs)


def _create_run(start: Start, encoded: EncodedSplits, precision: Precision) -> Run:
    """The new run directory, with the weights that training starts with if they come from a run or from files."""
    create = partial(Run.create, start.path, start.experiment, encoded.codec, encoded.digests, precision)
    if start.pretrained is None:
        if not start.experiment.model.embedding_files:
            return create()
        embeddings = PretrainedEmbeddings.read(start.experiment, encoded.codec)
        return create(metadata=embeddings.record(), prepare=embeddings.write_weights)
    unknown = {"unknown_tokens": unknown_share(encoded.splits["train"])}
    metadata = {"from": {**start.pretrained.record(), **unknown}}
    return create(metadata=metadata, prepare=start.pretrained.write_weights)


def _change(run: Run, start: Start) -> Run:
    """The run with the settings that have changed. If it was finished, it is not any more."""
    if not start.changed:
        return run
    if run.progress.finished:
        (run.path / SCORES).unlink(missing_ok=True)  # those of the former end
        reopen_run(run)
    return change_settings(run, start.experiment, start.changed)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with lock_folder(path) as acquired:
        if not acquired:
            raise UserError(f"{path}: another process is training here")
        yield


def count_parameters(experiment: Experiment, codec: Codec) -> int:
    """The number of parameters of a model, without allocating them.

    Args:
        experiment: The settings.
        codec: The tokenizers and vocabularies.
    """
    shapes = expected_shapes(partial(build_model, experiment.model, *codec.sizes))
    return sum(math.prod(shape) for shape in shapes.values())


def _check_continues(run: Run, experiment: Experiment, pretrained: Pretrained | None) -> list[str]:
    """The keys of the settings that change; a `UserError` if the run cannot continue with these settings."""
    if "average" in run.metadata:
        raise UserError(
            f"{run.path}: this run is an average of weights, which cannot be trained further; start a new run with "
            f"them (--from {run.path}, and another --out)"
        )
    if pretrained is not None:
        pretrained.check_started(run)
    if changes := run.code_changes():
        remedy = "restore it, or choose another run directory (--out)"
        raise UserError("\n".join(f"{each}; {remedy}" for each in changes))
    return changed_settings(run, experiment)


def _check_same_data(run: Run, encoded: EncodedSplits) -> None:
    """Continuing with other data would be another experiment under the same name."""
    started_with = run.data_digests
    if not started_with:
        raise UserError(
            f"{run.path}: this run was started by an older version of Regard, which did not record its data; "
            "start again with another run directory (--out)"
        )
    if any(started_with.get(split) != encoded.digests[split] for split in LEARNED_FROM):
        raise UserError(
            f"{run.path}: the training data has changed since this run was started; restore it, or choose another run "
            "directory (--out)"
        )
