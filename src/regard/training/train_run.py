"""From settings to a finished run directory: data and tokenizer, then the training loop."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from tempfile import gettempdir

import torch

from regard.config.schema import Experiment
from regard.data import Codec
from regard.devices import check_precision, select_precision
from regard.errors import UserError
from regard.files import lock_folder, remove_abandoned
from regard.nn.build import build_model
from regard.process_group import SINGLE, ProcessGroup
from regard.runs import Run, expected_shapes
from regard.tasks import Split
from regard.tasks.file_pairs import JoinedPairs
from regard.training.callbacks import Callback
from regard.training.encoded_splits import (
    EncodedSplits,
    ProgressIterator,
    check_sequence_lengths,
    encode_splits,
    open_splits,
)
from regard.training.group_checks import (
    check_batches,
    check_compiler,
    check_data,
    check_equal,
    open_shared,
    training_device,
)
from regard.training.trainer import Trainer

MAY_CHANGE = ("description", "training.device")  # between two sessions of a training
LEARNED_FROM: tuple[Split, ...] = ("train", "validation")  # the test split does not influence a training


def train_run(experiment: Experiment, path: Path, callback: Callback, group: ProcessGroup = SINGLE) -> Run:
    """Train, or continue a training, in a run directory, to the end or until the callback stops it.

    Args:
        experiment: The settings; to continue a run, those that it was started with.
        path: The run directory. A new one is created after the data has been read and checked.
        callback: Is called during the training.
        group: The processes that train together, each of which calls this function.

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
    run = None if _is_absent_or_empty(path) else Run(path)
    if run is not None and not run.progress.finished and group.is_first:
        with _locked(path):  # otherwise, its progress would differ between the processes
            pass
    check_equal(group, experiment, path, run, device)
    if run is not None:
        _check_same_experiment(run, experiment)
        if run.progress.finished:
            return run
        if change := experiment.model.attention.changed_training(run.metadata["format"]):
            raise UserError(
                f"{path}: this run was started by an older version of Regard: {change}; start again with another run "
                "directory (--out)"
            )
        check_precision(run.precision, device)
    elif experiment.training.precision != "auto":
        check_precision(experiment.training.precision, device)
    if experiment.training.compile:
        check_compiler(device)
    with _data_of_machine(experiment, path, run, device, callback, group) as (run, encoded):
        Trainer(run, encoded, callback, device, group).run()
        return run


@contextmanager
def _data_of_machine(
    experiment: Experiment, path: Path, run: Run | None, device: torch.device, callback: Callback, group: ProcessGroup
) -> Iterator[tuple[Run, EncodedSplits]]:
    """Read and encode the data once per machine, and open the run directory, which the first process creates."""
    # Several machines share the folder of the run, but each encodes into its own temporary folder.
    scratch = Path(gettempdir()) / path.name if group.has_several_machines else path
    with ExitStack() as stack:
        encoded = None
        if group.is_first:
            run, encoded = stack.enter_context(
                _create_or_continue(experiment, path, scratch, run, device, callback, group)
            )
        group.gather(None)  # the run directory exists
        if run is None or not group.is_first:
            run = open_shared(path)
        if group.local_rank == 0 and not group.is_first:
            splits = experiment.task.dataset.splits()
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
    experiment: Experiment,
    path: Path,
    scratch: Path,
    run: Run | None,
    device: torch.device,
    callback: Callback,
    group: ProcessGroup,
) -> Iterator[tuple[Run, EncodedSplits]]:
    """Read and encode the data, and create the run directory unless there is one; lock it."""
    splits = experiment.task.dataset.splits()
    if run is None and experiment.task.learns_tokenization:
        callback.on_tokenizer_training()
    pairs = {split: ProgressIterator(those, split, callback) for split, those in splits.items()}
    if run is None:
        codec = Codec.build(experiment.task.learn_tokenization(pairs["train"]), pairs["train"])
    else:
        codec = run.codec
    with encode_splits(codec, pairs, scratch) as encoded:
        train = splits["train"]
        if isinstance(train, JoinedPairs) and train.left_out:
            callback.on_pairs_left_out(train.left_out)
        check_sequence_lengths(experiment, encoded)
        check_batches(group, encoded.splits["train"], experiment.training.batch_tokens)
        if run is None:
            precision = select_precision(experiment.training.precision, device, count_parameters(experiment, codec))
            run = Run.create(path, experiment, encoded.codec, encoded.digests, precision)
        _check_same_data(run, encoded)
        with _locked(path):
            yield run, encoded


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


def _is_absent_or_empty(path: Path) -> bool:
    return not path.exists() or (path.is_dir() and not any(path.iterdir()))


def _check_same_experiment(run: Run, experiment: Experiment) -> None:
    if changes := run.code_changes():
        remedy = "restore it, or choose another run directory (--out)"
        raise UserError("\n".join(f"{each}; {remedy}" for each in changes))
    former = experiment.of_format(run.metadata["format"])
    changed = {key: values for key, values in run.experiment.diff(former).items() if key not in MAY_CHANGE}
    if changed.get("training.precision", ("", ""))[1] == run.precision:  # what `auto` has selected
        del changed["training.precision"]
    if changed:
        key, (old, new) = next(iter(changed.items()))
        more = f", and {len(changed) - 1} more settings differ" if len(changed) > 1 else ""
        raise UserError(
            f"{run.path}: this run was started with {key} = {old!r}, not {new!r}{more}; "
            "choose another run directory (--out), or the settings that it was started with"
        )


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
