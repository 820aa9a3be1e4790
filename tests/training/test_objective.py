"""Consistency regularization: formulas, token cutoff, and what a training with it reports."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, kl_div, log_softmax

from pretend_device import DEVICE, PretendDevice
from regard.config.schema import Experiment
from regard.data import collate
from regard.errors import UserError
from regard.nn import Seq2Seq
from regard.nn.build import build_model
from regard.process_group import SINGLE
from regard.runs import Run
from regard.training.callbacks import Callback
from regard.training.objective import CrossEntropy, Losses, ModelInputs, RDrop, SimCut, token_cutoff
from regard.training.trainer import Trainer

Make = Callable[..., Experiment]
NewTrainer = Callable[..., Trainer]
TOKENS, WORDS = 7, 11
R_DROP, SIMCUT = "training.consistency.kind=r-drop", "training.consistency.kind=simcut"


def model_inputs(mask: Tensor | None = None) -> ModelInputs:
    valid = torch.tensor([[True, True, True, False], [True, True, True, True]])
    return ModelInputs(
        torch.arange(4, 10).view(2, 3),
        torch.tensor([[True, True, False], [True, True, True]]),
        torch.arange(4, 12).view(2, 4),
        valid.nonzero(as_tuple=True),
        mask,
    )


def kl(p: Tensor, q: Tensor) -> Tensor:
    """KL(P ‖ Q), the mean over tokens, by PyTorch's own function."""
    return kl_div(log_softmax(q, -1), log_softmax(p, -1), log_target=True, reduction="batchmean")


@pytest.fixture
def model(brief: Make) -> Seq2Seq:
    torch.manual_seed(3)
    return build_model(brief().model, 13, 13).train()


@pytest.fixture
def logits() -> Tensor:
    torch.manual_seed(5)
    return (3 * torch.randn(2 * TOKENS, WORDS)).requires_grad_()


def references() -> Tensor:
    return torch.randint(WORDS, (TOKENS,), generator=torch.Generator().manual_seed(1))


def assert_same_loss_and_gradient(losses: Losses, expected: Tensor, logits: Tensor) -> None:
    gradients = [torch.autograd.grad(each, logits, retain_graph=True)[0] for each in (losses.objective, expected)]
    torch.testing.assert_close(losses.objective, expected)
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_r_drop_is_half_the_loss_of_the_paper(model: Seq2Seq, logits: Tensor, smoothing: float):
    losses = RDrop(smoothing, weight=1.5)(model, lambda _: logits, model_inputs(), references())
    p, q = logits.chunk(2)
    likelihood = sum(cross_entropy(each, references(), label_smoothing=smoothing) for each in (p, q))
    consistency = (kl(p, q) + kl(q, p)) / 2
    assert_same_loss_and_gradient(losses, (likelihood + 1.5 * consistency) / 2, logits)
    assert losses.measured().tolist() == pytest.approx([likelihood.item() / 2, consistency.item()])


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_simcut_compares_the_prediction_with_that_of_the_cut_text(model: Seq2Seq, logits: Tensor, smoothing: float):
    losses = SimCut(smoothing, weight=1.5)(model, lambda _: logits, model_inputs(), references())
    whole, cut = logits.chunk(2)
    likelihood = cross_entropy(whole, references(), label_smoothing=smoothing)
    assert_same_loss_and_gradient(losses, likelihood + 1.5 * kl(whole, cut), logits)
    assert losses.measured().tolist() == pytest.approx([likelihood.item(), kl(whole, cut).item()])


def test_cross_entropy_has_no_consistency(model: Seq2Seq, logits: Tensor):
    losses = CrossEntropy(0.3)(model, lambda _: logits[:TOKENS], model_inputs(), references())
    expected = cross_entropy(logits[:TOKENS], references(), label_smoothing=0.3)
    assert losses.measured().tolist() == [expected.item()]


@pytest.mark.parametrize("mask", [None, torch.tensor([[True, False, True, True], [True, True, False, False]])])
def test_all_rows_twice_have_the_logits_of_each_row_twice(model: Seq2Seq, mask: Tensor | None):
    inputs = model_inputs(mask)
    model.eval()
    first, second = model(*inputs.twice()).chunk(2)
    torch.testing.assert_close(first, model(*inputs))
    torch.testing.assert_close(second, first)


def test_both_copies_have_dropout_of_their_own(brief: Make, model: Seq2Seq):
    first, second = model(*model_inputs().twice()).chunk(2)
    assert brief().model.has_dropout
    assert not torch.allclose(first, second)


@pytest.mark.parametrize("share", [False, True])
def test_cutoff_sets_whole_embeddings_of_the_second_half_to_zero(brief: Make, share: bool):
    model = build_model(brief().model.model_copy(update={"share_embeddings": share}), 13, 13)
    tables = model.encoder.embedding.tokens, model.decoder.embedding.tokens
    tokens = torch.randint(4, 13, (58, 101))
    with token_cutoff(model, 0.3):
        vectors = [table(tokens) for table in tables]
    for table, cut in zip(tables, vectors, strict=True):
        assert torch.equal(cut[:29], table(tokens[:29]))
        is_cut = cut[29:].eq(0).all(-1)
        assert is_cut.float().mean().item() == pytest.approx(0.3, abs=0.03)
        assert torch.equal(cut[29:][~is_cut], table(tokens[29:])[~is_cut])
        assert not table._forward_hooks


def test_simcut_changes_patches_of_pictures(new_trainer: NewTrainer):
    sizes = {"model.encoder.size": 8, "model.encoder.embedding": 8, "model.decoder.size": 16}
    small = {"data.train": 20, "data.validation": 8, "data.test": 8, "data.max_length": 3}
    options = {"training.consistency": {"kind": "simcut", "cutoff": 0.5}, "model.dropout": 0.0}
    trainer = new_trainer(Experiment.load("digits", {**small, **sizes, **options}))
    batch = collate(trainer.batches.own(0, SINGLE)[0][0])
    with token_cutoff(trainer.model, 0.5):
        whole, cut = trainer.model.encoder.embedding(torch.cat([batch.source, batch.source])).chunk(2)
    assert not torch.equal(whole, cut)
    trainer.step()
    trainer.collect_losses()
    assert trainer.progress.consistency_sum > 0


@pytest.mark.parametrize("setting", [R_DROP, SIMCUT])
def test_train_loss_remains_cross_entropy_and_consistency_is_reported(
    brief: Make, train_in: Any, tmp_path: Path, setting: str
):
    train_in(brief(setting), name="regularized")
    train_in(brief(), name="plain")
    (row, *_), (plain, *_) = (Run(tmp_path / name).metrics() for name in ("regularized", "plain"))
    assert row["train_loss"] == pytest.approx(plain["train_loss"], rel=0.05)
    assert 0 < row["consistency"] < 1
    assert list(row) == ["step", "epoch", "train_loss", "consistency", *list(plain)[3:]]


def test_the_reported_consistency_is_the_mean_over_tokens(brief: Make, new_trainer: NewTrainer, monkeypatch: Any):
    trainer = new_trainer(brief(R_DROP))
    parts: list[Tensor] = []
    original = Losses.measured
    monkeypatch.setattr(Losses, "measured", lambda losses: parts.append(original(losses)) or parts[-1])
    weights = []
    for trainer.progress.step in range(3):
        weights.append(trainer.batches.own(trainer.progress.step, SINGLE)[0][1])
        trainer.step()
    means = [sum(w * part[i] for w, part in zip(weights, parts, strict=True)) / sum(weights) for i in (0, 1)]
    metrics = trainer.training_metrics()
    assert [metrics["train_loss"], metrics["consistency"]] == pytest.approx([each.item() for each in means])


@pytest.mark.parametrize("setting", [R_DROP, SIMCUT])
def test_a_stopped_training_with_consistency_resumes_bit_identically(
    brief: Make, trained_brief: Any, train_in: Any, tmp_path: Path, same_training: Any, setting: str
):
    for steps in (2, 3):
        train_in(brief(setting), stop_after=steps)
    train_in(brief(setting))
    same_training(tmp_path / "run", trained_brief(setting))


@pytest.mark.parametrize("ratio", [1, 0.5])
@pytest.mark.parametrize("setting", [R_DROP, SIMCUT])
def test_a_step_on_a_device_waits_for_lengths_only(
    brief: Make, new_trainer: NewTrainer, pretend_device: PretendDevice, setting: str, ratio: float
):
    trainer = new_trainer(brief(setting, f"training.teacher_forcing.ratio={ratio}"), Callback(), device=DEVICE)
    trainer.step()
    pretend_device.waits.clear()
    trainer.step()
    assert all("recurrent_layers.py" in wait for wait in pretend_device.waits), pretend_device.waits


def test_r_drop_without_dropout_is_refused(brief: Make):
    message = r"training\.consistency\.kind.*'r-drop' compares predictions that differ by dropout.*set model\.dropout"
    with pytest.raises(UserError, match=message):
        brief("model.dropout=0", R_DROP)
    assert brief("model.dropout=0", SIMCUT)


def test_an_option_of_another_kind_is_refused(brief: Make):
    with pytest.raises(UserError, match="cutoff"):
        brief(R_DROP, "training.consistency.cutoff=0.1")
