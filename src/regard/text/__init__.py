"""Between text and numbers: tokenizers and vocabularies."""

from regard.text.tokenizers import Characters, Spaced, Tokenizer, Words
from regard.text.vocabulary import BEGIN, END, PAD, UNKNOWN, Vocabulary

__all__ = ["BEGIN", "END", "PAD", "UNKNOWN", "Characters", "Spaced", "Tokenizer", "Vocabulary", "Words"]
