"""`regard serve` as a process of its own: how it starts, what it refuses, and how it stops."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from subprocess import Popen
from typing import Any
from urllib.request import Request, urlopen

import pytest

Start = Callable[..., "Popen[bytes]"]


def address_of(process: Popen[bytes]) -> str:
    """Where it listens, once it does."""
    assert process.stdout is not None
    line = process.stdout.readline().decode()
    assert line.endswith("/ (Ctrl-C stops)\n"), line
    return line.split()[-3]


def ask(address: str, **wanted: Any) -> Any:
    body = json.dumps(wanted).encode()
    request = Request(f"{address}api/translate", body, {"Content-Type": "application/json"})
    with urlopen(request, timeout=60) as answer:
        return json.load(answer)


def wait_until_under_way(address: str) -> None:
    """What was asked for is being translated."""
    for _ in range(3_000):
        if b"\nregard_under_way_texts 0\n" not in urlopen(f"{address}metrics").read():
            return
        time.sleep(0.005)
    pytest.fail("nothing was ever under way")


def suppressed(function: Callable[..., Any], *arguments: Any, **named: Any) -> None:
    with suppress(OSError, HTTPException):
        function(*arguments, **named)


@pytest.mark.slow
def test_a_server_says_where_it_is_answers_and_stops(start_regard: Start, trained: Path):
    process = start_regard("serve", trained, "--port", 0)
    address = address_of(process)
    assert address.startswith("http://127.0.0.1:"), "only this machine can reach it unless it is told otherwise"
    assert ask(address, texts=["abc"])["translations"][0]["text"] == "abc"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, b"")
    assert err.decode() == "\nregard: finishing what is under way; once more stops at once\n"


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_server_that_is_stopped_finishes_what_is_under_way(start_regard: Start, trained: Path, number: int):
    process = start_regard("serve", trained, "--port", 0)
    address = address_of(process)
    answers = []
    long = {"texts": ["abc"], "beam": 40, "min_length": 1000}  # about a second
    asking = threading.Thread(target=lambda: answers.append(ask(address, **long)))
    asking.start()
    wait_until_under_way(address)
    process.send_signal(number)
    asking.join(60)
    assert [len(answer["translations"][0]["text"]) >= 1000 for answer in answers] == [True]
    process.communicate(timeout=30)
    assert process.returncode == (130 if number == signal.SIGINT else -signal.SIGTERM)
    with pytest.raises(OSError, match="refused"):
        urlopen(address)


@pytest.mark.slow
def test_asked_twice_it_stops_at_once(start_regard: Start, trained: Path):
    process = start_regard("serve", trained, "--port", 0, "--max-seconds", 100)
    address = address_of(process)
    long = {"texts": ["abc"] * 8, "beam": 50, "n_best": 50, "min_length": 1000}
    threading.Thread(target=lambda: suppressed(ask, address, **long), daemon=True).start()
    wait_until_under_way(address)
    process.send_signal(signal.SIGINT)
    assert process.stderr.readline() == b"\n"
    assert process.stderr.readline() == b"regard: finishing what is under way; once more stops at once\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=10)
    assert process.returncode == 130
    assert err == b"", "no traceback"


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_who_cannot_be_told_the_address_has_no_server(start_regard: Start, trained: Path):
    with Path("/dev/full").open("wb") as full:
        process = start_regard("serve", trained, "--port", 0, stdout=full)
        _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (2, b"regard: writing: No space left on device\n")


@pytest.mark.slow
def test_a_browser_is_neither_waited_for_nor_told_the_token(start_regard: Start, trained: Path, tmp_path: Path):
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/opened\nsleep 20\n')
    browser.chmod(0o755)
    env = os.environ | {"BROWSER": str(browser), "REGARD_TOKEN": "s3cret"}
    process = start_regard("serve", trained, "--port", 0, "--open", env=env)
    address = address_of(process)
    with urlopen(f"{address}healthz", timeout=10) as answer:
        assert answer.status == 200
    opened = tmp_path / "opened"
    for _ in range(3_000):
        if opened.exists() and opened.read_text():
            break
        time.sleep(0.01)
    assert opened.read_text() == f"{address}\n"
    process.send_signal(signal.SIGINT)
    process.wait(30)


@pytest.mark.slow
def test_a_token_comes_from_the_environment_and_is_not_told(
    start_regard: Start, trained: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("REGARD_TOKEN", "s3cret")
    process = start_regard("serve", trained, "--port", 0)
    address = address_of(process)
    with pytest.raises(OSError, match="401"):
        urlopen(f"{address}api/runs")
    with urlopen(Request(f"{address}api/runs", headers={"Authorization": "Bearer s3cret"})) as answer:
        assert "s3cret" not in answer.read().decode()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert b"s3cret" not in out + err


def test_a_port_that_is_taken_is_told(regard: Callable[..., Any], trained: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        answer = regard("serve", trained, "--port", port)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == (
        f"regard: 127.0.0.1:{port}: cannot listen there: Address already in use; choose another --port or --host\n"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{run}", "{run}"], "{run}: this run is given twice; once is enough"),
        (["{run}", "{run}/../trained"], "this run is given twice; once is enough"),
        (["nowhere"], "nowhere: there is no such run directory; 'regard train' makes one"),
        (["{run}", "--port", "70000"], "--port 70000: should be 0, which is any free one, to 65535"),
        (["{run}", "--port", "-1"], "--port -1: should be 0, which is any free one, to 65535"),
        (["{run}", "--host", "no such host"], "no such host:8000: cannot listen there: "),
        (["{run}", "--token", ""], "--token: should be made of letters, digits and signs of ASCII"),
        (["{run}", "--token", "naïve"], "--token: should be made of letters, digits and signs of ASCII"),
        (["{run}", "--allow-origin", "*"], "--allow-origin *: should be like https://example.org"),
        (["{run}", "--max-texts", "0"], "--max-texts 0: a limit should be a number above 0"),
        (["/"], "/: this is not a run directory"),
        (["{run}", "--token", "a b"], "--token: should be made of letters, digits and signs of ASCII, without spaces"),
        (["{run}", "--max-memory", "inf"], "--max-memory inf: a limit should be a number above 0"),
        (["{run}", "--max-seconds", "nan"], "--max-seconds nan: a limit should be a number above 0"),
        (["{run}", "--max-waiting", "5"], "--max-waiting 5: should have room for one request of 64 texts at least"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_served_is_told(regard: Callable[..., Any], trained: Path, arguments: list[str], message: str):
    options = [argument.format(run=trained) for argument in arguments]
    port = [] if {"--port", "--host"} & set(options) else ["--port", "0"]
    answer = regard("serve", *options, *port)
    assert (answer.code, answer.out) == (2, "")
    assert message.format(run=trained) in answer.err
    assert answer.err.count("\n") == 1
