"""Windows and macOS, simulated on this system: what they lack, file names, paths, line ends and encodings."""

from __future__ import annotations

import ast
import json
import ntpath
import os
import re
import socket
import subprocess
import sys
from functools import cache
from pathlib import Path, PureWindowsPath
from types import SimpleNamespace
from typing import Any

import pytest
from matplotlib.figure import Figure

import regard
from regard.config import loading, recipes, references
from regard.config.draft import ExperimentDraft, Override
from regard.reports.report_page import Picture
from regard.studies import built_in, parsing, report
from regard.tasks import TASKS

SOURCE = Path(regard.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
SIMULATION = Path(__file__).parent / "simulation"
UNIX_ONLY = {"fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty"}
FORKING = {"multiprocessing", "concurrent.futures.ProcessPoolExecutor", "os.fork", "torch.multiprocessing"}
needs_proc = pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="the simulation reads /proc")


def name_of(path: Path) -> str:
    return str(path.relative_to(SOURCE))


@cache
def syntax_nodes(path: Path) -> tuple[ast.AST, ...]:
    """The imports and calls of a file."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return tuple(node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom | ast.Call))


def imported(path: Path) -> set[str]:
    """All modules and names that a file imports."""
    found = set()
    for node in syntax_nodes(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


# --- The commands ------------------------------------------------------------------------------------------------


def run_simulated(system: str, *commands: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    """Run commands in one process on a simulated system. What they print is in their encoding."""
    paths = [SIMULATION / system, SIMULATION, SOURCE.parent]
    variables = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, paths))} | environment
    command = [sys.executable, str(SIMULATION / "commands.py"), json.dumps(commands)]
    encoding = environment.get("PYTHONIOENCODING", "utf-8")
    done = subprocess.run(command, capture_output=True, encoding=encoding, env=variables)
    assert done.returncode == 0, done.stderr
    return done


def free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return str(server.getsockname()[1])


@needs_proc
@pytest.mark.slow
def test_commands_run_on_a_simulated_windows(tiny_file: Path, brief_settings: tuple[str, ...], tmp_path: Path):
    """A training is stopped and continued; studies and files have processes of their own. Text files have LF."""
    settings = [part for setting in brief_settings for part in ("--set", setting)]
    run = str(tmp_path / "run")
    (tmp_path / "in.txt").write_text("abc\n" * 3, encoding="utf-8", newline="\n")
    train = ["train", str(tiny_file), *settings, "--out", run]
    study = ["compare", str(tiny_file), *settings, "--vary", "model.attention.kind=dot", "--seeds", "1"]
    done = run_simulated(
        "windows",
        train,
        train,
        ["translate", run, "abc"],
        ["translate", run, "--input", str(tmp_path / "in.txt"), "--output", str(tmp_path / "out.txt")],
        ["evaluate", run],
        ["show", run, "abc", "--out", str(tmp_path / "map.svg")],
        ["serve", run, "--port", free_port()],
        [*study, "--out", str(tmp_path / "study")],
        PYTHONIOENCODING="cp1252",
    )
    assert f"{run}: done (all epochs done), 12 steps" in done.stdout
    assert "continuing after step 5" in done.stderr
    assert "served: 1 translation" in done.stdout
    assert re.search(r"^dot +1 +\d+\.\d +– ", done.stdout, re.M)
    assert not (tmp_path / "out.txt.parts").exists()
    names = {"out.txt", "config.yaml", "metrics.jsonl", "map.svg", "study.yaml", "report.md", "runs.csv", "index.html"}
    texts = [path for path in tmp_path.rglob("*") if path.is_file() and path.suffix not in (".png", ".safetensors")]
    assert names <= {path.name for path in texts}
    assert [path for path in tmp_path.iterdir() if path.name.startswith(".")] == []  # scratch folders
    assert [path for path in texts if b"\r" in path.read_bytes()] == []


@pytest.mark.slow
def test_commands_run_on_a_simulated_macos(trained: Path, tmp_path: Path):
    """Without Linux's own functions; and no text file is opened without an encoding."""
    (tmp_path / "pairs.tsv").write_text("ä\tb\n", encoding="utf-8")
    done = run_simulated(
        "macos",
        ["translate", str(trained), "abc"],
        ["evaluate", str(trained), "--json"],
        ["data", "check", "--source", str(tmp_path / "pairs.tsv"), "--json"],
        ["recipes"],
        PYTHONWARNDEFAULTENCODING="1",
    )
    assert done.stdout.startswith("abc\n{")


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_a_console_of_another_encoding_gets_escapes(encoding: str):
    """Characters that it does not have are printed as escapes, on standard output and in errors."""
    code = (
        "import sys; from regard.cli import main; from regard.terminal import tables\n"
        "sys.argv[1:] = ['--version']\n"
        "try: main()\n"
        "except SystemExit: tables.print_table(['長'], [['→ é']])\n"
        "sys.argv[1:] = ['study', '長い']; main()"
    )
    variables = os.environ | {"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=variables)
    assert done.returncode == 2
    assert rb"\u9577" in done.stdout
    assert rb"\u2192 " in done.stdout
    assert done.stdout.rstrip().endswith({"ascii": rb"\xe9", "cp1252": "é".encode("cp1252")}[encoding])
    assert rb"regard: there is no study '\u9577\u3044'" in done.stderr


# --- The source --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_no_module_is_for_unix_only_or_relies_on_fork(path: Path):
    assert not {module.split(".")[0] for module in imported(path)} & UNIX_ONLY
    assert not imported(path) & FORKING
    used = set(re.findall(r"\bos\.(?:fork|pread|getuid|name)\b|\bsys\.platform\b", path.read_text(encoding="utf-8")))
    # Both branches are tested, in tests/test_files.py and tests/data/test_on_disk.py.
    assert used == {"files.py": {"os.name"}, "data/on_disk.py": {"os.pread"}}.get(name_of(path), set())


def opened_as(call: ast.Call) -> str | None:
    """The mode of a call that opens a file, "?" if it is computed; None for other calls."""
    name = ast.unparse(call.func)
    constants = [node.value for node in call.args if isinstance(node, ast.Constant)]
    mode = next((value for value in constants if isinstance(value, str) and re.fullmatch(r"[rwaxbt+]+", value)), None)
    if name in ("open", "io.open", "os.fdopen"):
        return mode or ("?" if len(call.args) > 1 else "r")
    if name.endswith((".read_text", ".write_text")):
        return "w" if name.endswith(".write_text") else "r"
    return mode if name.endswith(".open") and not name.startswith(("gzip.", "tarfile.")) else None


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_text_files_have_an_encoding_and_written_ones_a_line_end(path: Path):
    for call in syntax_nodes(path):
        mode = opened_as(call) if isinstance(call, ast.Call) else None
        if mode is not None and "b" not in mode:
            keywords = {keyword.arg for keyword in call.keywords}
            assert "encoding" in keywords, f"line {call.lineno}"
            assert "newline" in keywords or not set("wax") & set(mode), f"line {call.lineno}"


# --- Names and paths ---------------------------------------------------------------------------------------------

RESERVED = {"con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(10))}


def assert_valid_everywhere(names: list[str]) -> None:
    """No name is another one in other letters, is reserved on Windows, or has a character that a system refuses."""
    assert len({name.casefold() for name in names}) == len(names)
    for name in names:
        assert re.fullmatch(r"[\w.-]*[\w-]", name, re.ASCII), name
        assert name.split(".")[0].casefold() not in RESERVED


def test_names_of_recipes_studies_and_runs_are_valid_everywhere():
    assert_valid_everywhere(recipes.recipe_names())
    assert_valid_everywhere(built_in.study_names())
    assert_valid_everywhere(list(TASKS))
    study = parsing.build_study("s", parsing.parse_study(built_in.read_study("mechanisms"), "s"))
    assert_valid_everywhere([condition.run_name(seed) for condition in study.conditions for seed in study.seeds])
    specs = {condition.evaluation.file_name for condition in study.conditions}
    assert_valid_everywhere(sorted(specs))


def test_pictures_with_equal_names_but_for_case_are_different_files(tmp_path: Path):
    alts = ["Loss", "loss", "LOSS", "con", "aux.", "C:\\x", "nul: <a>?*|", "loss "]
    report.write_pictures([Picture(Figure(), alt) for alt in alts], tmp_path)
    names = [path.name for path in tmp_path.iterdir()]
    assert len(names) == len(alts)
    assert_valid_everywhere(names)


WINDOWS_PATHS = {
    r"C:\runs\a": r"C:\runs\a",
    "C:/runs/a": r"C:\runs\a",
    r"corpus\train": r"D:\mine\corpus\train",
    "corpus/train": r"D:\mine\corpus\train",
    r"..\train": r"D:\train",
    r"\\server\share\train": r"\\server\share\train",
    r"~\train": r"U:\me\train",
}


@pytest.fixture
def windows_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    """`os.path` of Windows, in the modules that make paths absolute."""
    monkeypatch.setenv("USERPROFILE", r"U:\me")
    monkeypatch.setattr(references, "os", SimpleNamespace(path=ntpath))


def resolved_train(draft: ExperimentDraft) -> str:
    data = draft.nested()["data"]
    loading._resolve_data_paths(draft, data)
    return str(data["train"])


@pytest.mark.usefixtures("windows_paths")
@pytest.mark.parametrize(("written", "expected"), WINDOWS_PATHS.items())
def test_windows_paths_in_yaml_and_options_are_made_absolute(written: str, expected: str):
    folder: Any = PureWindowsPath(r"D:\mine")
    draft = ExperimentDraft("mine.yaml")
    draft.set(Override(("data", "task"), "files", "mine.yaml, line 1", folder))
    (leaf,) = loading.yaml_source.parse_leaves(f"data: {{train: {written}}}", "mine.yaml", "")
    assert leaf.value == written, "YAML leaves a plain path as it is"
    draft.set(Override(leaf.path, leaf.value, leaf.origin, folder))
    assert resolved_train(draft) == expected
    option = Override.parse(f"data.train={written}")
    draft.set(Override(option.path, option.value, option.origin, folder))
    assert resolved_train(draft) == expected
    assert references.absolute_paths(written, folder) == expected
    (axis,) = parsing.from_options(vary=[f"data.train={written},{written}"])
    assert axis.value == [written] * 2


def test_windows_paths_survive_dumping_and_parsing():
    text = "data: {task: files, train: 'C:\\runs\\a', validation: '\\\\server\\share\\new: b #c'}"
    experiment = loading.parse_experiment(text, "mine.yaml")
    assert experiment.data.model_dump()["train"].endswith(r"C:\runs\a")
    assert loading.parse_experiment(loading.dump_experiment(experiment), "a copy") == experiment
