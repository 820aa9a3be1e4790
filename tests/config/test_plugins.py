"""Code outside Regard: how it is named, found and refused."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from regard.config import kinds, loading, plugins
from regard.config.families import plugin_names
from regard.config.schema import Experiment, ModelSection
from regard.errors import UserError
from regard.nn import Attention, DotAttention

SHOUT = """
from pydantic import Field
from regard.config.kinds import AttentionSection
from regard.nn import Attention

class ShoutSection(AttentionSection):
    volume: float = Field(2.0, gt=0)

class Shout(Attention):
    Section = ShoutSection
    def __init__(self, query_size, memory_size, *, volume=2.0):
        super().__init__(query_size, memory_size)
        self.volume = volume
    def score(self, query, keys):
        return self.volume * query @ keys.transpose(-1, -2)

class Quiet(Attention):
    def score(self, query, keys):
        return 0.1 * query @ keys.transpose(-1, -2)

class NoAttention:
    pass

def function():
    pass
"""
EXPERIMENT = "data: {task: copy}\nmodel:\n  encoder: {size: 16}\n  decoder: {size: 32}\n  attention:\n"


@pytest.fixture(autouse=True)
def _own_state(fresh_plugins: None) -> None:
    """Nothing that other tests have imported counts as known."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shout.py").write_text(SHOUT)
    return tmp_path


def experiment_file(folder: Path, attention: str) -> str:
    (folder / "my.yaml").write_text(f"{EXPERIMENT}{attention}")
    return str(folder / "my.yaml")


def error_of(name: str, *overrides: str) -> str:
    with pytest.raises(UserError) as error:
        loading.load_experiment(name, overrides)
    return str(error.value)


# Names


def test_a_file_is_relative_to_the_experiment_file_that_names_it(folder: Path, monkeypatch: pytest.MonkeyPatch):
    name = experiment_file(folder, "    kind: ./shout.py:Shout\n    volume: 3.5\n")
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    section = loading.load_experiment(name).model.attention
    assert section.kind == f"{folder / 'shout.py'}:Shout"
    assert section.options() == {"volume": 3.5}
    mechanism = kinds.MECHANISMS[section.kind].from_section(section, 5, 5)
    assert isinstance(mechanism, Attention)
    assert mechanism.volume == 3.5


def test_a_file_on_the_command_line_is_relative_to_the_working_directory(folder: Path):
    for spelling in ("shout.py:Quiet", "./shout.py:Quiet", f"{folder}/shout.py:Quiet"):
        experiment = loading.load_experiment("copy", [f"model.attention.kind={spelling}", "model.decoder.size=128"])
        assert experiment.model.attention.kind == f"{folder / 'shout.py'}:Quiet"


def test_a_module_is_found_in_the_working_directory_but_replaces_no_installed_one(folder: Path):
    (folder / "yaml.py").write_text("raise RuntimeError('not this one')")
    (folder / "sounds").mkdir()
    (folder / "sounds" / "__init__.py").write_text("")
    (folder / "sounds" / "loud.py").write_text(f"import yaml\n{SHOUT}")
    experiment = loading.load_experiment(experiment_file(folder, "    kind: sounds.loud:Shout\n"))
    assert experiment.model.attention.kind == "sounds.loud:Shout"
    assert kinds.MECHANISMS["sounds.loud:Shout"].__module__ == "sounds.loud"


def test_a_plugin_can_import_files_beside_it(folder: Path):
    (folder / "deep").mkdir()
    (folder / "deep" / "volume_of_shout.py").write_text("VOLUME = 7")
    (folder / "deep" / "louder.py").write_text(f"from volume_of_shout import VOLUME\n{SHOUT}")
    experiment = loading.load_experiment(experiment_file(folder, "    kind: deep/louder.py:Shout\n"))
    assert sys.modules[kinds.MECHANISMS[experiment.model.attention.kind].__module__].VOLUME == 7


def test_a_class_may_be_given_itself(folder: Path):
    shout = plugins.load_object(f"{folder}/shout.py:Shout")
    model = ModelSection(attention={"kind": shout, "volume": 5.0}, decoder={"size": 256})
    assert model.attention.kind == f"{folder}/shout.py:Shout"
    assert plugins.plain_settings({"a": [shout, "b", DotAttention]}) == {
        "a": [f"{folder}/shout.py:Shout", "b", "regard.nn.mechanisms:DotAttention"]
    }


def test_a_class_without_a_place_is_refused():
    class Local(Attention):
        def score(self, query: Any, keys: Any) -> Any:
            return query @ keys.transpose(-1, -2)

    with pytest.raises(ValueError, match="has no import path: define it at the top level of a module"):
        ModelSection(attention={"kind": Local})


@pytest.fixture
def installed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of installed packages, with one that registers `shout` and `quiet`."""
    info = folder / "site" / "regard_sounds-1.4.dist-info"
    info.mkdir(parents=True)
    (folder / "site" / "regard_sounds.py").write_text(SHOUT)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: regard-sounds\nVersion: 1.4\n")
    (info / "top_level.txt").write_text("regard_sounds\n")
    (info / "RECORD").write_text("regard_sounds.py,,\n")
    (info / "entry_points.txt").write_text(
        "[regard.plugins]\nshout = regard_sounds:Shout\nadditive = regard_sounds:Quiet\n"
    )
    monkeypatch.syspath_prepend(str(folder / "site"))
    yield folder / "site"
    sys.modules.pop("regard_sounds", None)


def test_an_installed_package_registers_a_short_name(installed: Path, folder: Path):
    section = loading.load_experiment(experiment_file(folder, "    kind: shout\n    volume: 4.0\n")).model.attention
    assert section.kind == "shout"
    assert kinds.MECHANISMS["shout"].__name__ == "Shout"
    record = plugins.describe_code("shout", folder)
    assert record.pop("sha256")
    assert record == {"import_path": "regard_sounds:Shout", "package": "regard-sounds", "version": "1.4"}


def test_a_registered_name_replaces_no_built_in_one(installed: Path, folder: Path):
    loading.load_experiment(experiment_file(folder, "    kind: additive\n"))
    assert kinds.MECHANISMS["additive"].__module__ == "regard.nn.mechanisms"


def test_two_packages_with_the_same_name_are_refused(installed: Path, folder: Path, monkeypatch: pytest.MonkeyPatch):
    entries = [metadata.EntryPoint("shout", f"package_{n}:Shout", plugins.GROUP) for n in (1, 2)]
    monkeypatch.setattr(metadata, "entry_points", lambda group: entries)
    message = error_of(experiment_file(folder, "    kind: shout\n"))
    assert "two installed packages register the plug-in 'shout': package_1:Shout and package_2:Shout" in message


# Mistakes


@pytest.mark.parametrize(
    ("attention", "line", "expected"),
    [
        ("kind: ./shout.py:Shuot", 6, "shout.py has no Shuot; did you mean 'Shout'?"),
        (
            "kind: ./shout.py:NoAttention",
            6,
            "cannot be used as attention: it should be a subclass of regard.nn.attention.",
        ),
        ("kind: ./shout.py:function", 6, "cannot be used as attention"),
        ("kind: ./silent.py:Shout", 6, "there is no file "),
        ("kind: no_such_package.attention:Shout", 6, "there is no module no_such_package; install its package"),
        ("kind: regard.nn:Attention", 6, "'regard.nn:Attention' does not define score, which every attention needs"),
        ("kind: os:system", 6, "'os:system' cannot be used as attention"),
        ("kind: shoot", 6, "'shoot' is not a valid choice; choices: none, last, mean, "),
        ("kind: ':Shout'", 6, "is not a valid choice"),
        ("kind: ./shout.py", 6, "is not a valid choice"),
        ("{kind: ./shout.py:Shout, volume: 0}", 6, "model.attention.volume: 0 is invalid: "),
        ("{kind: ./shout.py:Shout, volumes: 1}", 6, ":Shout' attention has no option volumes; did you mean 'volume'?"),
        ("{kind: ./shout.py:Shout, heads: 1}", 6, "has no option heads (an option of multi-head); it has volume"),
        ("{kind: ./shout.py:Quiet, heads: 1}", 6, "has no option heads (an option of multi-head); it has none"),
    ],
)
def test_a_mistake_is_reported_with_its_line(folder: Path, attention: str, line: int, expected: str):
    message = error_of(experiment_file(folder, f"    {attention}\n"))
    assert message.startswith(f"{folder / 'my.yaml'}, line {line}: model.attention.")
    assert expected in message


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("def f(:\n", "broken.py, line 1: "),
        ("x = 1\n\nraise RuntimeError('no sound')", "broken.py, line 3: RuntimeError: no sound"),
        ("import sys; sys.exit(3)", "broken.py, line 1: SystemExit: 3"),
        ("import no_such_module", "there is no module no_such_module"),
        ("def f():\n    return 1 / 0\nf()", "broken.py, line 2: ZeroDivisionError: division by zero"),
    ],
)
def test_a_module_that_fails_is_reported_with_its_line(folder: Path, code: str, expected: str):
    (folder / "broken.py").write_text(code)
    for _ in range(2):  # it is not half imported
        message = error_of(experiment_file(folder, "    kind: broken.py:Shout\n"))
        assert f"{folder / 'my.yaml'}, line 6: model.attention.kind: '{folder}/broken.py:Shout' cannot" in message
        assert expected in message


def test_optimizers_are_not_extended(folder: Path):
    message = error_of("copy", "training.optimizer.kind=torch.optim:SGD")
    assert "training.optimizer.kind: 'torch.optim:SGD' is not a valid choice; choices: adam, adamw" in message


def test_a_section_of_the_wrong_class_is_refused(folder: Path):
    (folder / "odd.py").write_text(
        "from regard.nn import Attention\nclass Odd(Attention):\n    Section = dict\n"
        "    def score(self, query, keys): ...\n"
    )
    message = error_of(experiment_file(folder, "    kind: odd.py:Odd\n"))
    assert "needs a class attribute Section, a subclass of regard.config.kinds.AttentionSection" in message


# Trust


def test_code_is_refused_unless_it_is_known_already(folder: Path):
    name = f"{folder}/shout.py:Shout"
    with plugins.refuse_code("because of the test"):
        with pytest.raises(plugins.PluginError, match="is code outside Regard; because of the test"):
            plugins.load_object(name)
        with pytest.raises(UserError, match="because of the test"):
            loading.load_experiment(experiment_file(folder, "    kind: ./shout.py:Shout\n"))
    found = plugins.load_object(name)
    with plugins.refuse_code("because of the test"):
        assert plugins.load_object(name) is found


def test_refused_code_is_not_executed(folder: Path):
    (folder / "mark.py").write_text("from pathlib import Path\nPath('executed').touch()\n")
    with plugins.refuse_code("no"), pytest.raises(UserError, match=r"mark\.py:X' is code outside Regard"):
        loading.load_experiment(experiment_file(folder, "    kind: mark.py:X\n"))
    assert not (folder / "executed").exists()
    error_of(experiment_file(folder, "    kind: mark.py:X\n"))
    assert (folder / "executed").exists(), "this test can fail"


# Records


def test_all_plugins_of_an_experiment_are_found(folder: Path):
    (folder / "more.py").write_text(
        "from regard.nn import GRU, DirectReadout, LearnedPositions\n"
        "class Cell(GRU): pass\nclass Out(DirectReadout): pass\nclass Places(LearnedPositions): pass\n"
    )
    shout, more = f"{folder}/shout.py", f"{folder}/more.py"
    experiment = loading.load_experiment(
        "copy",
        [
            "model.attention.kind=shout.py:Quiet",
            "model.encoder.cell=more.py:Cell",
            "model.decoder.readout=more.py:Out",
            "model.decoder.positions={kind: more.py:Places, longest: 30}",
            "model.decoder.size=128",
        ],
    )
    assert set(plugin_names(experiment)) == {f"{shout}:Quiet", f"{more}:Cell", f"{more}:Out", f"{more}:Places"}
    assert list(plugin_names(loading.load_experiment("multi30k"))) == []


def test_the_digest_follows_the_source_file(folder: Path, forget_plugins: Callable[[], None]):
    name = f"{folder}/shout.py:Shout"
    before = plugins.describe_code(name, folder / "runs" / "a")
    assert before["relative_path"] == str(Path("..", "..", "shout.py"))
    (folder / "shout.py").write_text(f"{SHOUT}\n# another version\n")
    assert plugins.describe_code(name, folder / "runs" / "a") == before, "it is imported once"
    forget_plugins()
    after = plugins.describe_code(name, folder / "runs" / "a")
    assert before["sha256"] != after["sha256"]
    assert before | {"sha256": ""} == after | {"sha256": ""}


def test_the_digest_covers_the_file_of_a_class_that_is_an_attribute(folder: Path, forget_plugins: Callable[[], None]):
    student = "from torch import nn\nclass Student(nn.Module): pass\n"
    (folder / "student_digest.py").write_text(student)
    (folder / "wrapped.py").write_text(
        "from regard.nn import StepAttention\nfrom student_digest import Student\n"
        "class Wrapped(StepAttention):\n    module_class = Student\n"
    )
    digests = []
    for text in (student, student, f"{student}# another version\n"):
        (folder / "student_digest.py").write_text(text)
        forget_plugins()
        sys.modules.pop("student_digest", None)
        digests.append(plugins.describe_code(f"{folder}/wrapped.py:Wrapped", folder)["sha256"])
    sys.modules.pop("student_digest")
    assert digests[0] == digests[1] != digests[2]


def test_a_class_of_a_notebook_has_a_digest_of_its_methods(monkeypatch: pytest.MonkeyPatch):
    notebook = ModuleType("__main__")
    code = "class Cell:\n    def forward(self):\n        return {}\n"
    import linecache

    digests = []
    for version in (1, 2, 1):
        source, name = code.format(version), f"<cell {version}>"
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
        exec(compile(source, name, "exec"), vars(notebook))
        monkeypatch.setitem(sys.modules, "__main__", notebook)
        reference = plugins.reference_to(notebook.Cell)
        assert reference == "__main__:Cell"
        digests.append(plugins.describe_code(reference, Path())["sha256"])
    assert digests[0] == digests[2] != digests[1]


SCRIPT = """
from regard.config import plugins
from regard.nn import Attention

class Own(Attention):
    def score(self, query, keys):
        return query @ keys.transpose(-1, -2)

print(plugins.reference_to(Own))
print(plugins.load_object(plugins.reference_to(Own)) is Own)
"""


def test_a_class_of_a_script_is_named_by_its_file(folder: Path):
    (folder / "script.py").write_text(SCRIPT)
    done = subprocess.run([sys.executable, "script.py"], capture_output=True, text=True, check=True, cwd=folder)
    assert done.stdout.split() == [f"{folder}/script.py:Own", "True"]
    command = [sys.executable, "-m", "script"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder)
    assert done.stdout.split() == ["script:Own", "True"]


def test_a_call_at_the_top_level_of_a_plugin_is_refused(folder: Path):
    (folder / "unguarded.py").write_text(
        f"{SHOUT}\nfrom regard.config import plugins\nplugins.check_not_importing('regard.train was called')\n"
    )
    message = error_of(experiment_file(folder, "    kind: unguarded.py:Shout\n"))
    assert (
        "regard.train was called while this file is imported for its classes; put the call below if __name__ =="
        in message
    )
    plugins.check_not_importing("nothing is imported now")


def test_descriptions_are_not_references(folder: Path):
    (folder / "my.yaml").write_text("description: shout.py:Shout\ndata: {task: copy}\n")
    assert loading.load_experiment("my.yaml").description == "shout.py:Shout"


def test_an_experiment_with_plugins_survives_dumping(folder: Path):
    experiment = loading.load_experiment(experiment_file(folder, "    kind: ./shout.py:Shout\n    volume: 3.5\n"))
    assert loading.parse_experiment(loading.dump_experiment(experiment), "again") == experiment
    assert isinstance(experiment, Experiment)


def test_a_built_in_class_is_its_kind(folder: Path):
    model = ModelSection(attention={"kind": DotAttention}, encoder={"size": 16}, decoder={"size": 32})
    assert model.attention.kind == "dot"
    assert list(plugin_names(model)) == []
