"""From pairs of texts to batches of token ids; `load`, `check` and `filter` for the data of users.

These three are imported when they are first used: search needs this package, but neither tasks nor corpora.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from regard.data.batches import Batch, Batches, collate, pad
from regard.data.codec import Codec
from regard.data.examples import EncodedSource, Example, Source, digest_examples
from regard.data.on_disk import OnDiskExamples, example_lengths

if TYPE_CHECKING:
    from regard.data.checking import check_files as check
    from regard.data.filtering import filter_files as filter
    from regard.data.splits import load_splits as load

__all__ = [
    "Batch",
    "Batches",
    "Codec",
    "EncodedSource",
    "Example",
    "OnDiskExamples",
    "Source",
    "check",
    "collate",
    "digest_examples",
    "example_lengths",
    "filter",
    "load",
    "pad",
]
LAZY = {
    "check": ("regard.data.checking", "check_files"),
    "filter": ("regard.data.filtering", "filter_files"),
    "load": ("regard.data.splits", "load_splits"),
}


def __getattr__(name: str) -> Any:
    if name not in LAZY:
        raise AttributeError(f"module 'regard.data' has no attribute '{name}'")
    module, function = LAZY[name]
    return getattr(import_module(module), function)


def __dir__() -> list[str]:
    return __all__
