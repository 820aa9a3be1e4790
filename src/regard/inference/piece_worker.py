"""Translates pieces of a file, in a process of its own.

    python -m regard.inference.piece_worker < REQUEST

The request is a JSON object (see `PiecesRequest`). `regard.workers.reporting` describes the protocol.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from regard import __version__, files
from regard.config import plugins
from regard.config.families import plugin_names
from regard.errors import UserError
from regard.inference.file_pieces import Piece, count_lines, read_pieces, unfinished
from regard.inference.input_lines import CHUNK_LINES, InputLine
from regard.inference.line_translation import OutputFormat, translate_lines
from regard.inference.translator import Translator
from regard.runs import MODEL, Run
from regard.search import SearchOptions, SearchStopped
from regard.workers.reporting import Reporter, WorkerStopped, worker_main

BLOCK = 1_000_000  # bytes of a file that are in memory at a time


@dataclass(frozen=True)
class FileSearch:
    """How a file is translated. Equal values have the same output for the same input.

    Args:
        digests: A digest of each run: its settings, vocabularies, weights and code.
        precision: The precision of the models.
        search: How to search.
        output_format: The format of the output.
        working_directory: Of relative paths of pictures; empty where texts are read.
    """

    digests: tuple[str, ...]
    precision: str
    search: SearchOptions
    output_format: OutputFormat
    working_directory: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, one for each option."""
        return {
            "regard": __version__,
            "runs": list(self.digests),
            "precision": self.precision,
            **self.search.model_dump(mode="json"),
            **asdict(self.output_format),
            "working_directory": self.working_directory,
        }

    def dump(self) -> str:
        """One line of JSON; equal values have the same."""
        return json.dumps(self.to_dict())

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> FileSearch:
        """The inverse of `to_dict`.

        Args:
            values: Plain values.
        """
        search = {name: values[name] for name in SearchOptions.model_fields}
        if isinstance(search["prefix"], list):
            search["prefix"] = tuple(search["prefix"])
        output_format = {name: values[name] for name in OutputFormat.__dataclass_fields__}
        options = SearchOptions(**search), OutputFormat(**output_format)
        return cls(tuple(values["runs"]), values["precision"], *options, values["working_directory"])


@dataclass(frozen=True)
class PiecesRequest:
    """What a worker has to do. All paths are absolute.

    Args:
        runs: The run directories.
        trust_code: Whether the runs may execute code outside Regard.
        device: The name of the device that computes, on the machine of the worker.
        file_search: How the file is translated.
        source: The file of texts.
        folder: Where the translations of its pieces are written.
        pieces: The pieces to translate.
    """

    runs: tuple[Path, ...]
    trust_code: bool
    device: str
    file_search: FileSearch
    source: Path
    folder: Path
    pieces: tuple[Piece, ...]

    def dump(self) -> str:
        """One line of JSON."""
        return json.dumps(
            {
                "sys.path": [os.path.abspath(folder) for folder in sys.path],  # where plug-ins are found
                "working_directory": os.getcwd(),  # of relative paths of pictures
                "runs": [str(run) for run in self.runs],
                "trust_code": self.trust_code,
                "device": self.device,
                "file_search": self.file_search.to_dict(),
                "source": str(self.source),
                "folder": str(self.folder),
                "pieces": [asdict(piece) for piece in self.pieces],
            }
        )

    @classmethod
    def parse(cls, text: str) -> PiecesRequest:
        """The inverse of `dump`, which also sets where plug-ins and pictures are found.

        Args:
            text: One line of JSON.
        """
        values = json.loads(text)
        sys.path += [folder for folder in values["sys.path"] if folder not in sys.path]
        with suppress(OSError):  # another machine need not have it
            os.chdir(values["working_directory"])
        return cls(
            tuple(map(Path, values["runs"])),
            values["trust_code"],
            values["device"],
            FileSearch.from_dict(values["file_search"]),
            Path(values["source"]),
            Path(values["folder"]),
            tuple(Piece(**piece) for piece in values["pieces"]),
        )

    def load(self) -> Translator:
        """The model.

        Raises:
            UserError: If it is not the one that the request was made for.
        """
        runs = [Run(path, trust_code=self.trust_code) for path in self.runs]
        if tuple(map(run_digest, runs)) != self.file_search.digests:
            raise UserError(f"{runs[0].path}: the model has changed since the translation began; start it again")
        return Translator(*runs, device=self.device, precision=self.file_search.precision)


def run_digest(run: Run) -> str:
    """A digest of everything that the translations of a run depend on: settings, vocabularies, weights and code.

    Args:
        run: A run directory with a model.
    """
    digest = hashlib.sha256()
    for name in ("config.yaml", "vocabulary.json", *sorted(path.name for path in run.path.glob("*.model")), MODEL):
        with files.open_regular(run.path / name) as file:
            digest.update(f"{name} {os.fstat(file.fileno()).st_size}\n".encode())
            while content := file.read(BLOCK):
                digest.update(content)
    for name in plugin_names(run.experiment):
        digest.update(json.dumps(plugins.describe_code(name, run.path).get("sha256")).encode())
    return digest.hexdigest()


def translate_pieces(request: PiecesRequest, reporter: Reporter) -> None:
    """Translate the pieces that have no translation yet.

    Args:
        request: What to do.
        reporter: Receives the progress.

    Raises:
        WorkerStopped: If the reporter wanted to stop before the end.
    """
    done, total = 0, count_lines(request.pieces)

    def advance(count: int) -> None:
        nonlocal done
        done += count
        reporter.send("translating", done, total)

    def outputs(piece: Piece, lines: list[InputLine]) -> Iterator[str]:
        for begin in range(0, piece.lines, CHUNK_LINES):
            chunk, first = lines[begin : begin + CHUNK_LINES], piece.first - 1 + begin
            yield from translate_lines(translator, chunk, first, how.search, how.output_format, advance, stops)

    torch.set_num_threads(1)
    translator, how, stops = request.load(), request.file_search, reporter.should_stop
    pending = unfinished(request.pieces, request.folder)
    advance(total - count_lines(pending))
    try:
        for piece, lines in read_pieces(request.source, pending, how.dump()):
            with files.atomic_writer(piece.output(request.folder)) as file:
                for line in outputs(piece, lines):
                    file.write(f"{line}\n".encode(errors="backslashreplace"))
    except SearchStopped:
        raise WorkerStopped from None


def work(text: str, reporter: Reporter) -> None:
    """Carry out a request.

    Args:
        text: The request, as one line of JSON.
        reporter: Receives the progress.
    """
    translate_pieces(PiecesRequest.parse(text), reporter)


if __name__ == "__main__":
    worker_main(work, Reporter)
