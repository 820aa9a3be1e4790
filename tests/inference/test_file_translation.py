"""`regard.translate_file`: resuming, refusing, joining. The work of the processes is done in this one, unless noted."""

from __future__ import annotations

import errno
import gzip
import io
import os
import re
import shutil
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext, redirect_stderr
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import regard as package
from regard import files
from regard.errors import UserError, failure_message
from regard.inference import file_pieces, file_translation, piece_worker
from regard.inference.file_translation import MAX_PIECES, TranslationJob, translation_jobs
from regard.inference.line_translation import OutputFormat
from regard.inference.piece_folder import REQUEST
from regard.inference.piece_worker import FileSearch, PiecesRequest, run_digest
from regard.runs import Run
from regard.search import SearchOptions
from regard.terminal.progress import InterruptHandler
from regard.workers.job import STOPPED, JobEnd
from regard.workers.reporting import Reporter, WorkerStopped
from regard.workers.runner import Events, JobEvent

LINES = ["abc", "", "e", "ddddd", "cab", "ba", "c"] * 3
PIECE_LINES = 3
PIECES = 7


class ExecutorHere:
    """Carries out each job at once in this process."""

    def __init__(self, slots: int = 2) -> None:
        self.slots = slots
        self.jobs: list[TranslationJob] = []  # those that were started
        self.pieces: list[int] = []  # the first lines of those that were translated
        self.after: Callable[[], None] = lambda: None  # called after each job

    def start(self, job: TranslationJob, events: Events[TranslationJob]) -> None:
        events.put((job, JobEvent.STARTED))
        self.jobs.append(job)
        self.pieces += [piece.first for piece in file_translation.unfinished(job.request.pieces, job.request.folder)]
        errors = io.StringIO()
        events.put((job, JobEnd(self.work(job, errors), errors.getvalue())))
        self.after()

    def work(self, job: TranslationJob, errors: io.StringIO) -> int:
        with redirect_stderr(errors):
            try:
                piece_worker.work(job.request_line(), Reporter(io.BytesIO()))
            except WorkerStopped:
                return STOPPED
            except Exception as error:
                errors.write(failure_message(error) or traceback.format_exc())
                return 1
        return 0

    def request_stop(self, job: Any) -> None:
        pass


@pytest.fixture(autouse=True)
def executor(monkeypatch: pytest.MonkeyPatch) -> ExecutorHere:
    executor = ExecutorHere()

    def use(at_once: int, cluster: str | None, folder: Path) -> AbstractContextManager[ExecutorHere]:
        executor.slots = at_once
        return nullcontext(executor)

    monkeypatch.setattr(file_translation, "open_executor", use)
    monkeypatch.setattr(file_pieces, "PIECE_LINES", PIECE_LINES)
    monkeypatch.setattr(file_translation, "MAX_PIECES", 1)
    return executor


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "in.txt"
    write_lines(path, LINES)
    return path


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "out.txt"


def write_lines(path: Path, lines: list[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="")


def parts(output: Path) -> list[str]:
    """The files of pieces of an output, without their digests."""
    return sorted(
        (path.name.partition("-")[0] for path in output.with_name(f"{output.name}.parts").glob("*-*")), key=int
    )


def interrupt_after(executor: ExecutorHere, count: int, interrupts: InterruptHandler) -> None:
    """Send a signal when a number of jobs have ended."""
    left = iter(range(count - 1, -1, -1))

    def after() -> None:
        if next(left, 1) == 0:
            interrupts.signal = signal.SIGINT

    executor.after = after


def test_the_output_has_the_translation_of_each_line(trained: Path, source: Path, output: Path) -> None:
    assert package.translate_file(trained, source, output, jobs=2, progress=False) == output
    assert output.read_text().splitlines() == LINES
    assert sorted(os.listdir(output.parent)) == ["in.txt", "out.txt"]


def test_an_existing_output_is_replaced_at_the_end(
    trained: Path, source: Path, output: Path, executor: ExecutorHere
) -> None:
    output.write_text("old\n")
    seen = []
    executor.after = lambda: seen.append(output.read_text())
    package.translate_file(str(trained), str(source), str(output), progress=False)
    assert seen == ["old\n"] * PIECES
    assert output.read_text().splitlines() == LINES


@pytest.mark.unix
def test_a_link_stays_a_link(trained: Path, source: Path, output: Path, tmp_path: Path) -> None:
    output.symlink_to(tmp_path / "elsewhere" / "real.txt")
    package.translate_file(trained, source, output, progress=False)
    assert output.is_symlink()
    assert (tmp_path / "elsewhere" / "real.txt").read_text().splitlines() == LINES


@pytest.mark.unix
def test_a_link_in_the_place_of_a_piece_is_replaced(
    trained: Path, source: Path, output: Path, stopped: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.txt"
    other.write_text("secret\n")
    (piece,) = stopped.glob("4-*")
    piece.unlink()
    piece.symlink_to(other)
    package.translate_file(trained, source, output, SearchOptions(beam=2), progress=False)
    assert output.read_text().splitlines() == LINES
    assert other.read_text() == "secret\n"


@pytest.mark.parametrize("name", ["in.txt", "in.gz"])
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"abc",
        b"\xef\xbb\xbfabc\r\nde\r\n\r\nab\r\ncd",
        b"ab\ncd\nab",
        b"a\nb\nc\n\n\n\n",
    ],
    ids=repr,
)
def test_line_ends_and_compression_do_not_matter(
    trained: Path, output: Path, tmp_path: Path, name: str, content: bytes
) -> None:
    source = tmp_path / name
    source.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    package.translate_file(trained, source, output, progress=False)
    lines = content.removeprefix(b"\xef\xbb\xbf").replace(b"\r", b"").removesuffix(b"\n")
    assert output.read_bytes() == (lines + b"\n" if content else b"")


def test_jobs_have_all_pieces_in_order(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    request = PiecesRequest(
        (), False, "cpu", FileSearch((), "float32", SearchOptions(), OutputFormat()), source, source.parent, ()
    )
    for count in (0, 1, 2, 5, MAX_PIECES, 3 * MAX_PIECES + 1, 7 * MAX_PIECES):
        pieces = [file_pieces.Piece(0, 1 + number, 1, "") for number in range(count)]
        for slots in (1, 2, 3):
            own = [job.request.pieces for job in translation_jobs(request, pieces, slots)]
            assert [piece for part in own for piece in part] == pieces
            assert all(1 <= len(part) <= MAX_PIECES for part in own)
            assert len(own) % slots == 0 or len(own) == count
            assert max(map(len, own), default=0) - min(map(len, own), default=0) <= 1


# --- Continuing -----------------------------------------------------------------------------------------------


def test_a_translation_that_was_stopped_continues(
    trained: Path, source: Path, output: Path, executor: ExecutorHere, capsys: pytest.CaptureFixture[str]
) -> None:
    interrupts = InterruptHandler(owns_process=False)
    interrupt_after(executor, 4, interrupts)
    stopped = r"out\.txt\.parts: stopped with 12 of 21 lines done; run the same again to continue"
    with pytest.raises(KeyboardInterrupt, match=stopped):
        package.translate_file(trained, source, output, interrupts=interrupts)
    assert not output.exists()
    assert parts(output) == ["1", "4", "7", "10"]
    package.translate_file(trained, source, output)
    assert "continuing after 12 of 21 lines" in capsys.readouterr().err
    assert executor.pieces == list(range(1, 22, PIECE_LINES)), "each piece was translated once"
    assert output.read_text().splitlines() == LINES
    assert sorted(os.listdir(output.parent)) == ["in.txt", "out.txt"]


@pytest.mark.parametrize("phase", ["check_runs", "cut_file", "open_executor"])
def test_a_signal_before_the_first_process_stops_at_once(
    trained: Path, source: Path, output: Path, monkeypatch: pytest.MonkeyPatch, phase: str
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(file_translation, phase, lambda *_: signal.raise_signal(signal.SIGINT))
        with pytest.raises(KeyboardInterrupt, match=r"out\.txt: stopped; run the same again to continue"):
            package.translate_file(trained, source, output.with_name("new") / "out.txt", progress=False)
    assert os.listdir(output.parent) == ["in.txt"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_line_that_the_model_cannot_process_is_named_and_can_be_corrected(
    trained: Path, source: Path, output: Path, executor: ExecutorHere
) -> None:
    write_lines(source, [*LINES[:16], "axb", *LINES[17:]])
    message = rf"{source}, line 17: .* the character 'x'.*\n.*out\.txt\.parts: stopped with 15 of 21 lines done"
    with pytest.raises(UserError, match=message):
        package.translate_file(trained, source, output, progress=False)
    assert not output.exists()
    assert parts(output) == ["1", "4", "7", "10", "13"]
    assert not list(output.with_name("out.txt.parts").glob("*.log")), "the message is complete"
    executor.pieces.clear()
    write_lines(source, LINES)
    package.translate_file(trained, source, output, progress=False)
    assert executor.pieces == list(range(16, 22, PIECE_LINES)), "the other pieces stay valid"
    assert output.read_text().splitlines() == LINES


def test_nothing_is_left_if_nothing_is_done(trained: Path, source: Path, output: Path) -> None:
    write_lines(source, ["axb", *LINES])
    with pytest.raises(UserError) as refusal:
        package.translate_file(trained, source, output, progress=False)
    assert "stopped with" not in str(refusal.value)
    assert os.listdir(output.parent) == ["in.txt"]
    source.write_bytes(b"abc\n\xff\n")
    with pytest.raises(UserError, match=r"in\.txt, line 2: byte 1"):
        package.translate_file(trained, source, output, progress=False)
    assert os.listdir(output.parent) == ["in.txt"]


def test_the_progress_counts_the_lines_that_are_left(
    trained: Path,
    source: Path,
    output: Path,
    executor: ExecutorHere,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("regard.terminal.progress.LOG_INTERVAL", 0.0)
    interrupts = InterruptHandler(owns_process=False)
    interrupt_after(executor, 4, interrupts)
    with pytest.raises(KeyboardInterrupt):
        package.translate_file(trained, source, output, interrupts=interrupts)
    assert re.search(r"^12/21 lines  [\d.,]+ lines/s  \d:\d\d left$", capsys.readouterr().err, re.M)
    package.translate_file(trained, source, output)
    assert re.search(r"^9/9 lines  [\d.,]+ lines/s  0:00 left$", capsys.readouterr().err, re.M)
    package.translate_file(trained, source, output, progress=False)
    assert capsys.readouterr().err == ""


def test_notes_are_printed_once_and_not_kept(
    trained: Path, source: Path, output: Path, executor: ExecutorHere, capsys: pytest.CaptureFixture[str]
) -> None:
    write_lines(source, ["abcdeabc"] * 7)
    for progress in (True, False):
        executor.jobs.clear()
        package.translate_file(trained, source, output, progress=progress)
        notes = re.findall(r"line (\d): 9 tokens, but the longest in training had 6", capsys.readouterr().err)
        assert notes == list("1234567") * progress
        assert [job.notes for job in executor.jobs] == [[]] * 3


@pytest.fixture
def stopped(trained: Path, source: Path, output: Path, executor: ExecutorHere) -> Path:
    """The folder of a translation by a beam of 2 that has stopped."""
    interrupts = InterruptHandler(owns_process=False)
    interrupt_after(executor, 2, interrupts)
    with pytest.raises(KeyboardInterrupt):
        package.translate_file(trained, source, output, SearchOptions(beam=2), interrupts=interrupts, progress=False)
    executor.after = lambda: None
    return output.with_name("out.txt.parts")


@pytest.mark.parametrize(
    ("search", "options", "different"),
    [
        (SearchOptions(beam=3), {}, "beam 2"),
        (SearchOptions(beam=2, prefix="ab"), {"json": True}, "prefix '', json False"),
        (SearchOptions(sample=True, seed=3), {}, "beam 2, sample False, seed 1"),
        (SearchOptions(beam=2), {"alignments": True}, "alignments False"),
        (SearchOptions(beam=2), {"precision": "bfloat16"}, "precision 'float32'"),
    ],
)
def test_other_options_are_refused(
    trained: Path, source: Path, output: Path, stopped: Path, search: SearchOptions, options: Any, different: str
) -> None:
    with pytest.raises(UserError) as refusal:
        package.translate_file(trained, source, output, search, **options, progress=False)
    assert f"{stopped}: has parts of a translation with other options ({different})" in str(refusal.value)
    assert "delete the folder to start anew, or choose another output" in str(refusal.value)
    package.translate_file(trained, source, output, SearchOptions(beam=2), progress=False)
    assert output.read_text().splitlines() == LINES


def test_pieces_that_processes_of_an_earlier_call_still_write_are_not_taken(
    trained: Path, source: Path, output: Path, stopped: Path, executor: ExecutorHere, tmp_path: Path
) -> None:
    earlier = Path(shutil.copytree(stopped, tmp_path / "earlier"))
    shutil.rmtree(stopped)

    def write_earlier() -> None:
        for path in earlier.glob("[0-9]*-*"):
            shutil.copy(path, stopped)

    for options in ({}, {"json": True}):
        executor.pieces.clear()
        executor.after = write_earlier
        package.translate_file(trained, source, output, SearchOptions(beam=3), progress=False, **options)
        assert executor.pieces == list(range(1, 22, PIECE_LINES))
        assert output.read_text().startswith('{"' if options else LINES[0])
        assert sorted(os.listdir(tmp_path)) == ["earlier", "in.txt", "out.txt"]


def test_other_weights_are_refused(
    trained: Path, source: Path, output: Path, stopped: Path, trained_brief: Callable[..., Path], tmp_path: Path
) -> None:
    other = trained_brief("training.epochs=8", "model.dropout=0")
    for runs in (other, [trained, trained]):
        with pytest.raises(UserError, match=r"with other options \(other runs or weights\)"):
            package.translate_file(runs, source, output, SearchOptions(beam=2), progress=False)
    moved = Path(shutil.copytree(trained, tmp_path / "moved"))
    package.translate_file(Run(moved), source, output, SearchOptions(beam=2), progress=False)


def test_pictures_of_another_folder_are_other_pictures(
    reads_pictures: Path, source: Path, output: Path, executor: ExecutorHere, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_lines(source, ["a.png"] * 4)
    folders = [source.with_name(name) for name in ("white", "black")]
    for folder, color in zip(folders, (255, 0), strict=True):
        folder.mkdir()
        Image.new("L", (24, 32), color).save(folder / "a.png")
    interrupts = InterruptHandler(owns_process=False)
    interrupt_after(executor, 1, interrupts)
    monkeypatch.chdir(folders[0])
    with pytest.raises(KeyboardInterrupt):
        package.translate_file(reads_pictures, source, output, interrupts=interrupts, progress=False)
    monkeypatch.chdir(folders[1])
    message = rf"with other options \(working-directory '{re.escape(str(folders[0]))}'\)"
    with pytest.raises(UserError, match=message):
        package.translate_file(reads_pictures, source, output, progress=False)
    monkeypatch.chdir(folders[0])
    package.translate_file(reads_pictures, source, output, progress=False)
    assert len(output.read_text().splitlines()) == 4


def test_options_may_change_while_nothing_is_done(trained: Path, source: Path, output: Path) -> None:
    folder = output.with_name("out.txt.parts")
    folder.mkdir()
    (folder / REQUEST).write_text("{}")
    package.translate_file(trained, source, output, progress=False)
    assert not folder.exists()


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff", b'{"beam": '])
def test_a_damaged_folder_is_refused(trained: Path, source: Path, output: Path, stopped: Path, content: bytes) -> None:
    (stopped / REQUEST).write_bytes(content)
    with pytest.raises(UserError, match=rf"{REQUEST}: this file is damaged: .*; delete .*out\.txt\.parts to start"):
        package.translate_file(trained, source, output, SearchOptions(beam=2), progress=False)


def test_pieces_without_a_request_are_no_obstacle(trained: Path, source: Path, output: Path, stopped: Path) -> None:
    (stopped / REQUEST).unlink()  # as by a command that was complete before a process of an earlier one
    package.translate_file(trained, source, output, json=True, progress=False)
    assert output.read_text().startswith('{"')
    assert sorted(os.listdir(output.parent)) == ["in.txt", "out.txt"]


def test_a_process_that_outlives_its_command_does_not_disturb_the_next_one(
    trained: Path, source: Path, output: Path, stopped: Path
) -> None:
    (piece,) = stopped.glob("4-*")
    with files.atomic_writer(piece) as unfinished:
        package.translate_file(trained, source, output, SearchOptions(beam=2), progress=False)
        unfinished.write(b"late")
    assert sorted(os.listdir(stopped)) == [piece.name]
    package.translate_file(trained, source, output, progress=False)
    assert output.read_text().splitlines() == LINES
    assert sorted(os.listdir(output.parent)) == ["in.txt", "out.txt"]


def test_files_that_are_no_pieces_stay(trained: Path, source: Path, output: Path) -> None:
    folder = output.with_name("out.txt.parts")
    folder.mkdir()
    for name in ("notes.txt", "1-a", "thesis"):
        (folder / name).write_text("mine")
    package.translate_file(trained, source, output, progress=False)
    assert sorted(os.listdir(folder)) == ["1-a", "notes.txt", "thesis"]


def test_one_process_writes_an_output(trained: Path, source: Path, output: Path) -> None:
    folder = output.with_name("out.txt.parts")
    with files.lock_folder(folder) as alone:
        assert alone
        with pytest.raises(UserError, match=r"out\.txt: another process is writing this translation"):
            package.translate_file(trained, source, output, progress=False)
    package.translate_file(trained, source, output, progress=False)


def test_an_input_or_a_model_that_changes_meanwhile_is_reported(
    trained: Path, source: Path, output: Path, tmp_path: Path, executor: ExecutorHere
) -> None:
    executor.after = lambda: write_lines(source, [*LINES[:-1], "a"])
    with pytest.raises(UserError, match=r"in\.txt: has changed since the translation began; start"):
        package.translate_file(trained, source, output, progress=False)
    run = Path(shutil.copytree(trained, tmp_path / "run"))
    executor.after = lambda: (run / "config.yaml").write_text((run / "config.yaml").read_text() + "\n") and None
    with pytest.raises(UserError, match="run: the model has changed since the translation began"):
        package.translate_file(run, source, output.with_name("other.txt"), progress=False)


def test_the_digest_of_a_run_depends_on_weights_and_settings(trained: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(trained, tmp_path / "run"))
    digest = run_digest(Run(run))
    assert digest == run_digest(Run(trained))
    for name in ("model.safetensors", "config.yaml", "vocabulary.json"):
        content = (run / name).read_bytes()
        (run / name).write_bytes(content + b"\n")
        assert run_digest(Run(run)) != digest
        (run / name).write_bytes(content)
    (run / "metrics.jsonl").unlink()
    assert run_digest(Run(run)) == digest


@pytest.mark.parametrize("progress", [True, False])
def test_a_lost_worker_is_reported(
    trained: Path,
    source: Path,
    output: Path,
    executor: ExecutorHere,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    progress: bool,
) -> None:
    start = executor.start

    def lose_first(job: TranslationJob, events: Events[TranslationJob]) -> None:
        for event in (JobEvent.STARTED, JobEvent.LOST) if not executor.jobs else ():
            events.put((job, event))
        start(job, events)

    monkeypatch.setattr(executor, "start", lose_first)
    package.translate_file(trained, source, output, progress=progress)
    message = f"{source}, lines 1 to 3: waiting again, because its worker was lost\n"
    assert capsys.readouterr().err == message * progress
    assert output.read_text().splitlines() == LINES


# --- Failures of a process --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "errors", "message"),
    [
        (-9, "regard: note: x", r"in\.txt, lines 7 to 9: ended by SIGKILL; see .*7\.log"),
        (1, "Traceback (most recent call last):\nKeyError: 1", r"in\.txt, lines 7 to 9: KeyError: 1; see .*7\.log"),
        (0, "", r"in\.txt, lines 7 to 9: ended without a result; see .*7\.log"),
        (STOPPED, "", r"in\.txt, lines 7 to 9: the process was stopped"),
    ],
)
def test_a_crash_is_reported_and_the_same_call_continues(
    trained: Path,
    source: Path,
    output: Path,
    executor: ExecutorHere,
    monkeypatch: pytest.MonkeyPatch,
    code: int,
    errors: str,
    message: str,
) -> None:
    work = executor.work

    def crash(job: TranslationJob, stderr: io.StringIO) -> int:
        if job.request.pieces[0].first != 7:
            return work(job, stderr)
        stderr.write(errors)
        return code

    with monkeypatch.context() as patch:
        patch.setattr(executor, "work", crash)
        with pytest.raises(UserError, match=f"{message}\n.*stopped with 6 of 21 lines done"):
            package.translate_file(trained, source, output, jobs=1, progress=False)
    logs = list(output.with_name("out.txt.parts").glob("*.log"))
    assert len(logs) == (code != STOPPED)
    assert all("note" not in log.read_text() for log in logs)
    package.translate_file(trained, source, output, progress=False)
    assert output.read_text().splitlines() == LINES
    assert sorted(os.listdir(output.parent)) == ["in.txt", "out.txt"]


def test_an_output_that_cannot_be_written_at_the_end_is_written_later(
    trained: Path, source: Path, output: Path, executor: ExecutorHere, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full_disk(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr("regard.inference.piece_folder.shutil.copyfileobj", full_disk)
        with pytest.raises(UserError, match=r"out\.txt: No space left on device; all lines are translated: run"):
            package.translate_file(trained, source, output, progress=False)
    assert not output.exists()
    monkeypatch.setattr(file_translation, "open_executor", None)  # there is nothing to translate
    package.translate_file(trained, source, output, progress=False, cluster="tcp://localhost:8786")
    assert output.read_text().splitlines() == LINES
    assert sorted(os.listdir(output.parent)) == ["in.txt", "out.txt"]


def test_a_lock_that_cannot_be_removed_while_it_is_open_is_removed(
    trained: Path, source: Path, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unlink = Path.unlink

    def unlink_as_on_windows(path: Path, missing_ok: bool = False) -> None:
        if path.name == files.LOCK and path.exists():
            with files.lock_file(path) as closed:
                if not closed:
                    raise PermissionError
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", unlink_as_on_windows)
    package.translate_file(trained, source, output, progress=False)
    assert sorted(os.listdir(output.parent)) == ["in.txt", "out.txt"]
    write_lines(source, ["axb"])
    with pytest.raises(UserError, match="line 1: "):
        package.translate_file(trained, source, output, progress=False)
    assert sorted(os.listdir(output.parent)) == ["in.txt", "out.txt"]


# --- Arguments ------------------------------------------------------------------------------------------------


def test_the_input_is_never_the_output(trained: Path, source: Path, tmp_path: Path) -> None:
    same: Iterator[Path] = iter([source, tmp_path / "x" / ".." / "in.txt"])
    (tmp_path / "x").mkdir()
    for output in same:
        with pytest.raises(UserError, match="the output would replace the input"):
            package.translate_file(trained, source, output)
    (tmp_path / "link.txt").symlink_to(source)
    with pytest.raises(UserError, match="the output would replace the input"):
        package.translate_file(trained, tmp_path / "link.txt", source)
    assert source.read_text().splitlines() == LINES


def test_an_output_that_cannot_be_written_is_refused(trained: Path, source: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="this is not a regular file; choose another one for the output"):
        package.translate_file(trained, source, tmp_path)
    with pytest.raises(UserError, match=r"in\.txt/out\.txt\.parts: cannot write parts of the translation: "):
        package.translate_file(trained, source, source / "out.txt")
    (tmp_path / "out.txt.parts").touch()
    with pytest.raises(UserError, match=r"out\.txt\.parts: cannot write parts of the translation: File exists"):
        package.translate_file(trained, source, tmp_path / "out.txt")


@pytest.mark.unix
def test_a_pipe_is_no_output(trained: Path, source: Path) -> None:
    ends = os.pipe()
    pipe = f"/dev/fd/{ends[1]}"  # as /dev/stdout may be
    with pytest.raises(UserError, match=f"{pipe}: this is not a regular file; choose another one for the output"):
        package.translate_file(trained, source, pipe)
    for end in ends:
        os.close(end)


def test_invalid_arguments_are_refused(trained: Path, source: Path, output: Path) -> None:
    for jobs in (0, -1, True, 1.5, "2"):
        with pytest.raises(UserError, match=r"jobs: .* should be a positive number"):
            package.translate_file(trained, source, output, jobs=jobs)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="give either jobs, to translate on this machine, or cluster"):
        package.translate_file(trained, source, output, jobs=2, cluster="tcp://localhost:8786")
    with pytest.raises(UserError, match="--json includes the alignments"):
        package.translate_file(trained, source, output, json=True, alignments=True)
    with pytest.raises(UserError, match="the prefix 'xyz'"):
        package.translate_file(trained, source, output, SearchOptions(prefix="xyz"))
    with pytest.raises(UserError, match=r"search should be a regard\.Search"):
        package.translate_file(trained, source, output, {"beam": 2})  # type: ignore[arg-type]
    with pytest.raises(UserError, match="source: 3 should be a path"):
        package.translate_file(trained, 3, output)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="no such run directory"):
        package.translate_file(trained / "none", source, output)
    with pytest.raises(UserError, match=r"none\.txt: cannot be read: No such file"):
        package.translate_file(trained, source.with_name("none.txt"), output)
    with pytest.raises(UserError, match=r"none\.txt: cannot be read: No such file"):
        package.translate_file(trained, source.with_name("none.txt"), output.with_name("new") / "er" / "out.txt")
    for folder in (f"{output}{os.sep}", output / "..", "."):
        with pytest.raises(UserError, match=f"^{re.escape(str(folder))}: this names a folder; choose a file"):
            package.translate_file(trained, source, folder)
    with pytest.raises(UserError, match=r"out\.gz: the output is not compressed; write .*out, and .* \(gzip .*out\)$"):
        package.translate_file(trained, source, output.with_name("out.gz"))
    assert os.listdir(output.parent) == ["in.txt"]


def test_the_request_arrives_as_it_was_sent(source: Path) -> None:
    search = SearchOptions(beam=3, n_best=2, prefix=("a", "b"), length_penalty=0.6)
    request = PiecesRequest(
        (source, source.parent),
        True,
        "cuda:1",
        FileSearch(("x", "y"), "bfloat16", search, OutputFormat(json=True, self_attention=True), "/pictures"),
        source,
        source.parent,
        (file_pieces.Piece(7, 3, 2, "d"), file_pieces.Piece(11, 5, 1, "e")),
    )
    assert "\n" not in request.dump()
    assert PiecesRequest.parse(request.dump()) == request


def test_device_and_precision_are_checked_at_the_start_and_reach_the_process(
    trained: Path, source: Path, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for options, message in (
        ({"device": "cuda:7"}, "device: (there is no|this machine has no) 'cuda:7'"),
        ({"device": "cpu", "precision": "float16"}, "precision: float16 needs a GPU"),
    ):
        with pytest.raises(UserError, match=f"^{message}"):
            package.translate_file(trained, source, output, progress=False, **options)
    assert not output.with_name(f"{output.name}.parts").exists()
    loaded: list[dict[str, str]] = []
    monkeypatch.setattr("regard.inference.piece_worker.Translator", lambda *_, **options: loaded.append(options))
    search = FileSearch((run_digest(package.Run(trained)),), "bfloat16", SearchOptions(), OutputFormat())
    PiecesRequest((trained,), False, "cpu", search, source, source.parent, ()).load()
    assert loaded == [{"device": "cpu", "precision": "bfloat16"}]
