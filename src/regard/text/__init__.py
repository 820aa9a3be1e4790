"""Between text and numbers: tokenizers and vocabularies."""

from regard.text.tokenizers import JOINER, SPACE, Characters, Spaced, Tokenizer, Words
from regard.text.vocabulary import BEGIN, END, PAD, SPECIAL, UNKNOWN, Vocabulary

__all__ = [
    "BEGIN",
    "END",
    "JOINER",
    "PAD",
    "SPACE",
    "SPECIAL",
    "UNKNOWN",
    "Characters",
    "Spaced",
    "Tokenizer",
    "Vocabulary",
    "Words",
]
