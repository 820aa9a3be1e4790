"""Training: loss, validation, best weights, early stopping and refused settings."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.functional import log_softmax

import regard
from regard.config.kinds import TEACHER_FORCING_SCHEDULES
from regard.config.schema import Experiment
from regard.data import Batches, Codec
from regard.errors import UserError
from regard.evaluation.losses import LossMetrics, compute_losses
from regard.files import lock_folder
from regard.nn.build import build_model
from regard.runs import Run
from regard.runs.weights import write_tensors
from regard.seeding import seed_for
from regard.training import trainer
from regard.training.train_run import train_run
from regard.training.validation import Validation

Make = Callable[..., Experiment]
TrainIn = Callable[..., Any]
NewTrainer = Callable[..., trainer.Trainer]


# --- Loss ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_the_loss_averages_valid_tokens_and_ignores_padding(brief: Make, train_in: TrainIn, smoothing: float):
    """Recomputed sentence by sentence, without padding."""
    experiment = brief("model.dropout=0", "training.teacher_forcing.ratio=1", f"training.label_smoothing={smoothing}")
    callback = train_in(experiment, stop_after=1)

    pairs = experiment.task.dataset.splits()["train"]
    codec = Codec.build(experiment.task.learn_tokenization(pairs), pairs)
    torch.manual_seed(seed_for(experiment.training.seed, "weights"))
    model = build_model(experiment.model, len(codec.source_vocabulary), len(codec.target_vocabulary))
    batch = Batches(codec.examples(pairs), batch_tokens=300, seed=experiment.training.seed).at(0)
    assert not batch.valid.all()
    losses: list[float] = []
    for row in range(len(batch.source)):
        source = batch.source[row][batch.source_valid[row]].unsqueeze(0)
        inputs = batch.inputs[row][batch.valid[row]].unsqueeze(0)
        state = model.start(source, torch.ones_like(source, dtype=torch.bool))
        log_probs = log_softmax(model.decoder.teacher_forced(inputs, state)[0][0], -1)
        for step_log_probs, reference in zip(log_probs, batch.outputs[row][batch.valid[row]].tolist(), strict=True):
            losses.append((-(1 - smoothing) * step_log_probs[reference] - smoothing * step_log_probs.mean()).item())
    assert callback.losses == pytest.approx([sum(losses) / len(losses)], abs=1e-5)
    assert callback.progress.tokens == len(losses)
    assert callback.progress.loss_sum == pytest.approx(sum(losses), rel=1e-5)


def test_training_loss_is_the_mean_over_tokens_since_the_last_validation(brief: Make, train_in: TrainIn):
    callback = train_in(brief("data.train=40", "training.batch_tokens=70", "training.validate_every=3"))
    training = brief().task.dataset.splits()["train"]
    codec = Codec.build(brief().task.learn_tokenization(training), training)
    experiment = brief("data.train=40")
    batches = Batches(codec.examples(experiment.task.dataset.splits()["train"]), batch_tokens=70, seed=1)
    sizes = [int(batches.at(step).valid.sum()) for step in range(3, 6)]
    expected = sum(loss * size for loss, size in zip(callback.losses[3:6], sizes, strict=True)) / sum(sizes)
    assert callback.rows[1]["train_loss"] == pytest.approx(expected)


def test_the_loss_falls_and_the_task_is_learned(trained: Path):
    rows = Run(trained).metrics()
    assert rows[-1]["train_loss"] < 0.1 * rows[0]["train_loss"]
    assert rows[-1]["validation_loss"] < 0.1
    assert rows[-1]["validation_exact_match"] >= 0.95


@pytest.mark.parametrize("kind", ["constant", "stepped", "linear", "exponential", "inverse-sigmoid"])
def test_training_learns_with_fewer_reference_tokens(tiny: Make, train_in: TrainIn, kind: str):
    options = {"floor": 0.2, "epochs": 2}
    own = [f"{name}={value}" for name, value in options.items() if kind in TEACHER_FORCING_SCHEDULES.with_option(name)]
    schedule = [f"training.teacher_forcing.{setting}" for setting in (f"kind={kind}", "ratio=0.6", *own)]
    callback = train_in(tiny("data.train=150", "training.epochs=5", *schedule))
    assert callback.rows[-1]["train_loss"] < 0.9 * callback.rows[0]["train_loss"]
    ratios = [row["teacher_forcing"] for row in callback.rows]
    assert ratios[0] == 0.6
    assert (ratios[-1] < 0.6) == (kind != "constant")


def test_the_teacher_forcing_mask_is_random_per_token_with_the_given_ratio(brief: Make, new_trainer: NewTrainer):
    trainer = new_trainer(brief("training.teacher_forcing.ratio=0.7"))
    teacher_forcing_mask = trainer.teacher_forcing_mask(torch.zeros(200, 101, dtype=torch.long))
    assert teacher_forcing_mask is not None
    assert teacher_forcing_mask.shape == (200, 101)
    assert float(teacher_forcing_mask.float().mean()) == pytest.approx(0.7, abs=0.01)
    assert not (teacher_forcing_mask == teacher_forcing_mask[:1]).all()  # neither one value for a whole sentence,
    assert not (teacher_forcing_mask == teacher_forcing_mask[:, :1]).all()  # nor one for all sentences at a step


def test_dropout_is_on_in_training_and_off_in_validation(brief: Make, train_in: TrainIn):
    plain = train_in(brief("model.dropout=0"), stop_after=1, name="plain")
    dropped = train_in(brief("model.dropout=0.5"), stop_after=1, name="dropped")
    assert plain.losses != dropped.losses


def test_gradients_are_clipped(brief: Make, tmp_path: Path, new_callback: Any, monkeypatch: pytest.MonkeyPatch):
    norms = []

    class RecordingOptimizer(torch.optim.Adam):
        def step(self, *arguments: Any) -> Any:
            norms.append(torch.cat([p.grad.flatten() for group in self.param_groups for p in group["params"]]).norm())
            return super().step(*arguments)

    monkeypatch.setattr(torch.optim, "Adam", RecordingOptimizer)
    train_run(brief("training.clip=0.01"), tmp_path / "run", new_callback(2))
    assert [float(norm) for norm in norms] == pytest.approx([0.01, 0.01], rel=1e-3)


def test_each_setting_reaches_the_optimizer(brief: Make, new_trainer: NewTrainer):
    options = ("kind=adamw", "weight_decay=0.25", "beta1=0.5", "beta2=0.75", "epsilon=0.125")
    trainer = new_trainer(brief(*(f"training.optimizer.{option}" for option in options)))
    assert isinstance(trainer.optimizer, torch.optim.AdamW)
    group = trainer.optimizer.param_groups[0]
    assert (group["weight_decay"], group["betas"], group["eps"]) == (0.25, (0.5, 0.75), 0.125)
    trainer.step()
    assert group["lr"] == pytest.approx(0.03 / round(0.2 * trainer.steps))


def test_training_depends_on_the_seed_and_not_on_the_global_random_state(
    brief: Make, train_in: TrainIn, same_training: Callable[[Path, Path], None], tmp_path: Path
):
    for name in ("one", "two"):
        torch.rand(7)
        train_in(brief(), name=name)
    same_training(tmp_path / "one", tmp_path / "two")
    other = train_in(brief("training.seed=2"), stop_after=1, name="three")
    assert other.losses[0] != train_in(brief(), stop_after=1, name="four").losses[0]


# --- Validation (see also test_validation.py) ------------------------------------------------------------


def test_each_validation_has_a_row_of_metrics(brief: Make, train_in: TrainIn, tmp_path: Path):
    callback = train_in(brief("training.validate_every=5"))
    rows = Run(tmp_path / "run").metrics()
    assert rows == callback.rows
    assert [row["step"] for row in rows] == [5, 10, 12]  # and at the end
    measures = [f"validation_{name}" for name in ("loss", "token_accuracy", "exact_match")]
    for row in rows:
        assert list(row) == ["step", "epoch", "train_loss", *measures, "rate", "teacher_forcing", "seconds"]
        assert row["epoch"] == row["step"] / 4
        assert all(math.isfinite(value) for value in row.values())


def test_validation_metrics_are_those_of_the_saved_weights_on_the_validation_split(trained: Path):
    translator = regard.load(trained)
    pairs = translator.experiment.task.dataset.splits()["validation"]
    batches = Batches(translator.codec.examples(pairs), batch_tokens=100, seed=9)
    best = min(Run(trained).metrics(), key=lambda row: row["validation_loss"])
    again = compute_losses(translator.model, batches.once(), teacher=True)
    assert again.loss == pytest.approx(best["validation_loss"], abs=1e-5)
    assert again.token_accuracy == pytest.approx(best["validation_token_accuracy"])


def test_the_saved_model_is_the_one_with_the_lowest_validation_loss(
    brief: Make, train_in: TrainIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read_tensors: Callable[..., Any]
):
    losses = iter([3.0, 1.0, 1.0, 2.0, 0.5, 4.0])
    monkeypatch.setattr(Validation, "losses", lambda _: LossMetrics(next(losses), 0.5, 0.25))
    callback = train_in(brief("training.validate_every=2"))
    assert callback.best == [True, True, False, False, True, False]
    assert callback.progress.best_step == 10
    assert callback.progress.best_score == 0.5
    weights, about = read_tensors(tmp_path / "run" / "model.safetensors")
    assert about["step"] == 10
    monkeypatch.undo()
    train_in(brief("training.validate_every=2"), stop_after=10, name="until_10")
    expected, _ = read_tensors(tmp_path / "until_10" / "state.safetensors")
    assert all(torch.equal(weights[name], expected[f"model/{name}"]) for name in weights)


@pytest.mark.parametrize(
    ("losses", "steps"),
    [
        ([3.0, 2.0, 2.5, 2.0, 1.0, 1.0], 8),  # two validations without improvement: 2.0 is not lower than 2.0
        ([3.0, 2.0, 2.5, 1.0, 1.5, 1.5], 12),
        ([3.0, 4.0, 5.0], 6),
    ],
)
def test_training_stops_early_without_improvement(
    brief: Make, train_in: TrainIn, monkeypatch: pytest.MonkeyPatch, losses: list[float], steps: int
):
    upcoming = iter(losses)
    monkeypatch.setattr(Validation, "losses", lambda _: LossMetrics(next(upcoming), 0.5, 0.25))
    progress = train_in(brief("training.validate_every=2", "training.patience=2")).progress
    assert progress.step == steps
    assert progress.finished == "no better loss in 2 validations"


# --- End of training and refusals ------------------------------------------------------------------------


def contents(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.iterdir()}


def test_the_callback_is_called_in_order(brief: Make, train_in: TrainIn):
    callback = train_in(brief())
    assert callback.train_begins == [(0, 12)]
    assert len(callback.losses) == 12
    assert [row["step"] for row in callback.rows] == [4, 8, 12]
    assert callback.progress.finished == "all epochs done"


def test_a_finished_run_is_reported_and_not_changed(brief: Make, train_in: TrainIn, tmp_path: Path):
    first = train_in(brief())
    before = contents(tmp_path / "run")
    again = train_in(brief())
    assert again.progress == first.progress
    assert (again.train_begins, again.losses, again.rows) == ([], [], [])
    assert contents(tmp_path / "run") == before


@pytest.mark.parametrize(
    ("override", "key"),
    [
        ("training.seed=2", "training.seed = 1, not 2"),
        ("model.encoder.positions.width=4", "model.encoder.positions.width = 8, not 4"),
        ("data.train=121", "data.train = 120, not 121"),
        ("decoding.length_extra=3", "decoding.length_extra = 10, not 3"),
    ],
)
def test_another_setting_in_the_same_directory_is_refused(
    brief: Make, train_in: TrainIn, tmp_path: Path, override: str, key: str
):
    train_in(brief(), stop_after=1)
    before = contents(tmp_path / "run")
    with pytest.raises(UserError, match=rf"which may not change:\n  {key}\nchoose another run directory"):
        train_in(brief(override))
    assert contents(tmp_path / "run") == before


def test_another_task_is_refused_and_another_description_or_device_is_not(brief: Make, train_in: TrainIn):
    train_in(brief(), stop_after=1)
    assert train_in(brief("description=other"), stop_after=1).progress.step == 2
    assert train_in(brief("training.device=cpu"), stop_after=1).progress.step == 3
    with pytest.raises(UserError, match=r"  data\.task = 'copy', not 'reverse'"):
        train_in(brief("data.task=reverse"))


def test_an_empty_directory_is_accepted(brief: Make, train_in: TrainIn, tmp_path: Path):
    (tmp_path / "run").mkdir()
    assert train_in(brief(), stop_after=1).progress.step == 1


def test_a_directory_with_other_files_is_refused_and_not_changed(brief: Make, train_in: TrainIn, tmp_path: Path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.tex").write_text("all my work")
    with pytest.raises(UserError, match="run: this is not a run directory"):
        train_in(brief())
    assert contents(tmp_path / "run") == {"thesis.tex": b"all my work"}
    (tmp_path / "file").write_text("x")
    with pytest.raises(UserError, match=r"file: "):
        train_in(brief(), name="file")


@pytest.mark.parametrize("path", [".", "..", "runs/.."])
def test_a_directory_without_a_name_is_refused(brief: Make, new_callback: Any, path: str):
    with pytest.raises(UserError, match=r"\.: a run directory has a name, such as .*run \(--out\)"):
        train_run(brief(), Path(path), new_callback())


def test_two_trainings_in_one_directory_are_refused_before_data_is_read(
    brief: Make, train_in: TrainIn, new_callback: Any, tmp_path: Path
):
    train_in(brief(), stop_after=1)
    before, callback = contents(tmp_path / "run"), new_callback()
    with lock_folder(tmp_path / "run") as alone:
        assert alone
        with pytest.raises(UserError, match="run: another process is training here"):
            train_run(brief(), tmp_path / "run", callback)
    assert callback.read == {}
    assert contents(tmp_path / "run") == before
    assert train_in(brief()).progress.finished


@pytest.mark.parametrize("side", ["encoder", "decoder"])
@pytest.mark.parametrize("kind", ["learned", "one-hot"])
def test_insufficient_positions_are_refused_before_training(
    brief: Make, train_in: TrainIn, tmp_path: Path, side: str, kind: str
):
    def positions(longest: int) -> Experiment:
        return brief(f"model.{side}.positions={{kind: {kind}, longest: {longest}}}")

    with pytest.raises(UserError, match=rf"model\.{side}\.positions\.longest: 5 positions are too few; .* of 6 tokens"):
        train_in(positions(5))
    assert train_in(positions(6), name="enough").progress.finished


@pytest.mark.parametrize(
    "damage",
    [
        lambda about: {},
        lambda about: about | {"step": "x"},
        lambda about: about | {"unknown": 1},
        lambda about: [],
        lambda about: about | {"tokens": 10**400, "seconds": 1.0},
        lambda about: about | {"loss_sum": math.inf, "seconds": 1.0},
    ],
    ids=["empty", "no-number", "unknown-key", "list", "digits", "infinite"],
)
def test_an_invalid_state_is_refused(
    brief: Make,
    train_in: TrainIn,
    tmp_path: Path,
    read_tensors: Callable[..., Any],
    damage: Callable[[dict[str, Any]], Any],
):
    train_in(brief(), stop_after=3)
    path = tmp_path / "run" / "state.safetensors"
    tensors, about = read_tensors(path)
    write_tensors(path, tensors, damage(about))
    with pytest.raises(UserError, match=r"run/state\.safetensors: this file is damaged"):
        train_in(brief())


def test_a_state_without_its_optimizer_is_refused(
    brief: Make, train_in: TrainIn, tmp_path: Path, read_tensors: Callable[..., Any]
):
    train_in(brief(), stop_after=3)
    path = tmp_path / "run" / "state.safetensors"
    tensors, about = read_tensors(path)
    about["seconds"] = 0.0
    removed = next(name for name in tensors if name.endswith("/exp_avg"))
    del tensors[removed]
    write_tensors(path, tensors, about)
    with pytest.raises(UserError, match=r"run/state\.safetensors: .*the optimizer's state of .* is incomplete"):
        train_in(brief())


# --- Divergence ------------------------------------------------------------------------------------------


def test_divergence_by_a_high_learning_rate_is_explained(brief: Make, train_in: TrainIn):
    with pytest.raises(
        UserError, match=r"training diverged after step \d+: the loss is .* Try a lower training.rate.peak"
    ):
        train_in(brief("training.rate.peak=1.0e+38"))


def test_saved_state_survives_divergence(
    brief: Make, train_in: TrainIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    train_in(brief(), stop_after=6)
    before = contents(tmp_path / "run")
    monkeypatch.setattr(trainer.RunSchedule, "__call__", lambda *_: 1e38)
    with pytest.raises(UserError, match=r"run: training diverged after step 7: .* The last checkpoint is intact"):
        train_in(brief())
    assert contents(tmp_path / "run") == before
    monkeypatch.undo()
    assert train_in(brief()).progress.finished


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_state_with_a_weight_that_is_not_finite_is_not_saved(
    brief: Make, new_trainer: NewTrainer, tmp_path: Path, value: float
):
    trainer = new_trainer(brief())
    trainer.step()
    trainer.save()
    before = contents(tmp_path / "run")
    last = list(trainer.model.parameters())[-1]
    last.data.view(-1)[0] = value
    with pytest.raises(UserError, match="training diverged after step 1: the sum of the parameters is"):
        trainer.save()
    assert contents(tmp_path / "run") == before


@pytest.mark.parametrize("setting", ["training.validate_every=1", "training.save_every=0"])
def test_weights_that_are_not_finite_are_neither_validated_nor_saved(
    brief: Make, train_in: TrainIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str
):
    """The diverging step may be the last before a validation or a checkpoint."""
    train_in(brief(setting), stop_after=6)
    before = contents(tmp_path / "run")
    monkeypatch.setattr(trainer.RunSchedule, "__call__", lambda *_: 1e38)
    with pytest.raises(UserError, match="training diverged"):
        train_in(brief(setting))
    for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines():
        json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert contents(tmp_path / "run")["model.safetensors"] == before["model.safetensors"]
