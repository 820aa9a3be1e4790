"""Examples on disk, for data sets that do not fit into memory, and for processes that share one."""

from __future__ import annotations

import hashlib
import json
import os
from array import array
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from threading import Lock
from typing import Any, Self, overload

import numpy as np
from numpy.typing import NDArray

from regard.data.examples import ID_BYTES, Example, is_patches, weight_to_bytes

IDS, LENGTHS, OFFSETS, HEADER = "ids.bin", "lengths.bin", "offsets.bin", "header.json"
HAS_PREAD = hasattr(os, "pread")


class OnDiskExamples(Sequence[Example]):
    """A sequence of examples in the files of a folder, from which each is read when it is needed.

    One process writes the folder, others on the same machine open it. Lengths and offsets, 16 bytes for each example,
    are memory-mapped, so that processes share them. The elements of examples are read by position. (If they were
    memory-mapped, the pages that were read would count as memory of each process.)

        OnDiskExamples.write(examples, folder)
        corpus = OnDiskExamples.open(folder)

    Args:
        folder: The folder that `write` has made.

    Attributes:
        digest: A SHA-256 digest of the examples, see `digest_examples`.
    """

    def __init__(self, folder: Path) -> None:
        header = json.loads((folder / HEADER).read_bytes())
        self.digest: str = header["digest"]
        self._count: int = header["count"]
        self._patch_bytes: int = header["patch_bytes"]  # of a source position that is a patch; 0 for token ids
        # Of runs of equal weights, because all pairs of a file have the same: the weight, and where the run ends.
        self._run_weights, ends = np.array(header["weights"], np.float64).reshape(-1, 2).T
        self._run_ends = ends.astype(np.int64)
        self._lengths: NDArray[np.int32] | None = _map(folder / LENGTHS, np.int32, (self._count, 2))
        self._offsets: NDArray[np.int64] | None = _map(folder / OFFSETS, np.int64, (self._count + 1,))
        self._lock = Lock()  # without `pread`, seek and read are two calls
        self._file = (folder / IDS).open("rb", buffering=0)

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Open the files of a folder for reading.

        Args:
            folder: The folder that `write` has made, in this process or in another one.

        Raises:
            OSError: A file is missing; the last one that `write` makes is the header.
        """
        return cls(folder)

    @staticmethod
    def write(examples: Iterable[Example], folder: Path) -> None:
        """Write examples to the files of a new folder.

        Args:
            examples: The examples, of which one at a time is in memory.
            folder: The folder to create, with its parents.

        Raises:
            OSError: The folder exists, or cannot be written to.
        """
        folder.mkdir(parents=True)
        count = offset = patch_bytes = 0
        digest = hashlib.sha256()
        weights: list[tuple[float, int]] = []
        with ExitStack() as stack:
            ids, lengths, offsets = (
                stack.enter_context((folder / each).open("xb")) for each in (IDS, LENGTHS, OFFSETS)
            )
            offsets.write(_int64(0))
            for example in examples:
                content = example.to_bytes()
                digest.update(content)
                digest.update(weight_to_bytes(example.weight))
                lengths.write(content[: 2 * ID_BYTES])
                offset += ids.write(content[2 * ID_BYTES :])
                offsets.write(_int64(offset))
                count += 1
                if weights and weights[-1][0] == example.weight:
                    weights.pop()
                weights.append((example.weight, count))
                if is_patches(example.source):
                    patch_bytes = len(example.source[0])
        header = {"count": count, "patch_bytes": patch_bytes, "weights": weights, "digest": digest.hexdigest()}
        (folder / HEADER).write_bytes(json.dumps(header).encode())

    @property
    def lengths(self) -> NDArray[np.int32]:
        """The number of source positions and target tokens, [examples, 2], read-only."""
        return _opened(self._lengths)

    @property
    def weights(self) -> NDArray[np.float64] | None:
        """How often a training sees each example per epoch, on average, [examples]; None: once."""
        if (self._run_weights == 1).all():
            return None
        return np.repeat(self._run_weights, np.diff(self._run_ends, prepend=0))

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Example: ...

    @overload
    def __getitem__(self, index: slice) -> list[Example]: ...

    def __getitem__(self, index: int | slice) -> Example | list[Example]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        index = range(len(self))[index]  # raises IndexError
        begin, end = _opened(self._offsets)[index : index + 2].tolist()
        content = self._read(begin, end - begin)
        weight = float(self._run_weights[self._run_ends.searchsorted(index, side="right")])
        length, patch = int(self.lengths[index, 0]), self._patch_bytes
        if not patch:
            ids = array("i", content)
            return Example(tuple(ids[:length]), tuple(ids[length:]), weight)
        patches = (content[begin : begin + patch] for begin in range(0, length * patch, patch))
        return Example(tuple(patches), tuple(array("i", content[length * patch :])), weight)

    def _read(self, begin: int, size: int) -> bytes:
        if HAS_PREAD:
            return os.pread(self._file.fileno(), size, begin)
        with self._lock:
            self._file.seek(begin)
            return self._file.read(size)

    def close(self) -> None:
        """Close the files, which remain on disk."""
        self._file.close()
        self._lengths = self._offsets = None


def example_lengths(examples: Sequence[Example]) -> NDArray[np.int32]:
    """The number of source positions and target tokens, [examples, 2].

    Args:
        examples: The examples, in memory or on disk.
    """
    if isinstance(examples, OnDiskExamples):
        return examples.lengths
    return np.array([(len(example.source), len(example.target)) for example in examples], dtype=np.int32)


def _int64(value: int) -> bytes:
    return array("q", (value,)).tobytes()


def _map(path: Path, dtype: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    """An array whose content is in a file."""
    if 0 in shape:
        return np.empty(shape, dtype)  # an empty file cannot be mapped
    return np.memmap(path, dtype, mode="r", shape=shape)


def _opened(values: NDArray[Any] | None) -> NDArray[Any]:
    if values is None:
        raise ValueError("these examples are closed")
    return values
