"""`regard translate --input FILE --output FILE`, with processes that are interrupted and killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from distributed import Client
from PIL import Image

from regard.inference import file_pieces
from regard.inference.input_lines import CHUNK_LINES
from regard.inference.piece_folder import REQUEST

Regard = Callable[..., Any]
SEED = 11
PIECES = 23  # of a file that takes some seconds
LIMIT = 120.0  # seconds until something must have happened, on a busy machine


def random_lines(count: int) -> list[str]:
    """Texts of up to five letters."""
    generator = random.Random(SEED)
    return ["".join(generator.choices("abcde", k=generator.randrange(6))) for _ in range(count)]


def write_lines(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), newline="")
    return path


def refused(answer: Any, *parts: str) -> None:
    """Assert exit code 2, no output, and a message that contains all `parts`."""
    assert (answer.code, answer.out) == (2, ""), answer
    assert answer.err.startswith("regard: ")
    assert "Traceback" not in answer.err
    for part in parts:
        assert part in answer.err


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_pieces, "PIECE_LINES", CHUNK_LINES)


@pytest.fixture(scope="module")
def run(trained_brief: Callable[..., Path]) -> Path:
    """A half-trained model, which has many plausible hypotheses."""
    return trained_brief("training.epochs=8", "model.dropout=0")


@pytest.fixture(scope="module")
def other(trained_brief: Callable[..., Path]) -> Path:
    return trained_brief("training.epochs=8", "model.dropout=0", "training.seed=2")


# --- The same output as that of one process ----------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--beam", 3, "--n-best", 2],
        ["--beam", 2, "--n-best", 2, "--alignments", "moses", "--prefix", "a"],
        ["--json", "--self-attention"],
        ["--sample", "--n-best", 2, "--seed", 7, "--json"],
    ],
)
def test_several_processes_write_what_one_prints(
    regard: Regard, run: Path, tmp_path: Path, options: list[object]
) -> None:
    lines = [*random_lines(2 * CHUNK_LINES + 89), "abcdeabc"]
    source, output = write_lines(tmp_path / "in.txt", lines), tmp_path / "out.txt"
    printed = regard("translate", run, *options, stdin=source.read_bytes())
    assert regard("translate", run, *options, "--input", source).out == printed.out
    answer = regard("translate", run, *options, "--input", source, "--output", output, "--jobs", 2)
    assert (answer.code, answer.out) == (0, "")
    assert output.read_bytes() == printed.out.encode()
    notes = sorted(line.replace("standard input", str(source)) for line in printed.err.splitlines())
    assert sorted(answer.err.splitlines()) == notes
    assert f"{source}, line {len(lines)}: 9 tokens, but the longest in training had 6" in answer.err


@pytest.mark.slow
def test_several_runs_form_an_ensemble(regard: Regard, run: Path, other: Path, tmp_path: Path) -> None:
    source, output = write_lines(tmp_path / "in.txt", random_lines(37)), tmp_path / "out.txt"
    printed = regard("translate", run, other, "--beam", 3, "--json", stdin=source.read_bytes())
    files = ("--input", source, "--output", output)
    assert regard("translate", run, other, "--beam", 3, "--json", *files).code == 0
    assert output.read_bytes() == printed.out.encode()


@pytest.mark.slow
def test_pictures_are_found_from_the_current_folder(
    regard: Regard, reads_pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, color in (("a.png", 0), ("b.png", 255)):
        Image.new("L", (24, 32), color).save(tmp_path / name)
    write_lines(tmp_path / "in.txt", ["a.png", str(tmp_path / "b.png"), "a.png"])
    monkeypatch.chdir(tmp_path)
    printed = regard("translate", reads_pictures, "--beam", 2, "--json", "--input", "in.txt")
    assert printed.code == 0, printed.err
    answer = regard("translate", reads_pictures, "--beam", 2, "--json", "--input", "in.txt", "--output", "out.txt")
    assert (answer.code, Path("out.txt").read_text(encoding="utf-8")) == (0, printed.out)


@pytest.mark.slow
@pytest.mark.unix
@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="/dev/stdin has no other path")
def test_the_file_of_standard_input_has_a_path_for_the_processes(
    start_regard: Regard, trained: Path, tmp_path: Path
) -> None:
    source, output = write_lines(tmp_path / "in.txt", ["abc", "de"]), tmp_path / "out.txt"
    with source.open("rb") as file:
        for stdin, code in ((file, 0), (subprocess.PIPE, 2)):
            process = start_regard("translate", trained, "--input", "/dev/stdin", "--output", output, stdin=stdin)
            _, err = process.communicate(timeout=LIMIT)
            assert process.returncode == code, err
    assert err == b"regard: /dev/stdin: other processes cannot read this; give the path of a regular file\n"
    assert output.read_text() == source.read_text()


MECHANISM = """
from regard.nn import DotAttention

class ShiftedAttention(DotAttention):
    pass
"""


@pytest.mark.slow
def test_plug_ins_need_trust(
    regard: Regard, tmp_path: Path, tiny_file: Path, brief_settings: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shifted.py").write_text(MECHANISM)
    monkeypatch.chdir(tmp_path)
    settings = [
        part
        for each in (*brief_settings, "model.attention.kind=./shifted.py:ShiftedAttention")
        for part in ("--set", each)
    ]
    assert regard("train", tiny_file, "--out", "run", *settings).code == 0
    write_lines(tmp_path / "in.txt", ["abc", "de"])
    command = [sys.executable, "-m", "regard", "translate", "run", "--input", "in.txt", "--output", "out.txt"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, "use --trust-code" in done.stderr) == (2, True)
    subprocess.run([*command, "--trust-code"], check=True)
    printed = subprocess.run([*command[:-2], "--trust-code"], check=True, capture_output=True)
    assert Path("out.txt").read_bytes() == printed.stdout != b""


# --- Interrupted --------------------------------------------------------------------------------------------


def children(process: subprocess.Popen[bytes]) -> list[int]:
    path = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    if not Path("/proc/self/task").is_dir():
        pytest.skip("this system does not list the children of a process")
    return [int(number) for number in path.read_text().split()] if path.exists() else []


def is_running(number: int) -> bool:
    """False if a process has ended, even if its parent has not asked for its exit code."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{number}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_until(condition: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def count_pieces(folder: Path) -> int:
    return len(list(folder.glob("[0-9]*-*")))


def wait_for_pieces(folder: Path, count: int) -> None:
    """Wait until the folder exists and some pieces are done, and for a moment of random length after it."""
    wait_until(lambda: folder.is_dir() and count_pieces(folder) >= count, f"fewer than {count} pieces")
    time.sleep(random.random() / 5)


@pytest.fixture
def big(tmp_path: Path) -> tuple[Path, Path, list[object]]:
    """A file of several pieces, its output, and the options to translate it."""
    lines = random_lines((PIECES - 1) * file_pieces.PIECE_LINES + 7)
    source, output = write_lines(tmp_path / "in.txt", lines), tmp_path / "out.txt"
    return source, output, ["--jobs", 2, "--input", source, "--output", output]


@pytest.mark.slow
@pytest.mark.unix
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_and_the_same_command_continues(
    start_regard: Regard, regard: Regard, trained: Path, big: tuple[Path, Path, list[object]], number: int
) -> None:
    source, output, options = big
    process = start_regard("translate", trained, *options)
    wait_for_pieces(output.with_name("out.txt.parts"), 1)
    process.send_signal(number)
    _, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 128 + number
    assert b"regard: stopping after the current step" in err
    assert b"lines done; run the same again to continue" in err
    assert not output.exists()
    answer = regard("translate", trained, *options)
    assert (answer.code, "out.txt.parts: continuing after" in answer.err) == (0, True)
    assert output.read_text() == source.read_text()
    assert sorted(os.listdir(output.parent)) == ["in.txt", "out.txt"]


WAITS = """
import time
from regard.cli import main
from regard.inference import file_translation
file_translation.cut_file = lambda *_: time.sleep(60)
main()
"""


@pytest.mark.slow
@pytest.mark.unix
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_the_input_is_read_leaves_nothing(trained: Path, tmp_path: Path, number: int) -> None:
    source, output = write_lines(tmp_path / "in.txt", ["abc"]), tmp_path / "out.txt"
    options = ["translate", str(trained), "--input", str(source), "--output", str(output)]
    with subprocess.Popen([sys.executable, "-c", WAITS, *options], stderr=subprocess.PIPE) as process:
        wait_until((output.with_name("out.txt.parts") / REQUEST).exists, "the input is not read")
        process.send_signal(number)
        _, err = process.communicate(timeout=LIMIT)
    assert (process.returncode, err.decode()) == (128 + number, f"{output}: stopped; run the same again to continue\n")
    assert os.listdir(tmp_path) == ["in.txt"]


@pytest.mark.slow
@pytest.mark.unix
@pytest.mark.parametrize("pieces", [0, 1, 5])
def test_a_command_that_is_killed_continues(
    start_regard: Regard, regard: Regard, trained: Path, big: tuple[Path, Path, list[object]], pieces: int
) -> None:
    source, output, options = big
    process = start_regard("translate", trained, *options)
    wait_for_pieces(output.with_name("out.txt.parts"), pieces)
    process.kill()
    process.wait()
    assert not output.exists()
    assert regard("translate", trained, *options).code == 0  # while processes of the first one may still be at work
    assert output.read_text() == source.read_text()


@pytest.mark.slow
@pytest.mark.unix
def test_processes_stop_when_the_command_is_killed(
    start_regard: Regard, trained: Path, big: tuple[Path, Path, list[object]]
) -> None:
    _, output, options = big
    process = start_regard("translate", trained, *options)
    wait_for_pieces(output.with_name("out.txt.parts"), 1)
    workers = children(process)
    assert len(workers) == 2
    process.kill()
    process.wait()
    wait_until(lambda: not any(map(is_running, workers)), "they do not stop")
    assert count_pieces(output.with_name("out.txt.parts")) < PIECES, "they did not translate everything"


@pytest.mark.slow
@pytest.mark.unix
def test_a_process_that_is_killed_is_reported_and_the_same_command_continues(
    start_regard: Regard, regard: Regard, trained: Path, big: tuple[Path, Path, list[object]]
) -> None:
    source, output, options = big
    process = start_regard("translate", trained, *options)
    wait_for_pieces(output.with_name("out.txt.parts"), 1)
    os.kill(random.choice(children(process)), signal.SIGKILL)
    _, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 2, err
    assert b"ended by SIGKILL; see " in err
    assert b"lines done; run the same again to continue" in err
    assert regard("translate", trained, *options).code == 0
    assert output.read_text() == source.read_text()
    assert sorted(os.listdir(output.parent)) == ["in.txt", "out.txt"]


# --- A cluster ------------------------------------------------------------------------------------------------

CLUSTER = """
from distributed import LocalCluster
with LocalCluster(n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None) as cluster:
    print(cluster.scheduler_address, flush=True)
    input()
"""


@pytest.fixture
def cluster() -> Iterator[str]:
    """The address of the scheduler of a cluster with two workers, which are started again when they end."""
    command = [sys.executable, "-c", CLUSTER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        yield process.stdout.readline().strip()
        process.communicate("\n")


@pytest.mark.slow
@pytest.mark.unix
def test_a_cluster_loses_a_worker_and_the_output_is_the_same(
    start_regard: Regard, trained: Path, big: tuple[Path, Path, list[object]], cluster: str, tmp_path: Path
) -> None:
    source, output, _ = big
    (tmp_path / "elsewhere").mkdir()
    files = ("--input", source, "--output", output, "--cluster", cluster)
    process = start_regard("translate", trained, *files, cwd=tmp_path / "elsewhere")
    wait_for_pieces(output.with_name("out.txt.parts"), 1)
    with Client(cluster, set_as_default=False) as client:
        workers = client.run(os.getpid)
        os.kill(random.choice(list(workers.values())), signal.SIGKILL)
        _, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, err
    assert b": waiting again, because its worker was lost\n" in err
    assert output.read_text() == source.read_text()
    assert not output.with_name("out.txt.parts").exists()


# --- Memory ---------------------------------------------------------------------------------------------------

# Not `ru_maxrss` of the process itself, which is at least that of the process that has started it.
PEAKS = """
import re, resource, sys
from pathlib import Path
from regard.cli import main
try:
    main()
finally:
    own = re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]
    print(own, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak is read from /proc")
def test_memory_does_not_grow_with_the_file(trained: Path, tmp_path: Path) -> None:
    def peaks(count: int) -> list[int]:
        """In kilobytes: of this process, and the largest of the others. Most lines are empty, which is fast."""
        source = write_lines(tmp_path / "in.txt", ["abc" if number % 50 == 0 else "" for number in range(count)])
        files = ["--input", str(source), "--output", str(tmp_path / "out.txt")]
        command = [sys.executable, "-c", PEAKS, "translate", str(trained), "--jobs", "2", *files]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        assert (tmp_path / "out.txt").read_text() == source.read_text()
        return [int(value) for value in done.stdout.split()]

    for few, many in zip(peaks(10_007), peaks(200_009), strict=True):
        assert many < few + 10_000


# --- Options ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (["--jobs", 2], ["--jobs needs --input and --output"]),
        (["--cluster", "tcp://localhost:8786"], ["--cluster needs --input and --output"]),
        (["--jobs", 2, "--input", "IN"], ["--jobs needs --input and --output"]),
        (["--output", "OUT"], ["--output needs --input"]),
        (["abc", "--input", "IN"], ["--input and 'abc': give either a file or texts"]),
        (
            ["--input", "IN", "--output", "OUT", "--jobs", 2, "--cluster", "tcp://localhost:8786"],
            ["give either --jobs, to"],
        ),
        (["--cluster", ""], ["--cluster needs --input and --output"]),
        (["--input", "IN", "--output", "OUT", "--cluster", ""], ["cluster: '' should be the address"]),
        (["--input", "IN", "--output", "DEEP/"], ["er/: this names a folder"]),
        (["--input", "NONE", "--output", "DEEP"], ["none.txt: cannot be read: No such file"]),
        (["--input", "IN", "--output", "OUT", "--cluster", "nowhere"], ["cluster: 'nowhere' should be the address"]),
        (["--input", "NONE", "--output", "OUT"], ["none.txt: cannot be read: No such file"]),
        (["--input", "NONE"], ["none.txt: cannot be read: No such file"]),
        (["--input", "IN", "--output", "IN"], ["the output would replace the input"]),
        (["--input", "IN", "--output", "OUT", "--prefix", "xyz"], ["the prefix 'xyz'"]),
    ],
)
def test_invalid_options_are_refused(
    regard: Regard, trained: Path, tmp_path: Path, options: list[object], parts: list[str]
) -> None:
    paths = {
        "IN": write_lines(tmp_path / "in.txt", ["abc"]),
        "OUT": tmp_path / "out.txt",
        "NONE": tmp_path / "none.txt",
        "DEEP": tmp_path / "out" / "er",
        "DEEP/": f"{tmp_path / 'out' / 'er'}{os.sep}",
    }
    refused(regard("translate", trained, *(paths.get(str(option), option) for option in options)), *parts)
    assert os.listdir(tmp_path) == ["in.txt"]


def test_wrong_options_create_no_folder(regard: Regard, trained: Path, tmp_path: Path) -> None:
    source = write_lines(tmp_path / "in.txt", ["abc"])
    files = ("--input", source, "--output", tmp_path / "new" / "out.txt")
    refused(regard("translate", trained, *files, "--prefix", "xyz"), "the prefix 'xyz'")
    assert os.listdir(tmp_path) == ["in.txt"]


def test_jobs_is_a_positive_number(regard: Regard, trained: Path) -> None:
    assert regard("translate", trained, "--jobs", 0).code == 2


@pytest.mark.slow
def test_a_line_that_the_model_cannot_process_is_named(regard: Regard, trained: Path, tmp_path: Path) -> None:
    source = write_lines(tmp_path / "in.txt", ["abc", "de", "axb"])
    refused(regard("translate", trained, "--input", source, "--output", tmp_path / "out.txt"), f"{source}, line 3: ")
    refused(regard("translate", trained, "--input", source), f"{source}, line 3: ")
    assert os.listdir(tmp_path) == ["in.txt"]


@pytest.mark.slow
def test_a_model_without_attention_has_no_alignments(
    regard: Regard, trained_brief: Callable[..., Path], tmp_path: Path
) -> None:
    source = write_lines(tmp_path / "in.txt", ["", "abc"])
    run = trained_brief("model.attention.kind=none")
    files = ("--input", source, "--output", tmp_path / "out.txt")
    refused(regard("translate", run, "--alignments", "moses", *files), "this model has no attention")


def test_an_empty_file_has_an_empty_translation(regard: Regard, trained: Path, tmp_path: Path) -> None:
    source = write_lines(tmp_path / "in.txt", [])
    assert regard("translate", trained, "--input", source, "--output", tmp_path / "out.txt").code == 0
    assert (tmp_path / "out.txt").read_bytes() == b""
