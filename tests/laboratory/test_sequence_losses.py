"""Losses of the same reference tokens, given other sources and other prefixes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from torch.nn.functional import cross_entropy

import regard as package
from regard.data import Example, collate
from regard.laboratory import sequence_losses as module
from regard.laboratory.gradients import by_source_length
from regard.laboratory.sentences import load_examples
from regard.laboratory.sequence_losses import sequence_losses, with_other_sources, with_random_prefixes

EXAMPLES = [
    Example((5, 2), (1, 4, 6, 2)),
    Example((7, 8, 2), (3, 13, 5, 8, 9, 11, 2)),
    Example((6, 10, 9, 2), (1, 2)),
]


def test_each_example_gets_the_source_of_another() -> None:
    changed = with_other_sources(EXAMPLES)
    assert [example.source for example in changed] == [(7, 8, 2), (6, 10, 9, 2), (7, 8, 2)]
    assert [example.target for example in changed] == [example.target for example in EXAMPLES]


def test_prefixes_are_the_same_tokens_in_another_order() -> None:
    changed = with_random_prefixes(EXAMPLES)
    assert changed != EXAMPLES
    assert [example.source for example in changed] == [example.source for example in EXAMPLES]
    assert [(e.target[0], len(e.target), e.target[-1]) for e in changed] == [(1, 4, 2), (3, 7, 2), (1, 2, 2)]
    assert Counter(t for e in changed for t in e.target) == Counter(t for e in EXAMPLES for t in e.target)
    assert changed == with_random_prefixes(EXAMPLES), "the same at every call"


def test_losses_are_those_of_the_translator(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    translator = package.load(trained)
    pairs, examples = load_examples(translator, "test", 23)
    monkeypatch.setattr(module, "BATCH_SIZE", 7)
    done: list[int] = []
    found = sequence_losses(translator.model, examples, done.append)
    assert sum(done) == 5 * 23
    order = sorted(range(23), key=lambda row: len(examples[row].source))
    other = [*order[1:], order[-2]]
    for condition, sources in (("reference", order), ("other_source", other)):
        asked = [(pairs[source].source, pairs[row].target) for source, row in zip(sources, order, strict=True)]
        scores = translator.score(asked)
        tokens = sum(len(score.log_probabilities) for score in scores)
        expected = -sum(score.log_probability for score in scores) / tokens
        assert found[condition].loss == pytest.approx(expected, rel=1e-4)
    answers = translator.translate([pair.source for pair in pairs])
    exact = sum(answer.text == pair.target for answer, pair in zip(answers, pairs, strict=True))
    assert found["free_running"].exact_match == pytest.approx(exact / 23)
    assert found["reference"].loss < 1 < min(found["other_source"].loss, found["neither"].loss)


def test_a_random_prefix_is_read_and_the_reference_predicted(trained: Path) -> None:
    translator = package.load(trained)
    own = by_source_length(load_examples(translator, "test", 11)[1])
    read, reference = collate(with_random_prefixes(own)), collate(own)
    logits = translator.model(read.source, read.source_valid, read.inputs, read.valid)
    expected = cross_entropy(logits, reference.outputs[reference.valid]).item()
    assert sequence_losses(translator.model, own)["random_prefix"].loss == pytest.approx(expected, rel=1e-4)


def test_a_decoder_without_a_path_to_the_source_is_indifferent_to_it(trained_brief) -> None:
    translator = package.load(trained_brief("model.attention.kind=none", "model.decoder.start=zeros"))
    found = sequence_losses(translator.model, load_examples(translator, "test", 13)[1])
    assert found["other_source"] == found["reference"]
    assert found["neither"] == found["random_prefix"] != found["reference"]


def test_a_single_sentence_has_no_other_source(trained: Path) -> None:
    translator = package.load(trained)
    assert list(sequence_losses(translator.model, load_examples(translator, "test", 1)[1])) == [
        "reference",
        "free_running",
    ]
