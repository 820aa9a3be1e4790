"""The programs in `examples/`."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import Popen
from urllib.request import Request, urlopen

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"

RELOAD = """
import sys, regard
(translation,) = regard.load(sys.argv[1], trust_code=True).translate(["cafe"])
print(translation.text, repr(translation.score))
"""


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


@pytest.mark.slow
def test_own_parts_work_in_every_process(tmp_path: Path, start_regard: Callable[..., Popen[bytes]]):
    """A mechanism, a task and a metric of a script: trained, loaded to the same bits, in a study and on a server."""
    command = [sys.executable, str(EXAMPLES / "own_parts.py"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    first, *lines = done.stdout.splitlines()
    trained = re.fullmatch(r"cafe → (\w+), log-probability (-\S+)", first)
    assert trained, first
    table = [line.split() for line in lines]
    assert ["doubled", "letters"] in [row[:2] for row in table], "the metric of the task"
    assert ["own_parts.py:CosineAttention", "1"] in [row[:2] for row in table], "a run of the study"

    run = tmp_path / "runs" / "doubling"
    translate = [sys.executable, "-m", "regard", "translate", str(run), "cafe"]
    refused = subprocess.run(translate, capture_output=True, text=True, cwd=tmp_path)
    assert refused.returncode == 2
    assert "own_parts.py:DoublingTask' is code outside Regard; loading this run executes it" in refused.stderr
    answer = subprocess.run([sys.executable, "-c", RELOAD, str(run)], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == list(trained.groups()), "the same bits"

    server = start_regard("serve", run, "--trust-code", "--port", "0", stdout=subprocess.PIPE)
    assert server.stdout is not None
    url = server.stdout.readline().decode().split()[-3]
    body = json.dumps({"run": "doubling", "texts": ["cafe"]}).encode()
    with urlopen(Request(f"{url}api/translate", body, {"Content-Type": "application/json"}), timeout=60) as response:
        (served,) = json.load(response)["translations"]
    assert served["n_best"][0]["text"] == trained[1]
    with urlopen(f"{url}api/runs", timeout=60) as response:
        assert json.load(response)["runs"][0]["attention"] == "own_parts.py:CosineAttention", "without its folder"


TRACKIO = """
import json
from pathlib import Path

def write(*call):
    with Path("calls.jsonl").open("a") as file:
        file.write(json.dumps(call) + "\\n")

def init(project, name=None, config=None, resume="never"):
    write("init", project, name, resume, config["training"]["epochs"])

def log(metrics, step=None):
    write("log", step, metrics)

def finish():
    write("finish")
"""


@pytest.mark.slow
def test_another_logger_has_each_validation_once_also_after_an_interruption(tmp_path: Path):
    """A stand-in for trackio, whose functions are those of Weights & Biases, records the calls."""
    (tmp_path / "trackio.py").write_text(TRACKIO)
    example = str(EXAMPLES / "trackio_log.py")
    start = f"import runpy, sys; from regard.training.trainer import Trainer; sys.argv = [{example!r}, 'runs']\n"
    # The process dies between a validation and its checkpoint.
    crash = "save = Trainer.save\ndef die(trainer): exit(7) if trainer.progress.step == 30 else save(trainer)\n"
    codes = []
    for change in (crash + "Trainer.save = die\n", ""):
        program = start + change + "runpy.run_path(sys.argv[0], run_name='__main__')"
        env = os.environ | {"PYTHONPATH": str(tmp_path)}
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, env=env)
        codes.append(done.returncode)
    assert codes == [7, 0], done.stderr
    calls = [json.loads(line) for line in (tmp_path / "calls.jsonl").read_text().splitlines()]
    assert [call[0] for call in calls if call[0] != "log"] == ["init", "finish", "init", "finish"]
    assert {tuple(call[1:]) for call in calls if call[0] == "init"} == {("regard", "copy", "allow", 3)}
    rows = [json.loads(line) for line in (tmp_path / "runs" / "copy" / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [10, 20, 30, 40, 50, 54]
    assert [call[1:] for call in calls if call[0] == "log"] == [[row.pop("step"), row] for row in rows]


def test_every_example_has_a_test():
    text = Path(__file__).read_text(encoding="utf-8")
    assert [path.name for path in EXAMPLES.glob("*.py") if f'"{path.name}"' not in text] == []
