"""Words and their pieces: which tokens belong together, and where a model looked, word by word.

A word may be cut into pieces: "▁spielt" or "▁spiel", "t". Which tokens begin a word is said by `starts`, a bool for
each token. None, or an empty sequence, says that each token is a word of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from unicodedata import category

import torch
from torch import Tensor

from regard.errors import printable
from regard.text import JOINER, SPACE, SPECIAL

HYPHEN = "‑"  # before a piece that goes on with a word


def word_starts(tokens: Sequence[str], starts: Sequence[bool] | None = None) -> list[bool]:
    """Where words begin: as `starts` says, and at the first token, around a special one, and before a word's full stop.

    Tokenizers that mark spaces only do not part "Haus" from what stands behind it in "Haus.", but readers do.
    """
    _check(starts, len(tokens))
    if not starts:
        return [True] * len(tokens)
    alone = [token in SPECIAL for token in tokens]
    begins = [any(signs) for signs in zip(starts, alone, [True, *alone[:-1]], strict=True)]
    for place in reversed(range(len(tokens))):
        behind_a_word = place + 1 == len(tokens) or begins[place + 1]
        begins[place] |= behind_a_word and is_punctuation(tokens[place])
    return begins


def is_punctuation(text: str) -> bool:
    """No letter, no digit, no part of one: punctuation, symbols and spaces only."""
    return all(category(character)[0] in "PSZ" for character in text)


def word_spans(starts: Sequence[bool] | None, count: int) -> list[range]:
    """Which of `count` tokens each word is made of. The first token begins a word, whatever is said of it."""
    _check(starts, count)
    begins = [token for token in range(count) if token == 0 or not starts or starts[token]]
    return [range(begin, end) for begin, end in pairwise([*begins, count])]


def token_text(tokens: Sequence[str], starts: Sequence[bool] | None = None) -> list[str]:
    """The words that the tokens spell, without what says where spaces stood."""
    words = word_spans(word_starts(tokens, starts), len(tokens))
    return [bare("".join(tokens[piece] for piece in word)) for word in words]


def bare(text: str) -> str:
    """The text without what says where spaces stood; a mark that stands alone stays."""
    return text.removeprefix(SPACE).strip(JOINER) or text


def visible(token: str) -> str:
    """The token with spaces and whatever else cannot be seen made visible."""
    return printable(token).replace(" ", "␣")


def token_labels(tokens: Sequence[str], starts: Sequence[bool] | None = None) -> list[str]:
    """What to show of each token; where words are told, without marks of spaces, and with a hyphen if one goes on."""
    if not starts:
        return [visible(token) for token in tokens]
    begins = word_starts(tokens, starts)
    return [visible(bare(token) if new else HYPHEN + token) for token, new in zip(tokens, begins, strict=True)]


def word_attention(weights: Tensor, starts: Sequence[bool] | None, source_starts: Sequence[bool] | None) -> Tensor:
    """Where each output word looked, [output words, source words], from the pieces' `weights` [output, source].

    A source word gets what its pieces get together; an output word looks where its pieces look on average.
    What sums to 1 in each row of pieces does so in each row of words.

        a_WV = 1/|W| Σ_{w∈W} Σ_{v∈V} a_wv
    """
    outputs = _membership(starts, weights.shape[0]).to(weights)
    sources = _membership(source_starts, weights.shape[1]).to(weights)
    return (outputs / outputs.sum(1, keepdim=True)) @ weights @ sources.T


def _membership(starts: Sequence[bool] | None, count: int) -> Tensor:
    """[words, tokens]: 1 where a token belongs to a word, 0 elsewhere."""
    words = word_spans(starts, count)
    return torch.tensor([[token in word for token in range(count)] for word in words]).reshape(len(words), count)


def _check(starts: Sequence[bool] | None, count: int) -> None:
    if starts and len(starts) != count:
        raise ValueError(f"{len(starts)} starts do not fit {count} tokens")
