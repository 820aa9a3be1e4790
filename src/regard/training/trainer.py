"""The training loop: from an experiment to a finished run directory, with any number of interrupts and processes.

A step depends on the seed and the step number alone, so a run that was stopped continues to bit-identical results.
Several processes divide the batch of each step, so they learn what one process learns.
"""

from __future__ import annotations

import math
import time
from functools import partial
from random import Random

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from regard.data import Batches, Example, collate
from regard.devices import autocast, copy_to
from regard.errors import UserError
from regard.nn.build import initial_model
from regard.process_group import SINGLE, ProcessGroup
from regard.runs import MODEL, Run, named_weights
from regard.runs.kept_checkpoints import keep_checkpoint, prune_checkpoints
from regard.seeding import seed_for
from regard.training.averaging import save_average
from regard.training.callbacks import Callback
from regard.training.checkpoints import load_state, save_state
from regard.training.data_parallel import average_gradients
from regard.training.encoded_splits import EncodedSplits
from regard.training.objective import ModelInputs, build_objective
from regard.training.optimizer import build_optimizer
from regard.training.pending_losses import PendingLosses
from regard.training.run_schedule import RunSchedule, is_over, total_steps
from regard.training.step_batches import StepBatches
from regard.training.teacher_forcing import build_teacher_forcing
from regard.training.validation import Validation
from regard.training.weight_averages import WeightAverages


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
        averages: The moving averages of its weights.
        optimizer: Its optimizer.
        batches: The batches of each step.
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
        self.compiled = torch.compile(self.model) if settings.compile else self.model
        self.objective = build_objective(settings.consistency, settings.label_smoothing)
        self.averages = WeightAverages(self.model, settings.ema_decay)
        self.optimizer = build_optimizer(self.model, settings.optimizer, settings.rate.peak)
        # The gradients of float16 are scaled up, so that small ones do not become 0.
        self.scaler = torch.amp.GradScaler(device.type, enabled=self.precision == "float16")
        self.teacher_forcing = build_teacher_forcing(settings.teacher_forcing)
        batches = partial(Batches, batch_tokens=settings.batch_tokens, seed=settings.seed)
        train = batches(encoded.splits["train"], weights=encoded.splits["train"].weights)
        resample = self.resample_tokens if codec.tokenization.can_resample else None
        self.batches = StepBatches(train, settings.gradient_accumulation, resample)
        self.validation = Validation(run, encoded.splits["validation"], self.model, group)
        self.steps = total_steps(settings.epochs, settings.max_steps, self.batches.per_epoch)
        self.learning_rate = RunSchedule.of_run(run, self.batches.per_epoch)
        self.validate_every = settings.validate_every or self.batches.per_epoch
        self.losses = PendingLosses(device)
        self.kept_checkpoints = max(settings.keep_checkpoints, settings.average or 0)
        self.progress = load_state(run, self.model, self.averages, self.optimizer, self.scaler)
        if self.progress.validation_losses and not self.progress.tokens:  # the last step was followed by a validation
            self.progress.finished = self.stop_reason()  # by the present settings

    def run(self) -> None:
        """Train to the end or until the callback stops the training, and save a checkpoint in both cases."""
        if self.progress.finished:  # by settings that were changed
            return self.save()
        if self.group.is_first:
            self.run_directory.remove_temporary_files()
            self.run_directory.truncate_metrics(self.progress.step)
            prune_checkpoints(self.run_directory, self.kept_checkpoints, self.progress.step)
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
                with self.averages.applied():
                    self.validate()
                    self.keep_weights()
            stop = self.group.any(self.callback.should_stop())
            if validated or stop or time.monotonic() - saved_at >= self.settings.save_every:
                self.save()
                saved_at = time.monotonic()

    def step(self) -> None:
        """The batches of one step, or this process's parts of them: forward and backward each, then one update."""
        progress, started_at = self.progress, time.monotonic()
        torch.manual_seed(self.step_seed())  # for dropout and scheduled sampling
        rate = self.learning_rate(progress.step, progress.validation_losses)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.model.train()
        self.optimizer.zero_grad()
        batches = self.batches.own(progress.step, self.group)
        weight = sum(tokens for _, tokens in batches)
        parts = [self.backward(examples, tokens / weight if weight else 1.0) for examples, tokens in batches]
        losses, tokens = average_gradients(self.model.parameters(), torch.stack(parts).sum(0), weight, self.group)
        self.scaler.unscale_(self.optimizer)
        norm = clip_grad_norm_(self.model.parameters(), self.settings.clip)
        self.losses.append(progress.step, losses, tokens, norm)
        if self.losses.are_due:
            self.collect_losses()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        progress.step += 1
        self.averages.update(progress.step)
        progress.seconds += time.monotonic() - started_at
        self.callback.on_step_end(self, losses[0])

    def backward(self, examples: list[Example], share: float) -> Tensor:
        """Add the gradient of a batch to that of the step.

        Args:
            examples: The batch.
            share: Its share of the target tokens of the step, by which its losses are multiplied.

        Returns:
            The losses, [losses].
        """
        batch = collate(examples)
        valid = tuple(copy_to(index, self.device, pin=True) for index in batch.valid.nonzero(as_tuple=True))
        batch = batch.to(self.device)
        teacher_forced = self.teacher_forcing_mask(batch.inputs)
        inputs = ModelInputs(batch.source, batch.source_valid, batch.inputs, valid, teacher_forced)
        losses = self.objective(self.model, self.compute_logits, inputs, batch.outputs[valid])
        self.scaler.scale(losses.objective * share).backward()
        return losses.measured() * share

    def compute_logits(self, inputs: ModelInputs) -> Tensor:
        """The logits of the model in the precision of the training, [tokens, vocabulary].

        Args:
            inputs: What the model reads.
        """
        with autocast(self.device, self.precision):
            logits: Tensor = self.compiled(*inputs)
        return logits

    def step_seed(self) -> int:
        """The seed of this step's random numbers, which differ between processes."""
        rank = self.group.rank
        return seed_for(self.settings.seed, "step", self.progress.step, *(["rank", rank] if rank else []))

    def resample_tokens(self, example: Example, random: Random) -> Example:
        """An example with newly sampled subwords, for subword regularization; unchanged if they are too many.

        Args:
            example: The text as token ids.
            random: The source of randomness.
        """
        resampled = self.codec.resample(example, random)
        return resampled if self.has_positions_for(resampled) else example

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
        for step, (loss, *consistency), tokens, norm in self.losses.collect():
            self.check_finite(step, loss + sum(consistency), "loss")
            if not self.scaler.is_enabled():  # which skips steps with a norm that is not finite
                self.check_finite(step, norm, "norm of the gradient")
            self.progress.loss_sum += loss * tokens
            self.progress.consistency_sum += sum(consistency) * tokens
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

    def keep_weights(self) -> None:
        """Keep the weights of this validation and, at the end of training, average the latest ones."""
        if self.kept_checkpoints and self.group.is_first:
            keep_checkpoint(self.run_directory, named_weights(self.model), self.progress.step)
        if self.settings.average and self.progress.finished:
            save_average(self, self.settings.average)

    def save(self) -> None:
        """Write a checkpoint."""
        self.collect_losses()
        total = torch.stack([weight.detach().sum() for weight in self.model.parameters()]).sum().item()
        self.check_finite(self.progress.step, total, "sum of the parameters")  # if one of them is not finite
        if self.group.is_first:
            save_state(self.run_directory, self.model, self.averages, self.optimizer, self.scaler, self.progress)
            prune_checkpoints(self.run_directory, self.kept_checkpoints, self.progress.step)
        self.callback.on_checkpoint(self)

    def validate(self) -> None:
        """Compute the validation metrics, save the weights if they are the best so far, decide whether to stop.

        All files are written before the checkpoint that refers to them. After a crash in between, the same values are
        computed again.
        """
        progress, started_at = self.progress, time.monotonic()
        self.collect_losses()
        losses = self.validation.losses()
        self.check_finite(progress.step, losses.loss, "validation loss")
        metrics = {"loss": losses.loss, "token_accuracy": losses.token_accuracy, **self.validation.scores()}
        best = progress.add_validation(losses.loss, metrics[self.validation.best.name], self.validation.best.is_better)
        progress.seconds += time.monotonic() - started_at
        row = {
            "step": progress.step,
            "epoch": progress.step / self.batches.per_epoch,
            **self.training_metrics(),
            **{f"validation_{name}": value for name, value in metrics.items()},
            "rate": self.learning_rate(progress.step - 1, progress.validation_losses[:-1]),
            "teacher_forcing": self.teacher_forcing((progress.step - 1) // self.batches.per_epoch),
            "seconds": round(progress.seconds, 3),
        }
        progress.loss_sum, progress.consistency_sum, progress.tokens = 0.0, 0.0, 0
        if self.group.is_first:
            if best:
                self.run_directory.write_tensors(MODEL, named_weights(self.model), {"step": progress.step})
            self.run_directory.append_metrics(row)
        progress.finished = self.stop_reason()
        self.callback.on_validation_end(self, row, best)

    def training_metrics(self) -> dict[str, float]:
        """The mean losses over the target tokens since the last validation."""
        progress = self.progress
        losses = {"train_loss": progress.loss_sum / progress.tokens}
        if self.objective.is_consistency:
            losses["consistency"] = progress.consistency_sum / progress.tokens
        return losses

    def stop_reason(self) -> str:
        """Why training is over; empty if it is not."""
        patience = self.settings.patience
        if patience is not None and self.progress.validations_since_best >= patience:
            return f"no better {self.validation.best.title} in {patience} validations"
        return is_over(self.settings, self.progress.step, self.batches.per_epoch)
