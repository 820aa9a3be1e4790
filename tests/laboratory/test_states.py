"""Collected states belong to the right sentences and positions."""

import pytest
import torch

from regard.config.schema import ModelSection
from regard.data import Example
from regard.laboratory import states
from regard.laboratory.states import collect_states
from regard.nn.build import build_model

MODELS = {
    "recurrent": {"encoder": {"cell": "lstm", "layers": 2, "size": 5}, "decoder": {"cell": "gru", "size": 10}},
    "before": {"encoder": {"cell": "tanh", "size": 5}, "decoder": {"cell": "tanh", "size": 10, "wiring": "before"}},
    "transformer": {
        "encoder": {"kind": "self-attention", "size": 12, "heads": 3, "positions": {"kind": "sine"}},
        "decoder": {"kind": "transformer", "size": 12, "heads": 3, "positions": {"kind": "sine"}},
    },
}


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest):
    torch.manual_seed(1)
    settings = MODELS[request.param]
    kind = "dot" if request.param != "transformer" else "scaled-dot"
    return build_model(ModelSection.model_validate({**settings, "attention": {"kind": kind}}), 11, 13).eval()


def examples(count: int) -> list[Example]:
    """Examples of various lengths, in random order."""
    draw = torch.Generator().manual_seed(1)
    lengths = torch.randint(1, 9, (count, 2), generator=draw).tolist()
    return [
        Example(
            (*torch.randint(4, 11, (source,), generator=draw).tolist(), 2),
            (1, *torch.randint(4, 13, (target,), generator=draw).tolist(), 2),
        )
        for source, target in lengths
    ]


def test_states_do_not_depend_on_the_batch(model, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(states, "BATCH_SIZE", 5)
    some = examples(17)
    for kind, together in collect_states(model, some, max_states=1000, seed=1).items():
        for index, example in enumerate(some):
            alone, own = collect_states(model, [example], max_states=1000, seed=1)[kind], together.sentences == index
            assert together.positions[own].tolist() == alone.positions.tolist()
            torch.testing.assert_close(together.vectors[own], alone.vectors)


def test_one_state_per_token_and_one_bottleneck_per_sentence(model):
    some = examples(17)
    found = collect_states(model, some, max_states=1000, seed=1)
    counts = {kind: torch.bincount(states.sentences).tolist() for kind, states in found.items()}
    source_lengths, target_lengths = [len(e.source) for e in some], [len(e.target) - 1 for e in some]
    assert counts[states.ENCODER_INPUT] == counts[states.ENCODER] == source_lengths
    assert counts[states.DECODER_INPUT] == counts[states.DECODER] == target_lengths
    assert counts[states.BOTTLENECK] == [1] * 17


def test_bottleneck_has_all_layers_and_decoder_states_exclude_the_context():
    torch.manual_seed(1)
    model = build_model(ModelSection.model_validate(MODELS["recurrent"]), 11, 13)
    found = collect_states(model, examples(3), max_states=1000, seed=1)
    assert found[states.BOTTLENECK].vectors.shape == (3, 2 * 2 * 2 * 5)
    assert found[states.DECODER].vectors.shape[1] == 10  # the decoder's state without the context


def test_sample_of_states_depends_on_the_seed(model):
    first, again, other = (collect_states(model, examples(31), max_states=23, seed=seed) for seed in (1, 1, 2))
    for kind in first:
        drawn = [list(zip(e[kind].sentences.tolist(), e[kind].positions.tolist(), strict=True)) for e in (first, again)]
        assert len(set(drawn[0])) == 23
        assert drawn[0] == drawn[1]
    same = zip(first[states.ENCODER].sentences, first[states.ENCODER_INPUT].sentences, strict=True)
    assert all(one == two for one, two in same)  # inputs and states are sampled at the same positions
    assert first[states.ENCODER].sentences.tolist() != other[states.ENCODER].sentences.tolist()
