"""Checks for classes that extend Regard, each in one call.

    regard.testing.check_attention(MyAttention, heads=3)      # options of its settings
    regard.testing.check_task(MyTask, alphabet="abc")

A property that does not hold raises `PropertyError`, an AssertionError, whose message names the class, the property and
the likely mistake. The functions for single properties are in `regard.testing.models` and the other modules.
"""

from regard.testing.checks import check_attention, check_decoder, check_encoder
from regard.testing.failures import PropertyError
from regard.testing.tasks import check_task
from regard.testing.tokenizers import check_tokenizer

__all__ = [
    "PropertyError",
    "check_attention",
    "check_decoder",
    "check_encoder",
    "check_task",
    "check_tokenizer",
]
