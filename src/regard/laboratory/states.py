"""Hidden states of a model while it reads reference targets (teacher forcing): the inputs of probes.

Shapes: [batch, positions, size] for the states of a batch, [rows, size] once they are collected.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from regard.config.kinds import MECHANISMS
from regard.config.schema import ModelSection
from regard.data import Batch, Example, collate
from regard.laboratory.embeddings import model_device
from regard.nn import LastAttention, Seq2Seq
from regard.nn.recurrent import RecurrentDecoderSection, RecurrentEncoderSection
from regard.seeding import seed_for

BATCH_SIZE = 128  # sentences

# The kinds of states. An input is an embedding with its position encoding, as the encoder or the decoder reads it.
ENCODER_INPUT, ENCODER, BOTTLENECK = "encoder input", "encoder", "bottleneck"
DECODER_INPUT, DECODER = "decoder input", "decoder"


@dataclass(frozen=True)
class States:
    """States of one kind, one per row.

    Args:
        vectors: The states [rows, size].
        sentences: The index of each state's sentence, from 0 [rows].
        positions: The position of each state in its sentence, from 1 [rows].
    """

    vectors: Tensor
    sentences: Tensor
    positions: Tensor

    def sorted_by_sentence(self) -> States:
        """The same rows ordered by sentence, so that a split of the rows shares at most one sentence."""
        order = self.sentences.argsort(stable=True)
        return States(self.vectors[order], self.sentences[order], self.positions[order])


@torch.no_grad()
def collect_states(model: Seq2Seq, examples: Sequence[Example], max_states: int, seed: int) -> dict[str, States]:
    """The states of each kind for teacher-forced examples.

    Args:
        model: The model.
        examples: The sentences as token ids.
        max_states: The maximum number of states of a kind; of more, a random sample is taken.
        seed: The seed of that sample.
    """
    source = _sample_positions([len(e.source) for e in examples], max_states, seed_for(seed, "source"))
    target = _sample_positions([len(e.target) - 1 for e in examples], max_states, seed_for(seed, "target"))
    single = _sample_positions([1] * len(examples), max_states, seed_for(seed, "sentence"))
    sampled = {ENCODER_INPUT: source, ENCODER: source, BOTTLENECK: single, DECODER_INPUT: target, DECODER: target}
    parts: dict[str, list[tuple[Tensor, ...]]] = {kind: [] for kind in sampled}
    # Sentences of similar length share a batch, which keeps padding small.
    order = sorted(range(len(examples)), key=lambda index: len(examples[index].source))
    for begin in range(0, len(order), BATCH_SIZE):
        indices = order[begin : begin + BATCH_SIZE]
        batch = collate([examples[index] for index in indices]).to(model_device(model))
        for kind, states in hidden_states(model, batch).items():
            selected = pad_sequence([sampled[kind][index] for index in indices], batch_first=True)  # [batch, positions]
            rows, columns = selected.to(states.device).nonzero(as_tuple=True)
            sentences = torch.tensor(indices, device=states.device)[rows]
            parts[kind].append((states[rows, columns], sentences, columns + 1))
    return {kind: States(*map(torch.cat, zip(*some, strict=True))).sorted_by_sentence() for kind, some in parts.items()}


def _sample_positions(lengths: Sequence[int], max_states: int, seed: int) -> Sequence[Tensor]:
    """For each sentence a mask [length], True at the sampled positions. Drawn on the CPU: equal on all devices."""
    generator = torch.Generator("cpu").manual_seed(seed)
    drawn = torch.randperm(sum(lengths), generator=generator, device="cpu")[:max_states]
    sampled = torch.zeros(sum(lengths), dtype=torch.bool, device="cpu")
    sampled[drawn] = True
    return sampled.split(list(lengths))


def hidden_states(model: Seq2Seq, batch: Batch) -> dict[str, Tensor]:
    """The states of each kind, [batch, positions, size], including those of padding.

    Args:
        model: The model.
        batch: Sources and reference targets.
    """
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
    """A phrase that describes the bottleneck vector of a model and what its decoder uses it for.

    Args:
        model: The model section of the experiment.
        size: The number of elements of the vector.
    """
    recurrent = isinstance(model.encoder, RecurrentEncoderSection)
    content = "the encoder's final state, all layers concatenated" if recurrent else "the mean of the encoder states"
    decoder = model.decoder
    uses = []
    if isinstance(decoder, RecurrentDecoderSection) and decoder.start != "zeros":
        uses.append("the decoder's initial state is computed from it")
    if issubclass(MECHANISMS[model.attention.kind], LastAttention):
        uses.append("it is the context of every step")
    return f"{size} elements, {content}; {' and '.join(uses) or 'this decoder does not use it'}"
