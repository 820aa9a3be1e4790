"""Word boundaries in sequences of tokens: which tokens form a word, token labels, and attention between words.

A word may be split into subwords: "▁spielt" or "▁spiel", "t". `starts` has a bool for each token, True if it begins a
word. None or an empty sequence means that each token is a word.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from unicodedata import category

from torch import Tensor

from regard.errors import printable
from regard.text import JOINER, SPACE, SPECIAL

HYPHEN = "‑"  # before a subword that continues a word


def word_starts(tokens: Sequence[str], starts: Sequence[bool] | None = None) -> list[bool]:
    """For each token, True if a word begins there.

    Words also begin at the first token, at and after a special token, and at punctuation at the end of a word: for
    a tokenizer that marks only spaces, "Haus." is one word, for readers it is a word and a full stop.

    Args:
        tokens: The tokens.
        starts: Where the tokenizer has word boundaries.
    """
    _check_length(starts, len(tokens))
    if not starts:
        return [True] * len(tokens)
    is_special = [token in SPECIAL for token in tokens]
    begins = [any(reasons) for reasons in zip(starts, is_special, [True, *is_special[:-1]], strict=True)]
    for index in reversed(range(len(tokens))):
        ends_a_word = index + 1 == len(tokens) or begins[index + 1]
        begins[index] |= ends_a_word and is_punctuation(tokens[index])
    return begins


def is_punctuation(text: str) -> bool:
    """True if a text has only punctuation, symbols and spaces.

    Args:
        text: A text.
    """
    return all(category(character)[0] in "PSZ" for character in text)


def word_spans(starts: Sequence[bool] | None, count: int) -> list[range]:
    """The token indices of each word. The first token always begins a word.

    Args:
        starts: Where words begin.
        count: The number of tokens.
    """
    _check_length(starts, count)
    begins = [token for token in range(count) if token == 0 or not starts or starts[token]]
    return [range(begin, end) for begin, end in pairwise([*begins, count])]


def token_text(tokens: Sequence[str], starts: Sequence[bool] | None = None) -> list[str]:
    """The words that tokens spell, without markers of spaces.

    Args:
        tokens: The tokens.
        starts: Where the tokenizer has word boundaries.
    """
    words = word_spans(word_starts(tokens, starts), len(tokens))
    return [bare("".join(tokens[piece] for piece in word)) for word in words]


def bare(text: str) -> str:
    """A token without markers of spaces, unless it consists of nothing else.

    Args:
        text: A token.
    """
    return text.removeprefix(SPACE).strip(JOINER) or text


def visible(token: str) -> str:
    """A token with spaces and control characters made visible.

    Args:
        token: A token.
    """
    return printable(token).replace(" ", "␣")


def token_labels(tokens: Sequence[str], starts: Sequence[bool] | None = None) -> list[str]:
    """A label for each token. With `starts`, labels have no markers of spaces, and a hyphen before continued words.

    Args:
        tokens: The tokens.
        starts: Where the tokenizer has word boundaries.
    """
    if not starts:
        return [visible(token) for token in tokens]
    begins = word_starts(tokens, starts)
    return [visible(bare(token) if new else HYPHEN + token) for token, new in zip(tokens, begins, strict=True)]


def word_attention(weights: Tensor, starts: Sequence[bool] | None, source_starts: Sequence[bool] | None) -> Tensor:
    """Attention weights between words, [output words, source words].

    Weights are summed over the subwords of a source word and averaged over those of an output word. Rows that sum to 1
    still do.

        a_WV = 1/|W| Σ_{w∈W} Σ_{v∈V} a_wv

    Args:
        weights: Weights between tokens, [output, source].
        starts: Where output words begin.
        source_starts: Where source words begin.
    """
    outputs = _membership(starts, weights.shape[0], weights)
    sources = _membership(source_starts, weights.shape[1], weights)
    return (outputs / outputs.sum(1, keepdim=True)) @ weights @ sources.T


def _membership(starts: Sequence[bool] | None, count: int, like: Tensor) -> Tensor:
    """[words, tokens]: 1 where a token belongs to a word, 0 elsewhere; dtype and device as `like`."""
    words = word_spans(starts, count)
    rows = [[float(token in word) for token in range(count)] for word in words]
    return like.new_tensor(rows).reshape(len(words), count)


def _check_length(starts: Sequence[bool] | None, count: int) -> None:
    if starts and len(starts) != count:
        raise ValueError(f"{len(starts)} starts do not fit {count} tokens")
