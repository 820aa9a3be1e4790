"""Tags: tokens in front of a source text that state its origin or the target language, such as `<bt>` or `<2fr>`."""

from __future__ import annotations

from collections.abc import Collection, Sequence

TAG = r"<[^\s<>]+>"  # a form that tokenizers do not give to a part of a text


def split_tags(text: str, tags: Collection[str]) -> tuple[list[str], str]:
    """The tags at the beginning of a text, each with white space behind it, and the rest.

    Args:
        text: A source text. A tag in another place is a part of the text.
        tags: The tags that exist.
    """
    found: list[str] = []
    while tags and (words := text.split(maxsplit=1)) and words[0] in tags:
        found.append(words[0])
        text = words[1] if len(words) > 1 else ""
    return found, text


def count_tags(tokens: Sequence[str], tags: Collection[str]) -> int:
    """The number of tags at the beginning of some tokens.

    Args:
        tokens: The tokens of a source text.
        tags: The tags that exist.
    """
    return next((index for index, token in enumerate(tokens) if token not in tags), len(tokens))
