"""Names, commands, options and examples of the documentation exist and work."""

import os
import re
import shutil
import subprocess
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from regard.cli.app import RegardCommands
from regard.config import kinds, loading, recipes
from regard.runs import Run
from regard.search import SearchBatch
from regard.studies import built_in, parsing

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def resolve(name: str) -> Any:
    """The object of a dotted name: the longest module, then attributes."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found: Any = import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            annotations = getattr(found, "__annotations__", {})
            found = annotations[part] if part in annotations else getattr(found, part)
        return found
    raise ModuleNotFoundError(name)


def names_in(page: Path) -> list[str]:
    return re.findall(r"`(regard(?:\.\w+)+)`", page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_name_in_the_docs_resolves(page: Path) -> None:
    for name in names_in(page):
        assert resolve(name) is not None


def test_a_name_that_does_not_exist_does_not_resolve() -> None:
    with pytest.raises(AttributeError):
        resolve("regard.nn.NoSuchAttention")


def test_every_part_of_the_tables_has_its_equation() -> None:
    known = {resolve(name) for name in names_in(ROOT / "docs" / "equations.md") if name.startswith("regard.nn.")}
    parts = {**kinds.MECHANISMS, **kinds.CELLS, **kinds.WIRINGS, **kinds.READOUTS}
    parts |= {f"positions {kind}": part for kind, part in kinds.POSITIONS.items() if kind != "none"}
    parts |= {f"start {kind}": part for kind, part in kinds.STARTS.items() if kind != "zeros"}
    assert [kind for kind, part in parts.items() if part not in known] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_resolve(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_ci_runs_make_test_on_three_systems() -> None:
    text = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    workflow = yaml.safe_load(text)
    assert workflow["permissions"] == {"contents": "read"}
    assert workflow["concurrency"]["cancel-in-progress"] is True
    assert "secrets." not in text
    (job,) = workflow["jobs"].values()
    assert job["strategy"]["matrix"] == {
        "os": ["ubuntu-latest", "macos-latest", "windows-latest"],
        "python": ["3.11", "3.x"],
    }
    assert job["runs-on"] == "${{ matrix.os }}"
    assert job["defaults"]["run"]["shell"] == "bash"
    assert [step["run"].split()[:2] for step in job["steps"] if "run" in step] == [["make", "test"]]
    used = [step["uses"] for step in job["steps"] if "uses" in step]
    assert all(re.fullmatch(r"actions/[\w-]+@v\d+", action) for action in used)
    assert job["steps"][1]["with"]["cache"] == "pip"


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_uses_the_folders_of_windows() -> None:
    for system, python, folder in (("Windows_NT", "python", "Scripts"), ("", "python3", "bin")):
        command = ["make", "--dry-run", "--always-make", "test", f"OS={system}"]
        variables = {name: value for name, value in os.environ.items() if name not in ("PYTHON", "MAKEFLAGS")}
        done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=True)
        assert f"\n{python} -m venv .venv\n.venv/{folder}/python -m pip install" in done.stdout
        assert f"\n.venv/{folder}/python -m pytest" in done.stdout


def commands() -> dict[str, Any]:
    """By name, such as `train` or `data get`."""
    found: dict[str, Any] = {}
    group = RegardCommands()
    for name in group.lazy_commands:
        command = group.load_command(name)
        inner = getattr(command, "commands", None)
        found |= {f"{name} {own}": each for own, each in inner.items()} if inner else {name: command}
        found |= {name: command} if getattr(command, "invoke_without_command", False) else {}
    return found


def commands_shown(page: str) -> set[str]:
    """The commands that a page shows; every line of it that runs `regard` must name one."""
    lines = re.findall(r"^ +(?:\.venv/bin/)?regard (\w.*)", (ROOT / page).read_text(encoding="utf-8"), re.M)
    assert all(any(f"{line} ".startswith(f"{name} ") for name in commands()) for line in lines)
    return {name for name in commands() for line in lines if f"{line} ".startswith(f"{name} ")}


def test_the_commands_of_the_readme_exist_and_the_commands_page_has_all() -> None:
    assert len(commands_shown("README.md")) >= 8
    assert commands_shown("docs/commands.md") == set(commands())


def test_links_of_the_readme_are_absolute_in_the_package_metadata() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    hook = settings["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert re.search(r"\]\((?!https?:)", text), "the checkout's README has relative links"
    for substitution in hook["substitutions"]:
        text = re.sub(substitution["pattern"], substitution["replacement"], text)
    targets = re.findall(r"\]\(([^)]+)\)", text)
    assert all(target.startswith("https://") for target in targets)
    base = settings["project"]["urls"]["Source"].removeprefix("https://github.com")
    assert all(base in target for target in targets)


@pytest.mark.parametrize("page", ["docs/commands.md", "docs/text.md", "docs/training.md"])
def test_the_experiments_in_the_docs_are_valid(page: str, tmp_path: Path) -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.S)
    assert blocks
    for number, block in enumerate(blocks):
        path = tmp_path / f"{number}.yaml"
        path.write_text(block, encoding="utf-8")
        loading.load_experiment(str(path))
        assert isinstance(yaml.safe_load(block), dict)


def test_the_study_in_the_docs_can_be_built() -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / "studies.md").read_text(encoding="utf-8"), re.S)
    assert blocks
    for block in blocks:
        study = parsing.build_study("docs", parsing.parse_study(block, "docs/studies.md"))
        assert len(study.conditions) > 1


def test_every_built_in_study_has_its_answer_and_its_picture() -> None:
    text = (ROOT / "docs" / "studies.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## `([\w-]+)`\n(.*?)(?=^## |\Z)", text, re.S | re.M))
    assert sorted(sections) == built_in.study_names()
    for name, section in sections.items():
        assert built_in.study_question(name) in " ".join(section.split()), name
        assert f"](studies/{name}.png)" in section, f"{name} has no picture"


def test_the_modules_in_the_readme_work_on_their_own() -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.S)
    (block,) = [block for block in blocks if "from regard.nn import" in block]
    names = {
        "states": torch.randn(3, 5, 512),
        "valid": torch.ones(3, 5, dtype=torch.bool),
        "query": torch.randn(3, 7, 256),
    }
    exec(block, names)
    assert names["context"].shape == (3, 7, 512)
    assert names["weights"].shape == (3, 7, 5)


@pytest.mark.slow
def test_the_code_on_the_python_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All blocks, one after the other, as in a notebook."""
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "python.md").read_text(encoding="utf-8"), re.S)
    names: dict[str, Any] = {"__name__": "docs"}
    for block in blocks:
        exec(block, names)
    assert {"copy", "abc", "good"} <= set(os.listdir("runs"))
    progress = Run(Path("runs/good")).progress
    assert not progress.finished
    assert progress.step < 990, "the callback stopped it"


def test_every_recipe_is_on_the_commands_page() -> None:
    text = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    assert [name for name in recipes.recipe_names() if f"`{name}`" not in text] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_option_in_the_docs_exists(page: Path) -> None:
    options = {"--help", "--version", "--quiet", "--verbose", "--install-completion", "--show-completion"}
    options |= {option for command in commands().values() for parameter in command.params for option in parameter.opts}
    # These have options of their own.
    text = page.read_text(encoding="utf-8").replace("\\\n", "")
    text = re.sub(r"((python|pytest|make|dask|torchrun|tensorboard) |worker_extra_args).*", "", text)
    assert set(re.findall(r"(?<![\w-])--[a-z][\w-]*", text)) <= options


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_test_in_the_docs_exists(page: Path) -> None:
    for path in re.findall(r"`(tests/[\w/]*(?:\.py)?)`", page.read_text(encoding="utf-8")):
        assert (ROOT / path).exists()


def test_the_worked_example_of_the_stopping_rule_is_correct() -> None:
    text = (ROOT / "docs" / "search.md").read_text(encoding="utf-8")
    one = torch.ones(1, 1, dtype=torch.long)
    batch = SearchBatch(one, one > 0, one[0], one[0], length_penalty=1.0)
    ranks = batch.rank(torch.tensor([-1.0, -1.2, -1.2]), torch.tensor([2, 2, 8])).tolist()
    assert ranks[1] < ranks[0] < ranks[2], "lower now, and higher at the end"
    for rank in ranks:
        assert f"= {rank:.3f}" in text
