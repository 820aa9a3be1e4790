"""Signals that let the current step finish."""

from __future__ import annotations

import signal
from contextlib import nullcontext
from threading import Thread

import pytest

from regard.terminal import progress
from regard.terminal.progress import SIGNALS, InterruptHandler, ProgressMeter, time_left


def handlers() -> list[object]:
    return [signal.getsignal(number) for number in SIGNALS]


def test_a_signal_is_recorded_and_handlers_are_restored(capfd: pytest.CaptureFixture[str]):
    before = handlers()
    with InterruptHandler() as interrupts:
        assert not set(handlers()) & set(before)
        signal.raise_signal(signal.SIGTERM)
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL, "a second one ends the process"
    assert (interrupts.signal, interrupts.exit_code) == (signal.SIGTERM, 128 + signal.SIGTERM)
    assert handlers() == before
    assert "stopping after the current step" in capfd.readouterr().err


def test_in_the_process_of_another_program_a_second_interrupt_raises_an_exception(capfd: pytest.CaptureFixture[str]):
    before = handlers()
    with InterruptHandler(owns_process=False, quiet=True) as interrupts:
        assert signal.getsignal(signal.SIGTERM) is before[SIGNALS.index(signal.SIGTERM)]
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert interrupts.signal == signal.SIGINT
    assert handlers() == before
    assert capfd.readouterr() == ("", "")


def test_a_second_signal_of_another_kind_ends_the_process():
    with InterruptHandler(quiet=True):
        signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


@pytest.mark.parametrize("waits", [False, True])
def test_signals_that_a_launcher_passes_on_are_one_for_a_second(
    waits: bool, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    clock = [71.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    with InterruptHandler(owns_process=False, quiet=True, launched=True) as interrupts:
        interrupts.waits_for_step = waits
        with nullcontext() if waits else pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        clock[0] += 0.9
        signal.raise_signal(signal.SIGINT)
        clock[0] += 0.2
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert interrupts.signal == signal.SIGINT
    assert capfd.readouterr() == ("", "")


def test_the_time_left_is_unknown_until_something_is_done(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    assert time_left(150, 2.0) == "  1:15 left"
    monkeypatch.setattr("regard.terminal.progress.LOG_INTERVAL", 0.0)
    with ProgressMeter(150) as meter:
        meter.advance(0)
    assert capsys.readouterr().err == "0/150 sentences  0.0 sentences/s\n"


def test_another_thread_leaves_the_handlers_alone():
    before, seen = handlers(), []

    def enter() -> None:
        with InterruptHandler():
            seen.append(handlers())

    thread = Thread(target=enter)
    thread.start()
    thread.join()
    assert seen == [before]
    assert handlers() == before
