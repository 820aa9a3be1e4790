"""The check of tokenizers, and the properties that it consists of.

Each function checks one property, and raises `PropertyError` if it does not hold.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from reprlib import Repr
from typing import Any

from regard.testing.failures import checks_that, expect
from regard.testing.sections import make_section
from regard.text import JOINER, SPACE, SPECIAL, Tokenizer

DEFAULT_TEXTS = (
    "Ein Mann schläft.",
    '"Ja", sagt er: 3,5 km/h!',
    "Don't stop - it's a well-known snake_case.",
    "two  spaces and\ta tab",
)
UNUSUAL_TEXTS = (
    "cafe\N{COMBINING ACUTE ACCENT} e\N{COMBINING ACUTE ACCENT}\N{COMBINING CEDILLA}",
    "\N{GRINNING FACE} \N{WOMAN}\N{ZERO WIDTH JOINER}\N{PERSONAL COMPUTER}",
    "\N{WAVING HAND SIGN}\N{EMOJI MODIFIER FITZPATRICK TYPE-4}!",
    "مرحبا، يا عالم שלום",
    "हिन्दी भाषा।",
    "日本語のテキスト",
    "İstanbul ǅ ﬁ",
    f"a{JOINER}b {JOINER} c {SPACE} {SPACE}d",
    "x" * 5_000,
    "'" * 50,
    *SPECIAL,
    f"before {SPECIAL[2]} after {SPECIAL[0]}{SPECIAL[3]}",
)
MARKS = (JOINER, SPACE)  # signs that tokenizers may use for themselves, and replace in texts
SHORT = Repr()
SHORT.maxstring = 60


def check_tokenizer(
    tokenizer: type[Tokenizer] | Tokenizer, texts: Sequence[str] = DEFAULT_TEXTS, **options: Any
) -> None:
    """Check a tokenizer on texts, and on unusual ones: combining marks, emoji, scripts, very long words.

    Args:
        tokenizer: The tokenizer, or its class. A class learns from `texts`, and is restored from what it has learned.
        texts: Texts of the kind that it is made for.
        options: Settings of the class, as in the section `data.text`.

    Raises:
        PropertyError: A property does not hold; the message names it and the likely mistake.
        UserError: An option is unknown or invalid.
    """
    if isinstance(tokenizer, type):
        settings, _ = make_section(tokenizer, options)
        check_tokenizer(tokenizer.from_texts(texts, settings), texts)
        check_restored(tokenizer, settings, texts)
        return
    check_empty_text(tokenizer)
    for text in (*texts, *UNUSUAL_TEXTS):
        check_tokens(tokenizer, text)
        check_round_trip(tokenizer, text)
        check_starts(tokenizer, text)
    check_repeated_texts(tokenizer, [*texts, *UNUSUAL_TEXTS])
    check_any_output(tokenizer, [*texts, *UNUSUAL_TEXTS])


@checks_that("a tokenizer is restored from what it has learned")
def check_restored(tokenizer: type[Tokenizer], settings: Any, texts: Sequence[str]) -> None:
    """`from_model` restores what `from_texts` has learned, and learning again gives the same.

    Args:
        tokenizer: The class.
        settings: Its settings.
        texts: The texts to learn from.
    """
    learned, again = tokenizer.from_texts(texts, settings), tokenizer.from_texts(iter(texts), settings)
    expect(
        bool(learned.model) == tokenizer.has_model,
        f"`has_model` is {tokenizer.has_model}, and `model` has {len(learned.model)} bytes",
        "a run directory keeps `model` if and only if `has_model` is True",
    )
    expect(learned.model == again.model, "the same texts give another `model`", "learn without random numbers")
    restored = tokenizer.from_model(learned.model, settings)
    expect(
        restored.pieces == learned.pieces,
        "`pieces` differ after `from_model`",
        "put everything that was learned into `model`, and give tokens a fixed order",
    )
    for text in (*texts, *UNUSUAL_TEXTS):
        expect(
            restored.tokenize(text) == learned.tokenize(text),
            f"{SHORT.repr(text)} has other tokens after `from_model`",
            "put everything that was learned into `model`",
        )


@checks_that("an empty text has no tokens")
def check_empty_text(tokenizer: Tokenizer) -> None:
    """An empty text has no tokens, and no tokens are an empty text.

    Args:
        tokenizer: The tokenizer.
    """
    tokens = tokenizer.tokenize("")
    expect(tokens == [], f"the empty text has the tokens {tokens}", "it has none: return []")
    text = tokenizer.detokenize([])
    expect(text == "", f"no tokens become the text {text!r}", "a model may output nothing: return ''")
    starts = tokenizer.starts([])
    expect(starts == [], f"`starts` of no tokens is {starts}", "it has one entry for each token: return []")


@checks_that("a text becomes a list of tokens")
def check_tokens(tokenizer: Tokenizer, text: str) -> None:
    """Tokens are a list of strings that are not empty.

    Args:
        tokenizer: The tokenizer.
        text: A text.
    """
    tokens = tokenizer.tokenize(text)
    expect(
        isinstance(tokens, list) and all(isinstance(token, str) for token in tokens),
        f"the tokens of {SHORT.repr(text)} are {SHORT.repr(tokens)}",
        "`tokenize` returns a list of strings",
    )
    expect(
        "" not in tokens, f"{SHORT.repr(text)} has an empty token", "leave out empty parts, such as those of `split`"
    )


@checks_that("tokens become the text again")
def check_round_trip(tokenizer: Tokenizer, text: str) -> None:
    """`detokenize` restores the text, except for the kind and number of its spaces, and its tokens are the same again.

    Signs that tokenizers use for themselves, such as the joiner, may be replaced, but only once.

    Args:
        tokenizer: The tokenizer.
        text: A text.
    """
    tokens = tokenizer.tokenize(text)
    restored = tokenizer.detokenize(tokens)
    advice = "every character but white space belongs to a token, and tokens show where the text had spaces"
    if any(token in text for token in SPECIAL):
        advice = "a user may type a special token; split and keep it like any other text"
    if any(mark in text for mark in MARKS):
        words, kept = re.findall(r"\w+", text), re.findall(r"\w+", restored)
        problem = f"{text!r} with the signs {' and '.join(MARKS)} becomes {restored!r}"
        expect(words == kept, problem, "replace signs that have a meaning for the tokenizer before you split a text")
        text = restored
        restored = tokenizer.detokenize(tokenizer.tokenize(text))
        tokens = tokenizer.tokenize(restored)
    expect(
        " ".join(restored.split()) == " ".join(text.split()),
        f"{SHORT.repr(text)} becomes {SHORT.repr(restored)} when it is tokenized and detokenized",
        advice,
    )
    again = tokenizer.tokenize(restored)
    expect(
        again == tokens,
        f"the tokens {SHORT.repr(tokens)} become {SHORT.repr(again)} when they are detokenized and tokenized",
        "a text that a model has written must have the tokens that it was written with; replace signs with a special "
        "meaning in texts before you split them",
    )


@checks_that("`starts` marks where words begin")
def check_starts(tokenizer: Tokenizer, text: str) -> None:
    """`starts` has one entry for each token, and the first one is True.

    Args:
        tokenizer: The tokenizer.
        text: A text.
    """
    tokens = tokenizer.tokenize(text)
    starts = tokenizer.starts(tokens)
    expect(
        len(starts) == len(tokens),
        f"`starts` has {len(starts)} entries for {len(tokens)} tokens of {SHORT.repr(text)}",
        "it has one for each token",
    )
    expect(
        all(isinstance(start, bool) for start in starts) and starts[:1] != [False],
        f"`starts` of {SHORT.repr(tokens)} is {SHORT.repr(starts)}",
        "its entries are True or False, and the first token always begins a word",
    )
    special = tokenizer.starts((*tokens, *SPECIAL))
    expect(len(special) == len(tokens) + len(SPECIAL), "`starts` omits special tokens", "models output them, too")


@checks_that("the same text has the same tokens")
def check_repeated_texts(tokenizer: Tokenizer, texts: Sequence[str]) -> None:
    """Tokens depend on the text alone: not on random numbers, nor on texts before.

    Args:
        tokenizer: The tokenizer.
        texts: Texts.
    """
    first = {text: tokenizer.tokenize(text) for text in texts}
    for text in reversed(texts):
        again = tokenizer.tokenize(text)
        expect(
            again == first[text],
            f"{SHORT.repr(text)} has other tokens the second time, {SHORT.repr(again)}",
            "use no random numbers and keep nothing of earlier texts; subword regularization is a method of its own",
        )


@checks_that("any tokens become a text")
def check_any_output(tokenizer: Tokenizer, texts: Sequence[str]) -> None:
    """Tokens in any order, as a list or a tuple, become a text: a model may output any of them.

    Args:
        tokenizer: The tokenizer.
        texts: Texts.
    """
    tokens = [token for text in texts for token in tokenizer.tokenize(text)[:50]]
    for output in (tuple(tokens), tuple(reversed(tokens)), *((token,) for token in tokens)):
        text, starts = tokenizer.detokenize(output), tokenizer.starts(output)
        expect(
            isinstance(text, str) and len(starts) == len(output),
            f"the tokens {SHORT.repr(output)} become {SHORT.repr(text)} with {len(starts)} entries of `starts`",
            "a model may output tokens in any order; `detokenize` and `starts` accept them all",
        )
