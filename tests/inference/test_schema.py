"""One JSON schema for a translation: from the CLI, the API, saved pages and studies."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError
from starlette.testclient import TestClient

import regard as package
from regard.inference import schema
from regard.inference.schema import SCHEMA_VERSION, TranslationSchema
from regard.search import SearchOptions
from regard.serving.app import build_app
from regard.serving.limits import Limits
from regard.serving.registry import open_runs
from regard.studies import parsing
from regard.studies.jobs import training_jobs
from regard.studies.worker import TrainingReporter, run_request

Regard = Callable[..., Any]
TEXTS = ["abc", "", "edcba"]
PAGE = Path(__file__).parents[2] / "docs" / "translation-json.md"


def from_translate_command(regard: Regard, run: Path) -> list[dict[str, Any]]:
    out = regard("translate", run, "--json", "--beam", 3, "--n-best", 2, *TEXTS).out
    return [json.loads(line) for line in out.splitlines()]


def from_translate_command_with_self_attention(regard: Regard, run: Path) -> list[dict[str, Any]]:
    out = regard("translate", run, "--json", "--self-attention", "--beam", 3, "--n-best", 2, *TEXTS).out
    return [json.loads(line) for line in out.splitlines()]


def from_show_command(regard: Regard, run: Path) -> list[dict[str, Any]]:
    return [json.loads(regard("show", run, text, "--json", "--beam", 3).out) for text in TEXTS]


def from_api(regard: Regard, run: Path) -> list[dict[str, Any]]:
    request = {"texts": TEXTS, "beam": 3, "n_best": 2, "attention": True, "alternatives": 2, "tree": True}
    request["self_attention"] = True
    with TestClient(build_app(open_runs([run]), Limits()), base_url="http://127.0.0.1:8000") as client:
        return client.post("/api/translate", json=request).json()["translations"]


def from_saved_page(regard: Regard, run: Path) -> list[dict[str, Any]]:
    pages = [each._repr_html_() for each in package.load(run).translate(TEXTS, SearchOptions(beam=3, n_best=2))]
    data = [re.search(r'<script type="application/json" id="data">(.*?)</script>', unescape(page)) for page in pages]
    return [json.loads(parsed[1])["views"][0]["translation"] for parsed in data if parsed]


OUTPUTS = {
    "translate --json": from_translate_command,
    "translate --json --self-attention": from_translate_command_with_self_attention,
    "show --json": from_show_command,
    "API": from_api,
    "saved page": from_saved_page,
}


@pytest.mark.parametrize("output", OUTPUTS.values(), ids=OUTPUTS.keys())
@pytest.mark.parametrize("attention", ["additive", "multi-head", "none"])
def test_every_output_follows_the_schema(
    regard: Regard, trained_brief: Callable[..., Path], output: Callable[..., Any], attention: str
):
    run = trained_brief(f"model.attention.kind={attention}")
    translations_json = output(regard, run)
    assert len(translations_json) == len(TEXTS)
    for text, translation_json in zip(TEXTS, translations_json, strict=True):
        translation = TranslationSchema.model_validate_json(json.dumps(translation_json))
        assert translation.schema_version == SCHEMA_VERSION
        assert translation.source_tokens == ([*text, "<end>"] if text else [])
        assert (translation.text, translation.score) == (translation.n_best[0].text, translation.n_best[0].score)
        assert translation.length_penalty == 0.0
        for hypothesis in translation.n_best:
            sizes = {len(hypothesis.tokens), len(hypothesis.labels), len(hypothesis.log_probabilities)}
            assert len(sizes) == 1
            for source, target in hypothesis.alignment:
                assert 0 <= source < len(text)
                assert 0 <= target < len(hypothesis.tokens)


def test_a_study_stores_translations_of_the_same_schema(
    tiny_file: Path, brief_settings: tuple[str, ...], tmp_path: Path
):
    leaves = parsing.from_options(experiment=str(tiny_file), set=list(brief_settings), seeds=1)
    (job,) = training_jobs(parsing.build_study("brief", leaves), tmp_path)
    run_request(job.request, TrainingReporter(io.BytesIO()))
    stored = json.loads(job.request.evaluations[0].file(job.request.path).read_text(encoding="utf-8"))
    assert stored["translations"]
    parsed = [TranslationSchema.model_validate_json(json.dumps(each)) for each in stored["translations"]]
    assert [each.text for each in parsed] == stored["outputs"]


def test_alignment_pairs_are_source_then_target(regard: Regard, trained: Path):
    """The model copies; with a source longer than the output, swapped pairs would fail."""
    (translation_json,) = [json.loads(regard("translate", trained, "--json", "--prefix", "bc", "abcde").out)]
    translation = package.load(trained).translate(["abcde"], SearchOptions(prefix="bc"))[0]
    pairs = translation_json["n_best"][0]["alignment"]
    assert pairs == [list(pair) for pair in translation.alignment]
    assert [target for _, target in pairs] == sorted({target for _, target in pairs}), "one source for each target"


def test_the_schema_refuses_what_is_missing_or_unknown(regard: Regard, trained: Path):
    translation_json = json.loads(regard("translate", trained, "--json", "abc").out)
    for invalid in (
        {key: value for key, value in translation_json.items() if key != "schema_version"},
        translation_json | {"schema_version": 2},
        translation_json | {"tokens": ["a"]},
        translation_json | {"n_best": [translation_json["n_best"][0] | {"alignment": [[0, 0, 0]]}]},
    ):
        with pytest.raises(ValidationError):
            TranslationSchema.model_validate_json(json.dumps(invalid))


def test_the_documentation_has_every_field():
    text = PAGE.read_text(encoding="utf-8")
    models = [model for model in vars(schema).values() if isinstance(model, type) and issubclass(model, BaseModel)]
    fields = [name for model in models for name in model.model_fields]
    assert len(fields) > 25
    for name in fields:
        assert f"| `{name}` |" in text, name


def test_the_example_of_the_documentation_follows_the_schema():
    (example,) = re.findall(r"```json\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    TranslationSchema.model_validate_json(example)
