"""Multi30k by commands: the languages and test sets that are downloaded, trained on and evaluated on."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from regard.config import loading
from regard.corpora import datasets
from regard.corpora.datasets import DATASETS, DataFile
from regard.data import load
from regard.errors import UserError
from regard.reports import examples
from regard.studies import parsing
from regard.tasks import SPLITS

pytestmark = pytest.mark.slow

Regard = Callable[..., Any]
PAIRS = {
    "train": 101,
    "val": 7,
    "test_2016_flickr": 11,
    "test_2017_flickr": 13,
    "test_2017_mscoco": 5,
    "test_2018_flickr": 17,
}
WORDS = {"de": "eins zwei drei vier", "en": "one two three four", "fr": "un deux trois quatre"}
SMALL = "extends: multi30k\ndata: {text: {unit: words}}\nmodel: {encoder: {embedding: 8, size: 8}, decoder: " + (
    "{embedding: 8, size: 8}, attention: {key_size: 8}}\ntraining: {threads: 1, epochs: 1}\n"
    "decoding: {length_factor: 0, length_extra: 5}\n"
)


@pytest.fixture
def origin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with all files of a small Multi30k, which is in the catalog for this test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REGARD_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(examples, "_attention_picture", lambda shown: b"a picture")  # which is slow
    Path("small.yaml").write_text(SMALL)
    (tmp_path / "origin").mkdir()
    files, numbers = [], random.Random(3)
    for split, pairs in PAIRS.items():
        sentences = [numbers.choices(range(4), k=numbers.randint(2, 5)) for _ in range(pairs)]
        for language, words in WORDS.items():
            lines = [" ".join(words.split()[number] for number in sentence) for sentence in sentences]
            text = "".join(f"{line}\n" for line in lines).encode()
            files.append(DataFile(f"{split}.{language}", pairs, len(text), sha256(text).hexdigest()))
            (tmp_path / "origin" / files[-1].name).write_bytes(text)
    monkeypatch.setitem(DATASETS, "multi30k", replace(DATASETS["multi30k"], files=tuple(files)))
    return tmp_path / "origin"


def test_one_run_is_evaluated_on_every_test_set(regard: Regard, origin: Path):
    assert regard("data", "get", "multi30k", "--from", origin).code == 0
    french = ["--set", "data.source=en", "--set", "data.target=fr"]
    refused = regard("train", "small.yaml", "--out", "run", *french)
    assert refused.code == 2
    assert "multi30k: train.fr missing or incomplete" in refused.err
    assert "run 'regard data get multi30k --languages en,fr' or" in refused.err
    assert not Path("run").exists()

    assert regard("data", "get", "multi30k", "--from", origin, "--languages", "en,fr").code == 0
    assert regard("train", "small.yaml", "--out", "run", *french).code == 0
    assert {row["test_set"] for row in json.loads(Path("run/scores.json").read_text())} == {"2016_flickr"}

    later = ["2017_flickr", "2017_mscoco", "2018_flickr"]
    missing = regard("evaluate", "run", "--set", "data.test=2018_flickr")
    assert missing.code == 2
    assert "run 'regard data get multi30k --languages en,fr --tests 2018_flickr' or" in missing.err
    got = regard("data", "get", "multi30k", "--from", origin, "--languages", "en,fr", "--tests", ",".join(later))
    assert got.out.count("already downloaded") == 4  # train and val

    for name in ("2016_flickr", *later):
        answer = regard("evaluate", "run", "--set", f"data.test={name}", "--json")
        assert (answer.code, answer.err) == (0, ""), "another test set is not one that has changed"
        result = json.loads(answer.out)
        assert (result["test_set"], result["sentences"]) == (name, PAIRS[f"test_{name}"])
    pairs = load("multi30k", source="en", target="fr", test="2017_mscoco")
    assert [len(list(pairs[split])) for split in SPLITS] == [101, 7, 5]
    assert regard("evaluate", "run").out.splitlines()[1].split() == ["test", "set", "2016_flickr"]
    validation = json.loads(regard("evaluate", "run", "--split", "validation", "--json").out)
    assert "test_set" not in validation


def test_a_test_set_that_has_changed_is_reported(regard: Regard, origin: Path):
    regard("data", "get", "multi30k", "--from", origin)
    assert regard("train", "small.yaml", "--out", "run").code == 0
    path = datasets.dataset_path("multi30k") / "test_2016_flickr.en"
    path.write_bytes(path.read_bytes()[::-1].lstrip(b"\n") + b"\n")
    assert "the test split has changed since training" in regard("evaluate", "run").err


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("data.test=2019", "data.test: 2019 is not a valid choice"),
        ("data.source=fr", "data.source: only the texts of a run can be changed; did you mean 'data.test'?"),
    ],
)
def test_only_the_test_set_of_a_run_can_be_changed(setting: str, message: str):
    with pytest.raises(UserError) as caught:
        loading.set_data_paths(loading.load_experiment("multi30k"), [setting])
    assert message in str(caught.value)


def test_a_study_evaluates_its_runs_on_several_test_sets():
    leaves = "experiment: multi30k\nvary: {training.epochs: [1, 2]}\ntest: {data.test: [2016_flickr, 2018_flickr]}\n"
    study = parsing.build_study("sets", parsing.parse_study(leaves, "sets"), check_files=False)
    assert len({condition.run_name(1) for condition in study.conditions}) == 2
    assert [each.evaluation.data.test_set for each in study.conditions] == ["2016_flickr", "2018_flickr"] * 2
