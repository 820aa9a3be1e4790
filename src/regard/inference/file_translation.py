"""Translating a file by several processes: `regard.translate_file`.

    cut the input ─ pieces ─ jobs, a process each ─ a file for each piece ─ join them into the output

The files of the pieces are in a folder next to the output. A translation that was stopped continues by checking which
of them exist. The output is written at the end, completely or not at all.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

from regard import files
from regard.config.families import plugin_names
from regard.devices import check_precision, select_device
from regard.errors import UserError
from regard.inference.file_pieces import Piece, count_lines, cut_file, shared_path, unfinished
from regard.inference.line_translation import OutputFormat
from regard.inference.piece_folder import check_output, join_pieces, parse_output, piece_folder
from regard.inference.piece_worker import FileSearch, PiecesRequest, run_digest
from regard.inference.translator import load
from regard.runs import Run
from regard.search import GREEDY, SearchOptions
from regard.terminal.output import print_message
from regard.terminal.progress import InterruptHandler, ProgressMeter
from regard.workers import open_executor
from regard.workers.job import JobEnd, WorkerJob
from regard.workers.runner import Executor, run_jobs

NOTE = "regard: note: "  # how a line of a worker's standard error begins that is no error
MAX_PIECES = 32  # of a job: enough to make the start of a process cheap, and its notes are in memory


@dataclass(eq=False)
class TranslationJob(WorkerJob):
    """Translates some pieces.

    Args:
        label: The file and the lines.
        request: What its process is to do.
        notes: What its process has reported about lines, until it is printed.
        state: Where it is in its life cycle.
        phase: What its process is doing.
        done: Lines that are done.
        total: All lines.
        phase_start: `done` when the phase began.
        phase_began: When the phase began.
        began: When the process began.
        seconds: Duration of the process.
        error: Its error message.
    """

    module: ClassVar[str] = "regard.inference.piece_worker"

    request: PiecesRequest
    notes: list[str] = field(default_factory=list)

    def request_line(self) -> str:
        return self.request.dump()

    def is_done(self) -> bool:
        return not unfinished(self.request.pieces, self.request.folder)

    @property
    def log(self) -> Path:
        return self.request.folder / f"{self.request.pieces[0].first}.log"

    def finish(self, end: JobEnd) -> None:
        lines = end.errors.splitlines()
        self.notes = [line for line in lines if line.startswith(NOTE)]
        errors = "\n".join(line for line in lines if not line.startswith(NOTE))
        super().finish(JobEnd(end.code, errors))
        if self.state == "done":
            self.done = count_lines(self.request.pieces)
        elif self.state == "stopped":
            self.error = f"{self.label}: the process was stopped"
        elif self.error == errors.strip():
            self.log.unlink(missing_ok=True)  # nothing to add to this message
        else:
            self.error = f"{self.label}: {self.error}; see {self.log}"


class TranslationObserver:
    """Shows the progress of a file, and stops at the first failure or after a signal.

    Args:
        meter: Counts the lines.
        interrupts: Whether a signal wants the translation to stop.
        shown: Whether notes and lost workers are printed.
    """

    def __init__(self, meter: ProgressMeter, interrupts: InterruptHandler, shown: bool) -> None:
        self.meter, self.interrupts, self.shown = meter, interrupts, shown
        self.failed: TranslationJob | None = None

    def job_changed(self, job: TranslationJob) -> None:
        for line in job.notes if self.shown else ():
            print_message(line)
        job.notes = []  # there may be one for each line of the file
        if job.state in ("failed", "stopped"):
            self.failed = self.failed or job
        elif job.state == "waiting" and self.shown:
            print_message(f"{job.label}: waiting again, because its worker was lost")

    def polled(self, jobs: Sequence[TranslationJob]) -> None:
        self.meter.advance(sum(job.done for job in jobs) - self.meter.done)

    def should_stop(self) -> bool:
        return bool(self.interrupts.signal or self.failed)


def translate_file(
    runs: str | Path | Run | Sequence[str | Path | Run],
    source: str | Path,
    output: str | Path,
    search: SearchOptions = GREEDY,
    *,
    json: bool = False,
    alignments: bool = False,
    self_attention: bool = False,
    jobs: int | None = None,
    cluster: str | None = None,
    trust_code: bool = False,
    device: str = "auto",
    precision: str = "float32",
    progress: bool = True,
    interrupts: InterruptHandler | None = None,
) -> Path:
    """Translate a file line by line, by processes with one thread each. The same call again continues one that stopped.

        regard.translate_file("runs/m30k", "big.de", "big.en", regard.Search(beam=5), jobs=2)

    Args:
        runs: A run directory, or several as an ensemble.
        source: A file with a text, or for a run that reads pictures a path, on each line; plain, or gzip if it ends in
            .gz.
        output: The file to create or replace, when all lines are translated. Until then, finished parts are in the
            folder `OUTPUT.parts`.
        search: How to search.
        json: Write a JSON object for each line.
        alignments: Add the alignment to each text.
        self_attention: Include the self-attention in the JSON.
        jobs: How many processes translate at a time (default: one).
        cluster: The address of a Dask scheduler, as `tcp://HOST:8786`, on whose workers the processes run instead. They
            find the runs, the source and the output under the same paths.
        trust_code: Whether the runs may execute code outside Regard.
        device: The device that computes: `auto` (a GPU if there is one), `cpu`, `mps`, `cuda` or `cuda:N`.
        precision: The precision of the models: `float32`, `bfloat16` or, on a GPU, `float16`.
        progress: Show the progress, and what is noted about lines.
        interrupts: Records signals; by default, one for a program that continues afterwards.

    Returns:
        The output.

    Raises:
        UserError: An argument is invalid, a line cannot be translated, or a process has failed.
        KeyboardInterrupt: A signal was recorded. Finished parts are kept.
    """
    if jobs is not None and cluster is not None:
        raise UserError("give either jobs, to translate on this machine, or cluster")
    if jobs is not None and (not isinstance(jobs, int) or isinstance(jobs, bool) or jobs < 1):
        raise UserError(f"jobs: {jobs!r:.80} should be a positive number of processes that translate at a time")
    output_format = OutputFormat(json, alignments, self_attention)
    source = shared_path(files.parse_path(source, "source").absolute())
    output = parse_output(output)
    check_output(source, output)
    output = Path(os.path.realpath(output))  # a link stays one
    if cluster is None:
        check_precision(precision, select_device(device))
    interrupts = interrupts or InterruptHandler(owns_process=False, quiet=not progress)
    with stop_on_signal(interrupts, output):
        opened = check_runs([runs] if isinstance(runs, str | os.PathLike | Run) else runs, search, trust_code)
        working_directory = os.getcwd() if opened[0].experiment.task.reads_pictures else ""
        file_search = FileSearch(tuple(map(run_digest, opened)), precision, search, output_format, working_directory)
        with piece_folder(output, file_search) as folder:
            request = PiecesRequest(
                runs=tuple(run.path.absolute() for run in opened),
                trust_code=any(any(plugin_names(run.experiment)) for run in opened),  # `check_runs` has executed it
                device=device,
                file_search=file_search,
                source=source,
                folder=folder,
                pieces=tuple(cut_file(source, file_search.dump())),
            )
            if unfinished(request.pieces, folder):
                with open_executor(jobs or 1, cluster, folder) as executor:
                    run_pieces(request, executor, interrupts, shown=progress)
            join_pieces(request, output)
    return output


@contextmanager
def stop_on_signal(interrupts: InterruptHandler, output: Path) -> Iterator[None]:
    """Handle signals: they stop at once until processes translate pieces, which `run_pieces` stops.

    Args:
        interrupts: Records signals.
        output: The file to create or replace, for the message.

    Raises:
        KeyboardInterrupt: A signal was recorded.
    """
    interrupts.waits_for_step = False
    with interrupts:
        try:
            yield
        except KeyboardInterrupt as stopped:
            if not interrupts.signal or stopped.args:
                raise
            raise KeyboardInterrupt(f"{output}: stopped; run the same again to continue") from None


def check_runs(runs: Sequence[str | Path | Run], search: SearchOptions, trust_code: bool) -> tuple[Run, ...]:
    """Open runs, and load their models once to see that they can do this search.

    Args:
        runs: A run directory, or several as an ensemble.
        search: How to search.
        trust_code: Whether the runs may execute code outside Regard.

    Raises:
        UserError: If a run has no model, or the models do not fit each other or the search.
    """
    translator = load(*runs, trust_code=trust_code, device="cpu")
    translator.translate([], search)
    return translator.runs


def run_pieces(request: PiecesRequest, executor: Executor, interrupts: InterruptHandler, *, shown: bool) -> None:
    """Translate all pieces that have no translation yet.

    Args:
        request: The pieces, and how to translate them.
        executor: Runs the processes.
        interrupts: Records signals; from now on, the first one lets the processes stop.
        shown: Whether the progress and notes are printed.

    Raises:
        UserError: A process has failed.
        KeyboardInterrupt: A signal was recorded.
    """
    pending, total = unfinished(request.pieces, request.folder), count_lines(request.pieces)
    done = total - count_lines(pending)
    if done and shown:
        print_message(f"{request.folder}: continuing after {done:,} of {total:,} lines")
    jobs = translation_jobs(request, pending, executor.slots)
    interrupts.waits_for_step = True
    with ProgressMeter(total - done, shown, "lines") as meter:
        observer = TranslationObserver(meter, interrupts, shown)
        run_jobs(jobs, executor, observer)
    left = count_lines(unfinished(request.pieces, request.folder))
    if not left:
        return
    stopped = f"{request.folder}: stopped with {total - left:,} of {total:,} lines done; run the same again to continue"
    if interrupts.signal or not observer.failed:
        raise KeyboardInterrupt(stopped)
    raise UserError("\n".join([observer.failed.error, *[stopped] * (left < total)]))


def translation_jobs(request: PiecesRequest, pieces: Sequence[Piece], slots: int) -> list[TranslationJob]:
    """Jobs of about equal size for some pieces, in order.

    Args:
        request: How to translate them.
        pieces: The pieces.
        slots: How many jobs run at a time.
    """
    count = min(len(pieces), slots * math.ceil(len(pieces) / (slots * MAX_PIECES)))
    bounds = [number * len(pieces) // max(count, 1) for number in range(count + 1)]
    parts = [tuple(pieces[begin:end]) for begin, end in pairwise(bounds)]
    return [
        TranslationJob(f"{request.source}, lines {own[0].first:,} to {own[-1].last:,}", replace(request, pieces=own))
        for own in parts
    ]
