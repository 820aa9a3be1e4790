"""From text to tokens and ids: tokenizers, vocabularies, and how a task tokenizes both sides of a pair."""

from regard.text.pairs import Pair
from regard.text.tokenization import ReadFile, Tokenization
from regard.text.tokenizers import JOINER, SPACE, CharacterTokenizer, Tokenizer, WhitespaceTokenizer, WordTokenizer
from regard.text.vocabulary import BEGIN, END, PAD, SPECIAL, UNKNOWN, Vocabulary

__all__ = [
    "BEGIN",
    "END",
    "JOINER",
    "PAD",
    "SPACE",
    "SPECIAL",
    "UNKNOWN",
    "CharacterTokenizer",
    "Pair",
    "ReadFile",
    "Tokenization",
    "Tokenizer",
    "Vocabulary",
    "WhitespaceTokenizer",
    "WordTokenizer",
]
