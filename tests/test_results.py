"""`benchmarks/results.py`: what it records, what it does not repeat, and the tables that it writes."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from regard.config import recipes

ROOT = Path(__file__).parent.parent
PAGE = "# Results\n\n<!-- table: tiny -->\nold\n<!-- end -->\n\nText.\n"


@pytest.fixture
def results(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("results", ROOT / "benchmarks" / "results.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "results", module)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def tiny_results(results: ModuleType, tiny_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script with one row, which is trained in a second, and with files in a temporary folder."""
    row = (str(tiny_file), "training.epochs=1")
    column = results.Column("exact match, greedy, %", ("test", "greedy", "exact_match"), factor=100)
    monkeypatch.setattr(results, "TABLES", {"tiny": results.Table({"tiny": row}, (column,))})
    monkeypatch.setattr(results, "RECORDS", tmp_path / "records")
    monkeypatch.setattr(results, "PAGE", tmp_path / "results.md")
    (tmp_path / "results.md").write_text(PAGE)
    return results


def run(results: ModuleType, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", ["results.py", *arguments])
    results.main()


def record(results: ModuleType, seed: int, exact_match: float) -> dict[str, object]:
    (recipe,) = results.TABLES["tiny"].recipes()
    test = {"greedy": {"exact_match": exact_match, "bleu_signature": "nrefs:1"}}
    place = {"torch": "2.13", "cpu": "Some CPU", "precision": "float32"}
    costs = {"seconds": 60.0 * seed, "peak_memory_mb": None, "parameters": 1_500_000}
    return {"settings": recipe.digest, "seed": seed, "test": test, **place, **costs}


@pytest.mark.slow
def test_two_seeds_and_their_ensemble_are_trained_once(
    tiny_results: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    options = ("tiny", "--seeds", "2", "--out", str(tmp_path / "runs"))
    run(tiny_results, monkeypatch, *options)
    records = json.loads((tmp_path / "records" / "tiny.json").read_text())
    assert [each["seed"] for each in records["trainings"]] == [1, 2]
    assert [each["seeds"] for each in records["ensembles"]] == [[1, 2]]
    first = records["trainings"][0]
    assert {"greedy", "beam 5"} == first["test"].keys()
    assert first["validation"]["greedy"]["split"] == "validation"
    assert first["seconds"] > 0
    assert first["validation_loss"] > 0
    assert len([*(tmp_path / "runs").iterdir()]) == 2
    page = (tmp_path / "results.md").read_text()
    assert "| `tiny`, ensemble | 2 |" in page
    monkeypatch.setattr(tiny_results, "train", lambda *_: pytest.fail("it is recorded already"))
    run(tiny_results, monkeypatch, *options)
    assert (tmp_path / "results.md").read_text() == page


def test_a_table_has_mean_and_deviation(tiny_results: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (recipe,) = tiny_results.TABLES["tiny"].recipes()
    recipe.add("trainings", record(tiny_results, 1, 0.5))
    recipe.add("trainings", record(tiny_results, 2, 0.7))
    recipe.add("trainings", {**record(tiny_results, 1, 0.1), "settings": "of other settings"})
    run(tiny_results, monkeypatch, "--table")
    page = (tmp_path / "results.md").read_text()
    assert "| `tiny` | 2 | 1.5 M | 60.00 ± 14.14 | 1.5 ± 0.7 | – |\n" in page
    assert "Trained on Some CPU with PyTorch 2.13 in float32. bleu: `nrefs:1`." in page
    assert "old" not in page
    assert page.endswith("<!-- end -->\n\nText.\n")
    run(tiny_results, monkeypatch, "--table")
    assert (tmp_path / "results.md").read_text() == page, "the same records, the same page"


def test_without_records_the_page_stays_as_it_is(
    tiny_results: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    run(tiny_results, monkeypatch, "--table")
    assert (tmp_path / "results.md").read_text() == PAGE


def test_the_digest_is_that_of_all_settings_but_the_seed(results: ModuleType, tiny_file: Path):
    def digest(*overrides: str) -> str:
        return results.Recipe("a", str(tiny_file), overrides).digest

    assert digest() == digest("training.seed=7") != digest("training.epochs=7")


def test_a_row_that_does_not_exist_is_refused(results: ModuleType, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(SystemExit):
        run(results, monkeypatch, "none")


def test_the_rows_are_recipes_and_the_page_has_their_tables(results: ModuleType):
    page = results.PAGE.read_text(encoding="utf-8")
    for name, table in results.TABLES.items():
        assert f"<!-- table: {name} -->\n" in page
        for recipe in table.recipes():
            assert recipe.experiment in recipes.recipe_names()
            assert len(recipe.digest) == 16
