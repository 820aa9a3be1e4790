"""Examples that need not fit into memory."""

from __future__ import annotations

import hashlib
import os
import tempfile
from array import array
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import overload

import numpy as np
from numpy.typing import NDArray

from regard.data.codec import Example


class MemoryMappedExamples(Sequence[Example]):
    """Token numbers in a file without a name, from which each example is read when it is asked for.

    In memory are only the lengths and the places of the examples: 16 bytes each. The file is gone when the process
    ends, however it ends.
    """

    def __init__(self, examples: Iterable[Example], folder: Path) -> None:
        """Write down `examples`, in a file on the disk that has `folder`."""
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 (open as long as this object lives)
        try:
            self.lengths, self.digest = self._write(examples)
        except BaseException:
            self._file.close()
            raise
        self._places = np.concatenate([[0], self.lengths.sum(1, dtype=np.int64).cumsum()])

    def _write(self, examples: Iterable[Example]) -> tuple[NDArray[np.int32], str]:
        """The lengths of sources and targets, and what tells whether two corpora are the same."""
        lengths = array("i")
        digest = hashlib.sha256()
        for example in examples:
            numbers = _numbers(example)
            lengths.extend(numbers[:2])
            digest.update(numbers.tobytes())
            self._file.write(numbers[2:].tobytes())
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
            return [self[place] for place in range(*index.indices(len(self)))]
        index = range(len(self))[index]  # a wrong one is an IndexError
        begin, end = self._places[index : index + 2].tolist()
        numbers = array("i")
        numbers.frombytes(os.pread(self._file.fileno(), (end - begin) * numbers.itemsize, begin * numbers.itemsize))
        source = int(self.lengths[index, 0])
        return Example(tuple(numbers[:source]), tuple(numbers[source:]))

    def close(self) -> None:
        self._file.close()


def digest_examples(examples: Iterable[Example]) -> str:
    """What `MemoryMappedExamples.digest` of the same examples is."""
    digest = hashlib.sha256()
    for example in examples:
        digest.update(_numbers(example).tobytes())
    return digest.hexdigest()


def _numbers(example: Example) -> array[int]:
    """The two lengths, then all tokens."""
    return array("i", (len(example.source), len(example.target), *example.source, *example.target))


def example_lengths(examples: Sequence[Example]) -> NDArray[np.int32]:
    """[examples, 2]: how many tokens the sources and the targets have."""
    if isinstance(examples, MemoryMappedExamples):
        return examples.lengths
    return np.array([(len(example.source), len(example.target)) for example in examples], dtype=np.int32)
