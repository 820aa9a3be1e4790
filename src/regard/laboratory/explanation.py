"""The intermediate results of one translation, step by step.

    e_t → α_t = normalizer(e_t) → c_t = Σ_i α_ti v_i → p(y_t | y_<t, x) = softmax(W [c_t ; h_t] + b)

Symbols: z embeddings, h states, e scores, α weights, c contexts, y output tokens. Where the context is used depends on
the decoder.
Shapes: scores and weights [(layers,) (heads,) positions], with the axes that the decoder has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.data import EncodedSource
from regard.inference.translator import Translator
from regard.laboratory.translation_trace import (
    DecoderStep,
    EncoderOutput,
    ModuleCall,
    TracedTranslation,
    record_module_calls,
    trace_translation,
)
from regard.nn import Decoder
from regard.search import SearchOptions
from regard.text import Vocabulary

TOP_TOKENS = 5


@dataclass(frozen=True)
class ExplainedStep:
    """The intermediate results of one decoder step.

    Args:
        input_token: The token that the decoder reads.
        output_token: The token that the search selected.
        scores: e_t; None for a mechanism without scores, such as `last`.
        weights: α_t.
        contexts: c_t of each layer, all of its heads together [layers, size].
        state: h_t [size].
        probabilities: p(y_t | y_<t, x) [vocabulary].
    """

    input_token: str
    output_token: str
    scores: Tensor | None
    weights: Tensor
    contexts: Tensor
    state: Tensor
    probabilities: Tensor

    def top_tokens(self, vocabulary: Vocabulary) -> list[tuple[str, float]]:
        """The most likely next tokens with their probabilities.

        Args:
            vocabulary: The target vocabulary.
        """
        probabilities, order = self.probabilities.topk(min(TOP_TOKENS, len(self.probabilities)))
        return list(zip(vocabulary.to_tokens(order.tolist()), probabilities.tolist(), strict=True))


@dataclass(frozen=True)
class Explanation:
    """The intermediate results of one translation.

    Args:
        traced: The translation, with its self-attention.
        embeddings: z [positions, size].
        states: The encoder states h [positions, size].
        final_state: The encoder's final state, all layers concatenated [size].
        steps: The decoder steps.
    """

    traced: TracedTranslation
    embeddings: Tensor
    states: Tensor
    final_state: Tensor
    steps: tuple[ExplainedStep, ...]


@torch.no_grad()
def explain_translation(translator: Translator, text: str | EncodedSource, search: SearchOptions) -> Explanation:
    """Translate the text, replay the translation and record its intermediate results.

    Args:
        translator: The translator.
        text: The source text.
        search: The search options.

    Raises:
        UserError: If the text is empty.
    """
    model, vocabulary = translator.model, translator.codec.target_vocabulary
    traced = TracedTranslation.of_text(translator, text, search, self_attention=True)
    modules: list[nn.Module] = [model.encoder.embedding, *model.decoder.source_attentions]
    inputs, outputs = (vocabulary.to_tokens(ids) for ids in (traced.decoder_inputs, traced.output_ids))
    steps: list[ExplainedStep] = []
    with record_module_calls({str(index): module for index, module in enumerate(modules)}) as calls:
        for event in trace_translation(model, traced.source_ids, traced.decoder_inputs):
            if isinstance(event, EncoderOutput):
                embeddings, encoding = calls[0].output[0], event.encoding
            elif isinstance(event, DecoderStep):
                tokens = inputs[len(steps)], outputs[len(steps)]
                steps.append(_explain_step(*tokens, event, calls, model.decoder))
            calls.clear()
    final_state = torch.cat([part[:, 0].flatten() for part in encoding.final_state])
    return Explanation(traced, embeddings, encoding.states[0], final_state, tuple(steps))


def _explain_step(
    input_token: str, output_token: str, event: DecoderStep, calls: Sequence[ModuleCall], decoder: Decoder[Any]
) -> ExplainedStep:
    """The results of a step; the calls are those of the attention mechanisms of its layers."""
    assert event.state.weights is not None
    weights = event.state.weights[0]
    scores = [scores for call in calls if (scores := call.scores()) is not None]
    return ExplainedStep(
        input_token,
        output_token,
        scores=torch.cat(scores).view_as(weights) if scores else None,
        weights=weights,
        contexts=torch.stack([call.output[0][0, 0] for call in calls]),
        state=decoder.decoder_states(event.features)[0, 0],
        probabilities=event.logits[0, 0].cpu().double().softmax(-1),
    )
