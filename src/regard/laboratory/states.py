"""The states that a model has while it reads true targets: what probes are asked about.

Shapes: [batch, places, size] for the states of a batch, [rows, size] once they are gathered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from regard.config.schema import ModelSection
from regard.data import Batch, Example, collate
from regard.nn import Seq2Seq
from regard.seeding import seed_for

AT_ONCE = 128  # sentences

# The kinds of states. An input is an embedding with its position, as the encoder or the decoder reads it.
ENCODER_INPUT, ENCODER, BOTTLENECK = "encoder's input", "encoder", "bottleneck"
DECODER_INPUT, DECODER = "decoder's input", "decoder"


@dataclass(frozen=True)
class States:
    """States of one kind, one a row, with the sentence that each belongs to and its place there."""

    vectors: Tensor  # [rows, size]
    sentences: Tensor  # [rows], counted from 0
    places: Tensor  # [rows], counted from 1

    def in_order(self) -> States:
        """Sentence by sentence, so that the last fifth of the rows is that of other sentences than the rest."""
        order = self.sentences.argsort(stable=True)
        return States(self.vectors[order], self.sentences[order], self.places[order])


@torch.no_grad()
def gather(model: Seq2Seq, examples: Sequence[Example], most: int, seed: int) -> dict[str, States]:
    """The states of each kind, teacher-forced; of more than `most`, so many that are drawn with the seed."""
    source = _draw([len(example.source) for example in examples], most, seed_for(seed, "source"))
    target = _draw([len(example.target) - 1 for example in examples], most, seed_for(seed, "target"))
    single = _draw([1] * len(examples), most, seed_for(seed, "sentence"))
    wanted = {ENCODER_INPUT: source, ENCODER: source, BOTTLENECK: single, DECODER_INPUT: target, DECODER: target}
    found: dict[str, list[tuple[Tensor, ...]]] = {kind: [] for kind in wanted}
    # Those of like length together: little of a batch is padding.
    order = sorted(range(len(examples)), key=lambda number: len(examples[number].source))
    for begin in range(0, len(order), AT_ONCE):
        numbers = order[begin : begin + AT_ONCE]
        for kind, states in states_of(model, collate([examples[number] for number in numbers])).items():
            real = pad_sequence([wanted[kind][number] for number in numbers], batch_first=True)  # [batch, places]
            rows, places = real.nonzero(as_tuple=True)
            found[kind].append((states[rows, places], torch.tensor(numbers)[rows], places + 1))
    return {kind: States(*map(torch.cat, zip(*parts, strict=True))).in_order() for kind, parts in found.items()}


def _draw(lengths: Sequence[int], most: int, seed: int) -> Sequence[Tensor]:
    """For each sentence [length]: which of its places are wanted."""
    drawn = torch.randperm(sum(lengths), generator=torch.Generator().manual_seed(seed))[:most]
    wanted = torch.zeros(sum(lengths), dtype=torch.bool)
    wanted[drawn] = True
    return wanted.split(list(lengths))


def states_of(model: Seq2Seq, batch: Batch) -> dict[str, Tensor]:
    """The states of each kind, [batch, places, size], those of padding included."""
    encoding = model.encoder(batch.source, batch.source_valid)
    features, _, _ = model.decoder.forward_steps(batch.inputs, model.decoder.start(encoding))
    ends = [part.transpose(0, 1).flatten(1) for part in encoding.final_state]  # [batch, layers · size] each
    return {
        ENCODER_INPUT: model.encoder.embedding(batch.source),
        ENCODER: encoding.states,
        BOTTLENECK: torch.cat(ends, -1).unsqueeze(1),
        DECODER_INPUT: model.decoder.embedding(batch.inputs),
        DECODER: model.decoder.decoder_states(features),
    }


def describe_bottleneck(model: ModelSection, size: int) -> str:
    """What goes by this name, and whether the decoder has any use for it."""
    is_end = model.encoder.kind == "recurrent"
    what = "where the encoder ends, all layers side by side" if is_end else "the mean of the encoder's states"
    is_read = model.decoder.kind == "recurrent" and model.decoder.start != "zeros"
    return f"{size} numbers, {what}; {'the decoder starts from it' if is_read else 'this decoder does not read it'}"
