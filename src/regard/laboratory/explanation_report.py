"""The report of `regard explain`: one translation, step by step, with the model's intermediate results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from torch import Tensor

from regard.config.schema import ModelSection
from regard.data import EncodedSource
from regard.images import source_label
from regard.inference.translation import SelfAttentionWeights, Translation, mean_attention, select_attention
from regard.inference.translator import Translator
from regard.laboratory.explanation import TOP_TOKENS, ExplainedStep, Explanation, explain_translation
from regard.laboratory.formatting import format_number
from regard.laboratory.lab_report import LabReport
from regard.laboratory.states import describe_bottleneck
from regard.plotting.attention_map import token_label
from regard.plotting.symbols import Formula
from regard.plotting.translation_steps import TranslationStep, draw_translation_steps
from regard.reports.report_page import Picture, ReportPage, ReportSection, Table
from regard.search import SearchOptions

VECTOR_ELEMENTS = 3  # of a vector that are shown
SELF_ATTENDED = 3  # positions that a position attends to most in self-attention


def explanation_report(
    translator: Translator, text: str | EncodedSource, search: SearchOptions, selection: Mapping[str, int]
) -> LabReport:
    """The intermediate results of one translation.

    Args:
        translator: The translator.
        text: The source text.
        search: The search options.
        selection: The number of the layer or head, from 1, by "layer" or "head"; averaged over those not selected.
    """
    source = translator.encode(text)
    explanation = explain_translation(translator, source, search)
    translation = explanation.traced.translation
    axes = translator.model.decoder.weight_axes
    views = [AttentionView.of_step(step, axes, selection) for step in explanation.steps]
    page = ReportPage(
        title=f"{source_label(source.text)} → {translation.text}",
        lead="The intermediate results of the model, in order. ‖x‖ is the norm of a vector x.",
        facts={
            "run": str(translator.runs[0].path),
            "attention": _describe_attention(translator, selection),
            **_describe_self_attention(translation),
            "log-probability of the output": f"{translation.score:.4f}",
        },
        sections=(
            _encoder_section(explanation, translator.experiment.model),
            ReportSection("All steps", (), (_steps_picture(translator, explanation, views),)),
            *(
                _decoder_section(number, step, view, translator, explanation)
                for number, (step, view) in enumerate(zip(explanation.steps, views, strict=True), start=1)
            ),
        ),
    )
    return LabReport(page, _explanation_data(translator, source.text, explanation))


@dataclass(frozen=True)
class AttentionView:
    """The attention of a step in one layer and head, or averaged.

    Args:
        weights: α_t [positions].
        scores: e_t [positions]; None if several heads are averaged, whose scores are not comparable, and for a
            mechanism without scores.
        context: c_t [size]; None for several layers and for one head of several.
    """

    weights: Tensor
    scores: Tensor | None
    context: Tensor | None

    @classmethod
    def of_step(cls, step: ExplainedStep, axes: Sequence[str], selection: Mapping[str, int]) -> AttentionView:
        """Select or average the attention of a step.

        Args:
            step: The step.
            axes: The names of the leading axes of its weights.
            selection: The number of the layer or head, from 1, by axis.
        """
        weights = select_attention(step.weights, axes, selection)
        scores = None if step.scores is None else select_attention(step.scores, axes, selection)
        layer = selection.get("layer", 1 if len(step.contexts) == 1 else None)
        context = None if layer is None or "head" in selection else step.contexts[layer - 1]
        if weights.dim() == 1:
            return cls(weights, scores, context)
        return cls(weights.flatten(0, -2).mean(0), None, context)

    @property
    def has_attention(self) -> bool:
        return bool(self.weights.any())


def _describe_attention(translator: Translator, selection: Mapping[str, int]) -> str:
    axes = [axis for axis in translator.model.decoder.weight_axes if axis not in selection]
    selected = "".join(f", {axis} {number}" for axis, number in selection.items())
    averaged = f", mean over {' and '.join(f'{axis}s' for axis in axes)}" if axes else ""
    return f"{translator.experiment.model.attention.label}{selected}{averaged}"


def _describe_self_attention(translation: Translation) -> dict[str, str]:
    sides = {"encoder": translation.encoder_attention, "decoder": translation.decoder_attention}
    shown = [f"{side}, mean over {' and '.join(f'{axis}s' for axis in own.axes)}" for side, own in sides.items() if own]
    return {"self-attention": "; ".join(shown)} if shown else {}


def _most_attended(attention: SelfAttentionWeights, row: int) -> str:
    """The positions that a row attends to most, with their weights."""
    weights = mean_attention(attention.weights)[row]
    top = weights.argsort(descending=True, stable=True)[:SELF_ATTENDED].tolist()
    shown = [index for index in top if weights[index] >= 0.005]
    return ", ".join(f"{i + 1} {token_label(attention.tokens[i])} {float(weights[i]):.2f}" for i in shown)


def _encoder_section(explanation: Explanation, model: ModelSection) -> ReportSection:
    tokens = explanation.traced.translation.source_tokens
    attention = explanation.traced.translation.encoder_attention
    rows = tuple(
        (
            *(str(position), token_label(token), *_vector_cells(embedding), *_vector_cells(state)),
            *([] if attention is None else [_most_attended(attention, position - 1)]),
        )
        for position, (token, embedding, state) in enumerate(
            zip(tokens, explanation.embeddings, explanation.states, strict=True), start=1
        )
    )
    sizes = explanation.embeddings.shape[1], explanation.states.shape[1]
    head = ["position", "token", "‖z‖", f"embedding z, {sizes[0]} elements", "‖h‖", f"state h, {sizes[1]} elements"]
    head += ["self-attention"] * (attention is not None)
    bottleneck = describe_bottleneck(model, len(explanation.final_state))
    text = f"Bottleneck: {bottleneck}. Norm {', '.join(_vector_cells(explanation.final_state))}"
    return ReportSection(f"Encoder: {len(tokens)} tokens", (text,), (Table(tuple(map(Formula, head)), rows),))


def _vector_cells(vector: Tensor) -> tuple[str, str]:
    """The norm and the first elements."""
    elements = " ".join(f"{value:.2f}" for value in vector[:VECTOR_ELEMENTS].tolist())
    return format_number(float(vector.norm())), f"{elements} …"


def _decoder_section(
    number: int, step: ExplainedStep, view: AttentionView, translator: Translator, explanation: Explanation
) -> ReportSection:
    tokens = explanation.traced.translation.source_tokens
    top_tokens = step.top_tokens(translator.codec.target_vocabulary)
    columns: dict[str, list[str]] = {}
    if view.has_attention:
        top = view.weights.argsort(descending=True, stable=True)[:TOP_TOKENS].tolist()
        columns["attends to"] = [f"{i + 1} {token_label(tokens[i])}" for i in top]
        if view.scores is not None:
            columns[Formula("score e")] = [f"{float(view.scores[i]):.3f}" for i in top]
        columns[Formula("weight α")] = [f"{float(view.weights[i]):.4f}" for i in top]
    columns["next token"] = [token_label(token) for token, _ in top_tokens]
    columns["probability"] = [f"{probability:.4f}" for _, probability in top_tokens]
    text = [f"State: norm {', '.join(_vector_cells(step.state))}"]
    if view.has_attention and view.context is not None:
        text.append(f"Context: norm {', '.join(_vector_cells(view.context))}")
    if (attention := explanation.traced.translation.decoder_attention) is not None:
        text.append(f"Self-attention to inputs: {_most_attended(attention, number - 1)}")
    rows = tuple(zip_longest(*columns.values(), fillvalue=""))
    title = f"Step {number}: input {token_label(step.input_token)}, output {token_label(step.output_token)}"
    return ReportSection(title, tuple(text), (Table(tuple(columns), rows),))


def _steps_picture(translator: Translator, explanation: Explanation, views: Sequence[AttentionView]) -> Picture:
    """Scores, weights and the most likely tokens of each step."""
    translation = explanation.traced.translation
    has_attention = any(view.has_attention for view in views)
    steps = [
        TranslationStep(
            step.output_token,
            view.scores.tolist() if has_attention and view.scores is not None else None,
            view.weights.tolist() if has_attention else None,
            step.top_tokens(translator.codec.target_vocabulary),
        )
        for step, view in zip(explanation.steps, views, strict=True)
    ]
    figure = draw_translation_steps(
        steps, translation.source_tokens, translation.source_word_starts, title=translation.text
    )
    return Picture(figure, f"scores, weights and the most likely next tokens of {len(steps)} steps")


def _explanation_data(translator: Translator, text: str, explanation: Explanation) -> dict[str, Any]:
    """All scores, weights and norms; of the probabilities, the largest."""
    translation = explanation.traced.translation
    vocabulary = translator.codec.target_vocabulary
    steps = [
        {
            "input": step.input_token,
            "output": step.output_token,
            "scores": None if step.scores is None else step.scores.tolist(),
            "weights": step.weights.tolist(),
            "context_norms": step.contexts.norm(dim=-1).tolist(),
            "state_norm": float(step.state.norm()),
            "next_tokens": [{"token": token, "probability": p} for token, p in step.top_tokens(vocabulary)],
        }
        for step in explanation.steps
    ]
    return {
        "run": str(translator.runs[0].path),
        "source": text,
        "text": translation.text,
        "log_probability": translation.score,
        "source_tokens": translation.source_tokens,
        "tokens": translation.tokens,
        "encoder_attention": translation.encoder_attention and translation.encoder_attention.to_dict(),
        "decoder_attention": translation.decoder_attention and translation.decoder_attention.to_dict(),
        "weight_axes": translator.model.decoder.weight_axes,
        "embedding_norms": explanation.embeddings.norm(dim=-1).tolist(),
        "state_norms": explanation.states.norm(dim=-1).tolist(),
        "final_state_norm": float(explanation.final_state.norm()),
        "steps": steps,
    }
