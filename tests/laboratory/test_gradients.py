"""The gradient at the source by its two paths, compared with a plain backward pass through the whole model."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

import regard as package
from pairwise import FULL
from regard.config import kinds
from regard.config.kinds import DECODERS
from regard.config.schema import ModelSection
from regard.data import Batch, Example, collate
from regard.errors import UserError
from regard.inference.translator import Translator
from regard.laboratory import gradient_report as report_module
from regard.laboratory.gradient_report import RunGradients, gradient_report, run_names
from regard.laboratory.gradients import GradientProfile, InputGradients, input_gradients
from regard.laboratory.lab_report import LabReport
from regard.nn import Seq2Seq
from regard.nn.build import build_model

SOURCE_TOKENS, TARGET_TOKENS = 17, 19
LENGTHS = ((5, 2), (2, 3), (3, 1))  # of sources and targets, without the begin token
EXACT = {"rtol": 1e-12, "atol": 1e-15}

Choice = dict[str, Any]


ATTENTION_OPTIONS = {kind: {"key_size": 12} for kind in ("scaled-dot", "additive")}
ATTENTION_OPTIONS["multi-head"] = {"key_size": 12, "heads": 3}


def encoders() -> dict[str, Choice]:
    recurrent = {
        f"{cell}{'-both-ways' if both else ''}": {"cell": cell, "bidirectional": both, "size": 5, "layers": 2}
        for cell, both in product(kinds.CELLS, (False, True))
    }
    attention = {"size": 6, "heads": 2, "inner_size": 29}
    return recurrent | {
        "self-attention": {"kind": "self-attention", "layers": 2, **attention},
        "plain-attention": {"kind": "plain-attention", "size": 6, "layers": 2},
        "recurrent-self-attention": {"kind": "recurrent-self-attention", "bidirectional": False, **attention},
    }


def decoders() -> dict[str, Choice]:
    recurrent = {
        f"{wiring}-{start}": {"wiring": wiring, "start": start} for wiring in kinds.WIRINGS for start in kinds.STARTS
    }
    return recurrent | {kind: {"kind": kind, "heads": 2} for kind in DECODERS if kind != "recurrent"}


ENCODERS, DECODER_CHOICES = encoders(), decoders()


def build(encoder: str, decoder: str, mechanism: str) -> Seq2Seq:
    """Sizes differ wherever they may."""
    one, other = ENCODERS[encoder], DECODER_CHOICES[decoder]
    state_size = one["size"] * (2 if one.get("bidirectional") else 1)
    copied = other.get("start") == "copy"
    size = state_size if copied or mechanism == "dot" else 14
    own = {"inner_size": 23} if "kind" in other else {"cell": one.get("cell", "gru")}
    other = other | own | {"size": size, "embedding": 3}
    other["layers"] = 1 if copied and "kind" in one else 2
    if "heads" in other and mechanism == "dot" and size % 2:
        other["heads"] = size
    section = {
        "encoder": one | {"embedding": 11, "positions": {"kind": "sine", "width": 2}},
        "decoder": other,
        "attention": {"kind": mechanism, **ATTENTION_OPTIONS.get(mechanism, {})},
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return build_model(ModelSection.model_validate(section), SOURCE_TOKENS, TARGET_TOKENS).double().eval()


def examples() -> list[Example]:
    random = Random(3)

    def ids(tokens: int, count: int) -> tuple[int, ...]:
        return tuple(random.randrange(4, tokens) for _ in range(count))

    return [Example(ids(SOURCE_TOKENS, source), ids(TARGET_TOKENS, 1 + target)) for source, target in LENGTHS]


def plain_gradient(model: Seq2Seq, batch: Batch) -> Tensor:
    """∂loss/∂z by one backward pass through the whole model: [batch, positions, size]."""
    recorded: list[Tensor] = []
    hook = model.encoder.embedding.register_forward_hook(lambda module, given, vectors: recorded.append(vectors))
    logits = model(batch.source, batch.source_valid, batch.inputs, batch.valid)
    hook.remove()
    loss = cross_entropy(logits, batch.outputs[batch.valid], reduction="sum")
    (gradient,) = torch.autograd.grad(loss, recorded, materialize_grads=True)
    return gradient


PAIRS = list(product(ENCODERS, DECODER_CHOICES))


def check_parts(encoder: str, decoder: str, mechanism: str) -> None:
    """The parts add up to the total, are zero at padding, and zero for a path that does not exist."""
    model, batch = build(encoder, decoder, mechanism), collate(examples())
    found = input_gradients(model, batch)
    torch.testing.assert_close(found.bottleneck + found.attention, plain_gradient(model, batch), **EXACT)
    assert not found.bottleneck[~batch.source_valid].any()
    assert not found.attention[~batch.source_valid].any()
    starts_from_final_state = decoder != "transformer" and "zeros" not in decoder
    assert bool(found.bottleneck.any()) == (starts_from_final_state or mechanism == "last")
    assert bool(found.attention.any()) == (mechanism not in ("none", "last"))


@pytest.mark.parametrize("number", range(len(PAIRS)), ids=["-".join(pair) for pair in PAIRS])
def test_parts_add_up_to_the_total(number: int) -> None:
    """Every encoder with every decoder, each with some mechanisms; `make test-full`: with all."""
    mechanisms = list(kinds.MECHANISMS)
    for mechanism in mechanisms if FULL else mechanisms[number % 3 :: 3]:
        check_parts(*PAIRS[number], mechanism)


@pytest.mark.parametrize("decoder", ["before-tanh", "after-copy", "transformer"])
@pytest.mark.parametrize("encoder", ["lstm-both-ways", "self-attention"])
def test_a_sentence_has_the_same_gradient_alone_and_in_a_batch(encoder: str, decoder: str) -> None:
    model = build(encoder, decoder, "multi-head" if decoder == "transformer" else "additive")
    together = input_gradients(model, collate(examples()))
    for row, example in enumerate(examples()):
        alone = input_gradients(model, collate([example]))
        torch.testing.assert_close(alone.loss[0], together.loss[row], **EXACT)
        for name in ("bottleneck", "attention"):
            own = getattr(together, name)[row, : len(example.source)]
            torch.testing.assert_close(own, getattr(alone, name)[0], **EXACT)


def test_loss_is_summed_over_the_sentence() -> None:
    model, batch = build("gru", "before-tanh", "additive"), collate(examples())
    logits = model(batch.source, batch.source_valid, batch.inputs, batch.valid)
    losses = torch.zeros(batch.valid.shape, dtype=torch.float64)
    losses[batch.valid] = cross_entropy(logits, batch.outputs[batch.valid], reduction="none")
    torch.testing.assert_close(input_gradients(model, batch).loss, losses.sum(1).detach(), **EXACT)


def test_norms_of_the_total_and_its_parts() -> None:
    # Two sentences of three positions; the parts are at right angles, the same, and opposite.
    one = torch.tensor([[3.0, 0.0], [1.0, 0.0], [2.0, 0.0]]).expand(2, -1, -1)
    other = torch.tensor([[0.0, 4.0], [1.0, 0.0], [-2.0, 0.0]]).expand(2, -1, -1)
    norms = InputGradients(torch.zeros(2), bottleneck=one, attention=other).norms
    assert norms[1].tolist() == [[5, 2, 0], [3, 1, 2], [4, 1, 2]]
    assert norms.shape == (2, 3, 3)


def profile(*norms: list[float]) -> GradientProfile:
    """Sentences with a quarter of the gradient through the bottleneck."""
    parts = [torch.tensor(row).double() * torch.tensor([[1], [0.25], [0.75]]) for row in norms]
    return GradientProfile(1, [0.0] * len(norms), parts)


def test_a_mean_is_over_the_sentences_that_have_the_position() -> None:
    run = profile([1, 2, 3], [5, 8], [3, 8, 11, 16, 32])
    assert [run.at_position(index)["total"] for index in run.positions] == [3, 6, 7, 16, 32]
    assert [run.at_position(-1 - index)["total"] for index in run.positions] == pytest.approx([43 / 3, 23 / 3, 6, 8, 3])
    assert [run.sentences_with(index) for index in run.positions] == [3, 3, 2, 1, 1]
    assert run.at_position(0) == {"total": 3, "bottleneck": 0.75, "attention": 2.25}
    assert run.at_middle()["total"] == pytest.approx((2 + 8 + 11) / 3)
    assert (run.share("bottleneck"), run.share("attention")) == (0.25, 0.75)


def test_first_last_ratio_is_the_median_over_sentences() -> None:
    assert profile([1, 2, 4], [6, 3], [5, 7, 0], [1, 100]).first_last_ratio() == 0.25
    assert profile([1, 0.0], [0.0, 0.0]).first_last_ratio() is None


def test_rare_positions_are_omitted() -> None:
    rows = [[1.0] * 2] * 18 + [[1.0] * 5] * 2 + [[1.0] * 7]
    assert profile(*rows).common_positions == [0, 1, 2, 3, 4]
    assert profile([1.0] * 3).common_positions == [0, 1, 2], "all positions of a single sentence are shown"


def test_without_any_gradient_there_is_no_share() -> None:
    assert profile([0.0, 0.0]).share("attention") is None


@pytest.fixture
def translators(trained: Path, trained_brief) -> list[Translator]:
    return [package.load(trained), package.load(trained_brief("model.attention.kind=none"))]


def test_a_report_has_all_positions_of_all_runs(translators: list[Translator]) -> None:
    expected: list[int] = []
    done: list[int] = []
    report = gradient_report(translators, "test", 31, expect=expected.append, advance=done.append)
    assert [sum(done)] == expected == [7 * 2 * 31], "two passes for gradients, five for losses"
    with_attention, without = report.data["runs"]
    assert (with_attention["attention"], without["attention"]) == ("dot", "none")
    assert with_attention["shares"]["attention"] > 0.5
    assert without["shares"] == {"bottleneck": pytest.approx(1), "attention": 0}
    assert with_attention["loss"] < 1 < without["loss"]
    assert [row["position"] for row in without["positions"]] == [1, 2, 3, 4, 5, 6], "five letters and the end"
    assert without["positions"][0]["sentences"] == 31
    assert without["positions"][0]["total"] == without["first"]["total"]
    for run in report.data["runs"]:
        assert run["conditions"]["reference"]["loss"] == pytest.approx(run["loss_per_token"])
        assert {row["part"] for row in run["weights"]} >= {"encoder.cell", "decoder.embedding", "decoder.readout"}


def test_progress_reaches_its_total_with_one_sentence(translators: list[Translator]) -> None:
    """A single sentence has no other source: three of the five conditions are skipped."""
    expected: list[int] = []
    done: list[int] = []
    report = gradient_report(translators, "test", 1, expect=expected.append, advance=done.append)
    assert [sum(done)] == expected == [2 * (2 + 2)]
    assert list(report.data["runs"][0]["conditions"]) == ["reference", "free_running"]


def test_the_bottleneck_is_also_the_context_of_last_attention(trained_brief) -> None:
    """Then the gradient has one path even if the decoder starts from zeros, and the page describes it."""
    translator = package.load(trained_brief("model.attention.kind=last", "model.decoder.start=zeros"))
    report = gradient_report([translator], "test", 5)
    assert report.data["runs"][0]["shares"] == {"bottleneck": pytest.approx(1), "attention": 0}
    assert "the encoder's final state (the bottleneck)" in report.page.lead
    assert "the context of every step with last attention" in report.page.lead


def test_the_loss_is_what_the_model_scores(translators: list[Translator]) -> None:
    translator = translators[0]
    pairs = list(translator.experiment.task.dataset.pairs("test"))[:23]
    scores = translator.score([(pair.source, pair.target) for pair in pairs])
    (run,) = gradient_report([translator], "test", 23).data["runs"]
    assert run["loss"] == pytest.approx(-sum(score.log_probability for score in scores) / 23, rel=1e-4)
    tokens = sum(len(score.log_probabilities) for score in scores)
    assert run["loss_per_token"] * tokens == pytest.approx(run["loss"] * 23)


def test_counted_from_the_end_the_first_position_is_the_last(translators: list[Translator]) -> None:
    (run,) = gradient_report(translators[:1], "test", 31, from_end=True).data["runs"]
    assert run["positions"][0]["total"] == run["last"]["total"] != run["first"]["total"]


def test_untrained_model_has_a_higher_loss(translators: list[Translator]) -> None:
    trained, untrained = (gradient_report(translators[:1], "test", 31, untrained=each) for each in (False, True))
    assert trained.data["weights"] == "trained"
    assert untrained.data["weights"] == "untrained"
    assert untrained.data["runs"][0]["loss"] > 5 > trained.data["runs"][0]["loss"]
    assert {row["change"] for row in untrained.data["runs"][0]["weights"]} == {0}
    assert min(row["change"] for row in trained.data["runs"][0]["weights"]) > 0


def panels(report: LabReport) -> dict[str, list[str]]:
    legend = [text.get_text() for text in report.figure.legends[0].get_texts()]
    assert legend == ["total gradient", "through the bottleneck", "through attention"]
    assert {axes.get_yscale() for axes in report.figure.axes} == {"log"}
    return {axes.get_title("left"): [len(line.get_xdata()) for line in axes.lines] for axes in report.figure.axes}


def test_the_picture_has_a_panel_for_each_run_and_a_line_for_each_part(translators: list[Translator]) -> None:
    drawn = panels(gradient_report(translators, "test", 31))
    assert drawn == {"dot attention": [6, 6, 6], "no attention": [6, 6]}, "zeros cannot be drawn on a log scale"


def test_runs_with_the_same_mechanism_are_titled_by_name(trained: Path, trained_brief) -> None:
    other = trained_brief()
    drawn = panels(gradient_report([package.load(trained), package.load(other)], "test", 5))
    assert list(drawn) == [trained.name, other.name]


def test_runs_with_the_same_name_are_named_by_path(trained_brief) -> None:
    paths = [trained_brief("training.seed=2"), trained_brief("training.seed=3")]
    assert paths[0].name == paths[1].name
    assert run_names([package.load(path) for path in paths]) == [str(path) for path in paths]


def test_a_decoder_without_a_path_to_the_source_has_no_gradient(trained_brief) -> None:
    translator = package.load(trained_brief("model.attention.kind=none", "model.decoder.start=zeros"))
    report = gradient_report([translator], "test", 5)
    (run,) = report.data["runs"]
    assert run["shares"] == {"bottleneck": None, "attention": None}
    assert [text.get_text() for text in report.figure.texts] == ["no gradient reaches the source"]


def test_a_run_given_twice_is_refused(trained: Path) -> None:
    with pytest.raises(UserError, match="this run is given twice; give each run once"):
        gradient_report([package.load(trained)] * 2, "test", 5)


def test_command_prints_draws_and_writes(regard, trained: Path, trained_brief, tmp_path: Path) -> None:
    runs = trained, trained_brief("model.attention.kind=none")
    picture, page = tmp_path / "gradients.png", tmp_path / "gradients.html"
    answer = regard("gradients", *runs, "--limit", 20, "--out", picture, "--out", page)
    assert (answer.code, answer.err) == (0, "")
    assert "through the bottleneck  through attention" in answer.out
    assert f"{trained.name}, from the start of the source" in answer.out
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert b"no attention: brief" in page.read_bytes()
    for shown in ("decoder.readout", "other source, reference prefix", "own source, own outputs"):
        assert shown in answer.out
        assert shown in page.read_text(encoding="utf-8")
    answer = regard("gradients", *runs, "--limit", 20, "--from-end", "--untrained", "--json")
    data = json.loads(answer.out)
    assert (data["from_end"], data["weights"], len(data["runs"])) == (True, "untrained", 2)


def test_table_of_a_long_source_is_thinned(trained: Path) -> None:
    run = RunGradients("a", package.load(trained), profile([1.0] * 97), [], {})
    assert len(report_module._position_table(run, False, "").rows) <= report_module.MAX_ROWS
