"""Every tokenizer passes, and one that breaks a property is reported with it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from random import randrange
from typing import Any

import pytest

from regard.errors import UserError
from regard.testing import PropertyError, check_tokenizer
from regard.text import CharacterTokenizer, Tokenizer, WhitespaceTokenizer, WordTokenizer
from regard.text.subwords import SubwordTokenizer

TEXTS = [
    f"{who} {does} im Wasser." for who in ("Ein Mann", "Zwei Hunde", "Die Maus") for does in ("rennt", "singt laut")
]


@pytest.mark.parametrize("tokenizer", [CharacterTokenizer, WhitespaceTokenizer, WordTokenizer, WordTokenizer()])
def test_every_tokenizer_passes(tokenizer: type[Tokenizer] | Tokenizer) -> None:
    check_tokenizer(tokenizer)
    check_tokenizer(tokenizer, texts=["Ein Satz.", "two words"])


@pytest.mark.parametrize("algorithm", ["unigram", "bpe"])
def test_learned_subwords_pass(algorithm: Any) -> None:
    check_tokenizer(SubwordTokenizer.learn(TEXTS, 26, algorithm=algorithm, coverage=1.0), texts=TEXTS)


def test_a_class_learns_from_the_texts_with_its_settings() -> None:
    check_tokenizer(SubwordTokenizer, texts=TEXTS, size=26, algorithm="bpe", coverage=1.0)
    with pytest.raises(UserError, match="SubwordTokenizer has no option sise; did you mean 'size'"):
        check_tokenizer(SubwordTokenizer, texts=TEXTS, sise=26)


class Forgets(CharacterTokenizer):
    """Learns how long a token is, and forgets it."""

    has_model = True

    def __init__(self, length: int = 1) -> None:
        self.length = length

    @classmethod
    def from_texts(cls, texts: Iterable[str], settings: Any) -> Forgets:
        return cls(min(3, max(len(text) for text in texts)))

    @property
    def model(self) -> bytes:
        return str(self.length).encode()

    def tokenize(self, text: str) -> list[str]:
        return [text[start : start + self.length] for start in range(0, len(text), self.length)]


class Remembers(Forgets):
    @classmethod
    def from_model(cls, model: bytes, settings: Any) -> Remembers:
        return cls(int(model))


class KeepsNothing(Remembers):
    has_model = False


class LearnsAtRandom(Remembers):
    @property
    def model(self) -> bytes:
        return str(randrange(10**9)).encode()


class OtherPieces(Remembers):
    @property
    def pieces(self) -> list[str]:
        return [str(id(self))]


def test_a_learned_tokenizer_passes_if_it_is_restored() -> None:
    check_tokenizer(Remembers)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (Forgets, "Forgets: 'Ein Mann schläft.' has other tokens after `from_model`: put everything that was learned"),
        (KeepsNothing, "KeepsNothing: `has_model` is False, and `model` has 1 bytes: a run directory keeps"),
        (LearnsAtRandom, "LearnsAtRandom: the same texts give another `model`: learn without random numbers"),
        (OtherPieces, "OtherPieces: `pieces` differ after `from_model`: put everything"),
    ],
)
def test_a_tokenizer_that_is_not_restored_is_reported(broken: type[Tokenizer], message: str) -> None:
    with pytest.raises(PropertyError) as error:
        check_tokenizer(broken)
    assert str(error.value).startswith(message)


class DropsMarks(CharacterTokenizer):
    """A tokenizer for plain words only."""

    def tokenize(self, text: str) -> list[str]:
        return [character for character in text if character != "!"]


class DropsSpecialTokens(WhitespaceTokenizer):
    def tokenize(self, text: str) -> list[str]:
        return [token for token in text.split() if not re.fullmatch("<.*>", token)]


class DropsUnusualCharacters(CharacterTokenizer):
    def tokenize(self, text: str) -> list[str]:
        return list(text.encode("latin-1", "ignore").decode("latin-1"))


class JoinsWords(WhitespaceTokenizer):
    def detokenize(self, tokens: Sequence[str]) -> str:
        return "".join(tokens)


class TrustsJoiners(WordTokenizer):
    """Does not replace the joiner in a text, which then glues words."""

    def tokenize(self, text: str) -> list[str]:
        return text.split()


class SplitsDifferently(CharacterTokenizer):
    """Its own output has other tokens: the first letter of a text stays with the second."""

    def tokenize(self, text: str) -> list[str]:
        return [text[:2], *text[2:]] if text[:1].isupper() and text[1:] else list(text)

    def detokenize(self, tokens: Sequence[str]) -> str:
        return " " * bool(tokens) + "".join(tokens)


class EmptyToken(CharacterTokenizer):
    def tokenize(self, text: str) -> list[str]:
        return text.split(" ") if text else []

    def detokenize(self, tokens: Sequence[str]) -> str:
        return " ".join(tokens)


class TokenOfNothing(CharacterTokenizer):
    def tokenize(self, text: str) -> list[str]:
        return list(text) or [" "]


class TextOfNothing(CharacterTokenizer):
    def detokenize(self, tokens: Sequence[str]) -> str:
        return "".join(tokens) or " "


class ReturnsTuples(CharacterTokenizer):
    def tokenize(self, text: str) -> Any:
        return tuple(text) if text else []


class StartsTooMany(CharacterTokenizer):
    def starts(self, tokens: Sequence[str]) -> list[bool]:
        return [True] * (len(tokens) + 1) if tokens else []


class StartsAfterSpaces(CharacterTokenizer):
    def starts(self, tokens: Sequence[str]) -> list[bool]:
        return [token == " " for token in tokens]


class LearnsFrequentTexts(CharacterTokenizer):
    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def tokenize(self, text: str) -> list[str]:
        self.counts[text] += 1
        return list(text) if self.counts[text] <= 5 else [text]


class ExpectsListsInOrder(CharacterTokenizer):
    def detokenize(self, tokens: Sequence[str]) -> str:
        return "".join(tokens.copy())  # type: ignore[attr-defined]


class Recursive(CharacterTokenizer):
    def tokenize(self, text: str) -> list[str]:
        return [text[0], *self.tokenize(text[1:])] if text else []


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (DropsMarks, r"'\"Ja\", sagt er: 3,5 km/h!' becomes '\"Ja\", sagt er: 3,5 km/h' when .*: every character but"),
        (DropsSpecialTokens, r"'<pad>' becomes '' when .*: a user may type a special token; split and keep it"),
        (DropsUnusualCharacters, r"'cafe.*' becomes 'cafe e' when it is tokenized and detokenized"),
        (JoinsWords, r"'Ein Mann schläft.' becomes 'EinMannschläft.' .*tokens show where the text had spaces"),
        (TrustsJoiners, r"with the signs ￭ and ▁ becomes 'a￭bc .*: replace signs that have a meaning"),
        (SplitsDifferently, r"the tokens \['Ei'.* become \[' '.* when they are detokenized and tokenized: a text that"),
        (EmptyToken, r"'two  spaces and\\ta tab' has an empty token: leave out empty parts"),
        (TokenOfNothing, r"the empty text has the tokens \[' '\]: it has none: return \[\]"),
        (TextOfNothing, r"no tokens become the text ' ': a model may output nothing"),
        (ReturnsTuples, r"the tokens of 'Ein Mann schläft.' are \('E'.*`tokenize` returns a list of strings"),
        (StartsTooMany, r"`starts` has 18 entries for 17 tokens of 'Ein Mann schläft.': it has one for each token"),
        (StartsAfterSpaces, r"`starts` of \['E'.* is \[False.*the first token always begins a word"),
        (LearnsFrequentTexts, r"'.*' has other tokens the second time, .*keep nothing of earlier texts"),
        (ExpectsListsInOrder, r"an error occurred while checking that any tokens become a text: AttributeError"),
        (Recursive, r"an error occurred while checking that a text becomes a list of tokens: RecursionError"),
    ],
)
def test_a_broken_tokenizer_is_reported(broken: type[Tokenizer], message: str, failure: Any) -> None:
    reported = failure(check_tokenizer, broken)
    assert re.search(message, reported), reported
