"""The training loop: from an experiment to a finished run directory, with any number of interrupts and processes.

A step depends on the seed and the step number alone, so a run that was stopped continues to bit-identical results.
Several processes divide the batch of each step, so they learn what one process learns.
"""

from __future__ import annotations

import math
import time
from dataclasses import asdict
from functools import partial
from random import Random

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_

from regard.data import Batches, Example, collate, example_lengths
from regard.devices import autocast, copy_to
from regard.errors import UserError
from regard.evaluation.losses import LossMetrics, compute_losses
from regard.nn.build import initial_model
from regard.process_group import SINGLE, ProcessGroup
from regard.runs import MODEL, Run, named_weights
from regard.seeding import seed_for
from regard.training.callbacks import Callback
from regard.training.checkpoints import load_state, save_state
from regard.training.data_parallel import average_gradients, split_by_tokens
from regard.training.encoded_splits import EncodedSplits
from regard.training.learning_rates import build_learning_rate
from regard.training.optimizer import build_optimizer
from regard.training.pending_losses import PendingLosses
from regard.training.teacher_forcing import build_teacher_forcing


class Trainer:
    """The training loop of one run: model, optimizer and batches.

    Args:
        run: The run directory. If it holds a checkpoint, training continues from that.
        encoded: The data.
        callback: Is called during the training.
        device: The device of the model and of every batch.
        group: The processes that train this model. The first one writes the files.

    Attributes:
        model: The model.
        optimizer: Its optimizer.
        progress: How far training has come.
        steps: The number of steps in all, including those of earlier sessions.
        settings: The section `training` of the experiment.
        run_directory: The run directory.
        device: The device.
        precision: The precision of matrix products.
        group: The processes.
    """

    def __init__(
        self, run: Run, encoded: EncodedSplits, callback: Callback, device: torch.device, group: ProcessGroup = SINGLE
    ) -> None:
        self.device, self.precision, self.group = device, run.precision, group
        self.run_directory = run
        self.callback = callback
        self.settings = settings = run.experiment.training
        self.codec = codec = encoded.codec
        torch.set_num_threads(max(1, settings.threads // group.local_size))
        self.model = initial_model(run.experiment, *codec.sizes).to(device)
        self.compute_logits = torch.compile(self.model) if settings.compile else self.model
        self.optimizer = build_optimizer(self.model.parameters(), settings.optimizer, settings.rate.peak)
        # The gradients of float16 are scaled up, so that small ones do not become 0.
        self.scaler = torch.amp.GradScaler(device.type, enabled=self.precision == "float16")
        self.learning_rate = build_learning_rate(settings.rate)
        self.teacher_forcing = build_teacher_forcing(settings.teacher_forcing)

        batches = partial(Batches, batch_tokens=settings.batch_tokens, seed=settings.seed)
        self.batches = batches(encoded.splits["train"], weights=encoded.splits["train"].weights)
        self.validation = batches(encoded.splits["validation"])
        self.steps = settings.epochs * self.batches.per_epoch
        self.validate_every = settings.validate_every or self.batches.per_epoch
        self.losses = PendingLosses(device)
        self.progress = load_state(run, self.model, self.optimizer, self.scaler)

    def run(self) -> None:
        """Train to the end or until the callback stops the training, and save a checkpoint in both cases."""
        if self.progress.finished:
            return
        if self.group.is_first:
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
            stop = self.group.any(self.callback.should_stop())
            if validated or stop or time.monotonic() - saved_at >= self.settings.save_every:
                self.save()
                saved_at = time.monotonic()

    def step(self) -> None:
        """One batch, or this process's part of it: forward, backward, update."""
        progress, started_at = self.progress, time.monotonic()
        torch.manual_seed(self.step_seed())  # for dropout and scheduled sampling
        examples, weight = self.own_examples()
        batch = collate(examples)
        valid = tuple(copy_to(index, self.device, pin=True) for index in batch.valid.nonzero(as_tuple=True))
        batch = batch.to(self.device)
        teacher_forced = self.teacher_forcing_mask(batch.inputs)
        rate = self.learning_rate(progress.step, self.steps, progress.validation_losses)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.model.train()
        references = batch.outputs[valid]
        with autocast(self.device, self.precision):
            logits = self.compute_logits(batch.source, batch.source_valid, batch.inputs, valid, teacher_forced)
        loss = cross_entropy(logits.float(), references, label_smoothing=self.settings.label_smoothing)
        self.optimizer.zero_grad()
        self.scaler.scale(loss).backward()
        loss, tokens = average_gradients(self.model.parameters(), loss.detach(), weight, self.group)
        self.scaler.unscale_(self.optimizer)
        norm = clip_grad_norm_(self.model.parameters(), self.settings.clip)
        self.losses.append(progress.step, loss, tokens, norm)
        if self.losses.are_due:
            self.collect_losses()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        progress.step += 1
        progress.seconds += time.monotonic() - started_at
        self.callback.on_step_end(self, loss)

    def step_seed(self) -> int:
        """The seed of this step's random numbers, which differ between processes."""
        rank = self.group.rank
        return seed_for(self.settings.seed, "step", self.progress.step, *(["rank", rank] if rank else []))

    def own_examples(self) -> tuple[list[Example], int]:
        """The examples of this process in this step, and the weight of their mean loss: the number of target tokens.

        A process without examples, in a batch of fewer sentences than processes, takes the first one with weight 0.
        """
        rows = self.batches.indices(self.progress.step)
        parts = split_by_tokens(example_lengths(self.batches.examples)[rows.numpy()].sum(1), self.group.size)
        part = parts[self.group.rank]
        is_empty = part.start == part.stop
        if is_empty:
            part = slice(0, 1)
        if self.codec.tokenization.can_resample:
            examples = self.resample_tokens(self.batches.rows(self.progress.step))[part]
        else:
            examples = [self.batches.examples[row] for row in rows[part].tolist()]
        return examples, 0 if is_empty else sum(len(example.target) - 1 for example in examples)

    def resample_tokens(self, examples: list[Example]) -> list[Example]:
        """The texts of a whole batch with newly sampled subwords, for subword regularization."""
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

    def collect_losses(self) -> None:
        """Add the losses since the last call to the progress; a `UserError` if one of them is not finite."""
        for step, loss, tokens, norm in self.losses.collect():
            self.check_finite(step, loss, "loss")
            if not self.scaler.is_enabled():  # which skips steps with a norm that is not finite
                self.check_finite(step, norm, "norm of the gradient")
            self.progress.loss_sum += loss * tokens
            self.progress.tokens += tokens

    def check_finite(self, step: int, value: float, name: str) -> None:
        """Raise a `UserError` if a value that should be finite is not.

        Args:
            step: The number of steps before.
            value: The value.
            name: What it is.
        """
        if not math.isfinite(value):
            raise UserError(
                f"{self.run_directory.path}: training diverged after step {step}: the {name} is {value}. The last "
                f"checkpoint is intact. Try a lower training.rate.peak (now {self.settings.rate.peak:g}), a lower "
                "training.clip or a longer training.rate.warmup, with another run directory (--out)"
            )

    def save(self) -> None:
        """Write a checkpoint."""
        self.collect_losses()
        total = torch.stack([weight.detach().sum() for weight in self.model.parameters()]).sum().item()
        self.check_finite(self.progress.step, total, "sum of the parameters")  # if one of them is not finite
        if self.group.is_first:
            save_state(self.run_directory, self.model, self.optimizer, self.scaler, self.progress)
        self.callback.on_checkpoint(self)

    def validate(self) -> None:
        """Compute the validation metrics, save the weights if they are the best so far, decide whether to stop.

        All files are written before the checkpoint that refers to them. After a crash in between, the same values are
        computed again.
        """
        progress, started_at = self.progress, time.monotonic()
        self.collect_losses()
        forced, free = self.validation_losses(teacher=True), self.validation_losses(teacher=False)
        self.check_finite(progress.step, forced.loss + free.loss, "validation loss")
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
        if self.group.is_first:
            if best:
                self.run_directory.write_tensors(MODEL, named_weights(self.model), {"step": progress.step})
            self.run_directory.append_metrics(row)
        progress.finished = self.stop_reason()
        self.callback.on_validation_end(self, row, best)

    def validation_losses(self, *, teacher: bool) -> LossMetrics:
        """The loss on the validation split, whose batches the processes divide.

        Args:
            teacher: Whether the decoder reads reference tokens instead of its own output.
        """
        own = range(self.group.rank, self.validation.per_epoch, self.group.size)
        batches = (self.validation.at(index).to(self.device) for index in own)
        with autocast(self.device, self.precision):
            return compute_losses(self.model, batches, teacher=teacher, group=self.group)

    def stop_reason(self) -> str:
        """Why training is over; empty if it is not."""
        patience = self.settings.patience
        if patience is not None and self.progress.validations_since_best >= patience:
            return f"no better loss in {patience} validations"
        return "all epochs done" if self.progress.step >= self.steps else ""
