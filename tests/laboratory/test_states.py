"""States are gathered of the sentences and places that they belong to."""

import pytest
import torch

from regard.config.schema import ModelSection
from regard.data import Example
from regard.laboratory import states
from regard.laboratory.states import gather
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
    """Of all lengths, in disorder."""
    draw = torch.Generator().manual_seed(1)
    lengths = torch.randint(1, 9, (count, 2), generator=draw).tolist()
    return [
        Example(
            (*torch.randint(4, 11, (source,), generator=draw).tolist(), 2),
            (1, *torch.randint(4, 13, (target,), generator=draw).tolist(), 2),
        )
        for source, target in lengths
    ]


def test_the_states_of_a_sentence_are_its_own_whatever_else_is_read(model, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(states, "AT_ONCE", 5)
    some = examples(17)
    for kind, together in gather(model, some, most=1000, seed=1).items():
        for number, example in enumerate(some):
            alone, own = gather(model, [example], most=1000, seed=1)[kind], together.sentences == number
            assert together.places[own].tolist() == alone.places.tolist()
            torch.testing.assert_close(together.vectors[own], alone.vectors)


def test_there_is_a_state_for_each_token_and_one_bottleneck_for_each_sentence(model):
    some = examples(17)
    found = gather(model, some, most=1000, seed=1)
    counts = {kind: torch.bincount(states.sentences).tolist() for kind, states in found.items()}
    read_tokens, said_tokens = [len(e.source) for e in some], [len(e.target) - 1 for e in some]
    assert counts[states.ENCODER_INPUT] == counts[states.ENCODER] == read_tokens
    assert counts[states.DECODER_INPUT] == counts[states.DECODER] == said_tokens
    assert counts[states.BOTTLENECK] == [1] * 17


def test_the_bottleneck_is_all_layers_and_parts_and_a_decoder_state_its_own():
    torch.manual_seed(1)
    model = build_model(ModelSection.model_validate(MODELS["recurrent"]), 11, 13)
    found = gather(model, examples(3), most=1000, seed=1)
    assert found[states.BOTTLENECK].vectors.shape == (3, 2 * 2 * 2 * 5)
    assert found[states.DECODER].vectors.shape[1] == 10  # the decoder's state, without what it looked at


def test_of_many_states_some_are_drawn_with_the_seed(model):
    first, again, other = (gather(model, examples(31), most=23, seed=seed) for seed in (1, 1, 2))
    for kind in first:
        drawn = [list(zip(e[kind].sentences.tolist(), e[kind].places.tolist(), strict=True)) for e in (first, again)]
        assert len(set(drawn[0])) == 23
        assert drawn[0] == drawn[1]
    same = zip(first[states.ENCODER].sentences, first[states.ENCODER_INPUT].sentences, strict=True)
    assert all(one == two for one, two in same)  # input and state are compared on the same places
    assert first[states.ENCODER].sentences.tolist() != other[states.ENCODER].sentences.tolist()
