"""Studies on a real Dask cluster: a scheduler and workers as processes of this machine, some of which are killed."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from distributed import Reschedule, Status

import regard
from regard.errors import UserError
from regard.runs import MODEL, STATE, Run
from regard.studies.progress_display import SilentStudyObserver
from regard.terminal.progress import InterruptHandler
from regard.workers import cluster_task, open_executor
from regard.workers.cluster_task import Session, installed_versions, run_task
from regard.workers.dask_cluster import DaskExecutor
from regard.workers.job import STOPPED
from regard.workers.runner import run_jobs

pytestmark = [pytest.mark.slow, pytest.mark.unix]
Start = Callable[..., "subprocess.Popen[bytes]"]
# 240 steps, which are often saved; on the cluster, each takes a while, so that there is time to kill something.
LONGER = ("training.epochs=10", "training.batch_tokens=200", "training.save_every=0.2", "training.validate_every=60")
SLOW = """
import time
from regard.workers.reporting import Reporter
send = Reporter.send
Reporter.send = lambda *given, **options: (time.sleep(0.02), send(*given, **options))
"""
TRAINING = "regard.studies.worker"
LEASE = 10.0  # seconds without a heartbeat; long enough for a busy machine
LIMIT = 240.0  # seconds until something must have happened, on a busy machine


def wait_until(condition: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def python_path(folder: Path) -> str:
    """The variable PYTHONPATH with a folder in front, whose `sitecustomize.py` runs when Python starts."""
    return os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))


class Cluster:
    """A Dask scheduler and its workers.

    Args:
        folder: For their logs and temporary files.
        settings: Of Dask, as environment variables.
    """

    def __init__(self, folder: Path, **settings: str) -> None:
        self.folder, self.processes = folder, list[subprocess.Popen[bytes]]()
        (folder / "sitecustomize.py").write_text(SLOW)
        self.environment = os.environ | {"PYTHONPATH": python_path(folder)} | settings
        self.scheduler = self.start("scheduler", "--port", "0")
        wait_until(lambda: re.search(r"Scheduler at: +(tcp://\S+)", self.log(self.scheduler)), "no scheduler")
        found = re.search(r"Scheduler at: +(tcp://\S+)", self.log(self.scheduler))
        assert found
        self.address = found[1]

    def start(self, kind: str, *arguments: str, **variables: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-P", "-m", f"distributed.cli.dask_{kind}", "--host", "127.0.0.1"]
        dashboard = ("--dashboard-address", "127.0.0.1:0")
        with (self.folder / f"{len(self.processes)}.log").open("wb") as log:
            process = subprocess.Popen(
                [*command, *dashboard, *arguments], env=self.environment | variables, stdout=log, stderr=log
            )
        self.processes.append(process)
        return process

    def add_worker(self, **variables: str) -> subprocess.Popen[bytes]:
        options = ("--nthreads", "1", "--no-nanny", "--local-directory", str(self.folder))
        worker = self.start("worker", self.address, *options, **variables)
        wait_until(lambda: "Registered to" in self.log(worker), "the worker does not find the scheduler")
        return worker

    def log(self, process: subprocess.Popen[bytes]) -> str:
        return (self.folder / f"{self.processes.index(process)}.log").read_text()

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


@contextmanager
def new_cluster(folder: Path, workers: int, **settings: str) -> Iterator[Cluster]:
    cluster = Cluster(folder, **settings)
    try:
        for _ in range(workers):
            cluster.add_worker()
        yield cluster
    finally:
        cluster.close()
        wait_until(lambda: not trainings_of(*cluster.processes), "a training process has lost its worker and goes on")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A scheduler with three workers. Tests start another worker for each that they kill."""
    with new_cluster(tmp_path_factory.mktemp("cluster"), workers=3) as cluster:
        yield cluster


def trainings_of(*workers: subprocess.Popen[bytes]) -> list[int]:
    """The process ids of the trainings that workers have started."""
    lines = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,args="], capture_output=True, text=True, check=True).stdout
    rows = [line.split(maxsplit=2) for line in lines.splitlines()]
    parents = {worker.pid for worker in workers}
    return [int(row[0]) for row in rows if len(row) == 3 and TRAINING in row[2] and int(row[1]) in parents]


@pytest.fixture(scope="module")
def study(tiny_file: Path) -> tuple[str, ...]:
    """The arguments of `regard compare` of four runs."""
    settings = [part for setting in LONGER for part in ("--set", setting)]
    return ("compare", str(tiny_file), "--vary", "model.attention.kind=none,dot", "--seeds", "2", *settings)


@pytest.fixture(scope="module")
def local_results(study: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The results of the study with `--jobs 2`."""
    folder = tmp_path_factory.mktemp("local")
    command = [sys.executable, "-m", "regard", *study, "--jobs", "2", "--out", str(folder / "study")]
    subprocess.run(command, check=True, capture_output=True)
    return results_in(folder)


def without_times(value: Any) -> Any:
    """A JSON value without measured times and without the paths of runs."""
    if isinstance(value, dict):
        return {key: without_times(inner) for key, inner in value.items() if "second" not in key and key != "run"}
    return [without_times(inner) for inner in value] if isinstance(value, list) else value


def results_in(folder: Path) -> dict[str, Any]:
    """The results of a study: the weights, validations and evaluations of each run, and the report's numbers."""
    found = {"results.json": without_times(json.loads((folder / "study" / "results.json").read_text()))}
    for run in sorted(path.parent for path in folder.glob("runs/*/run.json")):
        rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        evaluations = [json.loads(path.read_text()) for path in sorted(run.glob("evaluations/*"))]
        found[run.name] = ((run / MODEL).read_bytes(), without_times(rows), without_times(evaluations))
    return found


class Client:
    """`regard compare --cluster` in a process, and its messages."""

    def __init__(self, process: subprocess.Popen[bytes], errors: Path) -> None:
        self.process, self.errors = process, errors

    @property
    def messages(self) -> str:
        return self.errors.read_text()

    def ends_with(self, code: int) -> None:
        assert self.process.wait(LIMIT) == code, self.messages
        assert "Traceback" not in self.messages


@pytest.fixture
def compare(start_regard: Start, study: tuple[str, ...], tmp_path: Path) -> Callable[..., Client]:
    """Starts `regard compare … --cluster`."""

    def start(cluster: Cluster, *options: str) -> Client:
        errors = tmp_path / f"errors{len(list(tmp_path.glob('errors*')))}"
        arguments = (*study, "--out", tmp_path / "study", "--cluster", cluster.address, *options)
        with errors.open("wb") as file:
            return Client(start_regard(*arguments, stdout=subprocess.DEVNULL, stderr=file), errors)

    return start


def saved_runs(folder: Path) -> int:
    return len(list(folder.glob(f"runs/*/{STATE}")))


def test_a_study_loses_two_workers_and_has_the_same_results(
    cluster: Cluster, compare: Callable[..., Client], local_results: dict[str, Any], tmp_path: Path
):
    client = compare(cluster)
    workers = cluster.processes[-3:]
    wait_until(lambda: saved_runs(tmp_path) == 3, "three runs are trained at a time")
    assert len(trainings_of(*workers)) == 3
    workers[0].kill()
    wait_until(lambda: client.messages.count("waiting again, because its worker was lost") == 1, "not reported")
    wait_until(lambda: len(trainings_of(*workers[1:])) == 2, "the other workers have nothing to do")
    workers[1].kill()
    new = [cluster.add_worker(), cluster.add_worker()]
    wait_until(lambda: trainings_of(*new), "new workers have nothing to do")
    os.kill(trainings_of(*new)[0], signal.SIGTERM)  # as when its machine is shut down
    client.ends_with(0)
    assert client.messages.count("because its worker was lost") == 3
    assert client.messages.count("done after") == 4
    assert len(local_results) == 5
    assert results_in(tmp_path) == local_results
    assert [path.name for path in (tmp_path / "runs").glob(".*") if path.suffix != ".lock"] == []


def test_a_study_that_is_interrupted_or_killed_continues(
    cluster: Cluster, compare: Callable[..., Client], local_results: dict[str, Any], tmp_path: Path
):
    client = compare(cluster, "--seeds", "1")
    wait_until(lambda: saved_runs(tmp_path) == 2, "nothing is trained")
    client.process.send_signal(signal.SIGINT)
    client.ends_with(128 + signal.SIGINT)
    assert not trainings_of(*cluster.processes)
    assert "stopped with 0 of 2 runs done; run the same command again to continue" in client.messages
    assert client.messages.count(": stopped after 0:") == 2
    assert [Run(path.parent).progress.step > 0 for path in tmp_path.glob("runs/*/run.json")] == [True, True]

    client = compare(cluster, "--seeds", "1")
    wait_until(lambda: trainings_of(*cluster.processes), "nothing is trained")
    os.kill(trainings_of(*cluster.processes)[0], signal.SIGKILL)
    client.ends_with(1)
    assert client.messages.count("failed: ended by SIGKILL") == 1
    assert client.messages.count("done after") == 1

    client = compare(cluster, "--seeds", "1")
    client.ends_with(0)
    assert client.messages.count("done after") == 1
    found = {name: run for name, run in results_in(tmp_path).items() if name.endswith("-1")}
    assert len(found) == 2
    assert found.items() <= local_results.items()


def test_runs_stop_when_their_client_is_killed(cluster: Cluster, tiny_file: Path, tmp_path: Path):
    script = (
        f"import regard, regard.workers.dask_cluster as cluster; cluster.HEARTBEAT, cluster.LEASE = 0.2, {LEASE}; "
        f"regard.compare({str(tiny_file)!r}, overrides={{'training.epochs': 9999, 'training.save_every': 99999}}, "
        f"seeds=1, out={str(tmp_path / 'study')!r}, cluster={cluster.address!r})"
    )
    with subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.DEVNULL) as client:
        wait_until(lambda: trainings_of(*cluster.processes), "nothing is trained")
        wait_until(lambda: list(tmp_path.glob("runs/*/run.json")), "nothing is trained")
        time.sleep(1.2 * LEASE)
        assert trainings_of(*cluster.processes), "the heartbeat keeps it alive"
        client.kill()
    wait_until(lambda: not trainings_of(*cluster.processes), "it does not stop")
    (run,) = (path.parent for path in tmp_path.glob("runs/*/run.json"))
    assert Run(run).progress.step > 0, "it has saved its state"


def test_a_run_whose_workers_are_lost_too_often_fails_and_a_lost_scheduler_ends_the_study(
    compare: Callable[..., Client], tmp_path: Path
):
    (tmp_path / "cluster").mkdir()
    with new_cluster(tmp_path / "cluster", 0, DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES="0") as cluster:
        client = compare(cluster, "--seeds", "1")
        wait_until(lambda: "the scheduler has no workers yet; waiting for the first one" in client.messages, "no note")
        worker = cluster.add_worker()
        wait_until(lambda: saved_runs(tmp_path) == 1, "nothing is trained")
        worker.kill()
        wait_until(
            lambda: "failed: workers lost while they ran it: 1, the last one tcp://127.0.0.1" in client.messages,
            "no error",
        )
        cluster.add_worker()
        wait_until(lambda: saved_runs(tmp_path) == 2, "the other run is not trained")
        cluster.scheduler.kill()
        client.ends_with(2)
        message = f"regard: cluster: the connection to {cluster.address} is lost; running jobs save their state"
        assert message in client.messages
        wait_until(lambda: not trainings_of(*cluster.processes), "it does not stop")


def test_a_scheduler_that_is_lost_while_no_job_is_active(new_jobs: Callable[[int], list[Any]]):
    client: Any = SimpleNamespace(status="running", nthreads=lambda: {"tcp://127.0.0.1:9": 3})
    executor = DaskExecutor(client, "tcp://127", Session("name", "token", {}, 60.0))
    assert executor.slots == 3
    client.status = "closed"
    with pytest.raises(UserError, match="cluster: the connection to tcp://127 is lost"):
        run_jobs(new_jobs(1), executor, SilentStudyObserver(InterruptHandler()))


def test_a_worker_that_closes_gives_its_jobs_back(
    worker: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    worker("import select; sys.exit(STOPPED if select.select([sys.stdin], [], [], 30)[0] else 0)")
    dask_worker = SimpleNamespace(status=Status.running, address="tcp://127", log_event=lambda topic, event: None)
    variable = SimpleNamespace(get=lambda timeout: (1, [7]))
    replaced = {"get_worker": dask_worker, "get_client": None, "Variable": variable}
    for name, value in replaced.items():
        monkeypatch.setattr(cluster_task, name, lambda *_, value=value, **__: value)
    session = Session("name", str(tmp_path), installed_versions(), 9999.0)
    assert run_task(session, 7, "fake", '{"number": 7}') == (STOPPED, "")
    dask_worker.status = Status.closing_gracefully
    with pytest.raises(Reschedule):
        run_task(session, 3, "fake", '{"number": 3}')


UNFIT = {
    "old": "import regard; regard.__version__ = '0.1'",
    "without": "import sys; sys.modules['regard'] = None",
    # Its machine has another file system under the same paths.
    "elsewhere": """
import regard.workers.cluster_task as task
task.Path = type("Elsewhere", (type(task.Path()),), {"is_dir": lambda path: False})
""",
}


def test_unfit_workers_are_named(cluster: Cluster, compare: Callable[..., Client], tmp_path: Path):
    unfit = []
    for name, code in UNFIT.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "sitecustomize.py").write_text(code)
        unfit.append(cluster.add_worker(PYTHONPATH=python_path(tmp_path / name)))
    client = compare(cluster)
    client.ends_with(2)
    for worker in unfit:
        worker.kill()
    found = {re.sub(r":\d+ ", " ", line) for line in client.messages.splitlines()}
    assert len(found) == len(UNFIT)
    here = "regard: cluster: the worker tcp://127.0.0.1"
    machine = f"{here} on {socket.gethostname()}"
    assert any(line.startswith(f"{here} cannot import this version of Regard: ModuleNotFoundError") for line in found)
    assert f"{machine} has Regard 0.1, and this process has {regard.__version__}; install the same" in found
    shared = f"does not see the folder {tmp_path}/runs; choose one that all machines share under this path"
    assert f"{machine} {shared}" in found
    assert list((tmp_path / "runs").iterdir()) == []
    assert not (tmp_path / "study").exists()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("old", f"has Regard 0.1, and this process has {regard.__version__}; install the same"),
        (
            "without",
            "cannot import this version of Regard: No module named 'regard.workers'; 'regard' is not a package",
        ),
    ],
)
def test_an_unfit_scheduler_is_reported(compare: Callable[..., Client], tmp_path: Path, name: str, message: str):
    (tmp_path / "cluster").mkdir()
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(UNFIT[name])
    with new_cluster(tmp_path / "cluster", 0, PYTHONPATH=python_path(tmp_path / "site")) as cluster:
        client = compare(cluster)
        client.ends_with(2)
    assert client.messages == f"regard: cluster: the scheduler {cluster.address} {message}\n"
    assert not (tmp_path / "study").exists()


def test_no_scheduler(cluster: Cluster, start_regard: Start, tiny_file: Path, tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as silent:  # as a web server, which waits for a line
        worker = re.search(r"Start worker at: +(tcp://\S+)", cluster.log(cluster.add_worker()))
        assert worker
        reasons = {
            "tcp://127.0.0.1:9": "no answer in 10 seconds",
            f"tcp://127.0.0.1:{silent.getsockname()[1]}": "no answer in 10 seconds",
            worker[1]: "it is the address of another server of Dask, a Worker",
            cluster.address.replace("tcp", "tls"): "TLS expects ",
        }
        options = ("compare", tiny_file, "--out", tmp_path / "study", "--cluster")
        clients = [start_regard(*options, address) for address in reasons]
        for client, (address, reason) in zip(clients, reasons.items(), strict=True):
            _, errors = client.communicate(timeout=LIMIT)
            assert client.returncode == 2
            (line,) = errors.decode().splitlines()
            assert line.startswith(f"regard: cluster: no Dask scheduler answers at {address}: {reason}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("address", ["scheduler", "tcp://scheduler", "http://scheduler:8786", "tcp://a b:1", "a:x", ""])
def test_an_address_that_is_none(regard: Callable[..., Any], tiny_file: Path, tmp_path: Path, address: str):
    answer = regard("compare", tiny_file, "--out", tmp_path / "study", "--cluster", address)
    assert answer.code == 2
    assert answer.err == f"regard: cluster: {address!r} should be the address of a Dask scheduler, as tcp://HOST:8786\n"
    assert list(tmp_path.iterdir()) == []


def test_either_this_machine_or_a_cluster(regard: Callable[..., Any], tiny_file: Path, tmp_path: Path):
    arguments = ("--out", tmp_path / "study", "--jobs", 2, "--cluster", "tcp://127.0.0.1:9")
    for command in (("compare", tiny_file), ("study", "beam")):
        answer = regard(*command, *arguments)
        assert (answer.code, answer.err) == (2, "regard: give either --jobs, to train on this machine, or --cluster\n")
    assert list(tmp_path.iterdir()) == []


def test_the_extra_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.delitem(sys.modules, "regard.workers.dask_cluster", raising=False)
    with pytest.raises(UserError, match=r"^a cluster needs Dask: pip install 'regard\[cluster\]'$"):
        open_executor(2, "tcp://127.0.0.1:9", tmp_path)
