"""Signals: recorded once, and given back."""

from __future__ import annotations

import signal
from threading import Thread

import pytest

from regard.terminal.progress import InterruptHandler


def test_within_a_program_a_second_interrupt_has_its_usual_effect():
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    with InterruptHandler(ends_process=False) as interrupts:
        assert signal.getsignal(signal.SIGTERM) is before[signal.SIGTERM]
        signal.raise_signal(signal.SIGINT)
        assert interrupts.signal == signal.SIGINT
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert {number: signal.getsignal(number) for number in before} == before


def test_a_command_records_both_signals_and_a_second_one_ends_the_process():
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    with InterruptHandler() as interrupts:
        signal.raise_signal(signal.SIGTERM)
        assert interrupts.exit_code == 128 + signal.SIGTERM
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        assert signal.getsignal(signal.SIGINT) == interrupts._record
    assert {number: signal.getsignal(number) for number in before} == before


def test_in_another_thread_no_signal_is_handled():
    entered = []

    def run() -> None:
        with InterruptHandler() as interrupts:
            entered.append(interrupts)

    thread = Thread(target=run)
    thread.start()
    thread.join()
    assert [interrupts.signal for interrupts in entered] == [0]
