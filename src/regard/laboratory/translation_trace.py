"""A model on its way through one sentence, for whoever wants to look at what it computes there.

Shapes: everything has a batch of one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.data import Example, pad
from regard.errors import UserError
from regard.inference.translation import Translation
from regard.inference.translator import Translator
from regard.nn import Attention, Encoding, Seq2Seq, State
from regard.search import SearchOptions


@dataclass(frozen=True)
class Call:
    """What a module was given, and what it gave."""

    name: str
    module: nn.Module
    given: tuple[Any, ...]
    gave: Any

    def scores(self) -> Tensor | None:
        """If it was a mechanism of attention, what it has computed before softmax: [1, (heads,) steps, positions]."""
        if not isinstance(self.module, Attention):
            return None
        query, memory = self.given
        return self.module.score(self.module.normalize(query), memory.keys)


@dataclass(frozen=True)
class Encoded:
    """After the encoder has read the source."""

    source: Tensor  # [1, positions]
    encoding: Encoding


@dataclass(frozen=True)
class Started:
    """Before the decoder's first step."""

    state: State


@dataclass(frozen=True)
class Stepped:
    """After a step of the decoder."""

    token: Tensor  # [1, 1]: what it has read
    features: Tensor  # [1, 1, size]
    logits: Tensor  # [1, 1, vocabulary]
    state: State


Stop = Encoded | Started | Stepped


def trace_translation(model: Seq2Seq, source: Sequence[int], read: Sequence[int]) -> Iterator[Stop]:
    """Encode the source, start, and take a step for each token that is `read`, with a stop after each."""
    tokens, valid = pad([source])
    encoding = model.encoder(tokens, valid)
    yield Encoded(tokens, encoding)
    state = model.decoder.start(encoding)
    yield Started(state)
    for number in read:
        token = torch.tensor([[number]])
        features, _, state = model.decoder.forward_steps(token, state)
        yield Stepped(token, features, model.decoder.readout(features), state)


@contextmanager
def record_module_calls(modules: Mapping[str, nn.Module]) -> Iterator[list[Call]]:
    """A list of all calls of these modules, as long as the block lasts; empty it to hear only what comes next."""
    calls: list[Call] = []
    with ExitStack() as stack:
        for name, module in modules.items():

            def listen(module: nn.Module, given: tuple[Any, ...], gave: Any, name: str = name) -> None:
                calls.append(Call(name, module, given, gave))

            stack.callback(module.register_forward_hook(listen).remove)
        yield calls


@dataclass(frozen=True)
class TracedTranslation:
    """A text and what the model made of it, also in numbers."""

    translation: Translation
    example: Example

    @classmethod
    def plan(cls, translator: Translator, text: str, search: SearchOptions) -> TracedTranslation:
        if not translator.check(text):
            raise UserError("this text: there is nothing in it to read")
        (translation,) = translator.translate([text], search)
        return cls(translation, translator.example(text, translation))

    @property
    def source(self) -> tuple[int, ...]:
        return self.example.source

    @property
    def read(self) -> tuple[int, ...]:
        """By the decoder: what it begins with, then what it has said."""
        return self.example.target[:-1]

    @property
    def said(self) -> tuple[int, ...]:
        return self.example.target[1:]
