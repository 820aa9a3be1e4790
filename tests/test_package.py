"""The package as a whole: import order, light commands, names, documentation and devices."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from enum import Enum
from functools import cache
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import regard
from regard.config import kinds

SOURCE = Path(regard.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
# From top to bottom: a file imports from its own part and from rows above.
ROWS: list[set[str]] = [
    {"errors"},
    {"terminal"},
    {"config.references"},
    {"config.plugins"},
    {"config.base"},
    {"config.families"},
    {"config.kinds"},
    {"seeding", "files", "torch_state", "devices"},
    {"process_group", "workers"},
    {"config.yaml_source"},
    {"images"},
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
    {"testing"},
    {"cli"},
]
ONLY = {
    "nn": {"errors", "devices", "config.base", "config.families", "config.kinds"},
    "search": {"errors", "devices", "text", "data", "nn"},
    "plotting": {"errors", "files", "text"},
    "reports": {"errors", "terminal", "files", "images", "text", "plotting"},
}


def name_of(path: Path) -> str:
    return str(path.relative_to(SOURCE))


def part_of(path: Path) -> str:
    return row_name(".".join(path.relative_to(SOURCE).with_suffix("").parts))


def row_name(module: str) -> str:
    """The part of Regard that a module belongs to: the first name of its path, or the first two if they are a row."""
    first, *rest = module.split(".")
    return f"{first}.{rest[0]}" if rest and {f"{first}.{rest[0]}"} & set().union(*ROWS) else first


@cache
def syntax_tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imported_modules(path: Path) -> set[str]:
    """All modules and names that a file imports, at any level."""
    found = set()
    for node in ast.walk(syntax_tree(path)):
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
        return  # these two export the public API
    row = next(number for number, parts in enumerate(ROWS) if part in parts)
    above = set().union(*ROWS[:row])
    assert imported_parts(path) <= {part} | (above & ONLY.get(part, above))


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_nothing_is_pickled(path: Path):
    assert not {module.split(".")[0] for module in imported_modules(path)} & {"pickle", "shelve", "joblib", "dill"}
    calls = {
        f"{ast.unparse(node.func.value)}.{node.func.attr}"
        for node in ast.walk(syntax_tree(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    }
    assert not calls & {"torch.load", "torch.save", "np.load", "numpy.load", "torch.jit.load"}
    assert not imported_modules(path) & {"torch.load", "torch.save", "torch.serialization"}


def modules_after_each(*steps: str) -> list[set[str]]:
    """The names in `sys.modules` after each step of code, all in one new process."""
    show = "print('', *sys.modules, file=sys.stderr)"
    script = "import sys\n" + "".join(f"try:\n    {step}\nexcept SystemExit:\n    pass\n{show}\n" for step in steps)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return [set(line.split()) for line in done.stderr.splitlines()]


def modules_after(code: str) -> set[str]:
    """The names in `sys.modules` after `code` has run in a new process."""
    return modules_after_each(code)[0]


@pytest.mark.parametrize("argument", ["--help", "--version", "recipes"])
def test_a_quick_command_imports_no_heavy_module(argument: str):
    loaded = modules_after(f"sys.argv = ['regard', '{argument}']; from regard.cli import main; main()")
    assert "regard.cli.app" in loaded
    assert not loaded & {"torch", "numpy", "matplotlib", "sacrebleu", "safetensors", "scipy"}


def test_help_imports_no_command():
    loaded = modules_after("sys.argv = ['regard', '--help']; from regard.cli import main; main()")
    own = {"regard", "regard.cli", "regard.cli.app", "regard.cli.help", "regard.cli.lazy_group", "regard.errors"}
    own |= {"regard.terminal", "regard.terminal.output"}
    assert {name for name in loaded if name.split(".")[0] == "regard"} == own
    assert not loaded & {"pydantic", "pydantic_core", "yaml", "jinja2", "filelock", "platformdirs", "starlette"}


def test_search_options_and_the_json_schema_need_no_torch():
    loaded = modules_after("import regard.search.options, regard.inference.schema; regard.Search")
    assert "regard.search.options" in loaded
    assert not loaded & {"torch", "numpy"}


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


def test_a_package_imports_only_what_it_needs():
    """One process, which imports one package after the other."""
    measuring = [f"regard.laboratory.{name}" for name in MEASUREMENTS]
    top, nn, search, inference, measurements = modules_after_each(
        "import regard; regard.__version__",
        "regard.nn.Attention",
        "import regard.search.tree, regard.search.sampling",
        "regard.load",
        f"import {', '.join(measuring)}",
    )
    assert "torch" not in top, "the package is lazy"
    assert {"torch", "regard.nn"} <= nn
    config = ("base", "families", "kinds", "plugins", "references")
    allowed = {
        "regard",
        "regard.errors",
        "regard.devices",
        "regard.nn",
        "regard.config",
        *(f"regard.config.{name}" for name in config),
    }
    own = {name for name in nn if name.split(".")[0] == "regard"}
    assert not {name for name in own - allowed if not name.startswith("regard.nn.")}, "nn works on its own"
    assert {"regard.search.beam", "regard.data.batches"} <= search
    assert not {name for name in search if name.startswith(("regard.tasks", "regard.corpora"))}
    assert "regard.inference.translator" in inference - search
    assert measurements.issuperset(measuring)
    drawing = {name for name in measurements if name.startswith(("matplotlib.", "regard.plotting"))}
    assert not drawing | ({"matplotlib"} & measurements)


def test_every_public_name_exists():
    for package in (import_module("regard.search"), import_module("regard.inference")):
        assert set(package.__all__) - {"Search"} == package.MODULE_OF.keys()
        for name in package.__all__:
            assert getattr(package, name) is not None
    for name in regard.__all__:
        assert getattr(regard, name) is not None
    for name in regard.nn.__all__:
        assert getattr(regard.nn, name) is not None


def test_nn_exports_every_class_of_the_tables_of_kinds():
    tables = [kinds.MECHANISMS, kinds.CELLS, kinds.POSITIONS, kinds.WIRINGS, kinds.STARTS, kinds.READOUTS]
    for table in (*tables, kinds.ENCODERS, kinds.DECODERS):
        assert {kind.__name__ for kind in table.values()} <= set(regard.nn.__all__)


def test_a_missing_name_raises_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'regard' has no attribute 'lode'"):
        _ = regard.lode


# --- One name, one meaning ---------------------------------------------------------------------------------

# Commands that are named after the function that they call.
COMMANDS = {"evaluate", "train"}


HOOKS = {"__getattr__", "__dir__"}  # of modules whose names are imported when they are first used


def test_no_name_is_defined_twice():
    definitions = defaultdict(list)
    for path in FILES:
        for node in syntax_tree(path).body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.name not in HOOKS:
                definitions[node.name].append(name_of(path))
    twice = {name: paths for name, paths in definitions.items() if len(paths) > 1}
    for name in COMMANDS & twice.keys():
        assert sum(path.startswith("cli/") for path in twice[name]) == 1
        assert len(twice[name]) == 2
    assert {name: paths for name, paths in twice.items() if name not in COMMANDS} == {}


# --- Documentation of the public API -------------------------------------------------------------------------


GRAMMAR = {"clauses_grammar", "clauses_lexicon"}


def modules_in(package: str) -> list[str]:
    """A package and its modules, by their import names, without the grammar of the task `clauses`."""
    return [
        package,
        *(f"{package}.{path.stem}" for path in FILES if package_of(path) == package and path.stem not in GRAMMAR),
    ]


def package_of(path: Path) -> str:
    return "" if path.stem.startswith("__") else ".".join(("regard", *path.relative_to(SOURCE).parent.parts))


DOCUMENTED = (
    *("regard", "regard.files", "regard.serving.schemas"),
    *chain.from_iterable(
        modules_in(f"regard.{package}")
        for package in (
            *("config", "text", "corpora", "tasks", "data", "nn", "runs", "search", "plotting", "reports", "inference"),
            *("evaluation", "training", "laboratory", "studies", "workers", "testing"),
        )
    ),
)


def public_objects(module: str) -> Iterator[tuple[str, Any]]:
    loaded = import_module(module)
    names = getattr(loaded, "__all__", None)
    if names is None:
        names = [name for name, value in vars(loaded).items() if getattr(value, "__module__", "") == module]
    for name in names:
        value = getattr(loaded, name)
        if not name.startswith("_") and (inspect.isclass(value) or inspect.isfunction(value)):
            yield f"{module}.{name}", value


def public_methods(name: str, kind: type) -> Iterator[tuple[str, Any]]:
    """The methods that a class defines, or inherits from a class of Regard."""
    own = (each for each in kind.__mro__ if each.__module__.startswith("regard."))
    for method, value in {name: value for each in own for name, value in vars(each).items()}.items():
        function = getattr(value, "__func__", value)
        if not method.startswith("_") and inspect.isfunction(function):
            yield f"{name}.{method}", getattr(kind, method)


def parameter_names(value: Any) -> list[str]:
    """The parameters that a docstring describes; of settings and schemas, the fields without a description."""
    if inspect.isclass(value):
        if issubclass(value, BaseException | Enum) or getattr(value, "_is_protocol", False):
            return []
        if issubclass(value, BaseModel):
            own = inspect.get_annotations(value).keys() & value.model_fields.keys()
            return [name for name in own if not value.model_fields[name].description]
        constructor = next(each for each in value.__mro__ if {"__init__", "__new__"} & vars(each).keys())
        if not constructor.__module__.startswith("regard"):
            return []
    try:
        parameters = inspect.signature(value).parameters.values()
    except ValueError:
        return []
    return [each.name for each in parameters if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]


def is_documented(value: Any, docstring: str | None) -> bool:
    """True if there is a docstring, with a line for each parameter below `Args:` (or `Attributes:` of settings)."""
    sections = ("Args:", "Attributes:") if inspect.isclass(value) and issubclass(value, BaseModel) else ("Args:",)
    below = max((docstring or "").partition(section)[2] for section in sections)
    names = {name for name in parameter_names(value) if name != "self"}
    return bool(docstring) and all(re.search(rf"^ +{name}: \S", below, re.MULTILINE) for name in names)


@pytest.mark.parametrize("module", DOCUMENTED)
def test_the_public_api_is_documented(module: str):
    objects = [
        # A class does not inherit its docstring.
        (name, value, vars(value).get("__doc__") if inspect.isclass(value) else value.__doc__)
        for name, value in public_objects(module)
    ]
    assert [name for name, value, docstring in objects if not is_documented(value, docstring)] == []


@pytest.mark.parametrize("module", ["regard", "regard.nn"])
def test_methods_of_the_public_api_are_documented(module: str):
    methods = [
        method
        for name, value in public_objects(module)
        if inspect.isclass(value)
        for method in public_methods(name, value)
    ]
    # A method may inherit its docstring from the method that it overrides.
    assert [name for name, value in methods if not is_documented(value, inspect.getdoc(value))] == []


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_defaults_of_fields_are_keywords(path: Path):
    """A type checker without pydantic's plug-in, as users have it, takes `Field(1)` for a field without a default."""
    for node in ast.walk(syntax_tree(path)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Field":
            assert not node.args, f"line {node.lineno}"


# --- Devices -------------------------------------------------------------------------------------------------

FACTORIES = {
    *("tensor", "as_tensor", "zeros", "ones", "full", "empty", "eye", "arange", "linspace"),
    *("rand", "randn", "randint", "randperm", "Generator"),
}


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_tensors_are_created_on_a_named_device(path: Path):
    if part_of(path).split(".")[0] in ("data", "nn"):
        return
    for node in ast.walk(syntax_tree(path)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {f"torch.{name}" for name in FACTORIES}:
            named = any(keyword.arg == "device" for keyword in node.keywords)
            assert named or (ast.unparse(node.func) == "torch.Generator" and node.args), f"line {node.lineno}"


# --- Forbidden imports --------------------------------------------------------------------------------------


def test_search_imports_no_tasks_and_no_corpora():
    for path in FILES:
        if part_of(path) == "search":
            assert not {part.split(".")[0] for part in imported_parts(path)} & {"tasks", "corpora"}, path
