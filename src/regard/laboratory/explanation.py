"""One translation, step by step, with the model's own numbers.

    e_t → α_t = softmax(e_t) → c_t = Σ_i α_ti v_i → p(y_t | y_<t, x) = softmax(W [c_t ; h_t] + b)

Symbols: z embeddings, h states, e scores, α weights, c contexts, y output tokens. Where the context goes, and when,
depends on the decoder.
Shapes: scores and weights [(layers,) (heads,) positions], with the axes that the decoder has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import torch
from torch import Tensor, nn

from regard.config.schema import ModelSection
from regard.inference.translation import select_attention
from regard.inference.translator import Translator
from regard.laboratory.formatting import format_number
from regard.laboratory.lab_report import LabReport
from regard.laboratory.states import describe_bottleneck
from regard.laboratory.translation_trace import (
    DecoderStep,
    EncoderOutput,
    ModuleCall,
    TracedTranslation,
    record_module_calls,
    trace_translation,
)
from regard.nn import Decoder
from regard.plotting.attention_map import token_label
from regard.plotting.translation_steps import TranslationStep, draw_translation_steps
from regard.reports.report_page import Picture, ReportPage, ReportSection, Table
from regard.search import SearchOptions
from regard.text import Vocabulary

LIKELIEST = 5
FIRST = 3  # numbers of a vector that are shown


@dataclass(frozen=True)
class Step:
    """What happened at one step of the decoder."""

    read: str
    said: str
    scores: Tensor  # e_t
    weights: Tensor  # α_t
    contexts: Tensor  # c_t of each layer [layers, size], all of its heads together
    state: Tensor  # h_t [size]
    probabilities: Tensor  # p(y_t | y_<t, x) [vocabulary]

    def likeliest(self, vocabulary: Vocabulary) -> list[tuple[str, float]]:
        """The first of the tokens that may come next, with their probabilities."""
        probabilities, order = self.probabilities.topk(min(LIKELIEST, len(self.probabilities)))
        return list(zip(vocabulary.to_tokens(order.tolist()), probabilities.tolist(), strict=True))


@dataclass(frozen=True)
class Explanation:
    """What the model has computed on its way to a translation."""

    journey: TracedTranslation
    embeddings: Tensor  # z [positions, size]
    states: Tensor  # h^enc [positions, size]
    last: Tensor  # where the encoder ended [size]
    steps: tuple[Step, ...]


@torch.no_grad()
def explain(translator: Translator, text: str, search: SearchOptions) -> Explanation:
    """Translate the text, then go the same way once more and note what is computed on it."""
    model, vocabulary = translator.model, translator.codec.target_vocabulary
    journey = TracedTranslation.of_text(translator, text, search)
    modules: list[nn.Module] = [model.encoder.embedding, *model.decoder.source_attentions]
    steps: list[Step] = []
    with record_module_calls({str(place): module for place, module in enumerate(modules)}) as calls:
        for event in trace_translation(model, journey.source_ids, journey.decoder_inputs):
            if isinstance(event, EncoderOutput):
                embeddings, encoding = calls[0].output[0], event.encoding
            elif isinstance(event, DecoderStep):
                read, said = vocabulary.to_tokens([journey.decoder_inputs[len(steps)], journey.output_ids[len(steps)]])
                steps.append(_note(read, said, event, calls, model.decoder))
            calls.clear()
    last = torch.cat([part[:, 0].flatten() for part in encoding.final_state])
    return Explanation(journey, embeddings, encoding.states[0], last, tuple(steps))


def _note(read: str, said: str, event: DecoderStep, calls: Sequence[ModuleCall], decoder: Decoder[Any]) -> Step:
    """What is known after a step; the calls are those of the mechanisms of its layers."""
    assert event.state.weights is not None
    weights = event.state.weights[0]
    return Step(
        read,
        said,
        scores=torch.cat([scores for call in calls if (scores := call.scores()) is not None]).view_as(weights),
        weights=weights,
        contexts=torch.stack([call.output[0][0, 0] for call in calls]),
        state=decoder.decoder_states(event.features)[0, 0],
        probabilities=event.logits[0, 0].double().softmax(-1),
    )


def explanation_report(
    translator: Translator, text: str, search: SearchOptions, numbers: Mapping[str, int]
) -> LabReport:
    """For people and programs; `numbers` says which layer or head is told of, where not the mean of all."""
    explanation = explain(translator, text, search)
    translation = explanation.journey.translation
    axes = translator.model.decoder.weight_axes
    looks = [AttentionView.at(step, axes, numbers) for step in explanation.steps]
    steps = zip(explanation.steps, looks, strict=True)
    page = ReportPage(
        title=f"{text} → {translation.text}",
        lead="What the model computes, in order, with its own numbers. ‖x‖ is the length of a vector x.",
        facts={
            "run": str(translator.runs[0].path),
            "attention": _about(translator, numbers),
            "log-probability of the output": f"{translation.score:.4f}",
        },
        sections=(
            _reading(explanation, translator.experiment.model),
            ReportSection("Where it looks", (), (_picture(translator, explanation, looks),)),
            *(_step(place, *both, translator, explanation) for place, both in enumerate(steps, start=1)),
        ),
    )
    return LabReport(page, _data(translator, text, explanation))


@dataclass(frozen=True)
class AttentionView:
    """Where a step looked, in one layer and head or, on average, in several."""

    weights: Tensor  # [positions]
    scores: Tensor | None  # [positions]; None: scores of several heads have no mean that means something
    context: Tensor | None  # [size]; None: that of several layers, or of one head of several, is not told

    @classmethod
    def at(cls, step: Step, axes: Sequence[str], numbers: Mapping[str, int]) -> AttentionView:
        weights, scores = (select_attention(each, axes, numbers) for each in (step.weights, step.scores))
        layer = numbers.get("layer", 1 if len(step.contexts) == 1 else None)
        context = None if layer is None or "head" in numbers else step.contexts[layer - 1]
        if weights.dim() == 1:
            return cls(weights, scores, context)
        return cls(weights.flatten(0, -2).mean(0), None, context)

    @property
    def is_somewhere(self) -> bool:
        return bool(self.weights.any())


def _about(translator: Translator, numbers: Mapping[str, int]) -> str:
    axes = [axis for axis in translator.model.decoder.weight_axes if axis not in numbers]
    chosen = "".join(f", {axis} {each}" for axis, each in numbers.items())
    averaged = f", mean over {' and '.join(f'{axis}s' for axis in axes)}" if axes else ""
    return f"{translator.experiment.model.attention.kind}{chosen}{averaged}"


def _reading(explanation: Explanation, model: ModelSection) -> ReportSection:
    tokens = explanation.journey.translation.source_tokens
    rows = tuple(
        (str(place), token_label(token), *_vector(embedding), *_vector(state))
        for place, (token, embedding, state) in enumerate(
            zip(tokens, explanation.embeddings, explanation.states, strict=True), start=1
        )
    )
    sizes = explanation.embeddings.shape[1], explanation.states.shape[1]
    head = ("place", "token", "‖z‖", f"embedding z, of {sizes[0]} numbers", "‖h‖", f"state h, of {sizes[1]}")
    bottleneck = describe_bottleneck(model, len(explanation.last))
    end = f"The bottleneck: {bottleneck}. Its length is {', '.join(_vector(explanation.last))}"
    return ReportSection(f"The encoder reads {len(tokens)} tokens", (end,), (Table(head, rows),))


def _vector(vector: Tensor) -> tuple[str, str]:
    """Its length and its first numbers."""
    return format_number(float(vector.norm())), " ".join(f"{value:.2f}" for value in vector[:FIRST].tolist()) + " …"


def _step(
    place: int, step: Step, look: AttentionView, translator: Translator, explanation: Explanation
) -> ReportSection:
    tokens = explanation.journey.translation.source_tokens
    likeliest = step.likeliest(translator.codec.target_vocabulary)
    columns: dict[str, list[str]] = {}
    if look.is_somewhere:
        best = look.weights.argsort(descending=True, stable=True)[:LIKELIEST].tolist()
        columns["looks at"] = [f"{i + 1} {token_label(tokens[i])}" for i in best]
        if look.scores is not None:
            columns["score e"] = [f"{float(look.scores[i]):.3f}" for i in best]
        columns["weight α"] = [f"{float(look.weights[i]):.4f}" for i in best]
    columns["next token"] = [token_label(token) for token, _ in likeliest]
    columns["probability"] = [f"{probability:.4f}" for _, probability in likeliest]
    told = [f"State: length {', '.join(_vector(step.state))}"]
    if look.is_somewhere and look.context is not None:
        told.append(f"Context: length {', '.join(_vector(look.context))}")
    rows = tuple(zip_longest(*columns.values(), fillvalue=""))
    return ReportSection(
        f"Step {place}: reads {token_label(step.read)}, says {token_label(step.said)}",
        tuple(told),
        (Table(tuple(columns), rows),),
    )


def _picture(translator: Translator, explanation: Explanation, looks: Sequence[AttentionView]) -> Picture:
    """Scores, weights and the most likely tokens of each step."""
    translation = explanation.journey.translation
    has_attention = any(look.is_somewhere for look in looks)
    steps = [
        TranslationStep(
            step.said,
            look.scores.tolist() if has_attention and look.scores is not None else None,
            look.weights.tolist() if has_attention else None,
            step.likeliest(translator.codec.target_vocabulary),
        )
        for step, look in zip(explanation.steps, looks, strict=True)
    ]
    figure = draw_translation_steps(steps, translation.source_tokens, translation.source_starts, title=translation.text)
    return Picture(figure, f"scores, weights and the most likely next tokens of {len(steps)} steps")


def _data(translator: Translator, text: str, explanation: Explanation) -> dict[str, Any]:
    """All scores, weights and lengths of vectors; of the probabilities, the largest."""
    translation = explanation.journey.translation
    steps = []
    for step in explanation.steps:
        likeliest = step.likeliest(translator.codec.target_vocabulary)
        steps.append(
            {
                "read": step.read,
                "said": step.said,
                "scores": step.scores.tolist(),
                "weights": step.weights.tolist(),
                "context_lengths": step.contexts.norm(dim=-1).tolist(),
                "state_length": float(step.state.norm()),
                "next": [{"token": token, "probability": p} for token, p in likeliest],
            }
        )
    return {
        "run": str(translator.runs[0].path),
        "source": text,
        "text": translation.text,
        "log_probability": translation.score,
        "source_tokens": translation.source_tokens,
        "tokens": translation.tokens,
        "weight_axes": translator.model.decoder.weight_axes,
        "embedding_lengths": explanation.embeddings.norm(dim=-1).tolist(),
        "state_lengths": explanation.states.norm(dim=-1).tolist(),
        "last_length": float(explanation.last.norm()),
        "steps": steps,
    }
