"""An encoder and a decoder, together."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from regard.nn.encoder_decoder import Decoder, Encoder, State


class Seq2Seq(nn.Module):
    """p(y | x) = Π_t p(y_t | y_<t, x): any encoder with any decoder."""

    def __init__(self, encoder: Encoder, decoder: Decoder[Any]) -> None:
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder

    def start(self, source: Tensor, source_valid: Tensor) -> State:
        """Read the source [batch, positions]; the decoder's state before its first step."""
        state: State = self.decoder.start(self.encoder(source, source_valid))
        return state

    def forward(
        self,
        source: Tensor,
        source_valid: Tensor,
        inputs: Tensor,
        valid: Tensor,
        teacher_forcing_mask: Tensor | None = None,
    ) -> Tensor:
        """Logits [real positions, vocabulary] of what follows each of `inputs`, in the order of `inputs[valid]`.

        `teacher_forcing_mask` [batch, steps] is True where the decoder reads the true token; without
        it, it reads nothing else.
        """
        state = self.start(source, source_valid)
        if teacher_forcing_mask is None:
            logits, _ = self.decoder.teacher_forced(inputs, state, valid)
            return logits
        return self.decoder.scheduled_sampling(inputs, state, teacher_forcing_mask)[valid]
