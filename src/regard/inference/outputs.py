"""From the hypotheses of a search to translations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from regard.data import Codec, EncodedSource
from regard.inference.translation import Translation, mean_attention
from regard.search import Hypothesis
from regard.text import Vocabulary


def to_translation(
    codec: Codec,
    source: EncodedSource,
    hypotheses: Sequence[Hypothesis],
    *,
    n_best: int,
    axes: tuple[str, ...],
    length_penalty: float,
) -> Translation:
    """The best hypothesis as a translation, with the next best that are different texts.

    Args:
        codec: The codec of the model.
        source: The encoded source.
        hypotheses: At least one, the best first.
        n_best: The largest number of texts.
        axes: The axes of the attention weights before target and source.
        length_penalty: The length penalty of the search.
    """
    best: dict[str, Translation] = {}
    for hypothesis in hypotheses:
        tokens = tuple(codec.target_vocabulary.to_tokens(hypothesis.tokens))
        translation = Translation(
            text=codec.text(hypothesis.tokens, copied_words(hypothesis, source.tokens)),
            tokens=tokens,
            source_tokens=source.tokens,
            log_probabilities=tuple(hypothesis.log_probabilities),
            attention=hypothesis.attention,
            finished=hypothesis.finished,
            word_starts=tuple(codec.tokenization.target_starts(tokens)),
            source_word_starts=tuple(codec.tokenization.source_starts(source.tokens)),
            axes=axes,
            length_penalty=length_penalty,
            source_image=source.image,
        )
        best.setdefault(translation.text, translation)
    first, *next_best = list(best.values())[:n_best]
    return replace(first, next_best=tuple(next_best))


def copied_words(hypothesis: Hypothesis, source_tokens: Sequence[str]) -> dict[int, str]:
    """The source word with the largest attention weight for each `<unknown>` of an output, by its index.

    Args:
        hypothesis: The output.
        source_tokens: The source tokens, `<end>` included.
    """
    words = [index for index, token in enumerate(source_tokens[:-1]) if any(map(str.isalnum, token))]
    weights = mean_attention(hypothesis.attention)[:, words]
    return {
        index: source_tokens[words[int(weights[index].argmax())]]
        for index, token in enumerate(hypothesis.tokens)
        if token == Vocabulary.unknown and weights[index].any()
    }


def rank_texts(texts: Sequence[str], n_best: int) -> list[int | None]:
    """The rank of each text from 1; None if it is among the earlier ones, or not among the best.

    Args:
        texts: Texts, the best first.
        n_best: The largest rank.
    """
    best = list(dict.fromkeys(texts))[:n_best]
    return [
        best.index(text) + 1 if text in best and texts.index(text) == index else None
        for index, text in enumerate(texts)
    ]
