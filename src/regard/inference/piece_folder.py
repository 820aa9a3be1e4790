"""The folder of the pieces of an output file that is not complete yet, and the output itself."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from regard import files
from regard.errors import UserError
from regard.inference.piece_worker import FileSearch, PiecesRequest

REQUEST = "request.json"  # in the folder of the pieces: how they are translated
# Patterns of the other files in it: the translation of a piece, and the errors of a process that has crashed.
PIECE, LOG = f"[0-9]*-{'[0-9a-f]' * 32}", "[0-9]*.log"


def parse_output(output: str | Path) -> Path:
    """The path of an output.

    Args:
        output: As it was given.

    Raises:
        UserError: If it is not the name of a file, or that of a compressed one.
    """
    path = files.parse_path(output, "output")
    if os.path.basename(os.fspath(output)) in ("", ".", ".."):  # a `Path` has no separator at its end
        raise UserError(f"{output}: this names a folder; choose a file for the output")
    if path.suffix == ".gz":
        plain = path.with_suffix("")
        raise UserError(
            f"{path}: the output is not compressed; write {plain}, and compress it afterwards (gzip {plain})"
        )
    return path


def check_output(source: Path, output: Path) -> None:
    """Refuse an output that would replace something else than an earlier output.

    Args:
        source: The file of texts.
        output: The file to create or replace.

    Raises:
        UserError: If it is the source, or no regular file.
    """
    if output.exists() and source.exists() and output.samefile(source):
        raise UserError(f"{output}: the output would replace the input; choose another file for the output")
    if output.exists() and not output.is_file():
        raise UserError(f"{output}: this is not a regular file; choose another one for the output")


@contextmanager
def piece_folder(output: Path, file_search: FileSearch) -> Iterator[Path]:
    """The folder of the pieces of an output file, locked; it is removed at the end if it has no piece any more.

    Args:
        output: The file that the pieces will form.
        file_search: How they are translated.

    Raises:
        UserError: If another process uses the folder, or its pieces are translated differently.
    """
    folder = output.with_name(f"{output.name}.parts")
    with _created(folder), ExitStack() as unlocked, files.lock_folder(folder) as alone:
        if not alone:
            raise UserError(f"{output}: another process is writing this translation")
        try:
            _check_request(folder / REQUEST, file_search)
            yield folder
        finally:
            if not _remove_if_unused(folder):
                unlocked.callback(_remove_if_empty, folder)  # Windows removes no file that is open, such as the lock


@contextmanager
def _created(folder: Path) -> Iterator[None]:
    """Create a folder; at the end, remove its parents if they are new and empty."""
    with ExitStack() as stack:
        try:
            stack.enter_context(files.existing_folder(folder.parent))
            folder.mkdir(exist_ok=True)
        except OSError as error:
            raise UserError(f"{folder}: cannot write parts of the translation: {error.strerror or error}") from error
        yield


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):
        if set(os.listdir(folder)) <= {files.LOCK}:
            _remove_if_unused(folder)


def _remove_if_unused(folder: Path) -> bool:
    """Remove the folder, unless it has pieces, logs or files of others. True if it is removed."""
    if any(folder.glob(PIECE)) or any(folder.glob(LOG)):
        return False
    files.remove_abandoned(folder / "*")
    try:
        for path in (folder / REQUEST, folder / files.LOCK):
            path.unlink(missing_ok=True)
        folder.rmdir()
    except OSError:
        return False
    return True


def _check_request(path: Path, file_search: FileSearch) -> None:
    """Record how the pieces are translated; a `UserError` if those of an earlier call are translated differently."""
    if not any(path.parent.glob(PIECE)) or not path.exists():  # without it, by processes that outlived their command
        files.write_atomic(path, file_search.dump().encode())
        return
    try:
        found = files.read_file(path, _parse_request)
    except UserError as error:
        raise UserError(f"{error}; delete {path.parent} to start the translation anew") from None
    own = file_search.to_dict()
    different = [
        "other runs or weights" if name == "runs" else f"{name.replace('_', '-')} {found.get(name)!r:.80}"
        for name, value in own.items()
        if found.get(name) != value
    ]
    if different:
        raise UserError(
            f"{path.parent}: has parts of a translation with other options ({', '.join(different)}); use these options "
            "to continue it, delete the folder to start anew, or choose another output"
        )


def _parse_request(content: bytes) -> dict[str, Any]:
    values = json.loads(content)
    if not isinstance(values, dict):
        raise ValueError("it should be a JSON object")
    return values


def join_pieces(request: PiecesRequest, output: Path) -> None:
    """Write the translations of all pieces to one file, and remove them.

    Args:
        request: The pieces.
        output: The file to create or replace.

    Raises:
        UserError: If the output cannot be written, for example because the disk is full.
    """
    try:
        with files.atomic_writer(output) as joined:
            for piece in request.pieces:
                with files.open_regular(piece.output(request.folder)) as part:
                    shutil.copyfileobj(part, joined)
    except OSError as error:
        problem = f"{error.filename or output}: {error.strerror or error}"
        raise UserError(f"{problem}; all lines are translated: run the same again to join them") from error
    for path in [*request.folder.glob(PIECE), *request.folder.glob(LOG)]:
        files.remove_entry(path)
