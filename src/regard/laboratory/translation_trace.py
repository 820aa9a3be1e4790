"""Replays one translation step by step and records the inputs and outputs of modules.

Shapes: every tensor has a batch size of one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.data import EncodedSource, Example, Source, pad
from regard.errors import UserError
from regard.inference.translation import Translation
from regard.inference.translator import Translator
from regard.laboratory.embeddings import model_device
from regard.nn import Attention, AttentionHistory, Encoding, Seq2Seq, State
from regard.nn.attention_history import NO_HISTORY
from regard.nn.unscored_mechanisms import UnscoredAttention
from regard.search import SearchOptions


@dataclass(frozen=True)
class ModuleCall:
    """One recorded forward call.

    Args:
        name: The name under which the module was registered.
        module: The module.
        inputs: Its positional inputs.
        output: Its output.
    """

    name: str
    module: nn.Module
    inputs: tuple[Any, ...]
    output: Any

    def scores(self) -> Tensor | None:
        """The scores before they are normalized, [1, (heads,) steps, positions]; None for any other module.

        The weights of a mechanism without scores (`UnscoredAttention`) do not depend on the query.
        """
        if not isinstance(self.module, Attention) or isinstance(self.module, UnscoredAttention):
            return None
        query, memory, *rest = self.inputs
        history: AttentionHistory = rest[0] if rest else NO_HISTORY
        return self.module.scores(query, memory, history.of_queries(query.shape[1], 1))


@dataclass(frozen=True)
class EncoderOutput:
    """The state of a translation after the encoder has run.

    Args:
        source: Source token ids, [1, positions].
        encoding: The encoded source.
    """

    source: Tensor
    encoding: Encoding


@dataclass(frozen=True)
class DecoderStart:
    """The state of a translation before the first decoder step.

    Args:
        state: The decoder's state.
    """

    state: State


@dataclass(frozen=True)
class DecoderStep:
    """The state of a translation after one decoder step.

    Args:
        token: The input token, [1, 1].
        features: The features, [1, 1, size].
        logits: The logits, [1, 1, vocabulary].
        state: The decoder's state.
    """

    token: Tensor
    features: Tensor
    logits: Tensor
    state: State


TraceEvent = EncoderOutput | DecoderStart | DecoderStep


def trace_translation(model: Seq2Seq, source_ids: Source, decoder_inputs: Sequence[int]) -> Iterator[TraceEvent]:
    """Encode the source and run the decoder one step per input; yields after the encoder, the start and each step.

    Args:
        model: The model.
        source_ids: Token ids of the source, or its patches.
        decoder_inputs: Token ids that the decoder reads, one per step.
    """
    device = model_device(model)
    tokens, valid = (part.to(device) for part in pad([source_ids]))
    encoding = model.encoder(tokens, valid)
    yield EncoderOutput(tokens, encoding)
    state = model.decoder.start(encoding)
    yield DecoderStart(state)
    for token_id in decoder_inputs:
        token = torch.tensor([[token_id]], device=device)
        features, _, state = model.decoder.forward_steps(token, state)
        yield DecoderStep(token, features, model.decoder.logits(features), state)


@contextmanager
def record_module_calls(modules: Mapping[str, nn.Module]) -> Iterator[list[ModuleCall]]:
    """A list to which every forward call of these modules is appended within the block; clear it between steps.

    Args:
        modules: The modules by name.
    """
    calls: list[ModuleCall] = []
    with ExitStack() as stack:
        for name, module in modules.items():

            def record(module: nn.Module, inputs: tuple[Any, ...], output: Any, name: str = name) -> None:
                calls.append(ModuleCall(name, module, inputs, output))

            stack.callback(module.register_forward_hook(record).remove)
        yield calls


@dataclass(frozen=True)
class TracedTranslation:
    """A translation and its token ids, from which it can be replayed.

    Args:
        translation: The translation.
        example: Token ids of the source and of the output.
    """

    translation: Translation
    example: Example

    @classmethod
    def of_text(
        cls,
        translator: Translator,
        text: str | EncodedSource,
        search: SearchOptions,
        *,
        self_attention: bool = False,
    ) -> TracedTranslation:
        """Translate a text.

        Args:
            translator: The translator.
            text: The source text.
            search: The search options.
            self_attention: Also record the self-attention of encoder and decoder.

        Raises:
            UserError: If the text is empty.
        """
        source = translator.encode(text)
        if not source.ids:
            raise UserError("this text is empty; write at least one token")
        (translation,) = translator.translate([source], search, self_attention=self_attention)
        return cls(translation, translator.encode_translation(source, translation))

    @property
    def source_ids(self) -> Source:
        return self.example.source

    @property
    def decoder_inputs(self) -> tuple[int, ...]:
        """The begin token, then the output without its last token."""
        return self.example.target[:-1]

    @property
    def output_ids(self) -> tuple[int, ...]:
        return self.example.target[1:]
