"""Importance measures and their agreement, on a model that depends on one known source token at each step."""

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
from regard.laboratory import faithfulness_report as report_module
from regard.laboratory.embeddings import double_precision_copy, encode_embeddings, source_embeddings
from regard.laboratory.faithfulness import PAIR_KEYS, RankAgreement, chance_level, top_position_agreement
from regard.laboratory.faithfulness_report import faithfulness_report, faithfulness_report_on_split
from regard.laboratory.importance import Importance, compute_importance
from regard.nn import Encoder, Encoding, Seq2Seq
from regard.nn.build import build_model
from regard.search import SearchOptions

TOKENS = 11
SOURCE, TARGET = (5, 9, 4, 7, 6), (1, 4, 6, 9)  # the output copies the third, fifth and second source token


class PlainEncoder(Encoder):
    """h_i = z_i."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(TOKENS, TOKENS)
        self.size = TOKENS

    @classmethod
    def from_section(cls, section: Any, tokens: int, dropout: float) -> Encoder:
        raise NotImplementedError

    def forward(self, tokens: Tensor, valid: Tensor) -> Encoding:
        vectors = self.embedding(tokens)
        return Encoding(vectors, valid, (vectors[:, -1].unsqueeze(0),))


class FixedAttention(nn.Attention):
    """At step t, all weight is on position `positions[t]`."""

    def __init__(self, positions: tuple[int, ...]) -> None:
        super().__init__(TOKENS, TOKENS, normalizer="hard")
        self.positions = positions

    def score(self, query: Tensor, keys: Tensor) -> Tensor:
        scores = query.new_zeros(len(query), query.shape[1], keys.shape[1])
        scores[:, range(len(self.positions)), self.positions] = 1.0
        return scores


class PointerDecoder(nn.Decoder[Encoding]):
    """At step t, outputs the token at position `copied[t]` and attends to position `attended[t]`."""

    def __init__(self, copied: tuple[int, ...], attended: tuple[int, ...]) -> None:
        super().__init__()
        self.copied, self.attended = FixedAttention(copied), FixedAttention(attended)
        self.readout = torch.nn.Identity()  # type: ignore[assignment]

    @classmethod
    def from_section(cls, *arguments: Any) -> Any:
        raise NotImplementedError

    @property
    def source_attentions(self) -> tuple[nn.Attention, ...]:
        return (self.attended,)

    def start(self, encoding: Encoding) -> Encoding:  # type: ignore[override]
        return encoding

    def forward_steps(self, tokens: Tensor, state: Encoding) -> tuple[Tensor, Tensor, Encoding]:
        query = state.states.new_zeros(*tokens.shape, TOKENS)
        copied, _ = self.copied(query, self.copied.prepare(state.states, state.valid))
        _, weights = self.attended(query, self.attended.prepare(state.states, state.valid))
        return copied, weights, state


def copying(attended: tuple[int, ...] = (2, 4, 1)) -> Seq2Seq:
    """Its logits are the embedding of the copied source token, which is 3 at the token's id."""
    model = Seq2Seq(PlainEncoder(), PointerDecoder((2, 4, 1), attended))
    embedding = model.encoder.embedding
    with torch.no_grad():
        embedding.tokens.weight.copy_(3 * torch.eye(TOKENS) / embedding.scale)
    return double_precision_copy(model)


def test_only_the_copied_position_is_important() -> None:
    maps = compute_importance(copying(), Example(SOURCE, TARGET)).maps
    assert maps.shape == (3, 3, 5)
    for step, position in enumerate((2, 4, 1)):
        for measure in maps[:, step]:
            assert measure.nonzero().flatten().tolist() == [position]


def test_values_match_the_formulas() -> None:
    found = compute_importance(copying(), Example(SOURCE, TARGET))
    e3 = torch.tensor(3.0, dtype=torch.float64).exp()
    p = e3 / (e3 + TOKENS - 1)
    assert found.log_probs.tolist() == pytest.approx([float(p.log())] * 3)
    attention, occlusion, gradient = found.maps[:, 0, 2].tolist()
    assert attention == 1
    # Without z, all logits are 0; the derivative with respect to the token's own logit, 3, is 1 − p.
    assert occlusion == pytest.approx(float(p.log()) - float(torch.tensor(1 / TOKENS).log()))
    assert gradient == pytest.approx(3 * (1 - float(p)))


def test_attention_to_other_positions_lowers_the_agreement() -> None:
    faithful, other = (
        RankAgreement.of_maps(compute_importance(copying(attended), Example(SOURCE, TARGET)).maps)
        for attended in ((2, 4, 1), (2, 0, 3))
    )
    assert [faithful.mean(key, "same_top") for key in PAIR_KEYS] == [1, 1, 1]
    assert [faithful.mean(key, "spearman") for key in PAIR_KEYS] == pytest.approx([1, 1, 1])
    assert [step["same_top"] for step in other.steps[PAIR_KEYS[0]]] == [1, 0, 0]
    assert other.mean(PAIR_KEYS[0], "spearman") == pytest.approx((1 - 1 / 4 - 1 / 4) / 3)
    assert other.mean(PAIR_KEYS[2], "kendall") == pytest.approx(1)
    assert top_position_agreement([faithful, other], PAIR_KEYS[0]) == pytest.approx(4 / 6)
    assert chance_level([faithful, other]) == pytest.approx(1 / 5)


ARCHITECTURES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"cell": "lstm", "bidirectional": True, "size": 5}, {"cell": "gru", "wiring": "before"}),
    ({"cell": "gru", "size": 5}, {"cell": "tanh", "wiring": "after", "layers": 2}),
    ({"kind": "self-attention", "size": 6, "heads": 2, "inner_size": 13}, {"kind": "transformer", "heads": 2}),
]


def random_model(architecture: tuple[dict[str, Any], dict[str, Any]]) -> Seq2Seq:
    encoder, decoder = ({"embedding": 7} | part for part in architecture)
    attention = {"kind": "multi-head", "heads": 3, "key_size": 12}
    section = {"encoder": encoder, "decoder": decoder | {"size": 14}, "attention": attention}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2)
        return double_precision_copy(build_model(ModelSection.model_validate(section), TOKENS, TOKENS))


@torch.no_grad()
def step_log_probs(model: Seq2Seq, example: Example, vectors: Tensor) -> Tensor:
    """log p of each output token, step by step: [output]."""
    source, valid = pad([example.source])
    state = model.decoder.start(encode_embeddings(model.encoder, source, valid, vectors))
    steps = []
    for token, output in zip(example.target, example.target[1:], strict=False):
        logits, state = model.decoder.step(torch.tensor([token]), state)
        steps.append(logits.log_softmax(-1)[0, output])
    return torch.stack(steps)


@pytest.mark.parametrize("architecture", ARCHITECTURES, ids=["before", "after", "transformer"])
def test_measures_match_their_definitions(architecture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Computed one position and one step at a time, for any batch size."""
    model, example = random_model(architecture), Example(SOURCE, TARGET)
    found = compute_importance(model, example)
    for max_cells in (1, 47):
        monkeypatch.setattr(importance, "MAX_CELLS", max_cells)
        torch.testing.assert_close(compute_importance(model, example).maps, found.maps)
    vectors = source_embeddings(model.encoder, torch.tensor([example.source]))
    steps = step_log_probs(model, example, vectors)
    torch.testing.assert_close(found.log_probs, steps)
    attention, occlusion, gradient = found.maps
    torch.testing.assert_close(attention.sum(-1), torch.ones(3, dtype=torch.float64))
    for position in range(len(SOURCE)):
        without = vectors.clone()
        without[:, position] = 0
        change = steps - step_log_probs(model, example, without)
        torch.testing.assert_close(occlusion[:, position], change.abs())
        assert change.abs().min() > 1e-9, "every position has an effect here"
    for step, position in product(range(3), range(len(SOURCE))):
        # The derivative in the direction of z_i, by finite differences.
        delta = torch.zeros_like(vectors)
        delta[:, position] = 1e-6 * vectors[:, position]
        more, less = (step_log_probs(model, example, vectors + sign * delta)[step] for sign in (1, -1))
        assert float(gradient[step, position]) == pytest.approx(abs(float(more - less)) / 2e-6, rel=1e-4, abs=1e-8)


def test_shared_embeddings_are_replaced_in_the_encoder_alone() -> None:
    section = {"encoder": {"embedding": 7, "size": 5}, "decoder": {"embedding": 7, "size": 5}, "share_embeddings": True}
    model = double_precision_copy(build_model(ModelSection.model_validate(section), TOKENS, TOKENS))
    assert model.encoder.embedding.tokens is model.decoder.embedding.tokens
    source, valid = pad([SOURCE])
    vectors = torch.zeros(1, 5, 7, dtype=torch.float64)
    encode_embeddings(model.encoder, source, valid, vectors)
    assert model.encoder.embedding(source).any(), "restored afterwards"
    assert model.decoder.embedding(source).any()


def test_shares_sum_to_one() -> None:
    maps = torch.tensor([[[1.0, 3.0], [0.0, 0.0]], [[2.0, 0.0], [4.0, 12.0]]])
    shares = Importance(torch.zeros(2), maps).shares()
    assert shares.tolist() == [[[0.25, 0.75], [0, 0]], [[1, 0], [0.25, 0.75]]]


def test_steps_with_a_constant_measure_are_excluded() -> None:
    rows = torch.tensor([[0.2, 0.3, 0.5], [1 / 3, 1 / 3, 1 / 3]])
    agreement = RankAgreement.of_maps(
        torch.stack([rows, torch.tensor([[1.0, 2.0, 3.0]] * 2), torch.tensor([[3.0, 2.0, 1.0]] * 2)])
    )
    assert [agreement.defined_steps(key) for key in PAIR_KEYS] == [1, 1, 2]
    assert [agreement.mean(key, "spearman") for key in PAIR_KEYS] == pytest.approx([1, -1, -1])
    assert [step["same_top"] for step in agreement.steps[PAIR_KEYS[0]]] == [1, None]
    text = " ".join(report_module._agreement_text([agreement]))
    assert "No ranking to compare at 1 of 2 steps" in text


@pytest.fixture
def translator(trained: Path) -> Translator:
    return package.load(trained)


def test_a_report_on_a_text(translator: Translator) -> None:
    report = faithfulness_report(translator, "abcd")
    data = report.data
    assert data["output"] == "abcd"
    assert data["tokens"] == ("a", "b", "c", "d", "<end>")
    (translation,) = translator.translate(["abcd"])
    assert data["log_probabilities"] == pytest.approx(translation.log_probabilities, abs=1e-5)
    torch.testing.assert_close(torch.tensor(data["attention"]), translation.attention, rtol=1e-4, atol=1e-4)
    for name in ("occlusion", "gradient_times_input"):
        assert torch.tensor(data[name]).shape == (5, 5)
    assert torch.tensor(data["occlusion"])[:4].argmax(-1).tolist() == [0, 1, 2, 3], "it copies"
    assert data["agreement"]["attention_occlusion"]["same_top"] >= 0.8
    assert data["agreement"]["chance_level"] == 1 / 5
    names = [axes.get_title() for axes in report.figure.axes if axes.images]
    assert names == ["attention", "occlusion", "gradient × input"]


def test_truncated_output_has_no_row_for_the_end(trained_brief) -> None:
    """An output truncated at the maximum length has no end token."""
    translator = package.load(trained_brief("decoding.length_factor=0", "decoding.length_extra=1"))
    (translation,) = translator.translate(["abc"])
    data = faithfulness_report(translator, "abc").data
    assert data["tokens"] == translation.tokens
    assert len(data["occlusion"]) == 1


def test_a_report_on_a_split(translator: Translator) -> None:
    done: list[int] = []
    report = faithfulness_report_on_split(translator, "test", 23, done.append)
    assert sum(done) == len(report.data["sentences"]) == 23
    rows = [row["attention_occlusion"]["spearman"] for row in report.data["sentences"]]
    summary = report.data["agreement"]["attention_occlusion"]["spearman"]
    assert summary["mean"] == pytest.approx(sum(rows) / 23)
    assert summary["low"] < summary["mean"] < summary["high"]
    first = report.data["sentences"][0]
    alone = faithfulness_report(translator, first["source"]).data["agreement"]
    assert first["attention_occlusion"] == pytest.approx(alone["attention_occlusion"])
    (axes,) = report.figure.axes
    assert [len(line.get_xdata()) for line in axes.lines] == [1, 23] * 3
    assert [text.get_text() for text in report.figure.legends[0].get_texts()][1] == "one sentence"


def test_one_sentence_has_no_deviation(translator: Translator) -> None:
    report = faithfulness_report_on_split(translator, "test", 1)
    assert report.data["agreement"]["occlusion_gradient"]["kendall"]["deviation"] is None
    (table,) = [block for block in report.page.sections[0].blocks if hasattr(block, "rows")]
    assert [row[2] for row in table.rows] == ["–"] * 3


def test_a_model_without_attention_is_refused(trained_brief) -> None:
    translator = package.load(trained_brief("model.attention.kind=none"))
    for call in (
        lambda: faithfulness_report(translator, "abc"),
        lambda: faithfulness_report_on_split(translator, "test", 3),
    ):
        with pytest.raises(UserError, match=r"this model has no attention: model\.attention\.kind is 'none'"):
            call()


def test_uniform_attention_has_no_rank_correlation(trained_brief, regard) -> None:
    path = trained_brief("model.attention.kind=mean")
    translator = package.load(path)
    for report in (
        faithfulness_report(translator, "abc"),
        faithfulness_report_on_split(translator, "test", 3),
    ):
        assert "NaN" not in json.dumps(report.data)
        assert report.data["agreement"]["attention_occlusion"] in (
            {"spearman": None, "kendall": None, "same_top": None, "steps": 0},
            {"spearman": None, "kendall": None, "same_top": None},
        )
        assert report.data["agreement"]["occlusion_gradient"]["spearman"] is not None
        assert "Attention has the same weight at all positions" in report.page.sections[0].text[0]
    assert "it ranks nothing" in regard("faithful", path, "abc").out


def test_a_step_without_attention_has_no_maximum(trained_brief, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `aligned` attention, output steps after the end of the source have no weights."""
    monkeypatch.setattr(faithfulness, "GREEDY", SearchOptions(min_length=4))
    translator = package.load(trained_brief("model.attention.kind=aligned"))
    report = faithfulness_report(translator, "a")
    (table,) = [block for block in report.page.sections[1].blocks if hasattr(block, "rows")]
    column = table.head.index("attention")
    sums = [sum(row) for row in report.data["attention"]]
    assert sums[:2] == [1, 1]
    assert set(sums[2:]) == {0}, "the source has two tokens, a and <end>"
    for row, total in zip(table.rows, sums, strict=True):
        assert row[column].endswith("100 %") if total else row[column] == "–"


def test_an_empty_text_is_refused(translator: Translator) -> None:
    with pytest.raises(UserError, match="this text is empty"):
        faithfulness_report(translator, "")


def test_command_prints_draws_and_writes(regard, trained: Path, tmp_path: Path) -> None:
    for text in (["abcde"], []):
        picture, page = tmp_path / "faithful.png", tmp_path / "faithful.html"
        answer = regard("faithful", trained, *text, "--limit", 5, "--out", picture, "--out", page)
        assert (answer.code, answer.err) == (0, "")
        assert "occlusion – gradient × input" in answer.out
        assert "Kendall's τ-b" in answer.out
        assert picture.read_bytes().startswith(b"\x89PNG")
        assert "Spearman&#39;s ρ" in page.read_text()
        data = json.loads(regard("faithful", trained, *text, "--limit", 5, "--json").out)
        assert data["agreement"].keys() >= set(PAIR_KEYS)


def test_unreadable_text_is_refused(regard, trained: Path) -> None:
    answer = regard("faithful", trained, "abx")
    assert answer.code == 2
    assert "this text: this task was not trained on the character 'x'" in answer.err
    assert "this text is empty" in regard("faithful", trained, "").err


def test_a_text_that_is_too_long_is_refused_before_memory_is_allocated():
    with pytest.raises(UserError, match=r"a text of 20,000 tokens is too long for these measures; the limit is 2,000"):
        compute_importance(copying(), Example((3,) * 20_000, TARGET))
