"""What is told of a translation is what the model has computed."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.inference.translator import Translator, load
from regard.laboratory.explanation import explain, explanation_report
from regard.laboratory.formatting import format_number
from regard.search import GREEDY, SearchOptions

Regard = Callable[..., Any]
TEXT = "abcd"


def test_weights_are_those_of_the_translation(any_model: Translator) -> None:
    (translation,) = any_model.translate([TEXT])
    steps = explain(any_model, TEXT, GREEDY).steps
    assert [step.said for step in steps] == list(translation.tokens)
    torch.testing.assert_close(torch.stack([step.weights for step in steps], -2), translation.attention)


def test_weights_are_the_softmax_of_scores(any_model: Translator) -> None:
    for step in explain(any_model, TEXT, GREEDY).steps:
        assert step.scores.shape == step.weights.shape
        if step.weights.any():
            torch.testing.assert_close(step.scores.softmax(-1), step.weights)
        else:
            assert not step.scores.any()


def test_the_probability_of_what_is_said_is_that_of_the_search(any_model: Translator) -> None:
    """Where the rules of search forbid nothing that is likely."""
    (translation,) = any_model.translate([TEXT])
    vocabulary = any_model.codec.target_vocabulary
    for step, expected in zip(explain(any_model, TEXT, GREEDY).steps, translation.log_probabilities, strict=True):
        assert float(step.probabilities.sum()) == pytest.approx(1)
        (said,) = vocabulary.output_to_ids([step.said])
        assert math.log(step.probabilities[said]) == pytest.approx(expected, abs=1e-4)


def test_a_step_reads_what_the_one_before_has_said(any_model: Translator) -> None:
    steps = explain(any_model, TEXT, GREEDY).steps
    assert [step.read for step in steps] == ["<begin>", *(step.said for step in steps[:-1])]


def test_embeddings_and_states_are_the_encoders_own(any_model: Translator) -> None:
    told = explain(any_model, TEXT, GREEDY)
    source = torch.tensor([any_model.check(TEXT)])
    encoder = any_model.model.encoder
    encoding = encoder(source, torch.ones_like(source, dtype=torch.bool))
    torch.testing.assert_close(told.embeddings, encoder.embedding(source)[0])
    torch.testing.assert_close(told.states, encoding.states[0])
    assert told.last.numel() == sum(part.numel() for part in encoding.final_state)


def test_the_context_is_the_weighted_sum_of_states(model_of: Callable[[str], Translator]) -> None:
    told = explain(model_of("dot"), TEXT, GREEDY)
    for step in told.steps:
        torch.testing.assert_close(step.contexts[0], step.weights @ told.states)


def test_nothing_listens_any_more_afterwards(any_model: Translator) -> None:
    explain(any_model, TEXT, GREEDY)
    assert not any(module._forward_hooks for module in any_model.model.modules())


def test_the_page_has_a_section_for_each_step_with_the_five_likeliest(any_model: Translator) -> None:
    told, vocabulary = explanation_report(any_model, TEXT, GREEDY, {}), any_model.codec.target_vocabulary
    (translation,) = any_model.translate([TEXT])
    steps = [section for section in told.page.sections if section.title.startswith("Step ")]
    assert len(steps) == len(told.data["steps"]) == len(translation.tokens)
    for section, step in zip(steps, told.data["steps"], strict=True):
        (table,) = section.blocks
        column = table.head.index("next token")
        assert [row[column] for row in table.rows] == [each["token"] for each in step["next"]]
        assert len(table.rows) == 5
        probabilities = [each["probability"] for each in step["next"]]
        assert probabilities == sorted(probabilities, reverse=True)
        assert all(each["token"] in vocabulary.tokens for each in step["next"])
        assert ("weight α" in table.head) == bool(translation.attention.any())


def test_one_head_has_scores_and_the_mean_of_several_has_none(model_of: Callable[[str], Translator]) -> None:
    model = model_of("Transformer")
    mean, one = (explanation_report(model, TEXT, GREEDY, numbers) for numbers in ({}, {"layer": 3, "head": 4}))
    assert "score e" not in mean.page.sections[2].blocks[0].head
    table = one.page.sections[2].blocks[0]
    (step, *_) = one.data["steps"]
    scores, weights = step["scores"][2][3], step["weights"][2][3]
    place = weights.index(max(weights))
    assert table.rows[0][:3] == (
        f"{place + 1} {(*TEXT, '<end>')[place]}",
        f"{scores[place]:.3f}",
        f"{weights[place]:.4f}",
    )


def test_a_beam_is_explained_as_it_was_found(model_of: Callable[[str], Translator]) -> None:
    model, search = model_of("several heads"), SearchOptions(beam=4, length_penalty=1.0)
    (translation,) = model.translate([TEXT], search)
    assert [step.said for step in explain(model, TEXT, search).steps] == list(translation.tokens)


def test_the_command_tells_draws_and_dumps(regard: Regard, trained: Path, tmp_path: Path) -> None:
    files = [tmp_path / f"map{suffix}" for suffix in (".png", ".svg", ".pdf", ".html")]
    answer = regard("explain", trained, "abcde", *(part for file in files for part in ("--out", file)))
    assert answer.code == 0, answer.err
    assert answer.out.startswith("abcde → abcde\n")
    assert "== Step 6: reads e, says <end>" in answer.out
    assert all(file.stat().st_size > 1000 for file in files)
    assert b"Step 6: reads e, says &lt;end&gt;" in files[-1].read_bytes()
    told = json.loads(regard("explain", trained, "abcde", "--json").out)
    assert told["text"] == "abcde"
    assert len(told["steps"]) == 6
    assert [len(step["weights"]) for step in told["steps"]] == [6] * 6


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["abXde"], "this text: this task was not trained on the character 'X'"),
        ([""], "this text is empty"),
        (["abc", "--head", "1"], "this model's attention has no heads to choose from"),
        (["abc", "--out", "map.gif"], "map.gif: cannot write a report as '.gif'"),
        (["abc", "--out", "map"], "map: cannot write a report without a suffix"),
        (["abc", "--out", "a.png", "--out", "a.png"], "a.png: only one thing can be written to one file"),
    ],
)
def test_what_cannot_be_explained_is_refused(regard: Regard, trained: Path, arguments: list[str], part: str) -> None:
    answer = regard("explain", trained, *arguments)
    assert answer.code == 2
    assert part in answer.err
    assert "Traceback" not in answer.err


def test_the_context_is_that_of_the_layer_and_of_no_single_head(model_of: Callable[[str], Translator]) -> None:
    model = model_of("Transformer")
    (step, *_) = explain(model, TEXT, GREEDY).steps
    assert step.contexts.shape == (3, step.state.shape[0])
    for layer in (1, 2, 3):
        told = explanation_report(model, TEXT, GREEDY, {"layer": layer}).page.sections[2].text[1]
        assert told.startswith(f"Context: length {format_number(float(step.contexts[layer - 1].norm()))}, ")
    for numbers in ({}, {"layer": 1, "head": 2}):
        assert len(explanation_report(model, TEXT, GREEDY, numbers).page.sections[2].text) == 1, (
            "no layer's, or not this head's"
        )


def test_the_bottleneck_is_told_as_what_it_is(model_of: Callable[[str], Translator]) -> None:
    told = {
        kind: explanation_report(model_of(kind), TEXT, GREEDY, {}).page.sections[0].text[0]
        for kind in ("dot", "Transformer")
    }
    assert "the encoder's final state, all layers concatenated; the decoder's initial state is" in told["dot"]
    assert "the mean of the encoder states; this decoder does not use it" in told["Transformer"]


def test_places_that_are_looked_at_alike_stand_in_their_order(trained_brief: Callable[..., Path]) -> None:
    told = explanation_report(load(trained_brief("model.attention.kind=mean")), TEXT, GREEDY, {})
    assert [row[0] for row in told.page.sections[2].blocks[0].rows] == ["1 a", "2 b", "3 c", "4 d", "5 <end>"]
