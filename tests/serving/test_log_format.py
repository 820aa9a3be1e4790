"""What clients send is escaped in the server's log."""

from __future__ import annotations

import logging

import pytest

from regard.serving.log_format import log_to_stderr

log = logging.getLogger(__name__)


def test_log_records_are_escaped_and_only_tracebacks_have_several_lines(capsys: pytest.CaptureFixture[str]):
    with log_to_stderr():
        try:
            raise ValueError("\x1b]0;title\x07 \u202eoverride")
        except ValueError:
            log.exception("%s %s", "GET", "/a\nregard: forged\x1b[2J")
        log.error("message of uvicorn\n")
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == r"regard: GET /a\nregard: forged\x1b[2J"
    assert lines[1] == "Traceback (most recent call last):"
    assert lines[-2] == r"ValueError: \x1b]0;title\x07 \u202eoverride"
    assert lines[-1] == "regard: message of uvicorn"


def test_the_handler_is_removed(capsys: pytest.CaptureFixture[str]):
    with log_to_stderr():
        pass
    log.error("later")
    assert "regard: later" not in capsys.readouterr().err
