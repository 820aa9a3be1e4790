"""From settings to a model: the configured parts are the ones built."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError

from regard import nn
from regard.config import kinds
from regard.config.loading import load_experiment
from regard.config.schema import Experiment, ModelSection
from regard.data import Codec
from regard.nn.build import build_model, initial_model
from regard.runs import MODEL, Run, named_weights
from regard.tasks import Pair
from regard.tasks.files import FilesSection, FilesTask
from regard.text.sections import TextSection

SOURCE, TARGET = 17, 19


def model_of(**sections: Any) -> nn.Seq2Seq:
    return build_model(ModelSection.model_validate(sections), SOURCE, TARGET)


@pytest.mark.parametrize("cell", kinds.CELLS)
@pytest.mark.parametrize("wiring", kinds.WIRINGS)
@pytest.mark.parametrize("start", [start for start in kinds.STARTS if start != "copy"])
def test_a_recurrent_model_has_the_configured_parts_and_sizes(cell: str, wiring: str, start: str) -> None:
    model = model_of(
        encoder={"embedding": 3, "size": 5, "layers": 2, "cell": "tanh"},
        decoder={"embedding": 7, "size": 11, "layers": 3, "cell": cell, "wiring": wiring, "start": start},
        attention={"kind": "additive", "key_size": 13},
    )
    encoder, decoder = model.encoder, model.decoder
    assert isinstance(encoder, nn.RecurrentEncoder)
    assert type(encoder.cell) is nn.TanhRNN
    assert (encoder.embedding.tokens.num_embeddings, encoder.embedding.size) == (SOURCE, 3)
    assert (encoder.size, encoder.cell.layers, encoder.cell.directions) == (10, 2, 2)
    assert type(decoder) is kinds.WIRINGS[wiring]
    assert type(decoder.cell) is kinds.CELLS[cell]
    assert type(decoder.first_state) is kinds.STARTS[start]
    assert (decoder.embedding.tokens.num_embeddings, decoder.embedding.size) == (TARGET, 7)
    assert (decoder.cell.output_size, decoder.cell.layers, decoder.cell.directions) == (11, 3, 1)
    assert isinstance(decoder.attention, nn.AdditiveAttention)
    assert (decoder.attention.query_size, decoder.attention.memory_size) == (11, 10)
    assert decoder.attention.key_layer.out_features == 13


def test_a_transformer_has_the_configured_parts_and_sizes() -> None:
    model = model_of(
        encoder={"kind": "self-attention", "embedding": 3, "size": 6, "layers": 2, "heads": 2, "inner_size": 5},
        decoder={"kind": "transformer", "embedding": 7, "size": 9, "layers": 3, "heads": 3, "inner_size": 11},
        attention={"kind": "multi-head", "heads": 5, "key_size": 10},
    )
    encoder, decoder = model.encoder, model.decoder
    assert isinstance(encoder, nn.SelfAttentionEncoder)
    assert isinstance(decoder, nn.TransformerDecoder)
    assert (encoder.size, len(encoder.layers), len(decoder.layers)) == (6, 2, 3)
    assert {(layer.attention.heads, layer.feed_forward[0].out_features) for layer in encoder.layers} == {(2, 5)}
    assert {(layer.self_attention.heads, layer.feed_forward[0].out_features) for layer in decoder.layers} == {(3, 11)}
    crosses = [layer.cross_attention for layer in decoder.layers]
    assert {(cross.heads, cross.query_size, cross.memory_size) for cross in crosses} == {(5, 9, 6)}
    assert len({id(cross) for cross in crosses}) == 3, "one mechanism per layer"
    assert decoder.weight_axes == ("layer", "head")


@pytest.mark.parametrize(
    ("kind", "options", "size", "max_length"),
    [
        ("none", {}, 3, None),
        ("one-hot", {"longest": 11}, 14, 11),
        ("sine", {"width": 5}, 8, None),
        ("sine", {"width": 5, "first_frequency": 1}, 8, None),
        ("sine-added", {}, 3, None),
        ("sine-added", {"first_frequency": 1}, 3, None),
        ("learned", {"longest": 11}, 3, 11),
        ("rotary", {"base": 500.0}, 3, None),
        ("alibi", {}, 3, None),
    ],
)
def test_each_side_has_positions_of_its_own(
    kind: str, options: dict[str, Any], size: int, max_length: int | None
) -> None:
    model = model_of(encoder={"kind": "self-attention", "embedding": 3, "positions": {"kind": kind, **options}})
    assert type(model.encoder.embedding.positions) is kinds.POSITIONS[kind]
    assert (model.encoder.embedding.size, model.encoder.max_length) == (size, max_length)
    assert getattr(model.encoder.embedding.positions, "first_frequency", 0) == options.get("first_frequency", 0)
    assert type(model.decoder.embedding.positions) is nn.Positions
    assert model.decoder.max_length is None


@pytest.mark.parametrize("readout", kinds.READOUTS)
@pytest.mark.parametrize("decoder", ["recurrent", "transformer"])
def test_the_readout_is_of_the_configured_kind(readout: str, decoder: str) -> None:
    model = model_of(decoder={"kind": decoder, "readout": readout})
    assert type(model.decoder.readout) is kinds.READOUTS[readout]


SCORED = [kind for kind in kinds.MECHANISMS if kind not in ("none", "last", "mean", "aligned", "monotonic")]


@pytest.mark.parametrize("kind", SCORED)
def test_options_reach_every_mechanism_that_computes_a_score(kind: str) -> None:
    def build(**options: Any) -> nn.Attention:
        return model_of(decoder={"size": 256}, attention={"kind": kind, **options}).decoder.attention

    sparse, normed = build(normalizer="sparsemax"), build(unit_norm=True)
    assert (sparse.normalizer, sparse.unit_norm, sparse.temperature) == ("sparsemax", False, 1.0)
    assert (normed.normalizer, normed.unit_norm, normed.temperature) == ("softmax", True, "learned")


@pytest.mark.parametrize("kind", SCORED)
def test_values_and_temperature_reach_every_mechanism_that_computes_a_score(kind: str) -> None:
    options = {"kind": kind, "value_size": 36, "temperature": 0.5}
    decoder = model_of(decoder={"size": 256}, attention=options).decoder
    assert decoder.attention.value_layer.weight.shape == (36, 256)
    assert decoder.attention.context_size == (256 if kind == "multi-head" else 36)
    assert decoder.readout.output_layer.in_features == decoder.attention.context_size + 256
    assert decoder.attention.temperature == 0.5


@pytest.mark.parametrize(
    ("decoder", "attention", "message"),
    [
        (
            {"wiring": "after", "readout_input": "state"},
            "dot",
            r"leaves attention without effect in the wiring 'after'; choose both or con",
        ),
        (
            {"wiring": "before", "readout_input": "context"},
            "dot",
            r"leaves the previous token without effect in the wiring 'before'; choose state or both",
        ),
        ({"wiring": "after", "readout_input": "context"}, "mean", r"'mean' attention does not depend on the decoder's"),
    ],
)
def test_a_readout_input_that_cannot_learn_is_refused(decoder: dict[str, str], attention: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        model_of(decoder={"size": 256, **decoder}, attention={"kind": attention})


@pytest.mark.parametrize("readout", kinds.READOUTS)
@pytest.mark.parametrize("kinds", [("recurrent", "recurrent"), ("self-attention", "transformer")])
def test_shared_embeddings_are_one_parameter(kinds: tuple[str, str], readout: str) -> None:
    sections = {"encoder": {"kind": kinds[0]}, "decoder": {"kind": kinds[1], "readout": readout}}
    shared, separate = (
        build_model(ModelSection.model_validate({**sections, "share_embeddings": share}), SOURCE, SOURCE)
        for share in (True, False)
    )
    assert shared.encoder.embedding.tokens.weight is shared.decoder.embedding.tokens.weight
    assert separate.encoder.embedding.tokens.weight is not separate.decoder.embedding.tokens.weight
    saved = separate.encoder.embedding.tokens.weight.numel()
    assert count(separate) - count(shared) == saved


def count(model: nn.Seq2Seq) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def test_shared_embeddings_get_gradients_from_both_sides() -> None:
    torch.manual_seed(1)
    model = build_model(ModelSection(share_embeddings=True), SOURCE, SOURCE)
    source, target = torch.tensor([[4, 5]]), torch.tensor([[1, 6]])
    model(source, source > 0, target, target > 0).sum().backward()
    gradient = model.encoder.embedding.tokens.weight.grad
    assert gradient is not None
    assert gradient.any(1).nonzero().flatten().tolist() == [1, 4, 5, 6]


@torch.inference_mode()
def test_shared_embeddings_survive_saving_and_loading(tmp_path: Path) -> None:
    task = FilesTask(FilesSection(train="train", validation="validation", text=TextSection(unit="words")))
    codec = Codec.build(task.learn_tokenization([Pair("ein Hund", "a dog")]), [Pair("ein Hund", "a dog")])
    experiment = Experiment(data=task.section, model=ModelSection(share_embeddings=True))
    run = Run.create(tmp_path / "run", experiment, codec)
    torch.manual_seed(1)
    model, other = (build_model(experiment.model, *codec.sizes) for _ in range(2))
    run.write_tensors(MODEL, named_weights(model), {})
    with run.open_tensors(MODEL) as weights:
        assert len([name for name in weights.shapes if "embedding" in name]) == 1
        weights.copy_weights(other)
    assert other.encoder.embedding.tokens.weight is other.decoder.embedding.tokens.weight
    assert torch.equal(other.encoder.embedding.tokens.weight, model.encoder.embedding.tokens.weight)
    tokens = torch.tensor([[4, 5]])
    one, same = (each.eval()(tokens, tokens > 0, tokens, tokens > 0) for each in (model, other))
    assert torch.equal(one, same)


SIDES = [
    {"encoder": {"layers": 2}, "decoder": {"layers": 2}},
    {"encoder": {"kind": "self-attention"}, "decoder": {"kind": "transformer", "readout": "tied"}},
    {"encoder": {"cell": "lstm"}, "decoder": {"cell": "lstm", "wiring": "before"}},
]


@pytest.mark.parametrize("sides", SIDES)
@torch.inference_mode()
def test_dropout_is_random_in_training_only(sides: dict[str, Any]) -> None:
    torch.manual_seed(1)
    model = model_of(**sides, dropout=0.5)
    tokens = torch.tensor([[4, 5, 6]])
    for training in (True, False):
        model.train(training)
        one, other = (model(tokens, tokens > 0, tokens, tokens > 0) for _ in range(2))
        assert torch.equal(one, other) != training


@pytest.mark.parametrize("sides", SIDES)
def test_the_same_random_state_gives_the_same_weights(sides: dict[str, Any]) -> None:
    states = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        states.append(model_of(**sides).state_dict())
    one, same, other = states
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert not all(torch.equal(one[name], other[name]) for name in one)


# Settings that are valid one by one and invalid together are refused before a model is built


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"encoder": {"size": 5}, "decoder": {"size": 5}, "attention": {"kind": "dot"}}, r"has 5 and .* state 10"),
        ({"decoder": {"size": 7}, "attention": {"kind": "multi-head", "heads": 3}}, r"3 heads .* key size of 7"),
        ({"attention": {"kind": "multi-head", "heads": 3, "key_size": 8}}, r"3 heads .* key size of 8"),
        ({"encoder": {"kind": "self-attention", "size": 7, "heads": 2}}, r"2 heads .* size of 7"),
        ({"decoder": {"kind": "transformer", "size": 7, "heads": 2}}, r"2 heads .* size of 7"),
        ({"encoder": {"size": 5}, "decoder": {"size": 5, "start": "copy"}}, r"layer\(s\) of 10 .* layer\(s\) of 5"),
        (
            {"encoder": {"size": 5}, "decoder": {"size": 10, "start": "copy", "cell": "lstm"}},
            r"of 10 and .* of 10 and memory cells",
        ),
        (
            {"encoder": {"size": 5, "layers": 2}, "decoder": {"size": 10, "start": "copy"}},
            r"2 layer\(s\) .* 1 layer\(s\)",
        ),
    ],
)
def test_settings_that_contradict_each_other_are_refused(sections: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        ModelSection.model_validate(sections)


@pytest.mark.parametrize("encoder", kinds.ENCODERS)
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("encoder_cell", kinds.CELLS)
@pytest.mark.parametrize("decoder_cell", kinds.CELLS)
@torch.inference_mode()
def test_settings_accept_a_copied_start_exactly_where_the_model_can_be_built(
    encoder: str, layers: int, encoder_cell: str, decoder_cell: str
) -> None:
    recurrent = {"cell": encoder_cell, "bidirectional": False} if "recurrent" in encoder else {}
    sections = {
        "encoder": {"kind": encoder, "size": 4, "layers": layers} | recurrent,
        "decoder": {"size": 4, "cell": decoder_cell, "layers": layers, "start": "copy"},
    }
    tokens = torch.tensor([[4, 5, 6]])
    try:
        section = ModelSection.model_validate(sections)
    except ValidationError:
        free = {"start": "zeros"}
        model = model_of(**sections | {"decoder": sections["decoder"] | free})
        cell = model.decoder.cell
        with pytest.raises(ValueError, match="cannot start from a copy"):
            nn.CopyStart(model.encoder.size, cell)(model.encoder(tokens, tokens > 0))
    else:
        build_model(section, SOURCE, TARGET).start(tokens, tokens > 0)


def test_training_starts_from_the_initial_weights_of_its_seed(new_trainer, brief) -> None:
    trainer = new_trainer(brief())
    before = torch.get_rng_state()
    drawn, other = (
        dict(initial_model(experiment, *trainer.codec.sizes).named_parameters())
        for experiment in (brief(), brief("training.seed=2"))
    )
    assert torch.equal(before, torch.get_rng_state()), "the caller's random state is not changed"
    for name, weight in trainer.model.named_parameters():
        assert torch.equal(drawn.pop(name), weight)
        assert not torch.equal(other[name], weight) or not weight.any() or "norm" in name
    assert not drawn


@pytest.mark.parametrize(
    ("recipe", "total", "squares"), [("copy", -32.1186, 236.832), ("clauses-transformer", 1454.97, 4654.26)]
)
def test_initial_weights_are_those_of_earlier_versions(recipe: str, total: float, squares: float) -> None:
    """The same seed trains the same model as in Regard 0.5.0."""
    model = initial_model(load_experiment(recipe), SOURCE, TARGET)
    weights = [weight.double() for weight in named_weights(model).values()]
    assert sum(float(weight.sum()) for weight in weights) == pytest.approx(total, rel=1e-4)
    assert sum(float(weight.square().sum()) for weight in weights) == pytest.approx(squares, rel=1e-4)


RATES = {"dropout": 0.5, "embedding_dropout": 0.25, "attention_dropout": 0.125, "readout_dropout": 0.75}
LAYERS = {"size": 6, "embedding": 6, "heads": 2, "inner_size": 5}
TRANSFORMER = {
    "encoder": {"kind": "self-attention", **LAYERS},
    "decoder": {"kind": "transformer", **LAYERS},
    "attention": {"kind": "multi-head", "heads": 2},
}


def dropped(model: nn.Seq2Seq) -> dict[str, float]:
    """The dropout probability of each part that has one."""
    return {name: part.dropped / 256 for name, part in model.named_modules() if isinstance(part, nn.Dropout)}


def test_the_parts_of_a_recurrent_model_have_dropout_of_their_own() -> None:
    names = ("encoder.embedding.dropout", "decoder.embedding.dropout", "decoder.readout.dropout")
    assert dropped(model_of(dropout=0.5)) == dict.fromkeys(names, 0.5)
    own = dict(zip((*names, "decoder.attention.weight_dropout"), (0.25, 0.25, 0.75, 0.125), strict=True))
    assert dropped(model_of(**RATES)) == own
    model = model_of(**RATES, encoder={"layers": 2})
    assert isinstance(model.encoder, nn.RecurrentEncoder)
    assert isinstance(model.encoder.cell, nn.GRU)
    assert model.encoder.cell.recurrence.dropout == 0.5


def test_the_parts_of_a_transformer_have_dropout_of_their_own() -> None:
    for name, rate in dropped(model_of(**TRANSFORMER, **RATES)).items():
        part = name.removesuffix(".dropout").rpartition(".")[2]
        layer = 0.125 if name.endswith("weight_dropout") else 0.5
        assert rate == {"embedding": 0.25, "readout": 0.75}.get(part, layer)
    assert sum("weight_dropout" in name for name in dropped(model_of(**TRANSFORMER, **RATES))) == 3
    assert not any("weight_dropout" in name for name in dropped(model_of(**TRANSFORMER, dropout=0.5)))
