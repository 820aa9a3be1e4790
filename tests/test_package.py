"""What holds for the package as a whole: who imports whom, and what a quick command does not import."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import regard

SOURCE = Path(regard.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
# From top to bottom: a file imports from its own part and from rows above.
ROWS: list[set[str]] = [
    {"errors"},
    {"config.base"},
    {"seeding", "files", "config.yaml_source"},
    {"text"},
    {"corpora"},
    {"tasks"},
    {"config"},
    {"data"},
    {"nn"},
    {"nn.build"},
    {"runs"},
    {"search"},
    {"plotting"},
    {"reports"},
    {"inference"},
    {"evaluation"},
    {"training"},
    {"laboratory"},
    {"studies"},
    {"serving"},
    {"cli"},
]
ONLY = {
    "nn": {"errors"},
    "plotting": {"errors", "files", "text"},
    "reports": {"errors", "files", "text", "plotting"},
}


def name_of(path: Path) -> str:
    return str(path.relative_to(SOURCE))


def part_of(path: Path) -> str:
    return row_name(".".join(path.relative_to(SOURCE).with_suffix("").parts))


def row_name(module: str) -> str:
    """The part of Regard that a module belongs to: the first name of its path, or the first two if they are a row."""
    first, *rest = module.split(".")
    return f"{first}.{rest[0]}" if rest and {f"{first}.{rest[0]}"} & set().union(*ROWS) else first


def imported_modules(path: Path) -> set[str]:
    """All modules and names that a file imports, wherever the import stands."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}, line {node.lineno}: imports are written in full"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def imported_parts(path: Path) -> set[str]:
    """The parts of Regard that a file imports."""
    own = {
        row_name(module.removeprefix("regard.")) for module in imported_modules(path) if module.startswith("regard.")
    }
    return own - {"__version__"}


def test_every_part_has_its_row():
    parts = {part_of(path) for path in FILES} - {"__init__", "__main__"}
    assert parts == set().union(*ROWS)


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_a_file_imports_only_from_its_own_part_and_from_above(path: Path):
    part = part_of(path)
    if part in ("__init__", "__main__"):
        return  # these two show the whole to the outside
    row = next(number for number, parts in enumerate(ROWS) if part in parts)
    above = set().union(*ROWS[:row])
    assert imported_parts(path) <= {part} | (above & ONLY.get(part, above))


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_nothing_is_pickled(path: Path):
    assert not {module.split(".")[0] for module in imported_modules(path)} & {"pickle", "shelve", "joblib", "dill"}
    calls = {
        f"{ast.unparse(node.func.value)}.{node.func.attr}"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    }
    assert not calls & {"torch.load", "torch.save", "np.load", "numpy.load", "torch.jit.load"}
    assert not imported_modules(path) & {"torch.load", "torch.save", "torch.serialization"}


def modules_after(code: str) -> set[str]:
    """What stands in `sys.modules` after `code` has run in a fresh process."""
    script = f"import sys\ntry:\n    {code}\nexcept SystemExit:\n    pass\nprint('', *sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


@pytest.mark.parametrize("argument", ["--help", "--version", "recipes"])
def test_a_quick_command_imports_nothing_heavy(argument: str):
    loaded = modules_after(f"sys.argv = ['regard', '{argument}']; from regard.cli import main; main()")
    assert "regard.cli.app" in loaded
    assert not loaded & {"torch", "numpy", "matplotlib", "sacrebleu", "safetensors", "scipy"}


def test_the_package_is_light_and_its_names_come_when_called():
    assert "torch" not in modules_after("import regard; regard.__version__")
    assert {"torch", "regard.nn", "regard.inference.translator"} <= modules_after(
        "import regard; regard.nn.Attention, regard.load"
    )


def test_search_loads_no_tasks_or_corpora():
    loaded = modules_after("import regard.search")
    assert {"regard.search.beam", "regard.data.batches"} <= loaded
    assert not {name for name in loaded if name.startswith(("regard.tasks", "regard.corpora"))}


# Laboratory modules that measure, without drawing or writing a page.
MEASUREMENTS = (
    "matrix_parsing",
    "tensor_trace",
    "gradients",
    "probe_tasks",
    "faithfulness",
    "alignment",
    "head_experiments",
)


@pytest.mark.parametrize("module", MEASUREMENTS)
def test_a_measurement_module_imports_no_plotting_library(module: str):
    loaded = modules_after(f"import regard.laboratory.{module}")
    assert f"regard.laboratory.{module}" in loaded
    assert not {name for name in loaded if name.split(".")[0] == "matplotlib" or name.startswith("regard.plotting")}


def test_every_public_name_is_there():
    for name in regard.__all__:
        assert getattr(regard, name) is not None
    for name in regard.nn.__all__:
        assert getattr(regard.nn, name) is not None


def test_nn_shows_every_public_class_of_its_tables():
    tables = (regard.nn.MECHANISMS, regard.nn.CELLS, regard.nn.POSITIONS, regard.nn.WIRINGS, regard.nn.STARTS)
    for table in (*tables, regard.nn.READOUTS):
        assert {kind.__name__ for kind in table.values()} <= set(regard.nn.__all__)


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'regard' has no attribute 'lode'"):
        _ = regard.lode
