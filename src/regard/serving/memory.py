"""How much memory a model takes to do something: an upper bound, and about right where a request is large."""

from __future__ import annotations

from dataclasses import dataclass

from regard.inference.translator import Translator

# In bytes: a number of a tensor; in a list and in JSON; a token with all that is told of it; a node of a tree.
NUMBER, LISTED, TOKEN, NODE = 4, 64, 550, 1_000
COPIES = 2  # what a step computes stands beside what the step before has computed


@dataclass(frozen=True)
class Footprint:
    """Of a model, by its sizes. All results are in bytes; sources and targets are told by the tokens of the longest."""

    maps: int  # of attention, over all layers
    pair_size: int
    encoder_size: int
    encoder_pair_size: int
    decoder_pair_size: int
    growth: int
    vocabulary: int

    @classmethod
    def of(cls, translator: Translator) -> Footprint:
        encoder, decoder = translator.model.encoder, translator.model.decoder
        return cls(
            maps=sum(attention.maps for attention in decoder.source_attentions),
            pair_size=max(attention.pair_size for attention in decoder.source_attentions),
            encoder_size=encoder.size,
            encoder_pair_size=encoder.pair_size,
            decoder_pair_size=decoder.pair_size,
            growth=decoder.growth,
            vocabulary=len(translator.codec.target_vocabulary),
        )

    def reading(self, texts: int, source: int) -> int:
        """The encoder's states, and what its positions are held against each other with."""
        return COPIES * NUMBER * texts * source * (2 * self.encoder_size + source * self.encoder_pair_size)

    def searching(self, texts: int, width: int, source: int, target: int) -> int:
        """Where each hypothesis looked at each step, what its state has gained, and the chances of its next token."""
        remembered = target * (source * self.maps + self.growth)
        at_a_step = source * self.pair_size + self.vocabulary
        return self.reading(texts, source) + COPIES * NUMBER * texts * width * (remembered + at_a_step)

    def unrolling(self, texts: int, source: int, target: int) -> int:
        """The same for all steps at once."""
        at_a_step = source * (self.maps + self.pair_size) + target * self.decoder_pair_size + self.vocabulary
        return self.reading(texts, source) + COPIES * NUMBER * texts * target * (at_a_step + self.growth)

    def telling(self, outputs: int, source: int, target: int, *, attention: bool, alternatives: int) -> int:
        """Outputs as objects and as JSON."""
        looks = LISTED * source * self.maps if attention else 0
        return outputs * target * (TOKEN * (1 + alternatives) + looks)

    def growing(self, texts: int, width: int, target: int) -> int:
        """The beam as a tree."""
        return NODE * texts * target * (width + 3)
