"""Code of users and of other packages, which an experiment names by a reference or by a registered name.

References are described in `regard.config.references`. A registered name, such as `cosine`, is one that an installed
package has in the entry-point group `regard.plugins`.

To look up an object is to execute the module that defines it. A run directory is data: `refuse_code` makes a look-up an
error unless the user has had the same object imported before, in this process.
"""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import os
import re
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from importlib import import_module, metadata
from numbers import Integral
from pathlib import Path
from types import ModuleType
from typing import Any

from regard.config.references import FILE_REFERENCE, REFERENCE
from regard.errors import UserError, nearest

GROUP = "regard.plugins"
MAIN = "__main__"  # the module of a script or a notebook

_objects: dict[str, Any] = {}  # what has been looked up, or passed as an object, in this process
_sources: dict[str, bytes] = {}  # the source of each module when it was imported, by its file
_moved: dict[str, str] = {}  # references to files that have moved since a run was trained
_importing: list[str] = []
_trusted_runs: list[bool] = [False]  # whether every run directory is trusted
_refusal: ContextVar[str] = ContextVar("_refusal", default="")


class PluginError(UserError):
    """Code that an experiment names is not found, not trusted, or fails while it is imported."""


class CodeChangedWarning(UserWarning):
    """The code that a run was trained with has changed since."""


def trust_runs(trusted: bool = True) -> None:
    """Let every run directory that this process opens execute the code that it names, as `--trust-code` does.

    Args:
        trusted: False to require the user's word for each run again.
    """
    _trusted_runs[0] = trusted


def runs_are_trusted() -> bool:
    """True after `trust_runs`."""
    return _trusted_runs[0]


@contextmanager
def refuse_code(reason: str) -> Iterator[None]:
    """Within this block, looking up an object that was not looked up before is a `PluginError`.

    Args:
        reason: Why, and what the user can do. Empty: nothing is refused.
    """
    token = _refusal.set(reason)
    try:
        yield
    finally:
        _refusal.reset(token)


def check_not_importing(action: str) -> None:
    """Raise a `UserError` while a module of a plug-in is imported: its top level should only define things.

    A script that trains with a class of its own is imported again by every process that needs this class. Without this
    check, it would train again there.

    Args:
        action: What is about to be done, for the message.
    """
    if _importing:
        raise UserError(
            f"{_importing[-1]}: {action} while this file is imported for its classes; put the call below "
            'if __name__ == "__main__":'
        )


def reference_to(found: Any) -> str:
    """The reference by which another process finds a class or function; a later look-up in this process returns it.

    Args:
        found: A class or function, defined at the top level of a module, script or notebook.

    Raises:
        PluginError: If it has no such place.
    """
    name, module = getattr(found, "__qualname__", ""), sys.modules.get(getattr(found, "__module__", ""))
    if module is None or getattr(module, name, None) is not found:
        raise PluginError(f"{found!r} has no import path: define it at the top level of a module, and pass it itself")
    file, spec = getattr(module, "__file__", None), getattr(module, "__spec__", None)
    is_script = module.__name__ == MAIN and spec is None  # otherwise `python -m MODULE`, which can be imported
    if is_script and file and os.path.isfile(file) and not file.endswith(".py"):
        raise PluginError(f"{file}: rename this script to end with .py, so that other processes can import {name}")
    if file and os.path.isfile(file) and (is_script or _is_file_module(module)):
        reference = f"{os.path.abspath(file)}:{name}"
    else:
        reference = f"{spec.name if spec else module.__name__}:{name}"
    _objects[reference] = found
    return reference


def plain_settings(value: Any) -> Any:
    """`value` with classes and functions as references, paths as texts and numpy's numbers as Python's, at any depth.

    Args:
        value: Settings, or the value of one.
    """
    if isinstance(value, Mapping):
        return {key: plain_settings(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain_settings(each) for each in value]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if type(value) is not bool and isinstance(value, Integral):
        return int(value)
    return reference_to(value) if inspect.isclass(value) or inspect.isfunction(value) else value


def is_plugin(name: str) -> bool:
    """True if `name` is a reference, or a name that an installed package registers.

    Args:
        name: The name of a kind that is not built in.
    """
    return REFERENCE.fullmatch(name) is not None or name in registered_names()


@cache
def registered_names() -> dict[str, list[str]]:
    """The names that installed packages register, and what each stands for: one object, unless packages disagree."""
    found: dict[str, list[str]] = {}
    for entry in metadata.entry_points(group=GROUP):
        values = found.setdefault(entry.name, [])
        values += [entry.value] * (entry.value not in values)
    return found


def load_object(name: str) -> Any:
    """The object that `name` refers to; imports its module if this has not been done before.

    Args:
        name: A reference or a registered name.

    Raises:
        PluginError: If there is no such object, if its module fails, or within `refuse_code`.
    """
    if name not in _objects:
        reason = _refusal.get()
        if reason:
            raise PluginError(f"'{name}' is code outside Regard; {reason}")
        _objects[name] = _import(name, *_split(import_path(name)))
    return _objects[name]


def import_path(name: str) -> str:
    """The import path of a plug-in: a registered name is replaced by what it stands for.

    Args:
        name: A reference or a registered name.
    """
    if REFERENCE.fullmatch(name):
        return _moved.get(name, name)
    values = registered_names().get(name, [name])
    if len(values) > 1:
        raise PluginError(
            f"two installed packages register the plug-in '{name}': {values[0]} and {values[1]}; uninstall one of them"
        )
    return values[0]


def find_moved_file(name: str, relative: str, folder: Path) -> str | None:
    """The reference to the file of a plug-in that has moved together with a run directory; None if it has not.

    Args:
        name: A reference; only those to a file can move.
        relative: Its path, relative to the run directory, when the run was created.
        folder: The run directory.
    """
    match = FILE_REFERENCE.fullmatch(name)
    moved, inside = os.path.abspath(folder / relative), os.path.join(os.path.abspath(folder), "")
    if moved.startswith(inside):  # a run directory contains no code
        return None
    is_gone = match and name not in _objects and not os.path.isfile(match[1])
    return f"{moved}:{match[2]}" if match and is_gone and os.path.isfile(moved) else None


def accept_moved_files(moved: Mapping[str, str]) -> None:
    """Look up references to files that have moved in their new places.

    Args:
        moved: The new reference for each old one, of runs that the user trusts.
    """
    _moved.update(moved)


def describe_code(name: str, folder: Path) -> dict[str, str]:
    """What a run directory records about a plug-in: import path, package, version and a digest of its source.

    Args:
        name: A reference or a registered name.
        folder: The run directory. The path of a file is recorded relative to it, too, in case that both are moved.
    """
    module_name, _ = _split(import_path(name))
    found = {"import_path": import_path(name)}
    if module_name.endswith(".py"):
        with suppress(ValueError):  # another drive of Windows
            found["relative_path"] = os.path.relpath(module_name, folder)
    package = _distributions().get(module_name.partition(".")[0], [])
    if package:
        found |= {"package": package[0], "version": metadata.version(package[0])}
    source = _source(name)
    return found | ({"sha256": hashlib.sha256(source).hexdigest()} if source is not None else {})


@cache
def _distributions() -> Mapping[str, list[str]]:
    return metadata.packages_distributions()


def _source(name: str) -> bytes | None:
    """The source of a plug-in: the files of its class and of its base classes, or the cell of a notebook.

    Of base classes, and of classes that are its attributes (`Section`, for example), files in the same folder count.

    Returns:
        What was in the files when they were imported; None if there is no source.
    """
    found = load_object(name)
    module_name, _ = _split(import_path(name))
    module = sys.modules.get(module_name) or sys.modules.get(getattr(found, "__module__", ""))
    file = module_name if module_name.endswith(".py") else getattr(module, "__file__", None)
    try:
        if not file:  # of a notebook
            methods = [each for each in vars(found).values() if inspect.isfunction(each)]
            return "".join(inspect.findsource(methods[0])[0]).encode()
        parts = [part for _, part in inspect.getmembers(found, inspect.isclass)] if inspect.isclass(found) else []
        classes = [base for each in (found, *parts) for base in getattr(each, "__mro__", ())]
        beside = _files_beside(os.path.abspath(file), [sys.modules.get(each.__module__) for each in classes])
        return b"".join(_read_source(each) for each in dict.fromkeys([os.path.abspath(file), *beside]))
    except (OSError, TypeError, LookupError):
        return None


def _files_beside(file: str, modules: Iterable[ModuleType | None]) -> list[str]:
    """The files of those modules that are in the same folder as `file`."""
    found = {os.path.abspath(getattr(each, "__file__", None) or "") for each in modules}
    return sorted(each for each in found if each.endswith(".py") and os.path.dirname(each) == os.path.dirname(file))


def _read_source(file: str) -> bytes:
    """The content of a file when it was first read, which is when it was imported."""
    if file not in _sources:
        _sources[file] = Path(file).read_bytes()
    return _sources[file]


def _split(reference: str) -> tuple[str, str]:
    match = REFERENCE.fullmatch(reference)
    if match is None:
        raise PluginError(f"'{reference}' is not an import path; it should be package.module:Name or file.py:Name")
    return match[1], match[2]


def _find_attribute(module: ModuleType, attribute: str) -> Any:
    if not hasattr(module, attribute):
        where = getattr(module, "__file__", None) or f"the module {module.__name__}"
        hint = nearest(attribute, [name for name in vars(module) if not name.startswith("_")]).strip()
        raise PluginError(f"{where} has no {attribute}; {hint or 'check its spelling'}")
    return getattr(module, attribute)


def _import(name: str, module: str, attribute: str) -> Any:
    """Import an object of a module, by the module's name or file; whatever this raises becomes a `PluginError`."""
    is_file = module.endswith(".py")
    if is_file and not os.path.isfile(module):
        raise PluginError(f"there is no file {module}")
    folder = os.path.dirname(module) if is_file else os.getcwd()
    if folder not in sys.path:
        sys.path.append(folder)  # at the end: a file there does not replace an installed module
    before = set(sys.modules)
    _importing.append(module)
    try:
        found = _import_file(module) if is_file else import_module(module)
        new = [sys.modules.get(key) for key in set(sys.modules) - before]
        for file in _files_beside(os.path.abspath(getattr(found, "__file__", None) or ""), [found, *new]):
            _read_source(file)
        return _find_attribute(found, attribute)
    except PluginError:
        raise
    except ModuleNotFoundError as error:
        missing = f"there is no module {error.name}; install its package, or run this in the folder that contains it"
        raise PluginError(f"'{name}' cannot be imported: {missing}") from error
    except (Exception, SystemExit) as error:
        raise PluginError(f"'{name}' cannot be imported: {_failure(error)}") from error
    finally:
        _importing.pop()


def _module_name(file: str) -> str:
    digest = hashlib.sha256(file.encode(errors="surrogatepass")).hexdigest()[:12]
    return re.sub(r"\W", "_", Path(file).stem) + f"_{digest}"


def _is_file_module(module: ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    return bool(file) and module.__name__ == _module_name(str(file))


def _import_file(file: str) -> ModuleType:
    main = sys.modules[MAIN]
    if os.path.abspath(getattr(main, "__file__", None) or "") == file:
        return main  # the running script
    name = _module_name(file)
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, file)
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name]


def _failure(error: BaseException) -> str:
    """The message of an exception with the file and line where it was raised."""
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(error, SyntaxError):
        return f"{error.filename or 'its file'}, line {error.lineno or 1}: {error.msg}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename]
    own = [frame for frame in frames if frame.filename != __file__]
    return f"{own[-1].filename}, line {own[-1].lineno}: {text}" if own else text
