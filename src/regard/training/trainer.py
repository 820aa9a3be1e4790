"""The training loop: from an experiment to a finished run directory, however often it is interrupted."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_

from regard.config.schema import Experiment
from regard.data import Batches, Codec, Example, collate
from regard.errors import UserError
from regard.evaluation.losses import compute_losses
from regard.files import lock_folder
from regard.nn.build import initial_model
from regard.runs import MODEL, Run, named_weights
from regard.seeding import seed_for
from regard.tasks import Split
from regard.training.checkpoints import TrainingProgress, load_state, read_state, save_state
from regard.training.encoded_splits import EncodedSplits, ProgressIterator, check_lengths, encode_splits
from regard.training.schedules import learning_rate, teacher_forcing


class TrainingObserver(Protocol):
    """Whoever wants to know how training goes, and may ask it to stop."""

    def began(self, progress: TrainingProgress, steps: int, parameters: int) -> None: ...

    def learning(self) -> None: ...

    def reading(self, split: Split, pairs: int) -> None: ...

    def stepped(self, progress: TrainingProgress, loss: float) -> None: ...

    def validated(self, row: dict[str, Any], best: bool) -> None: ...

    def wants_to_stop(self) -> bool: ...


def train(experiment: Experiment, path: Path, observer: TrainingObserver) -> TrainingProgress:
    """Train, or go on with training, in the run directory `path`, until the end or until asked to stop.

    A new run directory is made once all is known to be in order.
    """
    is_new = not path.exists() or (path.is_dir() and not any(path.iterdir()))
    if not is_new:
        _same_experiment(Run(path), experiment)
        _, progress = read_state(Run(path))
        if progress.finished:
            return progress
    splits = experiment.task.dataset.splits()
    if is_new and experiment.task.learns_tokenization:
        observer.learning()
    pairs = {split: ProgressIterator(those, split, observer) for split, those in splits.items()}
    if is_new:
        codec = Codec.build(experiment.task.learn_tokenization(pairs["train"]), pairs["train"])
    else:
        codec = Run(path).codec()
    with encode_splits(codec, pairs, path) as material:
        check_lengths(experiment, material)
        if is_new:
            Run.create(path, experiment, codec, material.digests)
        _same_texts(Run(path), material)
        with lock_folder(path) as alone:
            if not alone:
                raise UserError(f"{path}: another process is training here")
            return Trainer(Run(path), material, observer).run()


def _same_experiment(run: Run, experiment: Experiment) -> None:
    old, new = _flat(run.experiment.model_dump()), _flat(experiment.model_dump())
    changed = [key for key in {**old, **new} if key != "description" and old.get(key) != new.get(key)]
    if changed:
        key = changed[0]
        more = f", and {len(changed) - 1} more settings differ" if len(changed) > 1 else ""
        raise UserError(
            f"{run.path}: this run was begun with {key} = {old.get(key)!r}, not {new.get(key)!r}{more}; "
            "choose another --out, or the settings that it was begun with"
        )


def _same_texts(run: Run, material: EncodedSplits) -> None:
    """Going on with other texts would be another experiment under the same name."""
    begun_with = run.texts
    if not begun_with:
        raise UserError(
            f"{run.path}: this run was begun by an older Regard, which did not note on what texts; "
            "begin anew with another --out"
        )
    if any(begun_with.get(split) != material.digests[split] for split in ("train", "validation")):
        raise UserError(
            f"{run.path}: the training text is not what it was when this run was begun; bring it back, "
            "or choose another --out"
        )


def _flat(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat


class Trainer:
    """One run's model, optimizer and batches; what happens at a step depends on the seed and the step alone."""

    def __init__(self, run: Run, material: EncodedSplits, observer: TrainingObserver) -> None:
        self.run_directory = run
        self.observer = observer
        self.settings = settings = run.experiment.training
        self.codec = codec = material.codec
        torch.set_num_threads(settings.threads)
        self.model = initial_model(run.experiment, *codec.sizes)
        options = settings.optimizer
        self.optimizer = OPTIMIZERS[options.kind](
            self.model.parameters(),
            lr=settings.rate.peak,
            betas=(options.beta1, options.beta2),
            eps=options.epsilon,
            weight_decay=options.weight_decay,
            fused=True,
        )

        def batches(examples: Sequence[Example]) -> Batches:
            return Batches(examples, batch_tokens=settings.batch_tokens, seed=settings.seed)

        self.batches = batches(material.splits["train"])
        self.validation = batches(material.splits["validation"])
        self.steps = settings.epochs * self.batches.per_epoch
        self.validate_every = settings.validate_every or self.batches.per_epoch
        self.progress = load_state(run, self.model, self.optimizer)

    def run(self) -> TrainingProgress:
        """Step by step to the end, or until the observer wants to stop; the state is saved in both cases."""
        progress = self.progress
        if progress.finished:
            return progress
        self.run_directory.sweep()
        self.run_directory.forget_metrics_after(progress.step)
        self.observer.began(progress, self.steps, sum(p.numel() for p in self.model.parameters()))
        saved = time.monotonic()
        stop = False
        while not (progress.finished or stop):
            self.step()
            stop = self.observer.wants_to_stop()
            if progress.step % self.validate_every == 0 or progress.step == self.steps:
                self.validate()
            elif not stop and time.monotonic() - saved < self.settings.save_every:
                continue
            self.save()
            saved = time.monotonic()
        return progress

    def save(self) -> None:
        total = sum(weight.detach().sum().item() for weight in self.model.parameters())
        self.check_finite(total, "sum of the weights")  # which is not finite if one of them isn't
        save_state(self.run_directory, self.model, self.optimizer, self.progress)

    def step(self) -> None:
        progress, began = self.progress, time.monotonic()
        torch.manual_seed(seed_for(self.settings.seed, "step", progress.step))  # for dropout and for the coins
        batch = collate(self.read_anew(self.batches.rows(progress.step)))
        given = self.teacher_forcing_mask(batch.inputs)
        rate = learning_rate(self.settings.rate, progress.step, self.steps, progress.validation_losses)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.model.train()
        truth = batch.outputs[batch.valid]
        logits = self.model(batch.source, batch.source_valid, batch.inputs, batch.valid, given)
        loss = cross_entropy(logits, truth, label_smoothing=self.settings.label_smoothing)
        self.optimizer.zero_grad()
        loss.backward()
        norm = clip_grad_norm_(self.model.parameters(), self.settings.clip)
        self.check_finite(loss.item(), "loss")
        self.check_finite(norm.item(), "norm of the gradient")
        self.optimizer.step()
        progress.step += 1
        progress.loss_sum += loss.item() * len(truth)
        progress.tokens += len(truth)
        progress.seconds += time.monotonic() - began
        self.observer.stepped(progress, loss.item())

    def read_anew(self, examples: list[Example]) -> list[Example]:
        """The same texts in other tokens, where their notation has several ways to write them."""
        if not self.codec.tokenization.can_resample:
            return examples
        random = Random(seed_for(self.settings.seed, "tokens", self.progress.step))
        varied = [self.codec.resample(example, random) for example in examples]
        return [new if self.has_room_for(new) else old for new, old in zip(varied, examples, strict=True)]

    def has_room_for(self, example: Example) -> bool:
        """Has the model as many positions? More tokens may be needed for a text than were counted."""
        longest_source, longest_target = self.model.encoder.max_length, self.model.decoder.max_length
        return (longest_source is None or len(example.source) <= longest_source) and (
            longest_target is None or len(example.target) - 1 <= longest_target
        )

    def teacher_forcing_mask(self, inputs: Tensor) -> Tensor | None:
        """For each token, does the decoder read the true one? None: always."""
        ratio = teacher_forcing(self.settings.teacher_forcing, self.progress.step // self.batches.per_epoch)
        return None if ratio == 1 else torch.rand(inputs.shape) < ratio

    def check_finite(self, value: float, name: str) -> None:
        if not math.isfinite(value):
            raise UserError(
                f"{self.run_directory.path}: training broke down after step {self.progress.step}: the {name} is "
                f"{value}. What was saved before is intact. Try a lower training.rate.peak (now "
                f"{self.settings.rate.peak:g}), a lower training.clip or a longer training.rate.warmup, with another "
                "--out"
            )

    def validate(self) -> None:
        """Measure, keep the weights if they are the best so far, and see whether this is the end.

        What is written here is written before the state that knows of it: after a crash in between, it is computed
        again, to the same bits.
        """
        progress, began = self.progress, time.monotonic()
        forced = compute_losses(self.model, self.validation.once(), teacher=True)
        free = compute_losses(self.model, self.validation.once(), teacher=False)
        self.check_finite(forced.loss + free.loss, "validation loss")
        best = forced.loss < progress.best_loss
        progress.validation_losses.append(forced.loss)
        progress.seconds += time.monotonic() - began
        settings = self.settings
        row = {
            "step": progress.step,
            "epoch": progress.step / self.batches.per_epoch,
            "train_loss": progress.loss_sum / progress.tokens,
            **{f"validation_{name}": value for name, value in asdict(forced).items()},
            **{f"free_running_{name}": value for name, value in asdict(free).items()},
            "rate": learning_rate(settings.rate, progress.step - 1, self.steps, progress.validation_losses[:-1]),
            "teacher_forcing": teacher_forcing(settings.teacher_forcing, (progress.step - 1) // self.batches.per_epoch),
            "seconds": round(progress.seconds, 3),
        }
        progress.loss_sum, progress.tokens = 0.0, 0
        if best:
            progress.best_step = progress.step
            self.run_directory.write_tensors(MODEL, named_weights(self.model), {"step": progress.step})
        self.run_directory.append_metrics(row)
        progress.finished = self.reason_to_end()
        self.observer.validated(row, best)

    def reason_to_end(self) -> str:
        patience = self.settings.patience
        if patience is not None and self.progress.since_best >= patience:
            return f"no better loss in {patience} validations"
        return "all epochs done" if self.progress.step >= self.steps else ""


OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
}
