"""Run directories and studies written by version 0.5.0 still load, translate and continue."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.config import loading
from regard.errors import UserError
from regard.inference.translator import load
from regard.runs import Run
from regard.search import SearchOptions
from regard.training.train_run import train_run

FIXTURES = Path(__file__).parents[1] / "fixtures" / "runs-0.5.0"
KINDS = sorted(path.parent.name for path in FIXTURES.glob("*/experiment.yaml"))
CONTINUED = [kind for kind in KINDS if "continued" in json.loads((FIXTURES / kind / "expected.json").read_text())]
# The recorded numbers come from one CPU; another one may add the same terms in a different order.
TOLERANCE = 1e-5


@pytest.fixture
def fixtures(tmp_path: Path) -> Callable[[str], Path]:
    """A copy of the named fixture, with absolute paths that point to the copy."""

    def copy(name: str) -> Path:
        for folder in (name, "corpus"):
            shutil.copytree(FIXTURES / folder, tmp_path / folder)
        for path in tmp_path.rglob("*.yaml"):
            path.write_text(path.read_text().replace("/fixtures", str(tmp_path)))
        if name in KINDS:  # the paths in it are relative to the folder of the corpus
            (tmp_path / name / "experiment.yaml").rename(tmp_path / "experiment.yaml")
        return tmp_path / name

    return copy


def expected_of(name: str) -> dict[str, Any]:
    return json.loads((FIXTURES / name / "expected.json").read_text())


def close(value: Any) -> Any:
    return pytest.approx(value, rel=TOLERANCE, abs=TOLERANCE)


def assert_same_translations(run: Path, expected: dict[str, Any]) -> None:
    translator = load(run)
    recorded = expected["translations"]
    greedy = translator.translate(expected["texts"])
    for translation, known in zip(greedy, recorded["greedy"], strict=True):
        assert translation.text == known["text"]
        assert list(translation.tokens) == known["tokens"]
        assert list(translation.log_probabilities) == close(known["log_probabilities"])
        assert translation.finished == known["finished"]
        assert [list(pair) for pair in translation.alignment] == known["alignment"]
    searches = {
        "beam": SearchOptions(beam=3, n_best=2),
        "sampled": SearchOptions(sample=True, temperature=1.3, top_k=5, seed=7, n_best=2),
    }
    for name, search in searches.items():
        for translation, known in zip(translator.translate(expected["texts"], search), recorded[name], strict=True):
            assert [each.text for each in translation.n_best] == [each["text"] for each in known]
            assert [each.score for each in translation.n_best] == close([each["score"] for each in known])
    if recorded["attention_of_first_step"]:
        first_step = torch.tensor(recorded["attention_of_first_step"])
        torch.testing.assert_close(greedy[0].attention[..., 0, :], first_step, rtol=TOLERANCE, atol=TOLERANCE)
    scores = translator.score(list(zip(expected["texts"], expected["targets"], strict=True)))
    assert [score.log_probability for score in scores] == close(recorded["given_scores"])


def assert_same_metrics(run: Run, rows: list[dict[str, float]]) -> None:
    """The free-running losses of then are missing in rows of now."""
    for row, known in zip(run.metrics(), rows, strict=True):
        measured = {key: row[key] for key in known if not (key.startswith("free_running") and key not in row)}
        assert measured == close({key: known[key] for key in measured})


def test_every_kind_is_among_the_fixtures():
    experiments = [Run(FIXTURES / kind / "run").experiment for kind in KINDS]
    models = [experiment.model.model_dump() for experiment in experiments]

    def values(*path: str) -> set[str]:
        found = set()
        for model in models:
            for part in path:
                model = model.get(part, {})
            found |= {model} if isinstance(model, str) else set()
        return found

    attention = {"none", "mean", "dot", "scaled-dot", "bilinear", "additive", "multi-head"}
    assert values("attention", "kind") == attention
    assert values("encoder", "kind") == {"recurrent", "self-attention"}
    assert values("decoder", "kind") == {"recurrent", "transformer"}
    assert values("decoder", "wiring") == {"before", "after"}
    assert values("decoder", "start") == {"copy", "tanh", "relu", "zeros"}
    assert values("decoder", "readout") == {"direct", "tied"}
    for side in ("encoder", "decoder"):
        assert values(side, "cell") == {"tanh", "gru", "lstm"}
        assert values(side, "positions", "kind") == {"none", "one-hot", "sine", "sine-added", "learned"}
    assert {experiment.data.task for experiment in experiments} == {
        *("copy", "reverse", "case", "addition", "spaces", "clauses", "files", "g2p")
    }


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_loads_and_translates_as_before(kind: str, fixtures: Callable[[str], Path]):
    folder, expected = fixtures(kind), expected_of(kind)
    assert_same_translations(folder / "run", expected)
    assert_same_metrics(Run(folder / "run"), expected["metrics"])


@pytest.mark.parametrize("source", ["run", "file"])
@pytest.mark.parametrize("kind", CONTINUED)
def test_a_stopped_run_continues_as_before(kind: str, source: str, fixtures: Callable[[str], Path], new_callback: Any):
    """With the settings that the run directory holds, and with the experiment file that the run was started from."""
    folder, expected = fixtures(kind), expected_of(kind)
    path = folder / "run"
    experiment = (
        Run(path).experiment if source == "run" else loading.load_experiment(str(folder.parent / "experiment.yaml"))
    )
    callback = new_callback()
    progress = train_run(experiment, path, callback).progress
    end = expected["continued"]
    assert callback.train_begins[0][0] == expected["stopped_after"]
    assert (progress.step, progress.best_step, progress.finished) == (end["steps"], end["best_step"], end["finished"])
    assert_same_metrics(Run(path), end["metrics"])
    with Run(path).open_tensors("model.safetensors") as file:
        weights = {name: file.tensor(name) for name in file.shapes}
    assert weights.keys() == end["sums_and_norms"].keys()
    # A softmax does not change when a constant is added to all scores, which is all that this bias does: its gradient
    # is rounding noise, which differs between processors and which Adam scales up.
    for name in (name for name in weights if not name.endswith("attention.key_layer.bias")):
        weight = weights[name]
        measured = [weight.double().sum().item(), weight.double().norm().item()]
        assert measured == pytest.approx(end["sums_and_norms"][name], rel=1e-4, abs=1e-4), name
    assert_same_translations(path, {**expected, **end})


def test_a_finished_run_is_not_trained_again(fixtures: Callable[[str], Path], new_callback: Any):
    folder = fixtures("mean")
    before = (folder / "run" / "model.safetensors").read_bytes()
    callback = new_callback()
    experiment = loading.load_experiment(str(folder.parent / "experiment.yaml"))
    assert train_run(experiment, folder / "run", callback).progress.finished == "all epochs done"
    assert callback.losses == []
    assert (folder / "run" / "model.safetensors").read_bytes() == before


def test_a_study_is_reported_without_training_again(
    fixtures: Callable[[str], Path], regard: Any, monkeypatch: pytest.MonkeyPatch
):
    folder = fixtures("study")
    monkeypatch.chdir(folder)
    arguments = ("compare", "--config", "tiny/study.yaml", "--runs", "trained", "--json")
    reported = regard(*arguments, "--report")
    assert reported.code == 0, reported.err
    results = json.loads(reported.out)
    assert results["runs"] == {"wanted": 4, "finished": 4}
    measured = [
        {
            "options": condition["options"],
            "exact_match": condition["metrics"]["exact_match"]["mean"],
            "runs": condition["metrics"]["exact_match"]["count"],
        }
        for condition in results["conditions"]
    ]
    assert measured == expected_of("study")["conditions"]
    before = {path: path.stat().st_mtime_ns for path in (folder / "trained").rglob("*.safetensors")}
    assert regard(*arguments).code == 0
    assert {path: path.stat().st_mtime_ns for path in (folder / "trained").rglob("*.safetensors")} == before


def test_a_run_of_format_2_lists_options_of_unused_schedules(trained: Path, tmp_path: Path):
    known = Run(trained)
    path = tmp_path / "run"
    shutil.copytree(trained, path)
    (path / "run.json").write_text(json.dumps(known.metadata | {"format": 2}))
    settings = (path / "config.yaml").read_text().replace("    warmup: null\n", "    warmup: null\n    patience: 2\n")
    (path / "config.yaml").write_text(settings.replace("  teacher_forcing:\n", "  teacher_forcing:\n    decay: 0.9\n"))
    assert (path / "config.yaml").read_text().count("\n") == settings.count("\n") + 1
    assert Run(path).experiment == known.experiment
    (path / "run.json").write_text(json.dumps(known.metadata))
    with pytest.raises(UserError, match=r"training\.rate\.patience: 'one-cycle' learning rate has no option patience"):
        Run(path)


FORMAT_3 = FIXTURES.parent / "runs-format-3"


@pytest.fixture
def format_3(tmp_path: Path) -> Callable[[str], tuple[Path, str, dict[str, Any]]]:
    """A copy of the run directory, the experiment file and the recorded numbers of a fixture."""

    def copy(name: str) -> tuple[Path, str, dict[str, Any]]:
        shutil.copytree(FORMAT_3 / name, tmp_path / name)
        expected = json.loads((tmp_path / name / "expected.json").read_text())
        return tmp_path / name / "run", str(tmp_path / name / "experiment.yaml"), expected

    return copy


@pytest.mark.parametrize(("name", "temperature"), [("unit-norm", 1.0), ("hard", None)])
def test_a_run_of_format_3_translates_as_before(name: str, temperature: float | None, format_3: Any):
    """A learned temperature is the default with `unit_norm` now, of which the weights of older runs know nothing."""
    path, _, expected = format_3(name)
    assert Run(path).experiment.model.attention.temperature == temperature
    outputs = load(path).translate(expected["texts"])
    assert [list(output.log_probabilities) for output in outputs] == [
        close(known) for known in expected["log_probabilities"]
    ]


def test_a_run_of_format_3_with_unit_norm_continues_as_before(format_3: Any, new_callback: Any):
    path, experiment, expected = format_3("unit-norm")
    progress = train_run(loading.load_experiment(experiment), path, new_callback()).progress
    assert progress.step == expected["steps"]
    assert progress.best_score == close(expected["best_loss"])


@pytest.mark.parametrize("value", ["0.1", "learned"])
def test_a_run_of_format_3_does_not_continue_with_another_temperature(value: str, format_3: Any, new_callback: Any):
    path, experiment, _ = format_3("unit-norm")
    changed = loading.load_experiment(experiment, [f"model.attention.temperature={value}"])
    with pytest.raises(UserError, match=r"may not change:\n  model\.attention\.temperature = 1\.0, not"):
        train_run(changed, path, new_callback())


def test_a_run_of_format_3_with_hard_attention_does_not_continue(format_3: Any, new_callback: Any):
    """It would continue with another gradient than it started with."""
    path, experiment, _ = format_3("hard")
    with pytest.raises(UserError, match=r"started by an older version of Regard: hard attention now passes"):
        train_run(loading.load_experiment(experiment), path, new_callback())
