"""The intermediate results of a translation are those of the model."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.inference.translator import Translator, load
from regard.laboratory.explanation import explain_translation
from regard.laboratory.explanation_report import AttentionView, explanation_report
from regard.laboratory.formatting import format_number
from regard.search import GREEDY, SearchOptions

Regard = Callable[..., Any]
TEXT = "abcd"


def test_weights_are_those_of_the_translation(any_model: Translator) -> None:
    (translation,) = any_model.translate([TEXT])
    steps = explain_translation(any_model, TEXT, GREEDY).steps
    assert [step.output_token for step in steps] == list(translation.tokens)
    torch.testing.assert_close(torch.stack([step.weights for step in steps], -2), translation.attention)


def test_weights_are_the_softmax_of_scores(any_model: Translator) -> None:
    has_scores = any_model.experiment.model.attention.has_scores
    for step in explain_translation(any_model, TEXT, GREEDY).steps:
        assert (step.scores is not None) == has_scores
        if step.scores is not None:
            assert step.scores.shape == step.weights.shape
            torch.testing.assert_close(step.scores.softmax(-1), step.weights)


@pytest.mark.parametrize("kind", ["none", "last", "mean", "aligned"])
def test_a_mechanism_without_scores_shows_none(trained_brief: Callable[..., Path], kind: str) -> None:
    report = explanation_report(load(trained_brief(f"model.attention.kind={kind}")), TEXT, GREEDY, {})
    assert {step["scores"] for step in report.data["steps"]} == {None}
    steps = [section for section in report.page.sections if section.title.startswith("Step ")]
    assert not any("score e" in section.blocks[0].head for section in steps)
    assert ("weight α" in steps[0].blocks[0].head) == (kind != "none")
    assert "scores" not in " ".join(text.get_text() for text in report.figure.texts)


def test_probabilities_are_those_of_the_search(any_model: Translator) -> None:
    """No constraint of the search bans a likely token here."""
    (translation,) = any_model.translate([TEXT])
    vocabulary = any_model.codec.target_vocabulary
    for step, expected in zip(
        explain_translation(any_model, TEXT, GREEDY).steps, translation.log_probabilities, strict=True
    ):
        assert float(step.probabilities.sum()) == pytest.approx(1)
        (output_id,) = vocabulary.output_to_ids([step.output_token])
        assert math.log(step.probabilities[output_id]) == pytest.approx(expected, abs=1e-4)


def test_each_input_is_the_previous_output(any_model: Translator) -> None:
    steps = explain_translation(any_model, TEXT, GREEDY).steps
    assert [step.input_token for step in steps] == ["<begin>", *(step.output_token for step in steps[:-1])]


def test_embeddings_and_states_are_the_encoders_own(any_model: Translator) -> None:
    explanation = explain_translation(any_model, TEXT, GREEDY)
    source = torch.tensor([any_model.encode(TEXT).ids])
    encoder = any_model.model.encoder
    encoding = encoder(source, torch.ones_like(source, dtype=torch.bool))
    torch.testing.assert_close(explanation.embeddings, encoder.embedding(source)[0])
    torch.testing.assert_close(explanation.states, encoding.states[0])
    assert explanation.final_state.numel() == sum(part.numel() for part in encoding.final_state)


def test_the_context_is_the_weighted_sum_of_states(model_of: Callable[[str], Translator]) -> None:
    explanation = explain_translation(model_of("dot"), TEXT, GREEDY)
    for step in explanation.steps:
        torch.testing.assert_close(step.contexts[0], step.weights @ explanation.states)


def test_self_attention_is_that_of_the_translation(any_model: Translator) -> None:
    (translation,) = any_model.translate([TEXT], self_attention=True)
    report = explanation_report(any_model, TEXT, GREEDY, {})
    head = report.page.sections[0].blocks[0].head
    steps = [section for section in report.page.sections if section.title.startswith("Step ")]
    encoder, decoder = translation.encoder_attention, translation.decoder_attention
    assert ("self-attention" in head) == (encoder is not None)
    assert (report.data["encoder_attention"] is None) == (encoder is None)
    if encoder is not None:
        assert report.data["encoder_attention"] == encoder.to_dict()
        rows = encoder.weights.flatten(0, -3).mean(0)
        for row, weights in zip(report.page.sections[0].blocks[0].rows, rows, strict=True):
            best = int(weights.argmax())
            assert row[-1].startswith(f"{best + 1} {encoder.tokens[best]} {float(weights[best]):.2f}")
    for number, step in enumerate(steps):
        described = [text for text in step.text if text.startswith("Self-attention to inputs: ")]
        assert len(described) == (decoder is not None)
        if decoder is not None:
            weights = decoder.weights.flatten(0, -3).mean(0)[number]
            best = int(weights.argmax())
            assert f": {best + 1} {decoder.tokens[best]} {float(weights[best]):.2f}" in described[0]
    assert ("self-attention" in report.page.facts) == (encoder is not None or decoder is not None)


def test_hooks_are_removed(any_model: Translator) -> None:
    explain_translation(any_model, TEXT, GREEDY)
    assert not any(module._forward_hooks for module in any_model.model.modules())


def test_page_has_a_section_per_step_with_the_top_five_tokens(any_model: Translator) -> None:
    report, vocabulary = explanation_report(any_model, TEXT, GREEDY, {}), any_model.codec.target_vocabulary
    (translation,) = any_model.translate([TEXT])
    steps = [section for section in report.page.sections if section.title.startswith("Step ")]
    assert len(steps) == len(report.data["steps"]) == len(translation.tokens)
    for section, step in zip(steps, report.data["steps"], strict=True):
        (table,) = section.blocks
        column = table.head.index("next token")
        assert [row[column] for row in table.rows] == [each["token"] for each in step["next_tokens"]]
        assert len(table.rows) == 5
        probabilities = [each["probability"] for each in step["next_tokens"]]
        assert probabilities == sorted(probabilities, reverse=True)
        assert all(each["token"] in vocabulary.tokens for each in step["next_tokens"])
        assert ("weight α" in table.head) == bool(translation.attention.any())


def test_one_head_has_scores_and_the_mean_of_several_has_none(model_of: Callable[[str], Translator]) -> None:
    model = model_of("Transformer")
    mean, one = (explanation_report(model, TEXT, GREEDY, selection) for selection in ({}, {"layer": 3, "head": 4}))
    assert "score e" not in mean.page.sections[2].blocks[0].head
    table = one.page.sections[2].blocks[0]
    (step, *_) = one.data["steps"]
    scores, weights = step["scores"][2][3], step["weights"][2][3]
    position = weights.index(max(weights))
    assert table.rows[0][:3] == (
        f"{position + 1} {(*TEXT, '<end>')[position]}",
        f"{scores[position]:.3f}",
        f"{weights[position]:.4f}",
    )


def test_beam_search_is_explained(model_of: Callable[[str], Translator]) -> None:
    model, search = model_of("several heads"), SearchOptions(beam=4, length_penalty=1.0)
    (translation,) = model.translate([TEXT], search)
    assert [step.output_token for step in explain_translation(model, TEXT, search).steps] == list(translation.tokens)


def test_command_prints_draws_and_writes_json(regard: Regard, trained: Path, tmp_path: Path) -> None:
    files = [tmp_path / f"map{suffix}" for suffix in (".png", ".svg", ".pdf", ".html")]
    answer = regard("explain", trained, "abcde", *(part for file in files for part in ("--out", file)))
    assert answer.code == 0, answer.err
    assert answer.out.startswith("abcde → abcde\n")
    assert "== Step 6: input e, output <end>" in answer.out
    assert all(file.stat().st_size > 1000 for file in files)
    assert b"Step 6: input e, output &lt;end&gt;" in files[-1].read_bytes()
    data = json.loads(regard("explain", trained, "abcde", "--json").out)
    assert data["text"] == "abcde"
    assert len(data["steps"]) == 6
    assert [len(step["weights"]) for step in data["steps"]] == [6] * 6


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["abXde"], "this text: this task was not trained on the character 'X'"),
        ([""], "this text is empty"),
        (["abc", "--head", "1"], "this model's attention has no heads to choose from"),
        (["abc", "--out", "map.gif"], "map.gif: cannot write a report as '.gif'"),
        (["abc", "--out", "map"], "map: cannot write a report without a suffix"),
        (["abc", "--out", "a.png", "--out", "a.png"], "a.png: this file is given twice; give each file once"),
    ],
)
def test_invalid_arguments_are_refused(regard: Regard, trained: Path, arguments: list[str], part: str) -> None:
    answer = regard("explain", trained, *arguments)
    assert answer.code == 2
    assert part in answer.err
    assert "Traceback" not in answer.err


def test_context_is_shown_for_a_layer_but_not_for_a_single_head(model_of: Callable[[str], Translator]) -> None:
    model = model_of("Transformer")
    (step, *_) = explain_translation(model, TEXT, GREEDY).steps
    assert step.contexts.shape == (3, step.state.shape[0])
    axes = model.model.decoder.weight_axes
    for layer in (1, 2, 3):
        view = AttentionView.of_step(step, axes, {"layer": layer})
        assert view.context is not None
        assert torch.equal(view.context, step.contexts[layer - 1])
    for selection in ({}, {"layer": 1, "head": 2}):
        assert AttentionView.of_step(step, axes, selection).context is None
    with_context, without = (
        explanation_report(model, TEXT, GREEDY, selection).page.sections[2].text for selection in ({"layer": 2}, {})
    )
    assert with_context[1].startswith(f"Context: norm {format_number(float(step.contexts[1].norm()))}, ")
    assert not any(text.startswith("Context") for text in without)


def test_bottleneck_is_described(model_of: Callable[[str], Translator], trained_brief: Callable[..., Path]) -> None:
    models = {kind: model_of(kind) for kind in ("dot", "Transformer")}
    models["last"] = load(trained_brief("model.attention.kind=last"))
    models["last, zeros"] = load(trained_brief("model.attention.kind=last", "model.decoder.start=zeros"))
    texts = {
        kind: explanation_report(model, TEXT, GREEDY, {}).page.sections[0].text[0] for kind, model in models.items()
    }
    assert "; the decoder's initial state is computed from it. Norm" in texts["dot"]
    assert "; the decoder's initial state is computed from it and it is the context of every step." in texts["last"]
    assert "all layers concatenated; it is the context of every step." in texts["last, zeros"]
    assert "the encoder's final state, all layers concatenated; the decoder's initial state is" in texts["dot"]
    assert "the mean of the encoder states; this decoder does not use it" in texts["Transformer"]


def test_equal_weights_keep_the_source_order(trained_brief: Callable[..., Path]) -> None:
    report = explanation_report(load(trained_brief("model.attention.kind=mean")), TEXT, GREEDY, {})
    assert [row[0] for row in report.page.sections[2].blocks[0].rows] == ["1 a", "2 b", "3 c", "4 d", "5 <end>"]
