"""The training loop: from an experiment to a finished run directory, with any number of interrupts.

A step depends on the seed and the step number alone, so a run that was stopped continues to bit-identical results.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from random import Random

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_

from regard.config.schema import Experiment
from regard.data import Batch, Batches, Codec, Example, collate
from regard.errors import UserError
from regard.evaluation.losses import compute_losses
from regard.files import lock_folder, remove_abandoned
from regard.nn.build import initial_model
from regard.runs import MODEL, Run, named_weights
from regard.seeding import seed_for
from regard.training.callbacks import Callback
from regard.training.checkpoints import load_state, save_state
from regard.training.encoded_splits import EncodedSplits, ProgressIterator, check_sequence_lengths, encode_splits
from regard.training.learning_rates import build_learning_rate
from regard.training.optimizer import build_optimizer
from regard.training.teacher_forcing import build_teacher_forcing


def train_run(experiment: Experiment, path: Path, callback: Callback) -> Run:
    """Train, or continue a training, in a run directory, to the end or until the callback stops it.

    Args:
        experiment: The settings; to continue a run, those that it was started with.
        path: The run directory. A new one is created after the data has been read and checked.
        callback: Is called during the training.

    Returns:
        The open run directory. Its `progress.finished` is empty if training was stopped.

    Raises:
        UserError: The settings, the data or the run directory are not valid, or another process is training there.
    """
    for leftovers in (path, path / "*"):  # next to the run directory and in it
        remove_abandoned(leftovers)
    run = None if _is_absent_or_empty(path) else Run(path)
    if run is not None:
        _check_same_experiment(run, experiment)
        if run.progress.finished:
            return run
        if change := experiment.model.attention.changed_training(run.metadata["format"]):
            raise UserError(
                f"{path}: this run was started by an older version of Regard: {change}; start again with another run "
                "directory (--out)"
            )
    splits = experiment.task.dataset.splits()
    if run is None and experiment.task.learns_tokenization:
        callback.on_tokenizer_training()
    pairs = {split: ProgressIterator(those, split, callback) for split, those in splits.items()}
    if run is None:
        codec = Codec.build(experiment.task.learn_tokenization(pairs["train"]), pairs["train"])
    else:
        codec = run.codec
    with encode_splits(codec, pairs, path) as encoded:
        check_sequence_lengths(experiment, encoded)
        if run is None:
            run = Run.create(path, experiment, codec, encoded.digests)
        _check_same_data(run, encoded)
        with lock_folder(path) as acquired:
            if not acquired:
                raise UserError(f"{path}: another process is training here")
            Trainer(run, encoded, callback).run()
            return run


def _is_absent_or_empty(path: Path) -> bool:
    return not path.exists() or (path.is_dir() and not any(path.iterdir()))


def _check_same_experiment(run: Run, experiment: Experiment) -> None:
    if changes := run.code_changes():
        remedy = "restore it, or choose another run directory (--out)"
        raise UserError("\n".join(f"{each}; {remedy}" for each in changes))
    former = experiment.of_format(run.metadata["format"])
    changed = {key: values for key, values in run.experiment.diff(former).items() if key != "description"}
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
    if any(started_with.get(split) != encoded.digests[split] for split in ("train", "validation")):
        raise UserError(
            f"{run.path}: the training data has changed since this run was started; restore it, or choose another run "
            "directory (--out)"
        )


class Trainer:
    """The training loop of one run: model, optimizer and batches.

    Args:
        run: The run directory. If it holds a checkpoint, training continues from that.
        encoded: The data.
        callback: Is called during the training.

    Attributes:
        model: The model.
        optimizer: Its optimizer.
        progress: How far training has come.
        steps: The number of steps in all, including those of earlier sessions.
        settings: The section `training` of the experiment.
        run_directory: The run directory.
    """

    def __init__(self, run: Run, encoded: EncodedSplits, callback: Callback) -> None:
        self.device = torch.device("cpu")  # of the model and of every batch
        self.run_directory = run
        self.callback = callback
        self.settings = settings = run.experiment.training
        self.codec = codec = encoded.codec
        torch.set_num_threads(settings.threads)
        self.model = initial_model(run.experiment, *codec.sizes).to(self.device)
        self.optimizer = build_optimizer(self.model.parameters(), settings.optimizer, settings.rate.peak)
        self.learning_rate = build_learning_rate(settings.rate)
        self.teacher_forcing = build_teacher_forcing(settings.teacher_forcing)

        def batches(examples: Sequence[Example]) -> Batches:
            return Batches(examples, batch_tokens=settings.batch_tokens, seed=settings.seed)

        self.batches = batches(encoded.splits["train"])
        self.validation = batches(encoded.splits["validation"])
        self.steps = settings.epochs * self.batches.per_epoch
        self.validate_every = settings.validate_every or self.batches.per_epoch
        self.progress = load_state(run, self.model, self.optimizer)

    def run(self) -> None:
        """Train to the end or until the callback stops the training, and save a checkpoint in both cases."""
        if self.progress.finished:
            return
        self.run_directory.remove_temporary_files()
        self.run_directory.truncate_metrics(self.progress.step)
        try:
            self.callback.on_train_begin(self)
            self.run_steps()
        finally:
            self.callback.on_train_end(self)

    def run_steps(self) -> None:
        """The loop: steps, validations and checkpoints."""
        progress, saved_at = self.progress, time.monotonic()
        stop = False
        while not (progress.finished or stop):
            self.step()
            validated = progress.step % self.validate_every == 0 or progress.step == self.steps
            if validated:
                self.validate()
            stop = self.callback.should_stop()
            if validated or stop or time.monotonic() - saved_at >= self.settings.save_every:
                self.save()
                saved_at = time.monotonic()

    def step(self) -> None:
        """One batch: forward, backward, update."""
        progress, started_at = self.progress, time.monotonic()
        torch.manual_seed(seed_for(self.settings.seed, "step", progress.step))  # for dropout and scheduled sampling
        batch = collate(self.resample_tokens(self.batches.rows(progress.step))).to(self.device)
        teacher_forced = self.teacher_forcing_mask(batch.inputs)
        rate = self.learning_rate(progress.step, self.steps, progress.validation_losses)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.model.train()
        references = batch.outputs[batch.valid]
        logits = self.model(batch.source, batch.source_valid, batch.inputs, batch.valid, teacher_forced)
        loss = cross_entropy(logits, references, label_smoothing=self.settings.label_smoothing)
        self.optimizer.zero_grad()
        loss.backward()
        norm = clip_grad_norm_(self.model.parameters(), self.settings.clip)
        self.check_finite(loss.item(), "loss")
        self.check_finite(norm.item(), "norm of the gradient")
        self.optimizer.step()
        progress.step += 1
        progress.loss_sum += loss.item() * len(references)
        progress.tokens += len(references)
        progress.seconds += time.monotonic() - started_at
        self.callback.on_step_end(self, loss.item())

    def resample_tokens(self, examples: list[Example]) -> list[Example]:
        """The same texts with newly sampled subwords, if subword regularization is on."""
        if not self.codec.tokenization.can_resample:
            return examples
        random = Random(seed_for(self.settings.seed, "tokens", self.progress.step))
        resampled = [self.codec.resample(example, random) for example in examples]
        return [new if self.has_positions_for(new) else old for new, old in zip(resampled, examples, strict=True)]

    def has_positions_for(self, example: Example) -> bool:
        """True if the model has enough positions: a resampled text may have more tokens than the original."""
        source_limit, target_limit = self.model.encoder.max_length, self.model.decoder.max_length
        return (source_limit is None or len(example.source) <= source_limit) and (
            target_limit is None or len(example.target) - 1 <= target_limit
        )

    def teacher_forcing_mask(self, inputs: Tensor) -> Tensor | None:
        """For each input token: True if the decoder reads the reference, False if it reads its own output.

        Args:
            inputs: [batch, steps].

        Returns:
            [batch, steps]; None: the reference everywhere.
        """
        ratio = self.teacher_forcing(self.progress.step // self.batches.per_epoch)
        return None if ratio == 1 else torch.rand(inputs.shape, device=inputs.device) < ratio

    def check_finite(self, value: float, name: str) -> None:
        """Raise a `UserError` if a value that should be finite is not."""
        if not math.isfinite(value):
            raise UserError(
                f"{self.run_directory.path}: training diverged after step {self.progress.step}: the {name} is "
                f"{value}. The last checkpoint is intact. Try a lower training.rate.peak (now "
                f"{self.settings.rate.peak:g}), a lower training.clip or a longer training.rate.warmup, with another "
                "run directory (--out)"
            )

    def save(self) -> None:
        """Write a checkpoint."""
        total = sum(weight.detach().sum().item() for weight in self.model.parameters())
        self.check_finite(total, "sum of the parameters")  # which is not finite if one of them is not
        save_state(self.run_directory, self.model, self.optimizer, self.progress)
        self.callback.on_checkpoint(self)

    def validate(self) -> None:
        """Compute the validation metrics, save the weights if they are the best so far, decide whether to stop.

        All files are written before the checkpoint that refers to them. After a crash in between, the same values are
        computed again.
        """
        progress, started_at = self.progress, time.monotonic()
        forced = compute_losses(self.model, self.validation_batches(), teacher=True)
        free = compute_losses(self.model, self.validation_batches(), teacher=False)
        self.check_finite(forced.loss + free.loss, "validation loss")
        best = forced.loss < progress.best_loss
        progress.validation_losses.append(forced.loss)
        progress.seconds += time.monotonic() - started_at
        row = {
            "step": progress.step,
            "epoch": progress.step / self.batches.per_epoch,
            "train_loss": progress.loss_sum / progress.tokens,
            **{f"validation_{name}": value for name, value in asdict(forced).items()},
            **{f"free_running_{name}": value for name, value in asdict(free).items()},
            "rate": self.learning_rate(progress.step - 1, self.steps, progress.validation_losses[:-1]),
            "teacher_forcing": self.teacher_forcing((progress.step - 1) // self.batches.per_epoch),
            "seconds": round(progress.seconds, 3),
        }
        progress.loss_sum, progress.tokens = 0.0, 0
        if best:
            progress.best_step = progress.step
            self.run_directory.write_tensors(MODEL, named_weights(self.model), {"step": progress.step})
        self.run_directory.append_metrics(row)
        progress.finished = self.stop_reason()
        self.callback.on_validation_end(self, row, best)

    def validation_batches(self) -> Iterator[Batch]:
        """The batches of the validation split."""
        return (batch.to(self.device) for batch in self.validation.once())

    def stop_reason(self) -> str:
        """Why training is over; empty if it is not."""
        patience = self.settings.patience
        if patience is not None and self.progress.validations_since_best >= patience:
            return f"no better loss in {patience} validations"
        return "all epochs done" if self.progress.step >= self.steps else ""
