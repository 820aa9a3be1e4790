"""The gradient at the source by its two doors, held against a plain pass back through the whole model."""

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
from regard import nn
from regard.config.schema import ModelSection
from regard.data import Batch, Example, collate
from regard.errors import UserError
from regard.inference.translator import Translator
from regard.laboratory import gradients
from regard.laboratory.gradients import GradientProfile, Gradients, gradients_of
from regard.laboratory.lab_report import LabReport
from regard.nn import Seq2Seq
from regard.nn.build import DECODERS, build_model

SOURCE_TOKENS, TARGET_TOKENS = 17, 19
LENGTHS = ((5, 2), (2, 3), (3, 1))  # of sources and targets, without what the decoder reads first
EXACT = {"rtol": 1e-12, "atol": 1e-15}

Choice = dict[str, Any]


def encoders() -> dict[str, Choice]:
    recurrent = {
        f"{cell}{'-both-ways' if both else ''}": {"cell": cell, "bidirectional": both, "size": 5, "layers": 2}
        for cell, both in product(nn.CELLS, (False, True))
    }
    return recurrent | {"self-attention": {"kind": "self-attention", "size": 6, "heads": 2, "layers": 2}}


def decoders() -> dict[str, Choice]:
    recurrent = {
        f"{wiring}-{start}": {"wiring": wiring, "start": start} for wiring in nn.WIRINGS for start in nn.STARTS
    }
    return recurrent | {kind: {"kind": kind, "heads": 2} for kind in DECODERS if kind != "recurrent"}


ENCODERS, DECODER_CHOICES = encoders(), decoders()


def build(encoder: str, decoder: str, mechanism: str) -> Seq2Seq:
    """Sizes differ wherever they may."""
    one, other = ENCODERS[encoder], DECODER_CHOICES[decoder]
    state_size = one["size"] * (2 if one.get("bidirectional") else 1)
    copied = other.get("start") == "copy"
    size = state_size if copied or mechanism == "dot" else 14
    other = other | {"cell": one.get("cell", "gru"), "size": size, "embedding": 3, "inner_size": 23}
    other["layers"] = 1 if copied and "kind" in one else 2
    if mechanism == "dot" and size % 2:
        other["heads"] = size
    section = {
        "encoder": one | {"embedding": 11, "inner_size": 29, "positions": {"kind": "sine", "width": 2}},
        "decoder": other,
        "attention": {"kind": mechanism, "heads": 3, "key_size": 12},
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return build_model(ModelSection.model_validate(section), SOURCE_TOKENS, TARGET_TOKENS).double().eval()


def examples() -> list[Example]:
    random = Random(3)

    def numbers(tokens: int, count: int) -> tuple[int, ...]:
        return tuple(random.randrange(4, tokens) for _ in range(count))

    return [Example(numbers(SOURCE_TOKENS, source), numbers(TARGET_TOKENS, 1 + target)) for source, target in LENGTHS]


def plain_gradient(model: Seq2Seq, batch: Batch) -> Tensor:
    """∂loss/∂z by one pass back, without any door: [batch, positions, size]."""
    caught: list[Tensor] = []
    hook = model.encoder.embedding.register_forward_hook(lambda module, given, vectors: caught.append(vectors))
    logits = model(batch.source, batch.source_valid, batch.inputs, batch.valid)
    hook.remove()
    loss = cross_entropy(logits, batch.outputs[batch.valid], reduction="sum")
    (gradient,) = torch.autograd.grad(loss, caught, materialize_grads=True)
    return gradient


PAIRS = list(product(ENCODERS, DECODER_CHOICES))


def check_parts(encoder: str, decoder: str, mechanism: str) -> None:
    """They add up to the whole, padding has none, and a door that is closed lets nothing through."""
    model, batch = build(encoder, decoder, mechanism), collate(examples())
    found = gradients_of(model, batch)
    torch.testing.assert_close(found.bottleneck + found.attention, plain_gradient(model, batch), **EXACT)
    assert not found.bottleneck[~batch.source_valid].any()
    assert not found.attention[~batch.source_valid].any()
    assert bool(found.bottleneck.any()) == (decoder != "transformer" and "zeros" not in decoder)
    assert bool(found.attention.any()) == (mechanism != "none")


@pytest.mark.parametrize("number", range(len(PAIRS)), ids=["-".join(pair) for pair in PAIRS])
def test_the_two_parts_add_up_to_the_whole(number: int) -> None:
    """Every encoder with every decoder, each with some mechanisms."""
    for mechanism in list(nn.MECHANISMS)[number % 3 :: 3]:
        check_parts(*PAIRS[number], mechanism)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", nn.MECHANISMS)
def test_they_do_so_in_every_combination(mechanism: str) -> None:
    for pair in PAIRS:
        check_parts(*pair, mechanism)


@pytest.mark.parametrize("decoder", ["before-tanh", "after-copy", "transformer"])
@pytest.mark.parametrize("encoder", ["lstm-both-ways", "self-attention"])
def test_a_sentence_has_the_same_gradient_alone_and_in_a_batch(encoder: str, decoder: str) -> None:
    model = build(encoder, decoder, "multi-head" if decoder == "transformer" else "additive")
    together = gradients_of(model, collate(examples()))
    for row, example in enumerate(examples()):
        alone = gradients_of(model, collate([example]))
        torch.testing.assert_close(alone.loss[0], together.loss[row], **EXACT)
        for name in ("bottleneck", "attention"):
            own = getattr(together, name)[row, : len(example.source)]
            torch.testing.assert_close(own, getattr(alone, name)[0], **EXACT)


def test_the_loss_is_that_of_the_whole_sentence() -> None:
    model, batch = build("gru", "before-tanh", "additive"), collate(examples())
    logits = model(batch.source, batch.source_valid, batch.inputs, batch.valid)
    surprise = torch.zeros(batch.valid.shape, dtype=torch.float64)
    surprise[batch.valid] = cross_entropy(logits, batch.outputs[batch.valid], reduction="none")
    torch.testing.assert_close(gradients_of(model, batch).loss, surprise.sum(1).detach(), **EXACT)


def test_norms_are_of_the_whole_and_of_its_parts() -> None:
    # Two sentences of three positions; the parts are at right angles, the same, and opposite.
    one = torch.tensor([[3.0, 0.0], [1.0, 0.0], [2.0, 0.0]]).expand(2, -1, -1)
    other = torch.tensor([[0.0, 4.0], [1.0, 0.0], [-2.0, 0.0]]).expand(2, -1, -1)
    norms = Gradients(torch.zeros(2), bottleneck=one, attention=other).norms
    assert norms[1].tolist() == [[5, 2, 0], [3, 1, 2], [4, 1, 2]]
    assert norms.shape == (2, 3, 3)


def measured(*norms: list[float]) -> GradientProfile:
    """Sentences whose gradients come through the bottleneck for a quarter."""
    parts = [torch.tensor(row).double() * torch.tensor([[1], [0.25], [0.75]]) for row in norms]
    return GradientProfile("a", None, 1, [0.0] * len(norms), parts)  # type: ignore[arg-type]


def test_a_mean_is_over_the_sentences_that_have_the_position() -> None:
    run = measured([1, 2, 3], [5, 8], [3, 8, 11, 16, 32])
    assert [run.at(place)["whole"] for place in run.places] == [3, 6, 7, 16, 32]
    assert [run.at(-1 - place)["whole"] for place in run.places] == pytest.approx([43 / 3, 23 / 3, 6, 8, 3])
    assert [run.having(place) for place in run.places] == [3, 3, 2, 1, 1]
    assert run.at(0) == {"whole": 3, "bottleneck": 0.75, "attention": 2.25}
    assert run.in_the_middle()["whole"] == pytest.approx((2 + 8 + 11) / 3)
    assert (run.share("bottleneck"), run.share("attention")) == (0.25, 0.75)


def test_first_to_last_is_that_of_the_median_sentence() -> None:
    assert measured([1, 2, 4], [6, 3], [5, 7, 0], [1, 100]).first_to_last() == 0.25
    assert measured([1, 0.0], [0.0, 0.0]).first_to_last() is None


def test_positions_that_few_sentences_have_are_left_out() -> None:
    rows = [[1.0] * 2] * 18 + [[1.0] * 5] * 2 + [[1.0] * 7]
    assert measured(*rows).common_places == [0, 1, 2, 3, 4]
    assert measured([1.0] * 3).common_places == [0, 1, 2], "one sentence alone is shown whole"


def test_without_any_gradient_there_is_no_share() -> None:
    assert measured([0.0, 0.0]).share("attention") is None


@pytest.fixture
def translators(trained: Path, trained_brief) -> list[Translator]:
    return [package.load(trained), package.load(trained_brief("model.attention.kind=none"))]


def test_a_report_has_all_positions_of_all_runs(translators: list[Translator]) -> None:
    done: list[int] = []
    report = gradients.gradient_report(translators, "test", 31, advance=done.append)
    assert sum(done) == 2 * 31
    with_attention, without = report.data["runs"]
    assert (with_attention["attention"], without["attention"]) == ("dot", "none")
    assert with_attention["shares"]["attention"] > 0.5
    assert without["shares"] == {"bottleneck": pytest.approx(1), "attention": 0}
    assert with_attention["loss"] < 1 < without["loss"]
    assert [row["position"] for row in without["positions"]] == [1, 2, 3, 4, 5, 6], "five letters and the end"
    assert without["positions"][0]["sentences"] == 31
    assert without["positions"][0]["whole"] == without["first"]["whole"]


def test_the_loss_is_what_the_model_scores(translators: list[Translator]) -> None:
    translator = translators[0]
    pairs = list(translator.experiment.data.pairs("test"))[:23]
    scores = translator.score([(pair.source, pair.target) for pair in pairs])
    (run,) = gradients.gradient_report([translator], "test", 23).data["runs"]
    assert run["loss"] == pytest.approx(-sum(score.log_probability for score in scores) / 23, rel=1e-4)
    tokens = sum(len(score.log_probabilities) for score in scores)
    assert run["loss_per_token"] * tokens == pytest.approx(run["loss"] * 23)


def test_counted_from_the_end_the_first_position_is_the_last(translators: list[Translator]) -> None:
    (run,) = gradients.gradient_report(translators[:1], "test", 31, from_end=True).data["runs"]
    assert run["positions"][0]["whole"] == run["last"]["whole"] != run["first"]["whole"]


def test_an_untrained_model_has_more_to_learn(translators: list[Translator]) -> None:
    trained, untrained = (
        gradients.gradient_report(translators[:1], "test", 31, untrained=each) for each in (False, True)
    )
    assert trained.data["weights"] == "trained"
    assert untrained.data["weights"] == "untrained"
    assert untrained.data["runs"][0]["loss"] > 5 > trained.data["runs"][0]["loss"]


def panels(report: LabReport) -> dict[str, list[str]]:
    legend = [text.get_text() for text in report.figure.legends[0].get_texts()]
    assert legend == ["whole gradient", "through the bottleneck", "through attention"]
    assert {axes.get_yscale() for axes in report.figure.axes} == {"log"}
    return {axes.get_title("left"): [len(line.get_xdata()) for line in axes.lines] for axes in report.figure.axes}


def test_the_picture_has_a_panel_for_each_run_and_a_line_for_each_part(translators: list[Translator]) -> None:
    drawn = panels(gradients.gradient_report(translators, "test", 31))
    assert drawn == {"dot attention": [6, 6, 6], "no attention": [6, 6]}, "what is 0 has no place on this scale"


def test_runs_that_attend_alike_are_told_apart_by_name(trained: Path, trained_brief) -> None:
    other = trained_brief()
    drawn = panels(gradients.gradient_report([package.load(trained), package.load(other)], "test", 5))
    assert list(drawn) == [trained.name, other.name]


def test_runs_of_the_same_name_are_told_apart_by_path(trained_brief) -> None:
    paths = [trained_brief("training.seed=2"), trained_brief("training.seed=3")]
    assert paths[0].name == paths[1].name
    assert gradients.names_of([package.load(path) for path in paths]) == [str(path) for path in paths]


def test_a_source_that_is_never_read_has_no_gradient(trained_brief) -> None:
    translator = package.load(trained_brief("model.attention.kind=none", "model.decoder.start=zeros"))
    report = gradients.gradient_report([translator], "test", 5)
    (run,) = report.data["runs"]
    assert run["shares"] == {"bottleneck": None, "attention": None}
    assert [text.get_text() for text in report.figure.texts] == ["no gradient reaches the source"]


def test_a_run_named_twice_is_refused(trained: Path) -> None:
    with pytest.raises(UserError, match="this run is named twice; name each run once"):
        gradients.gradient_report([package.load(trained)] * 2, "test", 5)


def test_the_command_tells_draws_and_writes(regard, trained: Path, trained_brief, tmp_path: Path) -> None:
    runs = trained, trained_brief("model.attention.kind=none")
    picture, page = tmp_path / "gradients.png", tmp_path / "gradients.html"
    answer = regard("gradients", *runs, "--limit", 20, "--out", picture, "--out", page)
    assert (answer.code, answer.err) == (0, "")
    assert "through the bottleneck  through attention" in answer.out
    assert f"{trained.name}, from the source's start" in answer.out
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert b"no attention: brief" in page.read_bytes()
    answer = regard("gradients", *runs, "--limit", 20, "--from-end", "--untrained", "--json")
    data = json.loads(answer.out)
    assert (data["from_end"], data["weights"], len(data["runs"])) == (True, "untrained", 2)


def test_a_long_source_still_fits_a_screen(trained: Path) -> None:
    run = measured([1.0] * 97)
    assert len(gradients._table(run, False, "").rows) <= gradients.MOST_ROWS
