"""Loading experiments: every mistake is a `UserError` with the file, the line, the key, the value and the remedy."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from regard.config import loading, recipes
from regard.config.schema import Experiment
from regard.data import Codec
from regard.errors import UserError
from regard.runs import Run
from regard.tasks import TASKS

COPY = "data: {task: copy}\n"


@pytest.fixture
def error_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Returns a function: the error message for a file e.yaml with the given content."""
    monkeypatch.chdir(tmp_path)

    def load(content: str | bytes, *overrides: str) -> str:
        Path("e.yaml").write_bytes(content if isinstance(content, bytes) else content.encode())
        with pytest.raises(UserError) as error:
            loading.load_experiment("e.yaml", overrides)
        return str(error.value)

    return load


@pytest.mark.parametrize("name", recipes.recipe_names())
def test_a_recipe_survives_dumping_and_parsing(name: str):
    experiment = loading.load_experiment(name)
    assert experiment.description
    assert experiment.description.isprintable()
    assert loading.parse_experiment(loading.dump_experiment(experiment), "a copy") == experiment


def test_a_dump_contains_every_setting():
    text = loading.dump_experiment(loading.load_experiment("case"))
    for key in ("prompt", "bidirectional", "unit_norm", "label_smoothing", "save_every", "length_factor"):
        assert f"{key}:" in text


def test_strings_survive_dumping_and_parsing():
    experiment = loading.load_experiment("copy", ["data.alphabet='aß→ 1:#'", "description='no: yes # \"'"])
    assert loading.parse_experiment(loading.dump_experiment(experiment), "a copy") == experiment
    experiment = loading.load_experiment("copy", ["description='1e3'"])
    assert loading.parse_experiment(loading.dump_experiment(experiment), "a copy") == experiment


# --- extends and --set -----------------------------------------------------------------------------------


def write_files(files: dict[str, str]) -> None:
    for name, content in files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(content)


@pytest.fixture
def _in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


pytestmark = pytest.mark.usefixtures("_in_tmp_path")


def test_extends_merges_key_by_key_to_any_depth():
    write_files(
        {
            "base.yaml": COPY + "model:\n  encoder: {size: 3, positions: {kind: sine, width: 5}}\n  dropout: 0.1\n",
            "mine.yaml": "extends: base.yaml\nmodel:\n  encoder: {positions: {width: 7}}\n",
        }
    )
    model = loading.load_experiment("mine.yaml").model
    assert (model.encoder.size, model.encoder.positions.kind, model.encoder.positions.width) == (3, "sine", 7)
    assert model.dropout == 0.1


def test_the_files_own_settings_win_wherever_extends_is_written():
    write_files({"mine.yaml": "training: {epochs: 2}\nextends: case\n"})
    assert loading.load_experiment("mine.yaml").training.epochs == 2
    assert loading.load_experiment("mine.yaml").training.rate == loading.load_experiment("case").training.rate


def test_an_extended_path_is_relative_to_the_extending_file():
    write_files(
        {
            "deep/mine.yaml": "extends: ../other/base.yaml\ntraining: {seed: 5}\n",
            "other/base.yaml": "extends: start.yaml\ntraining: {seed: 4, epochs: 7}\n",
            "other/start.yaml": COPY,
        }
    )
    training = loading.load_experiment("deep/mine.yaml").training
    assert (training.seed, training.epochs) == (5, 7)


def test_a_mistake_in_an_extended_file_is_reported_with_its_path():
    write_files({"deep/mine.yaml": "extends: base.yaml\n", "deep/base.yaml": COPY + "training:\n  epocs: 3\n"})
    with pytest.raises(UserError, match=r"deep/base\.yaml, line 3: training\.epocs: .* did you mean 'epochs'"):
        loading.load_experiment("deep/mine.yaml")


def test_files_of_the_same_name_in_two_folders_are_different_files():
    write_files(
        {"base.yaml": "extends: sub/mine.yaml\n", "sub/mine.yaml": "extends: base.yaml\n", "sub/base.yaml": COPY}
    )
    assert loading.load_experiment("base.yaml").data.task == "copy"


@pytest.mark.parametrize("other", ["a.yaml", "./a.yaml", "sub/../a.yaml"])
def test_a_file_that_extends_itself_is_refused(other: str):
    write_files({"a.yaml": f"extends: {other}\n", "sub/x": ""})
    with pytest.raises(UserError, match=r"a\.yaml: extends itself: .*a\.yaml → "):
        loading.load_experiment("a.yaml")


def test_a_cycle_of_several_files_is_refused():
    write_files({"a.yaml": "extends: b.yaml\n", "b.yaml": COPY + "extends: a.yaml\n"})
    with pytest.raises(UserError, match=re.escape("a.yaml → b.yaml → a.yaml")):
        loading.load_experiment("a.yaml")


@pytest.mark.parametrize("value", ["3", "[case]", "", "true"])
def test_extends_accepts_only_one_experiment_name(error_message: Callable[..., str], value: str):
    assert "e.yaml, line 2: extends: " in error_message(f"{COPY}extends: {value}\n")
    assert "should be a recipe's name or a file's path" in error_message(f"{COPY}extends: {value}\n")


def test_an_unknown_recipe_is_reported_with_the_nearest_name_and_all_names(error_message: Callable[..., str]):
    with pytest.raises(UserError, match="'cas' is neither a recipe nor a file; did you mean 'case'") as error:
        loading.load_experiment("cas")
    for name in recipes.recipe_names():
        assert name in str(error.value)


def test_an_unknown_name_in_extends_is_reported_with_its_line(error_message: Callable[..., str]):
    output = error_message(f"{COPY}extends: cas\n")
    assert output.startswith("e.yaml, line 2: ")
    assert "'cas' is neither a recipe nor a file; did you mean 'case'" in output


@pytest.mark.parametrize("name", [".", "", "a\0b", "x" * 5000, "e.yaml/f", "/nowhere/e.yaml", "a\nb"])
def test_an_invalid_file_name_is_refused(name: str):
    write_files({"e.yaml": COPY})
    with pytest.raises(UserError):
        loading.load_experiment(name)


def test_overrides_win_over_the_file_and_over_earlier_overrides():
    experiment = loading.load_experiment(
        "case",
        ["training.seed=2", "training.seed=3", " model.dropout = 0.5", "description=a=b", "training.patience=null"],
    )
    assert experiment.training.seed == 3
    assert experiment.model.dropout == 0.5
    assert experiment.description == "a=b"
    assert experiment.training.patience is None


def test_an_override_may_set_a_whole_section():
    experiment = loading.load_experiment("case", ["model.attention={kind: bilinear, normalizer: hard}"])
    assert (experiment.model.attention.kind, experiment.model.attention.normalizer) == ("bilinear", "hard")


@pytest.mark.parametrize("spelling", ["1e-3", "1E-3", "1.0e-3", "0.001", ".1e-2", "+1e-3"])
def test_floats_may_be_written_in_any_common_notation(spelling: str):
    assert loading.load_experiment("case", [f"training.rate.peak={spelling}"]).training.rate.peak == 0.001
    assert loading.parse_experiment(f"{COPY}training: {{rate: {{peak: {spelling}}}}}", "e").training.rate.peak == 0.001


@pytest.mark.parametrize("override", ["training.seed", "=2", " = 2", ""])
def test_an_override_without_a_key_or_a_value_is_refused(override: str):
    with pytest.raises(UserError, match=re.escape(f"--set {override}: this should be KEY=VALUE")):
        loading.load_experiment("case", [override])


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("training.sead=2", "training.sead: unknown key; did you mean 'seed'?"),
        ("training.seed=x", "training.seed: 'x' is invalid"),
        ("training=3", "training: 3 is not a section; it has the keys seed, epochs, "),
        ("training.seed.x=1", "training.seed: "),
        ("data.task=copi", "data.task: 'copi' is not a valid choice; did you mean 'copy'?"),
        ("model.decoder.readout_input=contxt", "did you mean 'context'? choices: state, context, both"),
        ("model.attention.temperature=0", "0 is invalid: a temperature is a number from 0.001 to 1000, or 'learned'"),
        ("model.attention.temperature=cold", "'cold' is invalid: a temperature is a number"),
        ("model.attention.temperature=true", "True is invalid: a temperature is a number"),
        ("model.attention.temperature=.nan", "nan is invalid: a temperature is a number"),
        ("model.decoder.size=64", "model.attention.kind: 'dot' needs equal sizes"),
    ],
)
def test_an_invalid_override_is_named_in_the_error(override: str, expected: str):
    with pytest.raises(UserError) as error:
        loading.load_experiment("case", [override])
    assert expected in str(error.value)
    if "size" not in override:  # an impossible combination is reported at the key that completes it
        assert str(error.value).startswith(f"--set {override}: ")


# --- Mistakes in a file ----------------------------------------------------------------------------------

SIDES = "data: {task: copy}\nmodel:\n  encoder:\n    size: 8\n    bidirectional: false\n  decoder:\n    start: copy\n"


@pytest.mark.parametrize(
    ("content", "line", "expected"),
    [
        # unknown keys
        (COPY + "modle: {}\n", 2, "modle: unknown key; did you mean 'model'? choices: description, data, "),
        (
            COPY + "model:\n  encoder:\n    sise: 3\n",
            4,
            "model.encoder.sise: 'recurrent' encoder has no option sise; did you mean 'size'? it has embedding, ",
        ),
        (
            "data:\n  task: copy\n  alfabet: abc\n",
            3,
            "data.alfabet: 'copy' task has no option alfabet; did you mean 'alphabet'?",
        ),
        (COPY + "model.dropout: 0.1\n", 2, "model.dropout: unknown key"),
        # wrong types
        (
            COPY + "training:\n  epochs: ten\n",
            3,
            "training.epochs: 'ten' is invalid: input should be a valid integer",
        ),
        (COPY + "training:\n  epochs: 1.5\n", 3, "training.epochs: 1.5 is invalid"),
        (COPY + "training:\n  epochs: true\n", 3, "training.epochs: True is invalid"),
        (COPY + "training:\n  epochs: '3'\n", 3, "training.epochs: '3' is invalid"),
        (COPY + "training:\n  epochs:\n", 3, "training.epochs: None is invalid"),
        (COPY + "training:\n  epochs: [1]\n", 3, "training.epochs: [1] is invalid"),
        (COPY + "training:\n  epochs: {a: 1}\n", 3, "training.epochs: {'a': 1} is invalid"),
        (COPY + "model:\n  encoder:\n    bidirectional: 1\n", 4, "model.encoder.bidirectional: 1 is invalid"),
        (COPY + "model: 4\n", 2, "model: 4 is not a section; it has the keys encoder, decoder, attention, dropout"),
        (COPY + "model:\n", 2, "model: None is not a section; it has the keys encoder, decoder, attention, dropout"),
        (
            COPY + "model:\n  encoder: [1]\n",
            3,
            "model.encoder: [1] is not a section; it has the keys kind, ",
        ),
        # bounds
        (
            COPY + "training:\n  epochs: 0\n",
            3,
            "training.epochs: 0 is invalid: input should be greater than or equal to 1",
        ),
        (COPY + "model:\n  dropout: 1\n", 3, "model.dropout: 1 is invalid: input should be less than 1"),
        (COPY + "model:\n  dropout: .nan\n", 3, "model.dropout: nan is invalid"),
        (COPY + "training:\n  clip: .inf\n", 3, "training.clip: inf is invalid"),
        (COPY + "training:\n  epochs: .inf\n", 3, "training.epochs: inf is invalid"),
        (COPY + "training:\n  seed: -1\n", 3, "training.seed: -1 is invalid"),
        ("data:\n  task: copy\n  train: 0\n", 3, "data.train: 0 is invalid"),
        ("data:\n  task: copy\n  alphabet: aba\n", 3, "the character 'a' is in the alphabet twice"),
        ("data:\n  task: copy\n  min_length: 21\n", 3, "data.min_length: 21 is more than max_length, 20"),
        # choices
        (
            COPY + "model:\n  attention:\n    kind: aditive\n",
            4,
            "model.attention.kind: 'aditive' is not a valid choice; did you mean 'additive'? choices: none, last, ",
        ),
        (
            COPY + "training:\n  rate: {kind: 3}\n",
            3,
            "training.rate.kind: 3 is not a valid choice; choices: constant, ",
        ),
        ("data:\n  task: case\n  prompt: lst\n", 3, "data.prompt: 'lst' is not a valid choice; did you mean 'last'?"),
        # data.task
        ("data:\n  task: copi\n", 2, "data.task: 'copi' is not a valid choice; did you mean 'copy'? choices: case, "),
        ("data:\n  task: [copy]\n", 2, "data.task: ['copy'] is not a valid choice"),
        ("data:\n  task: {copy: 1}\n", 2, "data.task: "),
        ("data:\n  task: 2020-01-01\n", 2, "data.task: "),
        ("model: {}\ndata:\n  train: 3\n", 3, "data.task: missing; choices: "),
        ("model: {}\ndata: [copy]\n", 2, "data"),
        # impossible combinations
        (
            COPY + "model:\n  attention:\n    kind: dot\n  decoder: {size: 8}\n",
            4,
            "model.attention.kind: 'dot' needs equal sizes, but the decoder's state has 8 and an encoder's state 256",
        ),
        (SIDES + "    size: 8\n    cell: lstm\n", 7, "model.decoder.start: 'copy' needs the same on both sides"),
        (
            SIDES + "    size: 8\n    layers: 2\n",
            7,
            "the encoder ends with 1 layer(s) of 8 and the decoder starts with 2 l",
        ),
        (SIDES + "    size: 9\n", 7, "starts with 1 layer(s) of 9; choose tanh, relu or zeros"),
        (
            COPY + "model:\n  attention:\n    kind: mean\n    normalizer: hard\n",
            5,
            "model.attention.normalizer: 'mean' attention has no option normalizer (an option of dot, "
            "scaled-dot, bilinear, additive, multi-head, location, coverage, local); it has none",
        ),
        (
            COPY + "model:\n  attention:\n    kind: dot\n    hard: true\n",
            5,
            "model.attention.hard: this setting is now written normalizer: hard",
        ),
        (
            COPY + "model:\n  attention:\n    kind: dot\n    normalizer: sparse\n",
            5,
            "model.attention.normalizer: 'sparse' is not a valid choice; did you mean 'sparsemax'? "
            "choices: softmax, sparsemax, entmax15, hard",
        ),
        (
            COPY + "model:\n  attention:\n    kind: none\n    unit_norm: true\n",
            5,
            "model.attention.unit_norm: 'none' attention has no option unit_norm (an option of dot, "
            "scaled-dot, bilinear, additive, multi-head, location, coverage, local); it has none",
        ),
        (
            COPY + "model:\n  encoder:\n    kind: self-attention\n    heads: 3\n",
            5,
            "model.encoder.heads: 3 heads cannot share a size of 128 equally",
        ),
        (
            COPY + "model:\n  decoder:\n    kind: transformer\n    heads: 3\n",
            5,
            "model.decoder.heads: 3 heads cannot share",
        ),
        (
            COPY + "model:\n  attention:\n    kind: multi-head\n    heads: 3\n    key_size: 8\n",
            5,
            "model.attention.heads: 3 heads cannot share a key size of 8 equally",
        ),
        (
            COPY + "training:\n  teacher_forcing:\n    kind: linear\n    ratio: 0.1\n    floor: 0.2\n",
            6,
            "training.teacher_forcing.floor: 0.2 is above the ratio at the start, 0.1",
        ),
        # YAML
        (COPY + "model:\n  dropout: 0.1\n  dropout: 0.2\n", 4, "model.dropout: this key appears twice"),
        (COPY + "model: {}\nmodel: {}\n", 3, "model: this key appears twice"),
        (COPY + "model:\n  dropout: [0.1\n", 4, "this is not YAML: expected ',' or ']'"),
        (COPY + "model:\n\tdropout: 1\n", 3, "this is not YAML: found character '\\t'"),
        (COPY + "a: b: c\n", 2, "this is not YAML: mapping values are not allowed here"),
        (COPY + "model: *nothing\n", 2, "aliases (*nothing) are not supported"),
        (COPY + "---\n" + COPY, 2, "this is not YAML"),
        (COPY + "\0\n", 2, "this is not YAML"),
        (COPY + "# \a\n", 2, "this is not YAML"),
        ("- a\n- b\n", 1, "an experiment has the sections description, data, model, training, decoding"),
        ("# a list\n\n- a\n", 3, "an experiment has the sections"),
        ("case\n", 1, "an experiment has the sections"),
        ("null\n", 1, "an experiment has the sections"),
        (COPY + "? [a]\n: 1\n", 2, "a key should be a word"),
        (COPY + "training:\n  seed: !!int x\n", 3, "this value cannot be read"),
        (COPY + "training:\n  seed: !!bool x\n", 3, "this value cannot be read"),
        (COPY + "training:\n  seed: !!timestamp x\n", 3, "this value cannot be read"),
        (COPY + "training:\n  seed: 2020-13-41\n", 3, "this value cannot be read"),
        (COPY + f"training:\n  seed: {'9' * 5000}\n", 3, "this value cannot be read"),
    ],
)
def test_a_mistake_is_reported_with_file_line_and_remedy(
    error_message: Callable[..., str], content: str, line: int, expected: str
):
    output = error_message(content)
    assert output.startswith(f"e.yaml, line {line}: ")
    assert expected in output
    assert "\n" not in output


@pytest.mark.parametrize("content", ["", "# nothing\n", "{}\n", "data: {}\n", "model: {}\n"])
def test_a_missing_task_is_reported_with_the_file(error_message: Callable[..., str], content: str):
    output = error_message(content)
    assert output.startswith("e.yaml")
    assert f"data.task: missing; choices: {', '.join(TASKS)}" in output


def test_several_mistakes_are_reported_together(error_message: Callable[..., str]):
    output = error_message(
        "data:\n  task: copy\n  trian: 3\nmodel:\n  dropout: 7\n  attention: {kind: mean, normalizer: hard}\n"
        "training: {seed: x}\nfoo: 1\n",
        "decoding.batch_size=0",
    )
    starts = [line.partition(": there")[0].partition(": ") for line in output.splitlines()]
    assert {(where, rest.split(":")[0]) for where, _, rest in starts} == {
        ("e.yaml, line 3", "data.trian"),
        ("e.yaml, line 5", "model.dropout"),
        ("e.yaml, line 6", "model.attention.normalizer"),
        ("e.yaml, line 7", "training.seed"),
        ("e.yaml, line 8", "foo"),
        ("--set decoding.batch_size=0", "decoding.batch_size"),
    }


def test_a_file_that_is_not_utf8_is_reported_with_its_line(error_message: Callable[..., str]):
    assert error_message(COPY.encode() + b"# caf\xe9\n").startswith("e.yaml, line 2: this is not UTF-8 text")


def test_a_byte_order_mark_and_crlf_are_accepted(tmp_path: Path):
    Path("e.yaml").write_bytes(b"\xef\xbb\xbf" + COPY.replace("\n", "\r\n").encode() + b"training: {seed: 3}\r\n")
    assert loading.load_experiment("e.yaml").training.seed == 3


def test_a_directory_is_refused_as_an_experiment():
    Path("folder").mkdir()
    with pytest.raises(UserError, match="folder: cannot be read: Is a directory"):
        loading.load_experiment("folder")


def test_an_alias_is_refused_because_aliases_can_expand_to_gigabytes():
    with pytest.raises(UserError, match=r"e, line 4: aliases \(\*e\) are not supported; write it out"):
        loading.parse_experiment(COPY + "model:\n  encoder: &e {size: 8, cell: tanh}\n  decoder: *e\n", "e")


# --- Paths -----------------------------------------------------------------------------------------------


def data_of(name: str, *overrides: str) -> dict[str, object]:
    return loading.load_experiment(name, overrides).data.model_dump()


FILES = "data: {task: files, train: corpus/train, validation: ../validation.tsv, test: /data/test}\n"


def test_a_path_is_relative_to_its_file_and_not_to_the_working_directory(tmp_path: Path):
    write_files({"deep/mine.yaml": FILES})
    data = data_of("deep/mine.yaml")
    assert data["train"] == str(tmp_path / "deep/corpus/train")
    assert data["validation"] == str(tmp_path / "validation.tsv")
    assert data["test"] == "/data/test"


def test_each_path_is_relative_to_the_file_that_contains_it(tmp_path: Path):
    write_files(
        {
            "deep/mine.yaml": "extends: ../other/base.yaml\ndata: {test: mine}\n",
            "other/base.yaml": "extends: more/start.yaml\ndata: {validation: base}\n",
            "other/more/start.yaml": "data: {task: files, train: start, validation: start, test: start}\n",
        }
    )
    data = data_of("deep/mine.yaml")
    assert data["train"] == str(tmp_path / "other/more/start")
    assert data["validation"] == str(tmp_path / "other/base")
    assert data["test"] == str(tmp_path / "deep/mine")


def test_a_path_in_an_override_is_relative_to_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    write_files({"deep/mine.yaml": FILES, "elsewhere/x": ""})
    monkeypatch.chdir("elsewhere")
    data = data_of("../deep/mine.yaml", "data.train=mine/train")
    assert data["train"] == str(tmp_path / "elsewhere/mine/train")
    assert data["validation"] == str(tmp_path / "validation.tsv")


def test_paths_of_a_recipe_are_relative_to_the_working_directory(tmp_path: Path):
    assert data_of("g2p", "data.file=my.dict")["file"] == str(tmp_path / "my.dict")
    assert data_of("g2p")["file"] is None


def test_paths_may_be_set_by_overriding_a_whole_section(tmp_path: Path):
    data = data_of("copy", "data={task: files, train: mine/train, validation: mine/validation}")
    assert data["train"] == str(tmp_path / "mine/train")


@pytest.mark.parametrize("value", ["''", "5", "null", "[]"])
def test_an_invalid_path_is_refused_and_not_made_absolute(error_message: Callable[..., str], value: str):
    text = f"data:\n  task: files\n  validation: b\n  train: {value}\n"
    assert re.match(r"e\.yaml, line 4: data\.train: (''|5|None|\[\]) is invalid", error_message(text))


@pytest.mark.parametrize("path", ["train", "../x", "sub/./train", "über/zug"])
def test_an_absolute_path_survives_dumping_and_parsing(path: str):
    write_files({"mine.yaml": f"data: {{task: files, train: '{path}', validation: b}}\n"})
    experiment = loading.load_experiment("mine.yaml")
    assert Path(experiment.data.model_dump()["train"]).is_absolute()
    assert loading.parse_experiment(loading.dump_experiment(experiment), "a copy") == experiment


def missing_files_message(name: str, *overrides: str) -> list[str]:
    with pytest.raises(UserError) as caught:
        loading.load_experiment(name, overrides, check_files=True)
    return [line.split(", nor ")[0] for line in str(caught.value).splitlines()]


def test_a_missing_file_is_reported_with_its_line(tmp_path: Path):
    write_files({"deep/mine.yaml": "data:\n  task: files\n  train: corpus/trian\n  validation: v.tsv\n"})
    expected = [
        f"deep/mine.yaml, line 3: data.train: there is no {tmp_path}/deep/corpus/trian.de",
        f"deep/mine.yaml, line 4: data.validation: there is no {tmp_path}/deep/v.tsv",
    ]
    assert missing_files_message("deep/mine.yaml") == expected
    assert loading.load_experiment("deep/mine.yaml").data.task == "files"  # without the check
    write_files({"deep/corpus/trian.de": "a", "deep/corpus/trian.en.gz": "b"})
    assert missing_files_message("deep/mine.yaml") == expected[1:]


def test_a_missing_file_of_an_override_is_reported_with_its_option(tmp_path: Path):
    write_files({"mine.yaml": FILES})
    *_, test = missing_files_message("mine.yaml", "data.test=x.tsv")
    assert test == f"--set data.test=x.tsv: data.test: there is no {tmp_path}/x.tsv"
    (dictionary,) = missing_files_message("g2p", "data.file=my.dict")
    assert dictionary == f"--set data.file=my.dict: data.file: there is no {tmp_path}/my.dict"
    *_, long = missing_files_message("mine.yaml", f"data.test={'x' * 300}")
    assert "data.test: there is no" in long


def test_a_missing_file_is_reported_where_it_was_set_last(tmp_path: Path):
    """Only the final values are checked."""
    write_files(
        {
            "base.yaml": "data: {task: files, train: old.tsv, validation: gone.tsv}\n",
            "mine.yaml": "extends: base.yaml\ndata:\n  train: new.tsv\n",
            "found.tsv": "a\tb\n",
        }
    )
    assert missing_files_message("mine.yaml", "data.validation=found.tsv") == [
        f"mine.yaml, line 3: data.train: there is no {tmp_path}/new.tsv"
    ]
    both = [f"data.{split}=found.tsv" for split in ("train", "validation")]
    assert loading.load_experiment("mine.yaml", both, check_files=True).task.missing_files() == {}


def test_a_run_stores_absolute_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    write_files(
        {"mine.yaml": "data: {task: files, train: a.tsv, validation: a.tsv, text: {unit: words}}\n", "a.tsv": "x\ty\n"}
    )
    experiment = loading.load_experiment("mine.yaml")
    run = Run.create(
        Path("run"),
        experiment,
        Codec.build(
            experiment.task.learn_tokenization(experiment.task.dataset.splits()["train"]),
            experiment.task.dataset.splits()["train"],
        ),
    )
    assert f"train: {tmp_path}/a.tsv\n" in (run.path / "config.yaml").read_text()
    Path("elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    assert [pair.source for pair in Run(Path("../run")).experiment.task.dataset.splits()["train"]] == ["x"]


# --- Malicious files -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "where",
    [
        "data: BOMB\n",
        "data: {task: BOMB}\n",
        COPY + "model: BOMB\n",
        COPY + "training: {seed: [BOMB]}\n",
        COPY + "extends: BOMB\n",
        COPY + "BOMB: 1\n",
    ],
)
@pytest.mark.parametrize(
    "tag",
    ["!!python/object/apply:os.mkdir [hacked]", "!!python/object/new:os.mkdir [hacked]", "!!python/name:os.mkdir ''"],
)
def test_a_python_tag_is_refused_and_not_executed(error_message: Callable[..., str], where: str, tag: str):
    assert error_message(where.replace("BOMB", tag)).startswith("e.yaml, line ")
    assert not Path("hacked").exists()


def test_a_tag_on_a_section_is_refused(error_message: Callable[..., str]):
    assert error_message(COPY + "model: !!python/object:os.stat_result {dropout: 0.1}\n").startswith("e.yaml, line 2: ")


def bomb(opening: str, closing: str, entry: str, *, depth: int = 25, width: int = 9) -> str:
    """Aliases of aliases: a few lines that would expand to width ** depth values."""
    lines = [f"x0: &x0 {opening}{closing}"]
    for level in range(1, depth):
        entries = ", ".join(entry.format(index=index, alias=f"*x{level - 1}") for index in range(width))
        lines.append(f"x{level}: &x{level} {opening}{entries}{closing}")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    "content",
    [
        COPY + "training: {seed: " + "[" * 1200 + "]" * 1200 + "}\n",
        COPY + "model: " + "{a: " * 3000 + "1" + "}" * 3000 + "\n",
        COPY + "model: " + "{a: " * 200 + "1" + "}" * 200 + "\n",
        COPY + "model: &m\n  encoder: *m\n",
        COPY + "model: &m [*m]\n",
        COPY + bomb("[", "]", "{alias}"),
        COPY + bomb("[", "]", "{alias}") + "training: {seed: *x24}\n",
        bomb("[", "]", "{alias}") + "data: {task: *x24}\n",
        bomb("{", "}", "k{index}: {alias}", depth=8) + COPY,
        bomb("{", "}", "k{index}: {alias}", depth=8) + "data: {task: [*x7]}\n",
    ],
    ids=[
        "deep-list",
        "deep-map",
        "deepish-map",
        "loop",
        "list-loop",
        "bomb",
        "bomb-value",
        "bomb-task",
        "maps",
        "maps-2",
    ],
)
def test_a_nesting_or_alias_bomb_is_refused_with_a_short_message(error_message: Callable[..., str], content: str):
    output = error_message(content)
    assert output.startswith("e.yaml")
    assert len(output) < 20_000


PIECES = [
    *(
        "data: ",
        "task: ",
        "copy",
        "model: ",
        "training: ",
        "extends: ",
        "case",
        "encoder: ",
        "seed: ",
        "kind: ",
        "size: ",
    ),
    *(
        "{",
        "}",
        "[",
        "]",
        ", ",
        "\n",
        "\n  ",
        "\n    ",
        "- ",
        "? ",
        ": ",
        "&a ",
        "*a",
        "<<: ",
        "!!bool ",
        "!!int ",
        "!x ",
    ),
    *(
        "!!set ",
        "!!omap ",
        "!!binary ",
        "!!python/none ",
        "!!timestamp ",
        "|\n",
        ">\n",
        "'",
        '"',
        "#",
        "%",
        "---\n",
        "...\n",
    ),
    *(
        "1",
        "-1",
        "0x",
        "0b_",
        "1:30",
        "1e3",
        ".nan",
        "-.inf",
        "null",
        "~",
        "yes",
        "2020-01-01",
        "=",
        "é",
        "\0",
        "\x85",
        "\t",
    ),
]
yaml_like = st.one_of(st.text(), st.lists(st.sampled_from(PIECES), max_size=30).map("".join))


def assert_loads_or_raises_user_error(make: Callable[[], Experiment]) -> None:
    with suppress(UserError):
        assert isinstance(make(), Experiment)


@given(text=yaml_like)
@example(text="data: {task: copy}\ntraining: {seed: !!bool x}")
@example(text="data: &a {task: *a}")
def test_any_text_loads_or_raises_a_user_error(text: str):
    assert_loads_or_raises_user_error(lambda: loading.parse_experiment(text, "e"))
    assert_loads_or_raises_user_error(lambda: loading.parse_experiment(COPY + text, "e"))


KEYS = ["data", "task", "model", "encoder", "kind", "training", "seed", "rate", "peak", "extends", "", " ", "x"]


@given(
    keys=st.lists(st.sampled_from(KEYS), max_size=4),
    value=yaml_like,
    second=st.one_of(st.text(), st.builds("{}={}".format, st.sampled_from(KEYS), yaml_like)),
)
def test_any_override_loads_or_raises_a_user_error(keys: list[str], value: str, second: str):
    assert_loads_or_raises_user_error(lambda: loading.load_experiment("copy", [f"{'.'.join(keys)}={value}", second]))


@given(name=st.text())
def test_any_name_loads_or_raises_a_user_error(name: str):
    assert_loads_or_raises_user_error(lambda: loading.load_experiment(name))


def test_a_long_chain_of_files_is_refused(tmp_path: Path):
    for number in range(1_500):
        (tmp_path / f"{number}.yaml").write_text(f"extends: {number + 1}.yaml\n")
    with pytest.raises(UserError, match=r"20\.yaml: more than 20 files extend each other, beginning with .*0\.yaml"):
        loading.load_experiment(str(tmp_path / "0.yaml"))
