"""Subwords: learning, encoding and decoding."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import UserError
from regard.text.subwords import SubwordTokenizer

TEXTS = [
    f"{subject} {does} {where}."
    for subject in ("Ein Mann", "Eine Frau", "Zwei Hunde", "Die Weinberge", "Eine Maus", "Die Freunde")
    for does in ("schläft", "rennen schnell", "steht", "singt laut", "laufen weit")
    for where in ("im Wasser", "auf einem Weinberg", "neben der Tür", "am See", "unter einem Zweig")
]
TEXTS.append("Eine Maus singt an der Straße.")  # the only ß


def learned(algorithm: str = "unigram", size: int = 50, coverage: float = 1.0) -> SubwordTokenizer:
    return SubwordTokenizer.learn(TEXTS, size, algorithm=algorithm, coverage=coverage)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def subwords() -> SubwordTokenizer:
    return learned()


@pytest.mark.parametrize("algorithm", ["unigram", "bpe"])
def test_texts_are_restored_from_their_subwords(algorithm: str):
    subwords = learned(algorithm)
    for text in TEXTS:
        tokens = subwords.tokenize(text)
        assert subwords.detokenize(tokens) == text
        assert set(tokens) <= set(subwords.pieces)
        assert len(tokens) < len(text)


@pytest.mark.parametrize("algorithm", ["unigram", "bpe"])
def test_there_are_as_many_subwords_as_configured_and_no_unknown_token(algorithm: str):
    pieces = learned(algorithm, size=48).pieces
    assert len(pieces) == len(set(pieces)) == 47
    assert not any("unk" in piece for piece in pieces)


def test_the_same_texts_give_the_same_subwords(subwords: SubwordTokenizer):
    assert learned().model == subwords.model
    assert SubwordTokenizer(subwords.model).tokenize(TEXTS[3]) == subwords.tokenize(TEXTS[3])


def test_an_interruption_is_not_converted():
    def texts() -> Iterator[str]:
        yield from TEXTS
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        SubwordTokenizer.learn(texts(), 50, algorithm="unigram", coverage=1.0)


def test_words_start_where_spaces_were(subwords: SubwordTokenizer):
    tokens = subwords.tokenize("Ein Mann schläft.")
    starts = subwords.starts(tokens)
    assert sum(starts) == 3
    assert "".join(" " * start + token.replace("▁", "") for token, start in zip(tokens, starts, strict=True)) == (
        " Ein Mann schläft."
    )


@given(text=st.text())
def test_any_text_can_be_split(text: str):
    subwords = learned_once()
    assert all(subwords.tokenize(text))


def learned_once(known: list[SubwordTokenizer] = []) -> SubwordTokenizer:  # noqa: B006 (remembered between examples)
    if not known:
        known.append(learned())
    return known[0]


def test_rare_characters_stay_unknown():
    assert "ß" in "".join(learned(coverage=1.0).pieces)
    assert "ß" not in "".join(learned(coverage=0.985, size=45).pieces)


def test_sampled_segmentations_spell_the_same_text_with_their_likelihood(subwords: SubwordTokenizer):
    tokens = subwords.tokenize("Die Weinberge schläft am See.")
    random = Random(1)
    segmentations = Counter(tuple(subwords.sample(tokens, random, alpha=0.2, n_best=8)) for _ in range(300))
    assert 2 < len(segmentations) <= 8
    assert {subwords.detokenize(segmentation) for segmentation in segmentations} == {"Die Weinberge schläft am See."}
    assert segmentations[tuple(tokens)] == max(segmentations.values())  # the default segmentation is the most likely
    assert {tuple(subwords.sample(tokens, random, alpha=0.2, n_best=1)) for _ in range(9)} == {tuple(tokens)}
    sharp = Counter(tuple(subwords.sample(tokens, random, alpha=50.0, n_best=8)) for _ in range(50))
    assert set(sharp) == {tuple(tokens)}


def test_samples_depend_only_on_the_random_numbers(subwords: SubwordTokenizer):
    tokens = subwords.tokenize(TEXTS[7])
    draws = [[subwords.sample(tokens, Random(seed), alpha=0.1, n_best=8) for seed in range(9)] for _ in range(2)]
    assert draws[0] == draws[1]


@pytest.mark.parametrize("algorithm", ["unigram", "bpe"])
@pytest.mark.parametrize(
    ("size", "message"), [(5, "more different characters than that; make data.text.size larger"), (9999, "only enough")]
)
def test_an_invalid_size_is_reported(algorithm: str, size: int, message: str):
    with pytest.raises(UserError, match=f"{size} subwords cannot be learned from these texts: .*{message}"):
        learned(algorithm, size=size)


def test_no_text_to_learn_from_is_reported():
    with pytest.raises(UserError, match="cannot be learned"):
        SubwordTokenizer.learn([], 10, algorithm="bpe", coverage=1.0)


@pytest.mark.parametrize("model", [b"no such thing", b""])
def test_a_damaged_model_is_reported(model: bytes):
    with pytest.raises(ValueError, match="this is not a SentencePiece model"):
        SubwordTokenizer(model)


def test_only_runs_of_spaces_are_normalized():
    odd = ["Ein ½ Liter… für 3 €", "x² ™ ﬁn", "می‌خواهم", "ｗｉｄｅ"]
    subwords = SubwordTokenizer.learn(odd * 20, 30, algorithm="unigram", coverage=1.0)
    for text in odd:
        assert subwords.detokenize(subwords.tokenize(text)) == text
    assert subwords.detokenize(["▁", "▁", "▁a", "▁", "▁b", "▁"]) == "a b"


def test_an_error_while_reading_texts_is_passed_on():
    def texts():
        yield "a text"
        raise UserError("line 2 is broken")

    with pytest.raises(UserError, match=r"^line 2 is broken$"):
        SubwordTokenizer.learn(texts(), 10, algorithm="unigram", coverage=1.0)
