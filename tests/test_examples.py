"""The programs in `examples/`."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.mark.slow
def test_a_model_from_scratch_learns_and_draws_its_attention(tmp_path: Path):
    picture = tmp_path / "map.png"
    command = [sys.executable, str(EXAMPLES / "from_scratch.py"), str(picture)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    accuracy = re.search(r"^accuracy on 500 new sequences: ([\d.]+)%$", done.stdout, re.MULTILINE)
    assert accuracy, done.stdout
    assert float(accuracy[1]) > 95
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_every_example_has_a_test():
    text = Path(__file__).read_text(encoding="utf-8")
    assert [path.name for path in EXAMPLES.glob("*.py") if f'"{path.name}"' not in text] == []
