"""The attacks notice what they look for; `make torture` runs them all.

This module is also an attack of its own: `build` and `main` are a command that misbehaves on request.
"""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
import yaml

from torture import archives, experiments, hostile, judging, pool, run, special_files
from torture.judging import INPUT, OUTPUT, VICTIM, Attempt
from torture.outcomes import Campaign, Tally

FAULTS = ("none", "traceback", "hang", "victim", "code", "silence", "escape", "death", "reading")
NOTICED = {
    "traceback": "traceback: ZeroDivisionError",
    "hang": "no end within 2 s",
    "victim": "files were changed that the command must not change: victim changed",
    "code": "exit code 3",
    "silence": "exit code 2 without a message",
    "escape": "characters on standard error that change the terminal: U+001B U+202E",
    "death": "the process ended with code",
    "reading": "files were changed that the command must not change: input/new added",
}


def build(number: int, random: Random, folder: Path, given: Path | None) -> Attempt:
    """A command with the fault of this number."""
    return Attempt(FAULTS[number], [FAULTS[number]])


def main() -> None:
    """The command."""
    match sys.argv[1]:
        case "traceback":
            print(1 / 0)
        case "hang":
            time.sleep(60)
        case "victim":
            Path("..", VICTIM).write_text("changed\n")
        case "code":
            sys.exit(3)
        case "silence":
            sys.exit(2)
        case "escape":
            print("regard: \x1b[31m\u202e", file=sys.stderr)
        case "death":
            os._exit(9)
        case "reading":
            Path("..", INPUT, "new").touch()


@pytest.fixture
def campaign(tmp_path: Path) -> Campaign:
    (tmp_path / "scratch").mkdir()
    return Campaign(tmp_path / "scratch", seed=1, scale=1.0, progress=lambda line: None)


@pytest.mark.slow
def test_every_fault_of_a_command_is_noticed(campaign: Campaign):
    tallies = pool.run_tries(campaign, "torture.test_torture", range(len(FAULTS)), limit=2.0, workers=1)
    found = {tally.name: tally.failures for tally in tallies}
    assert found.pop("none") == []
    assert found.keys() == NOTICED.keys()
    for name, (failure,) in found.items():
        assert failure.startswith(NOTICED[name]), failure
        number = FAULTS.index(name)
        assert f"| regard {name} | --only test-torture --seed 1 --try {number} |" in failure
        assert (campaign.folder / "failed" / str(number) / INPUT).is_dir()


@pytest.mark.slow
def test_the_cheapest_attacks_run(campaign: Campaign):
    tallies = pool.run_tries(campaign, "torture.archives", range(36), workers=1)
    assert sum(tally.tries for tally in tallies) == 36
    assert not [failure for tally in tallies for failure in tally.failures]


def test_a_tally_counts_and_keeps_extremes():
    tally = Tally("attack")
    tally.record(seconds=2.0)
    tally.record("broken", seconds=5.0, megabytes=7)
    tally.record(seconds=3.0)
    assert (tally.tries, tally.failures, tally.worst) == (3, ["broken"], {"seconds": 5.0, "megabytes": 7})
    assert Campaign(Path(), 1, 0.1, print).tries(25) == 2
    assert Campaign(Path(), 1, 0.001, print).tries(25) == 1


def test_inputs_depend_on_seed_and_number_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("REGARD_DATA", "")

    def made(number: int, seed: int, name: str) -> tuple[Attempt, object]:
        folder = tmp_path / name
        for inner in (INPUT, OUTPUT):
            (folder / inner).mkdir(parents=True)
        (folder / VICTIM).touch()
        monkeypatch.chdir(folder / OUTPUT)
        attempt = archives.build(number, Random(f"{seed} {number}"), Path(".."), None)
        return attempt, judging.snapshot(folder)

    first = [made(number, 1, f"first {number}") for number in range(30)]
    assert first == [made(number, 1, f"second {number}") for number in range(30)]
    assert first != [made(number, 2, f"third {number}") for number in range(30)]


def test_each_hostile_value_comes_to_each_place():
    tree = {"a": [1, {"b": 2}], "c": None}
    values = ("null", "-1", "[")
    texts = {hostile.mutate_values(tree, number, values, hostile.dump_json) for number in range(18)}
    assert texts >= {
        '{"a": [1, {"b": [}], "c": null}',
        '{"a": null, "c": null}',
        "-1",
        '{"a": [-1, {"b": 2}], "c": null}',
    }
    assert len(texts) == 18  # 6 places × 3 values


@pytest.mark.parametrize("mutate", [hostile.mutate_bytes, hostile.recode])
def test_mutated_bytes_differ_mostly(mutate):
    content = b"eins zwei\ndrei\n" * 9
    changed = [mutate(content, Random(number)) for number in range(50)]
    assert sum(each != content for each in changed) > 40
    assert changed == [mutate(content, Random(number)) for number in range(50)]


def test_mutated_documents_are_often_still_documents():
    tree = {"data": {"task": "copy", "train": 5}, "model": {"size": 3}}
    parsed = 0
    for number in range(100):
        with suppress(yaml.YAMLError):
            parsed += yaml.safe_load(hostile.mutate_keys(tree, Random(number), hostile.dump_yaml)) is not None
    assert parsed > 50
    json.loads(hostile.mutate_values(tree, 1, ["1e999"], hostile.dump_json))
    assert sum(hostile.mutate_lines("a\nb\n", Random(number)) != "a\nb\n" for number in range(50)) > 30


@pytest.mark.parametrize("kind", special_files.KINDS)
def test_special_files_are_made(kind: str, tmp_path: Path):
    path, victim = tmp_path / "input" / "file", tmp_path / VICTIM
    path.parent.mkdir()
    path.write_text("before")
    victim.write_bytes(judging.VICTIM_CONTENT)
    special_files.make(kind, path, victim)
    assert os.path.lexists(path) == (kind != "missing")
    assert judging.snapshot(path.parent) != {"file": "before"}
    if kind == "link to the victim":
        assert path.read_bytes() == judging.VICTIM_CONTENT


def test_a_snapshot_notices_every_change(tmp_path: Path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_text("a")
    (tmp_path / "other").write_text("b")
    before = judging.snapshot(tmp_path)
    assert judging.differences(before, judging.snapshot(tmp_path)) == ""
    (tmp_path / "folder" / "file").write_text("c")
    (tmp_path / "other").unlink()
    (tmp_path / "new").mkdir()
    after = judging.snapshot(tmp_path)
    changes = f"{Path('folder', 'file')} changed, new added, other removed"
    assert judging.differences(before, after) == changes
    assert "folder" not in judging.snapshot(tmp_path, ["folder"])


def test_messages_are_told_from_tracebacks():
    attempt = Attempt("kind", ["train"])
    assert judging.find_fault(attempt, 2, "", "regard: x.yaml: no\n") == ""
    assert judging.find_fault(attempt, 2, "", "Usage: regard train\n") == ""
    assert judging.find_fault(attempt, 2, "", "regard: note: x\n").startswith("exit code 2 without")
    assert judging.find_fault(attempt, 1, "", "").startswith("exit code 1")
    assert judging.find_fault(Attempt("kind", [], codes=(0, 1)), 1, "", "") == ""


def test_attacks_are_chosen_by_name(capsys: pytest.CaptureFixture[str]):
    assert run.available("run-dir") == ["run-directories"]
    assert "experiments" in run.available("")
    assert experiments.__name__ == run.module_name("experiments")
    run.print_table([Tally("one", 3, ["x | y"], {"seconds": 2.5})], {"one": 4.0})
    run.print_failures([Tally("one", 3, ["cause | how", "cause | again"])])
    shown = capsys.readouterr().out
    assert [line.split() for line in shown.splitlines()[1:3]] == [
        ["one", "3", "2", "1", "seconds", "2.5"],
        ["all", "3", "2", "1", "4", "s"],
    ]
    assert "FAILED one: cause (2)\n    how\n    again\n" in shown
