"""Weights in safetensors files, which are compared with what is expected before anything is allocated."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from regard import files
from regard.errors import UserError

Shapes = dict[str, tuple[int, ...]]
METADATA = "regard"  # the key of Regard's own metadata in the header
DIGEST = "digest"  # in the metadata: of the settings and vocabularies that the weights belong to


def named_weights(model: nn.Module) -> dict[str, Tensor]:
    """The parameters of a model by name; a shared parameter is listed once.

    Args:
        model: The model.
    """
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


class _SkipInitialization(TorchFunctionMode):
    """Skips in-place functions, such as `normal_`: tensors of the `meta` device have no content to change.

    The kernels of that device would import torch's compiler, which takes as long as torch itself.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name.endswith("_") and not name.endswith("__"):
            return args[0] if args else kwargs["tensor"]
        return func(*args, **(kwargs or {}))


def expected_shapes(build: Callable[[], nn.Module]) -> Shapes:
    """The shapes of the parameters of a model, without allocating them.

    Args:
        build: Returns the model; called on the `meta` device, whose tensors have shapes and no content.
    """
    with torch.device("meta"), _SkipInitialization():
        return {name: tuple(weight.shape) for name, weight in named_weights(build()).items()}


class TensorFile:
    """An open safetensors file. Its header has been read; tensors are read on demand.

    Args:
        path: The file.
        file: What `safe_open` returned.

    Attributes:
        path: The file.
        metadata: JSON values from the header.
        shapes: The shape of each tensor.
    """

    def __init__(self, path: Path, file: Any) -> None:
        self.path, self._file = path, file
        metadata = file.metadata() or {}
        self.metadata: dict[str, Any] = json.loads(metadata.get(METADATA, "null"))
        if not isinstance(self.metadata, dict):
            raise ValueError("it was not written by Regard")
        slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 (not a dictionary)
        self.shapes: Shapes = {name: tuple(each.get_shape()) for name, each in slices.items()}
        for name, each in slices.items():
            if each.get_dtype() != "F32":
                raise ValueError(f"{name} is of type {each.get_dtype()}, not F32")

    @classmethod
    @contextmanager
    def open(cls, path: Path) -> Iterator[TensorFile]:
        """Open a file and read its header.

        Args:
            path: The file.

        Raises:
            UserError: It cannot be read, or was not written by Regard.
            FileNotFoundError: There is no such file.
        """
        with ExitStack() as stack:
            with files.damage_as_user_error(path):
                files.open_regular(path).close()  # safe_open reports a file that may not be read as missing
                opened = cls(path, stack.enter_context(safe_open(path, framework="pt")))
            yield opened

    def check_weights(self, expected: Shapes, prefix: str = "") -> None:
        """Raise a `UserError` unless the file has exactly the weights of a model.

        Args:
            expected: The shapes of the model's parameters.
            prefix: The beginning of the names of the model's weights in this file.
        """
        own = {name.removeprefix(prefix): each for name, each in self.shapes.items() if name.startswith(prefix)}
        if own != expected:
            raise UserError(f"{self.path}: these are not the weights of the model that config.yaml describes")

    def copy_weights(self, model: nn.Module, prefix: str = "") -> None:
        """Copy the weights of this file into a model; a `UserError` if names or shapes differ.

        Args:
            model: The model whose parameters are overwritten.
            prefix: The beginning of the names of the model's weights in this file.
        """
        self.copy_tensors(named_weights(model), prefix)

    def copy_tensors(self, tensors: Mapping[str, Tensor], prefix: str = "") -> None:
        """Copy the weights of this file into tensors; a `UserError` if names or shapes differ.

        Args:
            tensors: What is overwritten, by name.
            prefix: The beginning of their names in this file.
        """
        self.check_weights({name: tuple(tensor.shape) for name, tensor in tensors.items()}, prefix)
        for name, tensor in tensors.items():
            tensor.copy_(self._get_tensor(prefix + name))

    def tensor(self, name: str) -> Tensor:
        """A tensor in memory of its own: Windows does not replace a file that is mapped into memory.

        Args:
            name: Its name.
        """
        return self._get_tensor(name).clone()

    def _get_tensor(self, name: str) -> Tensor:
        with files.damage_as_user_error(self.path):
            tensor: Tensor = self._file.get_tensor(name)
            return tensor


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, Any]) -> None:
    """Write a safetensors file atomically.

    Args:
        path: The file to create or replace.
        tensors: Its content.
        metadata: JSON values for the header of the same file.
    """
    header = {METADATA: json.dumps(metadata)}
    files.write_atomic(path, save({key: tensor.cpu().contiguous() for key, tensor in tensors.items()}, header))
