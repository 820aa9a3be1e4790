"""`regard serve` as a process: how it starts, what it refuses, and how it stops."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from http.client import HTTPException
from io import TextIOWrapper
from pathlib import Path
from subprocess import Popen
from typing import Any
from urllib.request import Request, urlopen

import pytest

from regard.cli.serve import limit_connections
from regard.serving import connections
from regard.serving.limits import Limits

SHUTDOWN_MESSAGE = b"regard: finishing the current requests; press Ctrl-C again to stop immediately\n"
Start = Callable[..., "Popen[bytes]"]


def read_url(process: Popen[bytes]) -> str:
    """The URL that the server prints once it listens."""
    assert process.stdout is not None
    line = process.stdout.readline().decode()
    assert line.endswith("/ (Ctrl-C stops)\n"), line
    return line.split()[-3]


def translate(url: str, **fields: Any) -> Any:
    body = json.dumps(fields).encode()
    request = Request(f"{url}api/translate", body, {"Content-Type": "application/json"})
    with urlopen(request, timeout=60) as response:
        return json.load(response)


def wait_until_in_progress(url: str) -> None:
    """Wait until a request is being translated."""
    for _ in range(3_000):
        if b"\nregard_in_progress_texts 0.0\n" not in urlopen(f"{url}metrics").read():
            return
        time.sleep(0.005)
    pytest.fail("no request was in progress")


def suppressed(function: Callable[..., Any], *arguments: Any, **named: Any) -> None:
    with suppress(OSError, HTTPException):
        function(*arguments, **named)


@pytest.mark.unix
@pytest.mark.slow
def test_a_server_prints_its_url_and_finishes_current_requests_when_stopped(start_regard: Start, trained: Path):
    process = start_regard("serve", trained, "--port", 0)
    url = read_url(process)
    assert url.startswith("http://127.0.0.1:"), "by default only this machine can reach it"
    assert translate(url, texts=["abc"])["translations"][0]["text"] == "abc"
    responses = []
    long = {"texts": ["abc"], "beam": 40, "min_length": 1000}  # about a second
    thread = threading.Thread(target=lambda: responses.append(translate(url, **long)))
    thread.start()
    wait_until_in_progress(url)
    process.send_signal(signal.SIGINT)
    thread.join(60)
    assert [len(response["translations"][0]["text"]) >= 1000 for response in responses] == [True]
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert (out, err) == (b"", b"\n" + SHUTDOWN_MESSAGE)
    with pytest.raises(OSError, match="refused"):
        urlopen(url)


@pytest.mark.unix
@pytest.mark.slow
def test_a_second_signal_stops_it_immediately(start_regard: Start, trained: Path):
    process = start_regard("serve", trained, "--port", 0, "--max-seconds", 100)
    url = read_url(process)
    long = {"texts": ["abc"] * 8, "beam": 50, "n_best": 50, "min_length": 1000}
    threading.Thread(target=lambda: suppressed(translate, url, **long), daemon=True).start()
    wait_until_in_progress(url)
    process.send_signal(signal.SIGINT)
    assert process.stderr.readline() == b"\n"
    assert process.stderr.readline() == SHUTDOWN_MESSAGE
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=10)
    assert process.returncode == 143
    assert err == b"", "no traceback"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_server_that_cannot_print_its_url_stops(
    regard: Callable[..., Any], trained: Path, monkeypatch: pytest.MonkeyPatch
):
    with TextIOWrapper(Path("/dev/full").open("wb", buffering=0)) as full, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", full)
        answer = regard("serve", trained, "--port", 0)
    assert (answer.code, answer.err) == (2, "regard: writing: No space left on device\n")


@pytest.mark.unix
@pytest.mark.slow
def test_the_token_from_the_environment_is_neither_printed_nor_passed_to_the_browser(
    start_regard: Start, trained: Path, tmp_path: Path
):
    browser, opened = tmp_path / "browser", tmp_path / "opened"  # the server must not wait for the browser
    browser.write_text(f'#!/bin/sh\necho "$@" > {opened}\nexec sleep 20 > /dev/null 2>&1\n')
    browser.chmod(0o755)
    env = os.environ | {"BROWSER": str(browser), "REGARD_TOKEN": "s3cret"}
    process = start_regard("serve", trained, "--port", 0, "--open", env=env)
    url = read_url(process)
    with urlopen(f"{url}healthz", timeout=10) as response:
        assert response.status == 200
    with pytest.raises(OSError, match="401"):
        urlopen(f"{url}api/runs")
    with urlopen(Request(f"{url}api/runs", headers={"Authorization": "Bearer s3cret"})) as response:
        assert "s3cret" not in response.read().decode()
    for _ in range(3_000):
        if opened.exists() and opened.read_text():
            break
        time.sleep(0.01)
    assert opened.read_text() == f"{url}\n"
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 143, "it exits by itself"
    assert (out, err) == (b"", b"\n" + SHUTDOWN_MESSAGE)


def test_connections_that_the_system_cannot_open_are_not_promised(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(connections, "fit_descriptors", lambda wanted: min(wanted, 300))
    assert limit_connections(Limits(connections=300)) == Limits(connections=300)
    assert capsys.readouterr().err == ""
    assert limit_connections(Limits(connections=5_000, idle_seconds=7)) == Limits(connections=300, idle_seconds=7)
    assert capsys.readouterr().err == (
        "regard: note: --max-connections 5,000: the system's limit on open files (ulimit -n) allows only 300\n"
    )


@pytest.mark.slow
def test_a_signal_while_runs_are_loaded_ends_the_process_with_its_code(start_regard: Start, trained: Path):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = start_regard("serve", trained, "--port", port)
    for _ in range(6_000):  # it listens before it loads the runs
        with suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
            break
        time.sleep(0.005)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (143, b"", b"")


def test_a_taken_port_is_reported(regard: Callable[..., Any], trained: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        response = regard("serve", trained, "--port", port)
    assert (response.code, response.out) == (2, "")
    assert response.err == (
        f"regard: 127.0.0.1:{port}: cannot listen there: Address already in use; choose another --port or --host\n"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{run}", "{run}"], "{run}: this run is given twice; once is enough"),
        (["{run}", "{run}/../trained"], "this run is given twice; once is enough"),
        (["nowhere"], "nowhere: there is no such run directory; 'regard train' creates one"),
        (["{run}", "--port", "70000"], "--port 70000: must be between 0, which is any free port, and 65535"),
        (["{run}", "--port", "-1"], "--port -1: must be between 0, which is any free port, and 65535"),
        (["{run}", "--host", "no such host"], "no such host:8000: cannot listen there: "),
        (["{run}", "--token", ""], "--token: must consist of printable ASCII characters"),
        (["{run}", "--token", "naïve"], "--token: must consist of printable ASCII characters"),
        (["{run}", "--allow-origin", "*"], "--allow-origin *: should be like https://example.org"),
        (["{run}", "--max-texts", "0"], "--max-texts 0: a limit must be a number above 0"),
        (["/"], "/: this is not a run directory"),
        (["{run}", "--token", "a b"], "--token: must consist of printable ASCII characters without spaces"),
        (["{run}", "--max-memory", "inf"], "--max-memory inf: a limit must be a number above 0"),
        (["{run}", "--max-seconds", "nan"], "--max-seconds nan: a limit must be a number above 0"),
        (["{run}", "--max-client-connections", "0"], "--max-client-connections 0: a limit must be a number above 0"),
        (["{run}", "--max-waiting", "5"], "--max-waiting 5: must be at least 64, the texts of one request"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_invalid_arguments_are_reported(regard: Callable[..., Any], trained: Path, arguments: list[str], message: str):
    options = [argument.format(run=trained) for argument in arguments]
    port = [] if {"--port", "--host"} & set(options) else ["--port", "0"]
    response = regard("serve", *options, *port)
    assert (response.code, response.out) == (2, "")
    assert message.format(run=trained) in response.err
    assert response.err.count("\n") == 1
