"""Examples on disk, for data sets that do not fit into memory."""

from __future__ import annotations

import hashlib
import tempfile
from array import array
from collections.abc import Iterable, Sequence
from pathlib import Path
from threading import Lock
from typing import overload

import numpy as np
from numpy.typing import NDArray

from regard.data.examples import ID_BYTES, Example, is_patches


class OnDiskExamples(Sequence[Example]):
    """A sequence of examples that are in a temporary file, from which each is read when it is needed.

    Only the lengths and offsets of the examples are in memory: 16 bytes each. (A memory-mapped file would add the pages
    that were read to the size of the process.) The file is removed when it is closed or the process ends.

    Args:
        examples: The examples to store.
        folder: A folder on the disk to use.

    Attributes:
        lengths: [examples, 2], the number of source positions and target tokens.
        digest: A SHA-256 digest of the examples, see `digest_examples`.
    """

    def __init__(self, examples: Iterable[Example], folder: Path) -> None:
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 (open as long as this object lives)
        self._lock = Lock()  # seek and read are two calls
        self._patch_bytes = 0  # of a source position that is a patch
        try:
            self.lengths, self.digest = self._write(examples)
        except BaseException:
            self._file.close()
            raise
        sizes = self.lengths.astype(np.int64) @ (self._patch_bytes or ID_BYTES, ID_BYTES)
        self._offsets = np.concatenate([[0], sizes.cumsum()])  # in bytes

    def _write(self, examples: Iterable[Example]) -> tuple[NDArray[np.int32], str]:
        """Store the examples; return their lengths and digest."""
        lengths = array("i")
        digest = hashlib.sha256()
        for example in examples:
            content = example.to_bytes()
            lengths.extend((len(example.source), len(example.target)))
            digest.update(content)
            self._file.write(content[2 * ID_BYTES :])
            if is_patches(example.source):
                self._patch_bytes = len(example.source[0])
        self._file.flush()
        return np.array(lengths, dtype=np.int32).reshape(-1, 2), digest.hexdigest()

    def __len__(self) -> int:
        return len(self.lengths)

    @overload
    def __getitem__(self, index: int) -> Example: ...

    @overload
    def __getitem__(self, index: slice) -> list[Example]: ...

    def __getitem__(self, index: int | slice) -> Example | list[Example]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        index = range(len(self))[index]  # raises IndexError
        begin, end = self._offsets[index : index + 2].tolist()
        with self._lock:
            self._file.seek(begin)
            content = self._file.read(end - begin)
        length, patch = int(self.lengths[index, 0]), self._patch_bytes
        if not patch:
            ids = array("i", content)
            return Example(tuple(ids[:length]), tuple(ids[length:]))
        patches = (content[begin : begin + patch] for begin in range(0, length * patch, patch))
        return Example(tuple(patches), tuple(array("i", content[length * patch :])))

    def close(self) -> None:
        """Remove the file."""
        self._file.close()


def example_lengths(examples: Sequence[Example]) -> NDArray[np.int32]:
    """The number of source positions and target tokens, [examples, 2].

    Args:
        examples: The examples, in memory or on disk.
    """
    if isinstance(examples, OnDiskExamples):
        return examples.lengths
    return np.array([(len(example.source), len(example.target)) for example in examples], dtype=np.int32)
