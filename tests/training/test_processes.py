"""Several processes learn what one learns: on gloo, started as users start them."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from regard.config.schema import Experiment
from regard.runs import Run

pytestmark = [pytest.mark.slow, pytest.mark.unix]
KILLS = 20 if os.environ.get("REGARD_TEST_FULL") == "1" else 3
TIMEOUT = 300.0  # seconds; everything here takes a few on an idle machine
MODELS = {
    "recurrent": {"model.encoder.embedding": 17, "model.encoder.size": 22, "model.decoder.size": 22},
    "transformer": {
        "model.encoder": {"kind": "self-attention", "size": 24, "layers": 2, "heads": 2, "inner_size": 41},
        "model.decoder": {"kind": "transformer", "size": 24, "layers": 2, "heads": 2, "inner_size": 41},
        "model.attention": {"kind": "multi-head", "heads": 2, "key_size": 24},
    },
}
# A validation after each step, so that metrics.jsonl has the loss of each step.
STEPS = {
    "training.rate.peak": 0.01,
    "training.epochs": 2,
    "training.batch_tokens": 80,
    "training.validate_every": 1,
    "training.validation_sentences": 5,
    "training.save_every": 0,
    "decoding.length_factor": 1.0,  # outputs of untrained models do not end
    "decoding.length_extra": 1,
}
DATA = {"data.task": "reverse", "data.train": 211, "data.validation": 13, "data.test": 5}


@pytest.fixture
def experiment(tmp_path: Path) -> Callable[..., Path]:
    """Write an experiment without dropout."""

    def write(model: str = "recurrent", **more: Any) -> Path:
        path = tmp_path / f"{model}.yaml"
        Experiment.load({**DATA, **MODELS[model], **STEPS, **more}).save(path)
        return path

    return write


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start `regard train`; what is left at the end is killed."""
    started: list[subprocess.Popen[str]] = []

    def run(*arguments: object, module: str = "regard", env: dict[str, str] | None = None) -> subprocess.Popen[str]:
        command = [sys.executable, "-P", "-m", module, *map(str, arguments)]
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"} | (env or {}),
            start_new_session=True,
        )
        started.append(process)
        return process

    yield run
    for process in started:
        for each in (*children(process.pid), process.pid):
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        process.communicate()


@pytest.fixture
def train(start: Callable[..., subprocess.Popen[str]]) -> Callable[..., Run]:
    """Train to the end with a number of processes."""

    def run(experiment: Path, out: Path, processes: int, *options: object) -> Run:
        process = start("train", experiment, "--out", out, "--processes", processes, *options)
        output, _ = process.communicate(timeout=TIMEOUT)
        assert process.returncode == 0, output
        return Run(out)

    return run


def children(pid: int) -> list[int]:
    """The processes that a process has started, in their order."""
    with suppress(OSError):
        return sorted(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))
    return []


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < end, "nothing has happened"
        time.sleep(0.01)


def training_begins(path: Path) -> None:
    """Wait until a run has a new checkpoint."""
    state = path / "state.safetensors"
    before = state.stat().st_mtime_ns if state.exists() else 0
    wait_until(lambda: state.exists() and state.stat().st_mtime_ns != before)


def curve(run: Run, name: str) -> list[float]:
    return [row[name] for row in run.metrics()]


def assert_same_bits(run: Run, other: Run) -> None:
    ours, theirs = (load_file(each.path / "state.safetensors") for each in (run, other))
    assert ours.keys() == theirs.keys()
    assert all(ours[name].equal(theirs[name]) for name in ours)
    strip = [[{**row, "seconds": 0} for row in each.metrics()] for each in (run, other)]
    assert strip[0] == strip[1]


@pytest.mark.parametrize("model", MODELS)
def test_several_processes_learn_what_one_learns(
    model: str, tmp_path: Path, experiment: Callable[..., Path], train: Callable[..., Run]
):
    path = experiment(model)
    one, two, three = (train(path, tmp_path / f"{model}-{processes}", processes) for processes in (1, 2, 3))
    assert one.progress.step >= 50
    assert curve(one, "train_loss")[-1] < 0.9 * curve(one, "train_loss")[0], "it learns"
    for several in (two, three):
        for name in ("train_loss", "validation_loss", "validation_exact_match"):
            assert curve(several, name)[:50] == pytest.approx(curve(one, name)[:50], abs=1e-5)


def test_several_processes_accumulate_gradients_and_average_weights_as_one_does(
    tmp_path: Path, experiment: Callable[..., Path], train: Callable[..., Run]
):
    path = experiment(**{"training.gradient_accumulation": 3, "training.ema_decay": 0.9})
    one, two = (train(path, tmp_path / str(processes), processes) for processes in (1, 2))
    assert one.progress.step >= 15
    for name in ("train_loss", "validation_loss"):
        assert curve(two, name) == pytest.approx(curve(one, name), abs=1e-5)


@pytest.mark.parametrize(("model", "processes"), [("recurrent", 2), ("transformer", 3)])
def test_a_signal_to_any_process_stops_all_and_the_run_continues_to_the_same_bits(
    model: str,
    processes: int,
    tmp_path: Path,
    experiment: Callable[..., Path],
    train: Callable[..., Run],
    start: Callable[..., subprocess.Popen[str]],
):
    path = experiment(model, **{"model.dropout": 0.25})
    whole = train(path, tmp_path / "whole", processes)
    process = start("train", path, "--out", tmp_path / "run", "--processes", processes)
    training_begins(tmp_path / "run")
    os.kill(children(process.pid)[1], signal.SIGTERM)
    output, _ = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 128 + signal.SIGTERM
    step = Run(tmp_path / "run").progress.step
    assert 0 < step < whole.progress.step
    assert output.count(f"stopped after step {step}; run the same command to continue") == 1
    assert_same_bits(train(path, tmp_path / "run", processes), whole)


def test_a_signal_to_the_launcher_stops_all(
    tmp_path: Path, experiment: Callable[..., Path], start: Callable[..., subprocess.Popen[str]]
):
    (temporary := tmp_path / "temporary").mkdir()
    env = {"TMPDIR": str(temporary)}
    process = start("train", experiment(), "--out", tmp_path / "run", "--processes", 2, env=env)
    training_begins(tmp_path / "run")
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 128 + signal.SIGINT
    assert output.count("stopping after the current step") == output.count("run the same command to continue") == 1
    assert "Traceback" not in output
    assert not list(tmp_path.glob(".*")), "the encoded data is removed"
    assert not list(temporary.iterdir())


SLOW = """
import os, time
from pathlib import Path
from regard.nn import DotAttention

class SlowAttention(DotAttention):
    def score(self, query, keys):
        Path(f"{__file__}.{os.getpid()}.computing").touch()
        time.sleep(600)
"""


def test_a_second_signal_to_the_launcher_ends_all_at_once(
    tmp_path: Path, experiment: Callable[..., Path], start: Callable[..., subprocess.Popen[str]]
):
    (tmp_path / "slow.py").write_text(SLOW)
    attention = {"model.attention": {"kind": f"{tmp_path / 'slow.py'}:SlowAttention"}, "model.decoder.size": 44}
    process = start("train", experiment(**attention), "--out", tmp_path / "run", "--processes", 2)
    wait_until(lambda: len(list(tmp_path.glob("*.computing"))) == 2)
    ranks = children(process.pid)
    process.send_signal(signal.SIGINT)
    time.sleep(1.5)
    assert ranks == children(process.pid), "they finish their step"
    process.send_signal(signal.SIGINT)
    joined(process)
    assert process.returncode == 128 + signal.SIGINT
    assert not any(Path(f"/proc/{pid}/fd").exists() for pid in ranks)


def test_many_signals_to_the_launcher_end_all(
    tmp_path: Path, experiment: Callable[..., Path], start: Callable[..., subprocess.Popen[str]]
):
    """After the third one, it does not wait for the others, which still save."""
    process = start("train", experiment(), "--out", tmp_path / "run", "--processes", 2)
    training_begins(tmp_path / "run")
    for _ in range(5):
        process.send_signal(signal.SIGINT)
        time.sleep(0.05)
    (output,) = joined(process)
    assert process.returncode == 128 + signal.SIGINT
    assert output.count("stopping after the current step") == 1
    assert "Traceback" not in output
    assert not Run(tmp_path / "run").progress.finished


def test_nohup_keeps_all_processes(
    tmp_path: Path, experiment: Callable[..., Path], start: Callable[..., subprocess.Popen[str]]
):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # children inherit it
    process = start("train", experiment(), "--out", tmp_path / "run", "--processes", 2)
    signal.signal(signal.SIGHUP, before)
    training_begins(tmp_path / "run")
    for pid in (process.pid, *children(process.pid)):
        os.kill(pid, signal.SIGHUP)
    (output,) = joined(process)
    assert process.returncode == 0, output
    assert Run(tmp_path / "run").progress.finished


def test_processes_stop_when_the_launcher_was_killed(
    tmp_path: Path,
    experiment: Callable[..., Path],
    train: Callable[..., Run],
    start: Callable[..., subprocess.Popen[str]],
):
    path = experiment()
    process = start("train", path, "--out", tmp_path / "run", "--processes", 2)
    training_begins(tmp_path / "run")
    ranks = children(process.pid)
    process.kill()
    output, _ = process.communicate(timeout=TIMEOUT)  # until the last process has closed it
    wait_until(lambda: not any(Path(f"/proc/{pid}/fd").exists() for pid in ranks))
    assert output.count("run the same command to continue") == 1
    assert "Traceback" not in output
    run = Run(tmp_path / "run")
    assert not run.progress.finished
    assert_same_bits(train(path, tmp_path / "run", 2), train(path, tmp_path / "whole", 2))


@pytest.mark.parametrize("rank", [0, 1, None], ids=["first", "second", "launcher"])
def test_a_signal_to_any_process_while_data_is_read_stops_all(
    rank: int | None, tmp_path: Path, experiment: Callable[..., Path], start: Callable[..., subprocess.Popen[str]]
):
    process = start("train", experiment(**{"data.train": 1_000_000}), "--out", tmp_path / "run", "--processes", 2)
    wait_until(lambda: any(tmp_path.glob(".run.*/new/train")))
    os.kill(process.pid if rank is None else children(process.pid)[rank], signal.SIGTERM)
    (output,) = joined(process)
    assert process.returncode == 128 + signal.SIGTERM
    assert output.count("stopped while reading the data; run the same command to continue") == 1
    assert "Traceback" not in output
    assert "terminate called" not in output, "no C++ code waits in a thread when Python ends"
    assert not (tmp_path / "run").exists(), "nobody has waited for the data"
    assert not list(tmp_path.glob(".*")), "the encoded data is removed"


@pytest.fixture
def text(tmp_path: Path, corpus: Path) -> Path:
    """An experiment with a test set of real text."""
    path = tmp_path / "text.yaml"
    shutil.copytree(corpus, tmp_path / "corpus")
    splits = {f"data.{split}": str(tmp_path / "corpus" / split) for split in ("train", "validation", "test")}
    data = {"data.task": "files", **splits, "data.source": "de", "data.target": "en", "data.text": {"unit": "words"}}
    Experiment.load({**data, **MODELS["recurrent"], **STEPS, "training.batch_tokens": 500}).save(path)
    return path


@pytest.mark.parametrize("rank", [0, 1])
def test_a_signal_to_any_process_in_the_final_evaluation_stops_all(
    rank: int, tmp_path: Path, text: Path, train: Callable[..., Run], start: Callable[..., subprocess.Popen[str]]
):
    process = start("train", text, "--out", tmp_path / "run", "--processes", 2)
    wait_until(lambda: any((tmp_path / "run").glob(".examples.*")))
    os.kill(children(process.pid)[rank], signal.SIGTERM)
    (output,) = joined(process)
    assert process.returncode == 128 + signal.SIGTERM
    assert output.count("trained, but not scored yet; run the same command to continue") == 1
    assert "Traceback" not in output
    assert not (tmp_path / "run" / "scores.json").exists()
    train(text, tmp_path / "run", 2)
    assert (tmp_path / "run" / "scores.json").exists()


def test_an_error_in_the_final_evaluation_ends_all_with_one_message(
    tmp_path: Path, text: Path, start: Callable[..., subprocess.Popen[str]]
):
    process = start("train", text, "--out", tmp_path / "run", "--processes", 2)
    training_begins(tmp_path / "run")
    (tmp_path / "corpus" / "test.en").unlink()
    (output,) = joined(process)
    assert process.returncode == 2
    assert output.count("regard: ") == output.count("test.en") == 2, "a message of two lines"
    assert "Traceback" not in output


def test_a_signal_in_the_last_step_stops_all_before_the_final_evaluation(
    tmp_path: Path, text: Path, start_pair: Callable[..., list[subprocess.Popen[str]]]
):
    processes = start_pair(
        text,
        "import os, signal\n"
        "from regard.training.trainer import Trainer\n"
        "stop_reason = Trainer.stop_reason\n"
        "def interrupted(trainer):\n"
        "    if reason := stop_reason(trainer):\n"
        "        os.kill(os.getpid(), signal.SIGTERM)\n"
        "    return reason\n"
        "Trainer.stop_reason = interrupted",
    )
    output = "".join(joined(*processes))
    assert [process.returncode for process in processes] == [128 + signal.SIGTERM] * 2
    assert output.count("stopped before the evaluation on the test set; run the same command to continue") == 1
    assert "Traceback" not in output
    assert Run(tmp_path / "run").progress.finished == "all epochs done"


def test_a_process_that_loses_the_others_reports_it(
    tmp_path: Path, experiment: Callable[..., Path], start_pair: Callable[..., list[subprocess.Popen[str]]]
):
    first, other = start_pair(experiment())
    training_begins(tmp_path / "run")
    other.kill()
    output, _ = joined(first, other)
    assert first.returncode == 2
    assert output.count("regard: process 0 has lost its connection to another process: ") == 1
    assert "Traceback" not in output


def test_a_run_continues_with_another_number_of_processes(
    tmp_path: Path,
    experiment: Callable[..., Path],
    train: Callable[..., Run],
    start: Callable[..., subprocess.Popen[str]],
):
    path = experiment()
    whole = train(path, tmp_path / "whole", 1)
    for processes in (1, 3):
        process = start("train", path, "--out", tmp_path / "run", "--processes", processes)
        training_begins(tmp_path / "run")
        process.terminate()
        process.communicate(timeout=TIMEOUT)
        assert not Run(tmp_path / "run").progress.finished
    changed = train(path, tmp_path / "run", 1)
    assert curve(changed, "validation_loss") == pytest.approx(curve(whole, "validation_loss"), abs=1e-4)


@pytest.mark.parametrize("launcher", ["regard", "torchrun"])
def test_training_survives_processes_that_are_killed(
    launcher: str,
    tmp_path: Path,
    experiment: Callable[..., Path],
    train: Callable[..., Run],
    start: Callable[..., subprocess.Popen[str]],
):
    path = experiment(**{"model.dropout": 0.25, "training.epochs": KILLS})
    whole = train(path, tmp_path / "whole", 2)
    command = ("train", path, "--out", tmp_path / "run")
    if launcher == "regard":
        process = start(*command, "--processes", 2)
    else:
        agent = ("--nproc-per-node=2", f"--max-restarts={KILLS}", "-m", "regard")
        process = start(*agent, *command, module="torch.distributed.run")
    moments, kills = random.Random(KILLS), 0
    for _ in range(KILLS):
        training_begins(tmp_path / "run")
        time.sleep(moments.uniform(0, 0.5))
        if process.poll() is None and (ranks := children(process.pid)):
            os.kill(moments.choice(ranks), signal.SIGKILL)
            kills += 1
            # The others may still write a checkpoint before they notice.
            wait_until(lambda ranks=ranks: process.poll() is not None or not {*ranks} & {*children(process.pid)})
    output, _ = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 0, output
    assert kills == KILLS
    assert output.count("2 processes, cpu, float32") == 1 + KILLS, "all start again"
    if launcher == "regard":
        assert output.count("was ended by SIGKILL; all start again from the last checkpoint") == KILLS
    assert_same_bits(Run(tmp_path / "run"), whole)


def test_a_run_is_given_more_epochs_by_several_processes(
    tmp_path: Path, experiment: Callable[..., Path], train: Callable[..., Run]
):
    rate = {"training.rate.kind": "constant"}
    path = experiment(**rate)
    train(path, tmp_path / "run", 2)
    continued = train(tmp_path / "run", tmp_path / "run", 2, "--epochs", 4, "--set", "training.threads=2")
    whole = train(experiment(**rate, **{"training.epochs": 4}), tmp_path / "whole", 2)
    assert_same_bits(continued, whole)


def test_several_processes_fine_tune_and_average(
    tmp_path: Path, experiment: Callable[..., Path], train: Callable[..., Run]
):
    source = train(experiment(), tmp_path / "source", 1)
    arguments = ("--from", source.path, "--set", "training.average=3", "--set", "training.rate.peak=0.001")
    one, two = (train(source.path, tmp_path / f"{processes}", processes, *arguments) for processes in (1, 2))
    assert curve(two, "validation_loss") == pytest.approx(curve(one, "validation_loss"), abs=1e-4)
    weights = [load_file(run.path / "model.safetensors") for run in (one, two)]
    for name, weight in weights[0].items():
        assert weights[1][name].numpy() == pytest.approx(weight.numpy(), abs=1e-3)
    losses = []
    for run in (one, two):
        with run.open_tensors("model.safetensors") as file:
            losses.append(file.metadata["average"]["validation_loss"])
    assert losses[0] == pytest.approx(losses[1], abs=1e-4)
    assert losses[0] != pytest.approx(curve(one, "validation_loss")[-1], abs=1e-9)


PLUGIN = """
from regard.nn import DotAttention

class HalvedAttention(DotAttention):
    def score(self, query, keys):
        return super().score(query, keys) / 2
"""


def test_a_plug_in_is_trained_by_several_processes(
    tmp_path: Path, experiment: Callable[..., Path], train: Callable[..., Run]
):
    (tmp_path / "halved.py").write_text(PLUGIN)
    path = experiment(
        **{"model.attention": {"kind": f"{tmp_path / 'halved.py'}:HalvedAttention"}, "model.decoder.size": 44}
    )
    train(path, tmp_path / "run", 2)
    assert Run(tmp_path / "run", trust_code=True).progress.finished == "all epochs done"


def free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])


def joined(*processes: subprocess.Popen[str]) -> list[str]:
    return [process.communicate(timeout=TIMEOUT)[0] for process in processes]


def test_torchrun_on_two_machines_trains_one_model(
    tmp_path: Path,
    experiment: Callable[..., Path],
    train: Callable[..., Run],
    start: Callable[..., subprocess.Popen[str]],
):
    path, port = experiment(), free_port()
    machine = [
        *("--nnodes=2", "--nproc-per-node=1", "--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}"),
        *("--local-addr=127.0.0.1", "-m", "regard", "train", path, "--out", tmp_path / "run"),
    ]
    folders = [tmp_path / "temporary 1", tmp_path / "temporary 2"]
    machines = []
    for folder in folders:
        folder.mkdir()
        env = {"GLOO_SOCKET_IFNAME": "lo", "TMPDIR": str(folder)}
        machines.append(start(*machine, module="torch.distributed.run", env=env))
    wait_until(lambda: all(any(folder.glob(".run.*/new/train/header.json")) for folder in folders))
    outputs = joined(*machines)
    assert [each.returncode for each in machines] == [0, 0], outputs
    assert sum("2 processes, cpu, float32" in output for output in outputs) == 1, "only one process prints"
    assert not any(list(folder.glob(".run.*")) for folder in folders), "the encoded data of each machine is removed"
    assert_same_bits(Run(tmp_path / "run"), train(path, tmp_path / "one machine", 2))


FAILING = """
import sys, regard

class Failing(regard.Callback):
    def on_step_end(self, trainer, loss):
        if trainer.group.rank == 1 and trainer.progress.step == 3:
            open(sys.argv[3], "w").close()
            raise regard.UserError("the disk of this machine is full")

regard.train(sys.argv[1], sys.argv[2], callbacks=[Failing()], progress=False)
"""


def test_an_error_in_one_process_ends_all_with_one_message(
    tmp_path: Path, experiment: Callable[..., Path], start: Callable[..., subprocess.Popen[str]]
):
    script = tmp_path / "failing.py"
    script.write_text(FAILING)
    arguments = (script, experiment(), tmp_path / "run", tmp_path / "failed")
    process = start("--nproc-per-node=3", *arguments, module="torch.distributed.run")
    (output,) = joined(process)
    seconds = time.time() - (tmp_path / "failed").stat().st_mtime
    assert process.returncode == 1
    assert output.count("UserError: the disk of this machine is full") == 1
    assert output.count("Traceback (most recent call last)") == 2, "that of the process, and torchrun's own"
    assert "ProcessLost" not in output
    assert seconds < 30, "nobody waits for a time-out"


def test_an_error_in_all_processes_is_printed_once(
    tmp_path: Path, experiment: Callable[..., Path], start: Callable[..., subprocess.Popen[str]]
):
    process = start(
        *("train", experiment(), "--out", tmp_path / "run", "--processes", 3, "--set", "training.batch_tokens=30")
    )
    (output,) = joined(process)
    assert process.returncode == 2
    assert re.fullmatch(
        r"regard: 3 processes are too many: batches of 30 tokens \(training.batch_tokens\) have \d\.\d sentences on "
        r"average; choose fewer processes or larger batches\n",
        output,
    )


@pytest.fixture
def start_pair(
    tmp_path: Path, start: Callable[..., subprocess.Popen[str]]
) -> Callable[..., list[subprocess.Popen[str]]]:
    """Start two processes as those of two machines, without `torchrun`; the second one executes some code first."""

    def run(path: Path, change: str = "") -> list[subprocess.Popen[str]]:
        (tmp_path / "changed.py").write_text(f"{change}\nfrom regard.cli import main\nmain()")
        env = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        env |= {"GLOO_SOCKET_IFNAME": "lo", "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
        arguments = ["train", path, "--out", tmp_path / "run"]
        modules = ("regard", "changed")
        return [start(*arguments, module=each, env={**env, "RANK": str(rank)}) for rank, each in enumerate(modules)]

    return run


@pytest.fixture
def train_on_two_machines(
    experiment: Callable[..., Path], start_pair: Callable[..., list[subprocess.Popen[str]]]
) -> Callable[[str], str]:
    """Start two processes, of which the second executes some code first; what they print."""

    def run(change: str) -> str:
        first, other = start_pair(experiment(), change)
        outputs = "".join(joined(first, other))
        assert {first.returncode, other.returncode} <= {1, 2}
        assert outputs.count("regard: ") == 1
        assert "Traceback" not in outputs
        return outputs

    return run


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("import regard; regard.__version__ = '9.9'", r"in Regard: 9\.9, not \S+"),
        ("import torch; torch.__version__ = '9.9'", r"in PyTorch: 9\.9, not \S+"),
        ("import sys; sys.argv.append('--set=training.clip=2')", r"in the settings: \w{12}, not \w{12}"),
        ("import sys; sys.argv[4] += '2'", r"in the run directory: .*run2 without a run, not .*run without a run"),
    ],
    ids=["version", "torch", "settings", "folder"],
)
def test_processes_that_differ_are_refused(
    change: str, message: str, tmp_path: Path, train_on_two_machines: Callable[[str], str]
):
    outputs = train_on_two_machines(change)
    assert re.search(rf"^regard: process 1 \(on .*\) differs from process 0 \(on .*\) {message}; all ", outputs, re.M)
    assert not (tmp_path / "run").exists()


def test_machines_with_different_data_are_refused(train_on_two_machines: Callable[[str], str]):
    outputs = train_on_two_machines(
        "from regard.tasks import reverse\n"
        "random_string = reverse.random_string\n"
        "reverse.random_string = lambda *values: random_string(*values)[::-1]"
    )
    message = r"^regard: \S+: data.train differs from the train split that process 0 has read; all machines "
    assert re.search(message, outputs, re.M)


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (
            {"RANK": "0", "WORLD_SIZE": "2"},
            "MASTER_ADDR expected, but not set; the environment has RANK=0, WORLD",
        ),
        ({"RANK": "zero", "WORLD_SIZE": "2"}, "invalid literal"),
    ],
    ids=["no address", "no number"],
)
def test_a_launcher_that_sets_too_few_variables_is_reported(
    env: dict[str, str],
    message: str,
    tmp_path: Path,
    experiment: Callable[..., Path],
    start: Callable[..., subprocess.Popen[str]],
):
    process = start("train", experiment(), "--out", tmp_path / "run", env=env)
    (output,) = joined(process)
    assert process.returncode == 2
    assert output.startswith("regard: the processes of this training cannot connect: ")
    assert message in output
    assert output.count("\n") == 1


def test_ctrl_c_ends_a_process_that_waits_for_others(
    tmp_path: Path, experiment: Callable[..., Path], start: Callable[..., subprocess.Popen[str]]
):
    """Such as one with variables that an earlier launcher has left."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # children inherit it if it is ignored
    with socket.create_server(("127.0.0.1", 0)) as server:  # accepts a connection, and never answers
        env = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(server.getsockname()[1])}
        process = start("train", experiment(), "--out", tmp_path / "run", env=env)
        signal.signal(signal.SIGINT, before)
        server.settimeout(TIMEOUT)
        with server.accept()[0]:
            process.send_signal(signal.SIGINT)
            (output,) = joined(process)
    assert process.returncode == 130
    assert "Traceback" not in output
