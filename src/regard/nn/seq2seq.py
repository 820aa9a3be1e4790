"""A sequence-to-sequence model: an encoder and a decoder."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from regard.nn.encoder_decoder import Decoder, Encoder, SelectedSteps, State


class Seq2Seq(nn.Module):
    """p(y | x) = Π_t p(y_t | y_<t, x), from any encoder and any decoder.

    Args:
        encoder: Encodes the source.
        decoder: Predicts the target token by token. Its attention expects states of the encoder's size.
    """

    def __init__(self, encoder: Encoder, decoder: Decoder[Any]) -> None:
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder

    def start(self, source: Tensor, source_valid: Tensor) -> State:
        """Encode the source and return the decoder's state before its first step.

        Args:
            source: Token ids, [batch, positions], or the patches of pictures, [batch, positions, pixels].
            source_valid: True for tokens, False for padding, [batch, positions].
        """
        state: State = self.decoder.start(self.encoder(source, source_valid))
        return state

    def forward(
        self,
        source: Tensor,
        source_valid: Tensor,
        inputs: Tensor,
        valid: SelectedSteps,
        teacher_forcing_mask: Tensor | None = None,
    ) -> Tensor:
        """The logits of the token after each input token.

        Args:
            source: Source token ids, [batch, positions], or the patches of pictures, [batch, positions, pixels].
            source_valid: True for tokens, False for padding, [batch, positions].
            inputs: Decoder input token ids, [batch, steps].
            valid: True for tokens, False for padding, [batch, steps]; or the indices of tokens, (rows, steps).
            teacher_forcing_mask: True where the decoder reads the token of `inputs`, False where it reads its own most
                likely token, [batch, steps]. None means True everywhere.

        Returns:
            The logits, [valid steps, vocabulary], in the order of `inputs[valid]`.
        """
        state = self.start(source, source_valid)
        if teacher_forcing_mask is None:
            logits, _ = self.decoder.teacher_forced(inputs, state, valid)
            return logits
        return self.decoder.scheduled_sampling(inputs, state, teacher_forcing_mask)[valid]
