"""What an output depends on, in a model that is known to depend on one source token at each step."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import regard as package
from regard import nn
from regard.config.schema import ModelSection
from regard.data import Example, pad
from regard.errors import UserError
from regard.inference.translator import Translator
from regard.laboratory import faithfulness, importance
from regard.laboratory.embeddings import encode, precise, vectors_of
from regard.laboratory.faithfulness import KEYS, RankAgreement, share_by_lot, share_of_first
from regard.laboratory.importance import Importance, importance_of
from regard.nn import Encoder, Encoding, Seq2Seq
from regard.nn.build import build_model

TOKENS = 11
SOURCE, TARGET = (5, 9, 4, 7, 6), (1, 4, 6, 9)  # of the source, the third, the fifth and the second are said


class PlainEncoder(Encoder):
    """h_i = z_i."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(TOKENS, TOKENS)
        self.size = TOKENS

    def forward(self, tokens: Tensor, valid: Tensor) -> Encoding:
        vectors = self.embedding(tokens)
        return Encoding(vectors, valid, (vectors[:, -1].unsqueeze(0),))


class Pointing(nn.Attention):
    """At step t, all its weight is on the position that `places` names."""

    def __init__(self, places: tuple[int, ...]) -> None:
        super().__init__(TOKENS, TOKENS, hard=True)
        self.places = places

    def score(self, query: Tensor, keys: Tensor) -> Tensor:
        scores = query.new_zeros(len(query), query.shape[1], keys.shape[1])
        scores[:, range(len(self.places)), self.places] = 1.0
        return scores


class Saying(nn.Decoder[Encoding]):
    """At step t it says the token at the position that `says` names, and looks where `looks` tells it to."""

    def __init__(self, says: tuple[int, ...], looks: tuple[int, ...]) -> None:
        super().__init__()
        self.says, self.looks = Pointing(says), Pointing(looks)
        self.readout = torch.nn.Identity()  # type: ignore[assignment]

    @property
    def source_attentions(self) -> tuple[nn.Attention, ...]:
        return (self.looks,)

    def start(self, encoding: Encoding) -> Encoding:  # type: ignore[override]
        return encoding

    def forward_steps(self, tokens: Tensor, state: Encoding) -> tuple[Tensor, Tensor, Encoding]:
        query = state.states.new_zeros(*tokens.shape, TOKENS)
        said, _ = self.says(query, self.says.prepare(state.states, state.valid))
        _, weights = self.looks(query, self.looks.prepare(state.states, state.valid))
        return said, weights, state


def copying(looks: tuple[int, ...] = (2, 4, 1)) -> Seq2Seq:
    """Its logits are the vector of the source token that it says, which is 3 at the token's number."""
    model = Seq2Seq(PlainEncoder(), Saying((2, 4, 1), looks))
    embedding = model.encoder.embedding
    with torch.no_grad():
        embedding.tokens.weight.copy_(3 * torch.eye(TOKENS) / embedding.scale)
    return precise(model)


def test_what_is_copied_is_all_that_counts() -> None:
    maps = importance_of(copying(), Example(SOURCE, TARGET)).maps
    assert maps.shape == (3, 3, 5)
    for step, place in enumerate((2, 4, 1)):
        for measure in maps[:, step]:
            assert measure.nonzero().flatten().tolist() == [place]


def test_the_sizes_are_those_of_the_formulas() -> None:
    found = importance_of(copying(), Example(SOURCE, TARGET))
    e3 = torch.tensor(3.0, dtype=torch.float64).exp()
    p = e3 / (e3 + TOKENS - 1)
    assert found.log_probabilities.tolist() == pytest.approx([float(p.log())] * 3)
    attention, occlusion, gradient = found.maps[:, 0, 2].tolist()
    assert attention == 1
    # Without z, all logits are 0; the slope at the said token's own logit, 3, is 1 − p.
    assert occlusion == pytest.approx(float(p.log()) - float(torch.tensor(1 / TOKENS).log()))
    assert gradient == pytest.approx(3 * (1 - float(p)))


def test_attention_that_looks_beside_is_found_out() -> None:
    honest, other = (
        RankAgreement.of(importance_of(copying(looks), Example(SOURCE, TARGET)).maps)
        for looks in ((2, 4, 1), (2, 0, 3))
    )
    assert [honest.mean(key, "same_first") for key in KEYS] == [1, 1, 1]
    assert [honest.mean(key, "spearman") for key in KEYS] == pytest.approx([1, 1, 1])
    assert [step["same_first"] for step in other.steps[KEYS[0]]] == [1, 0, 0]
    assert other.mean(KEYS[0], "spearman") == pytest.approx((1 - 1 / 4 - 1 / 4) / 3)
    assert other.mean(KEYS[2], "kendall") == pytest.approx(1)
    assert share_of_first([honest, other], KEYS[0]) == pytest.approx(4 / 6)
    assert share_by_lot([honest, other]) == pytest.approx(1 / 5)


CODERS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"cell": "lstm", "bidirectional": True, "size": 5}, {"cell": "gru", "wiring": "before"}),
    ({"cell": "gru", "size": 5}, {"cell": "tanh", "wiring": "after", "layers": 2}),
    ({"kind": "self-attention", "size": 6, "heads": 2, "inner_size": 13}, {"kind": "transformer", "heads": 2}),
]


def drawn(coders: tuple[dict[str, Any], dict[str, Any]]) -> Seq2Seq:
    encoder, decoder = ({"embedding": 7} | coder for coder in coders)
    attention = {"kind": "multi-head", "heads": 3, "key_size": 12}
    section = {"encoder": encoder, "decoder": decoder | {"size": 14}, "attention": attention}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2)
        return precise(build_model(ModelSection.model_validate(section), TOKENS, TOKENS))


@torch.no_grad()
def log_p(model: Seq2Seq, example: Example, vectors: Tensor) -> Tensor:
    """log p of each output token, step by step: [output]."""
    source, valid = pad([example.source])
    state = model.decoder.start(encode(model.encoder, source, valid, vectors))
    steps = []
    for read, said in zip(example.target, example.target[1:], strict=False):
        logits, state = model.decoder.step(torch.tensor([read]), state)
        steps.append(logits.log_softmax(-1)[0, said])
    return torch.stack(steps)


@pytest.mark.parametrize("at_once", [1, 47, 100_000])
@pytest.mark.parametrize("coders", CODERS, ids=["before", "after", "transformer"])
def test_each_measure_is_what_it_is_called(coders, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One position after the other, one step after the other, whatever is computed at once."""
    monkeypatch.setattr(importance, "AT_ONCE", at_once)
    model, example = drawn(coders), Example(SOURCE, TARGET)
    found = importance_of(model, example)
    vectors = vectors_of(model.encoder, torch.tensor([example.source]))
    steps = log_p(model, example, vectors)
    torch.testing.assert_close(found.log_probabilities, steps)
    attention, occlusion, gradient = found.maps
    torch.testing.assert_close(attention.sum(-1), torch.ones(3, dtype=torch.float64))
    for place in range(len(SOURCE)):
        without = vectors.clone()
        without[:, place] = 0
        change = steps - log_p(model, example, without)
        torch.testing.assert_close(occlusion[:, place], change.abs())
        assert change.abs().min() > 1e-9, "here every position counts"
    for step, place in product(range(3), range(len(SOURCE))):
        # The slope towards z_i = 0, by differences.
        little = torch.zeros_like(vectors)
        little[:, place] = 1e-6 * vectors[:, place]
        more, less = (log_p(model, example, vectors + sign * little)[step] for sign in (1, -1))
        assert float(gradient[step, place]) == pytest.approx(abs(float(more - less)) / 2e-6, rel=1e-4, abs=1e-8)


def test_embeddings_that_both_sides_share_are_changed_on_one_side_alone() -> None:
    section = {"encoder": {"embedding": 7, "size": 5}, "decoder": {"embedding": 7, "size": 5}, "share_embeddings": True}
    model = precise(build_model(ModelSection.model_validate(section), TOKENS, TOKENS))
    assert model.encoder.embedding.tokens is model.decoder.embedding.tokens
    source, valid = pad([SOURCE])
    vectors = torch.zeros(1, 5, 7, dtype=torch.float64)
    encode(model.encoder, source, valid, vectors)
    assert model.encoder.embedding(source).any(), "afterwards all is as it was"
    assert model.decoder.embedding(source).any()


def test_rows_are_scaled_to_sum_to_one() -> None:
    maps = torch.tensor([[[1.0, 3.0], [0.0, 0.0]], [[2.0, 0.0], [4.0, 12.0]]])
    shares = Importance(torch.zeros(2), maps).shares()
    assert shares.tolist() == [[[0.25, 0.75], [0, 0]], [[1, 0], [0.25, 0.75]]]


def test_a_step_without_an_order_is_left_out() -> None:
    rows = torch.tensor([[0.2, 0.3, 0.5], [1 / 3, 1 / 3, 1 / 3]])
    agreement = RankAgreement.of(
        torch.stack([rows, torch.tensor([[1.0, 2.0, 3.0]] * 2), torch.tensor([[3.0, 2.0, 1.0]] * 2)])
    )
    assert [agreement.count(key) for key in KEYS] == [1, 1, 2]
    assert [agreement.mean(key, "spearman") for key in KEYS] == pytest.approx([1, -1, -1])
    assert [step["same_first"] for step in agreement.steps[KEYS[0]]] == [1, None]
    said = " ".join(faithfulness._findings([agreement]))
    assert "There is no order to compare at 1 of 2 steps" in said


@pytest.fixture
def translator(trained: Path) -> Translator:
    return package.load(trained)


def test_a_report_on_a_text(translator: Translator) -> None:
    report = faithfulness.faithfulness_report(translator, "abcd")
    data = report.data
    assert data["output"] == "abcd"
    assert data["tokens"] == ("a", "b", "c", "d", "<end>")
    (translation,) = translator.translate(["abcd"])
    assert data["log_probabilities"] == pytest.approx(translation.log_probabilities, abs=1e-5)
    torch.testing.assert_close(torch.tensor(data["attention"]), translation.attention, rtol=1e-4, atol=1e-4)
    for name in ("occlusion", "gradient_times_input"):
        assert torch.tensor(data[name]).shape == (5, 5)
    assert torch.tensor(data["occlusion"])[:4].argmax(-1).tolist() == [0, 1, 2, 3], "it copies"
    assert data["agreement"]["attention_occlusion"]["same_first"] >= 0.8
    assert data["agreement"]["by_chance"] == 1 / 5
    names = [axes.get_title() for axes in report.figure.axes if axes.images]
    assert names == ["attention", "occlusion", "gradient × input"]


def test_what_was_cut_off_is_explained_as_far_as_it_goes(trained_brief) -> None:
    """An output without an end has no end to explain."""
    translator = package.load(trained_brief("decoding.length_factor=0", "decoding.length_extra=1"))
    (translation,) = translator.translate(["abc"])
    data = faithfulness.faithfulness_report(translator, "abc").data
    assert data["tokens"] == translation.tokens
    assert len(data["occlusion"]) == 1


def test_a_report_on_a_split(translator: Translator) -> None:
    done: list[int] = []
    report = faithfulness.faithfulness_report_on_split(translator, "test", 23, done.append)
    assert sum(done) == len(report.data["sentences"]) == 23
    rows = [row["attention_occlusion"]["spearman"] for row in report.data["sentences"]]
    summary = report.data["agreement"]["attention_occlusion"]["spearman"]
    assert summary["mean"] == pytest.approx(sum(rows) / 23)
    assert summary["low"] < summary["mean"] < summary["high"]
    first = report.data["sentences"][0]
    alone = faithfulness.faithfulness_report(translator, first["source"]).data["agreement"]
    assert first["attention_occlusion"] == pytest.approx(alone["attention_occlusion"])
    (axes,) = report.figure.axes
    assert [len(line.get_xdata()) for line in axes.lines] == [1, 23] * 3
    assert [text.get_text() for text in report.figure.legends[0].get_texts()][1] == "one sentence"


def test_one_sentence_has_no_spread(translator: Translator) -> None:
    report = faithfulness.faithfulness_report_on_split(translator, "test", 1)
    assert report.data["agreement"]["occlusion_gradient"]["kendall"]["deviation"] is None
    (table,) = [block for block in report.page.sections[0].blocks if hasattr(block, "rows")]
    assert [row[2] for row in table.rows] == ["–"] * 3


def test_a_model_that_looks_nowhere_is_refused(trained_brief) -> None:
    translator = package.load(trained_brief("model.attention.kind=none"))
    for ask in (
        lambda: faithfulness.faithfulness_report(translator, "abc"),
        lambda: faithfulness.faithfulness_report_on_split(translator, "test", 3),
    ):
        with pytest.raises(UserError, match=r"this model looks nowhere, .*: model\.attention\.kind is 'none'"):
            ask()


def test_a_model_that_looks_everywhere_alike_has_no_order(trained_brief, regard) -> None:
    path = trained_brief("model.attention.kind=mean")
    translator = package.load(path)
    for report in (
        faithfulness.faithfulness_report(translator, "abc"),
        faithfulness.faithfulness_report_on_split(translator, "test", 3),
    ):
        assert "NaN" not in json.dumps(report.data)
        assert report.data["agreement"]["attention_occlusion"] in (
            {"spearman": None, "kendall": None, "same_first": None, "steps": 0},
            {"spearman": None, "kendall": None, "same_first": None},
        )
        assert report.data["agreement"]["occlusion_gradient"]["spearman"] is not None
        assert "Attention has the same weight everywhere" in report.page.sections[0].text[0]
    assert "it puts nothing in order" in regard("faithful", path, "abc").out


def test_an_empty_text_is_refused(translator: Translator) -> None:
    with pytest.raises(UserError, match="there is nothing in it to read"):
        faithfulness.faithfulness_report(translator, "")


def test_the_command_tells_draws_and_writes(regard, trained: Path, tmp_path: Path) -> None:
    for text in (["abcde"], []):
        picture, page = tmp_path / "faithful.png", tmp_path / "faithful.html"
        answer = regard("faithful", trained, *text, "--limit", 5, "--out", picture, "--out", page)
        assert (answer.code, answer.err) == (0, "")
        assert "occlusion – gradient × input" in answer.out
        assert "Kendall's τ-b" in answer.out
        assert picture.read_bytes().startswith(b"\x89PNG")
        assert "Spearman&#x27;s ρ" in page.read_text()
        data = json.loads(regard("faithful", trained, *text, "--limit", 5, "--json").out)
        assert data["agreement"].keys() >= set(KEYS)


def test_a_text_that_cannot_be_read_is_told(regard, trained: Path) -> None:
    answer = regard("faithful", trained, "abx")
    assert answer.code == 2
    assert "this text: this task was not trained on the character 'x'" in answer.err
    assert "nothing in it to read" in regard("faithful", trained, "").err
