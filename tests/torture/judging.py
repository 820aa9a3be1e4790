"""One command with hostile input: what it may do, and what counts as a failure."""

from __future__ import annotations

import hashlib
import os
import shlex
import stat
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

TRACEBACK = "Traceback (most recent call last)"
MEMORY_LIMIT = 2 << 30  # bytes
TIME_LIMIT = 10.0  # seconds
VICTIM = "victim"  # a file next to the input, which no command may touch
VICTIM_CONTENT = b"This file belongs to somebody else.\n"
INPUT, OUTPUT = "input", "output"  # the folders of a try
PERMITTED_CONTROLS = "\n\t"
BIDIRECTIONAL = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


@dataclass(frozen=True)
class Attempt:
    """A command to try, in a folder that holds its input.

    Args:
        kind: The kind of attack, for the table.
        arguments: The arguments of `regard`.
        stdin: Its standard input.
        codes: Exit codes that are documented for this command.
        may_change: Paths below the folder of the try that the command may write, besides the output folder.
        interrupt_after: Seconds until Ctrl-C, for commands that may rightly take long.
    """

    kind: str
    arguments: list[str]
    stdin: bytes = b""
    codes: tuple[int, ...] = (0, 2)
    may_change: tuple[str, ...] = ()
    interrupt_after: float | None = None

    @property
    def command(self) -> str:
        """The command as one types it; long texts are cut."""
        return shlex.join(["regard", *(f"{a[:80]}…" if len(a) > 80 else a for a in self.arguments)])


def find_fault(attempt: Attempt, code: object, output: str, errors: str) -> str:
    """What is wrong with the end of a command; empty if nothing is.

    Args:
        attempt: The command.
        code: Its exit code.
        output: Its standard output.
        errors: Its standard error.
    """
    if TRACEBACK in errors or TRACEBACK in output:
        return f"traceback: {describe_traceback(errors if TRACEBACK in errors else output)}"
    if code not in attempt.codes:
        return f"exit code {code!r}: {errors.strip()[-200:]!r}"
    if code == 2 and not any(is_explanation(line) for line in errors.splitlines()):
        return f"exit code 2 without a message: {errors[-200:]!r}"
    if forbidden := forbidden_characters(errors):
        return f"characters on standard error that change the terminal: {forbidden}"
    return ""


def is_explanation(line: str) -> bool:
    """True for a line that explains exit code 2: one of ours, or typer's."""
    return line.startswith(("regard: ", "Usage: ", "╭─ Error")) and not line.startswith("regard: note: ")


def forbidden_characters(text: str) -> str:
    """The control characters and bidirectional overrides in a text, as escapes."""
    found = {c for c in text if c in BIDIRECTIONAL or (unicodedata.category(c) == "Cc" and c not in PERMITTED_CONTROLS)}
    return " ".join(sorted(f"U+{ord(c):04X}" for c in found))


def describe_traceback(text: str) -> str:
    """The exception and the innermost line of a traceback."""
    lines = text[text.rindex(TRACEBACK) :].splitlines()
    places = [line.strip() for line in lines if line.startswith("  File ")]
    ours = [place for place in places if f"{os.sep}regard{os.sep}" in place]
    error = next((line for line in lines[1:] if line and not line.startswith(" ")), lines[-1])
    return f"{error[:200]} ({(ours or places or ['?'])[-1]})"


def snapshot(folder: Path, skip: Iterable[str] = ()) -> Mapping[str, str]:
    """A description of every file below a folder, by relative path: kind, permissions and content.

    Args:
        folder: The folder.
        skip: Relative paths that are left out, with all that is below them.
    """
    found: dict[str, str] = {}
    left = list(os.scandir(folder))
    skipped = {os.path.join(folder, path) for path in skip}
    while left:
        entry = left.pop()
        if entry.path in skipped:
            continue
        found[os.path.relpath(entry.path, folder)] = _describe(entry)
        if entry.is_dir(follow_symlinks=False):
            left += os.scandir(entry.path)
    return found


def _describe(entry: os.DirEntry[str]) -> str:
    mode = entry.stat(follow_symlinks=False).st_mode
    if stat.S_ISLNK(mode):
        return f"link to {os.readlink(entry.path)}"
    if stat.S_ISREG(mode) and entry.stat().st_size < 1 << 26:
        with open(entry.path, "rb") as file:
            return f"{mode:o} {hashlib.file_digest(file, 'sha256').hexdigest()}"
    return f"{mode:o} {entry.stat(follow_symlinks=False).st_size if stat.S_ISREG(mode) else ''}"


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """What has changed between two snapshots; empty if nothing has."""
    changed = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
    return ", ".join(
        f"{path} {'changed' if path in before and path in after else 'added' if path in after else 'removed'}"
        for path in changed[:5]
    )
