"""The recurrent decoders: when a decoder attends, and where the context goes.

Symbols: h_t state, c_t context, y_t output token, h̃_t attentional vector; a is the score, f are the recurrent layers.
Shapes: [batch, steps, size] for sequences, [layers, batch, size] for states.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from regard.nn.attention import Attention
from regard.nn.positions import Embedding
from regard.nn.recurrent import RecurrentDecoder, RecurrentState


class AttendBeforeDecoder(RecurrentDecoder):
    """The previous state is the query and the context is an input of the step, so steps are computed one by one.

    α_t = softmax(a(h_{t-1}, h^enc))    c_t = Σ_i α_ti h_i^enc    h_t = f([y_{t-1} ; c_t], h_{t-1})    p = W_o h_t

    Args:
        embedding: The target embedding.
        attention: Attention to the source. Its `query_size` is the size of the decoder.
        cell: Class of the recurrent layers.
        layers: Number of recurrent layers.
        start: Class of the initial state, such as `TanhStart`.
        readout: Class of the output layer.
        readout_input: What the output layer reads: "state" (h_t, also if None), "both" or "deep".
        dropout: Dropout probability.
    """

    readout_inputs = ("state", "both", "deep")

    def input_size(self) -> int:
        return self.embedding.size + self.attention.context_size

    def forward_steps(self, tokens: Tensor, state: RecurrentState) -> tuple[Tensor, Tensor, RecurrentState]:
        features, all_weights, hidden, history = [], [], state.hidden, state.history
        for embedded in self.embedding(tokens, state.position).split(1, dim=1):  # [batch, 1, size]
            query = hidden[0][-1].unsqueeze(1)
            context, weights = self.attention(query, state.memory, history)
            output, hidden = self.cell(torch.cat([embedded, context], -1), hidden)
            history = self.attention.extend_history(history, weights)
            features.append(self.join_features(context, output, embedded))
            all_weights.append(weights)
        state = RecurrentState(hidden, state.memory, history, all_weights[-1].select(-2, -1))
        return torch.cat(features, 1), torch.cat(all_weights, -2), state


class AttendAfterDecoder(RecurrentDecoder):
    """The current state is the query and the context goes to the readout only, so all steps are computed at once.

    h_t = f(y_{t-1}, h_{t-1})    α_t = softmax(a(h_t, h^enc))    c_t = Σ_i α_ti h_i^enc    p = W [c_t ; h_t] + b

    Args:
        embedding: The target embedding.
        attention: Attention to the source. Its `query_size` is the size of the decoder.
        cell: Class of the recurrent layers.
        layers: Number of recurrent layers.
        start: Class of the initial state, such as `TanhStart`.
        readout: Class of the output layer.
        readout_input: What the output layer reads: "both" ([c_t ; h_t], also if None), "context" or "deep".
        dropout: Dropout probability.
    """

    readout_inputs = ("both", "context", "deep")

    def input_size(self) -> int:
        return self.embedding.size

    def forward_steps(self, tokens: Tensor, state: RecurrentState) -> tuple[Tensor, Tensor, RecurrentState]:
        embedded = self.embedding(tokens, state.position)
        outputs, hidden = self.cell(embedded, state.hidden)
        context, weights = self.attention(outputs, state.memory, state.history)
        history = self.attention.extend_history(state.history, weights)
        state = RecurrentState(hidden, state.memory, history, weights.select(-2, -1))
        return self.join_features(context, outputs, embedded), weights, state


class InputFeedingDecoder(RecurrentDecoder):
    """Attention after the step, whose result is also an input of the next step (Luong et al. 2015).

    h_t = f([y_{t-1} ; h̃_{t-1}], h_{t-1})    c_t = Attn(h_t, h^enc)    h̃_t = tanh(W_c [c_t ; h_t])    p = W h̃_t + b

    The attentional vector h̃_t is 0 before the first step. The features of a step are [c_t ; h_t ; h̃_t].

    Args:
        embedding: The target embedding.
        attention: Attention to the source. Its `query_size` is the size of the decoder.
        **options: Those of every recurrent decoder, see `RecurrentDecoder`; `readout_input` is "attentional" (h̃_t, also
            if None).
    """

    readout_inputs = ("attentional",)

    def __init__(self, embedding: Embedding, attention: Attention, **options: Any) -> None:
        super().__init__(embedding, attention, **options)
        self.attentional_layer = nn.Linear(
            attention.context_size + attention.query_size, attention.query_size, bias=False
        )  # W_c

    def input_size(self) -> int:
        return self.embedding.size + self.attention.query_size

    def forward_steps(self, tokens: Tensor, state: RecurrentState) -> tuple[Tensor, Tensor, RecurrentState]:
        features, all_weights, hidden, history = [], [], state.hidden, state.history
        fed = state.attentional
        if fed is None:
            fed = hidden[0].new_zeros(len(tokens), self.attention.query_size)
        for embedded in self.embedding(tokens, state.position).split(1, dim=1):  # [batch, 1, size]
            output, hidden = self.cell(torch.cat([embedded, fed.unsqueeze(1)], -1), hidden)
            context, weights = self.attention(output, state.memory, history)
            history = self.attention.extend_history(history, weights)
            attended = torch.cat([context, output], -1)
            fed = torch.tanh(self.attentional_layer(attended)).squeeze(1)
            features.append(torch.cat([attended, fed.unsqueeze(1)], -1))
            all_weights.append(weights)
        state = RecurrentState(hidden, state.memory, history, all_weights[-1].select(-2, -1), fed)
        return torch.cat(features, 1), torch.cat(all_weights, -2), state
