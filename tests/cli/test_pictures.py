"""Every command with a model that reads pictures."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import regard as package
from regard.data import load
from regard.images import picture_from_uri
from regard.inference.schema import TranslationSchema

Regard = Callable[..., Any]
PAIRS = list(load("text-line", train=1, validation=1, test=3, max_length=3)["test"])


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("pictures")
    paths = [folder / f"{number}.png" for number in range(len(PAIRS))]
    for path, pair in zip(paths, PAIRS, strict=True):
        picture_from_uri(pair.source).save(path)
    return paths


def refused(answer: Any, *parts: str) -> None:
    """Assert exit code 2, no output, and one short line on stderr that contains all `parts`."""
    assert (answer.code, answer.out) == (2, ""), answer
    assert answer.err.startswith("regard: ")
    assert len(answer.err) < 400
    for part in parts:
        assert part in answer.err


def test_paths_data_uris_and_python_agree(regard: Regard, reads_pictures: Path, pictures: list[Path]) -> None:
    by_path = regard("translate", reads_pictures, *pictures)
    assert (by_path.code, by_path.err) == (0, "")
    lines = "".join(f"{path}\n" for path in pictures).encode()
    uris = "".join(f"{pair.source}\n" for pair in PAIRS).encode()
    assert regard("translate", reads_pictures, stdin=lines).out == by_path.out
    assert regard("translate", reads_pictures, stdin=uris).out == by_path.out
    translator = package.load(reads_pictures)
    for sources in (pictures, [Image.open(path) for path in pictures], [pair.source for pair in PAIRS]):
        assert "".join(f"{each.text}\n" for each in translator.translate(sources)) == by_path.out


def test_the_json_has_the_picture_and_a_box_for_each_patch(regard: Regard, reads_pictures: Path, pictures) -> None:
    answer = regard("translate", reads_pictures, pictures[0], "--json")
    found = json.loads(answer.out)
    TranslationSchema.model_validate_json(answer.out)
    image = found["source_image"]
    assert (image["height"], image["width"] % 4) == (32, 0)
    assert len(image["boxes"]) == len(found["source_tokens"]) - 1 == image["width"] // 4
    assert found["source_labels"][:2] == ["1", "2"]
    assert found["source_labels"][-1] == "<end>"
    again = regard("translate", reads_pictures, "--json", stdin=image["uri"].encode() + b"\n")
    assert json.loads(again.out) == found


def test_show_draws_the_attention_over_the_picture(regard: Regard, reads_pictures: Path, pictures, tmp_path) -> None:
    map_file, tree = tmp_path / "map.png", tmp_path / "tree.svg"
    answer = regard("show", reads_pictures, pictures[0], "--out", map_file, "--tree", tree, "--beam", 2)
    assert answer.code == 0, answer
    with Image.open(map_file) as drawn:
        assert drawn.width > 300
    assert "[picture]" in tree.read_text()
    assert "data:image/png" not in tree.read_text()


@pytest.mark.parametrize("command", ["explain", "trace", "faithful"])
def test_reports_name_the_picture(regard: Regard, reads_pictures: Path, pictures, tmp_path, command: str) -> None:
    page = tmp_path / "report.html"
    answer = regard(command, reads_pictures, pictures[0], "--out", page)
    assert answer.code == 0, answer
    assert "[picture]" in answer.out
    assert PAIRS[0].source not in answer.out + page.read_text()


@pytest.mark.parametrize("command", ["align", "gradients", "faithful", "evaluate"])
def test_measurements_on_a_split(regard: Regard, reads_pictures: Path, command: str) -> None:
    answer = regard(command, reads_pictures)
    assert answer.code == 0, answer
    assert "data:image" not in answer.out


def test_examples_name_the_picture(regard: Regard, reads_pictures: Path) -> None:
    answer = regard("evaluate", reads_pictures, "--examples", 1)
    assert "source     [picture]" in answer.out


def test_files_of_paths(regard: Regard, reads_pictures: Path, pictures: list[Path], tmp_path: Path) -> None:
    source, target = tmp_path / "paths.txt", tmp_path / "texts.txt"
    source.write_text("".join(f"{path}\n" for path in pictures))
    target.write_text("".join(f"{pair.target}\n" for pair in PAIRS))
    scores = regard("score", reads_pictures, "--source", source, "--target", target).out.splitlines()
    expected = package.load(reads_pictures).score([(pair.source, pair.target) for pair in PAIRS])
    assert scores == [f"{each.log_probability:.4f}\t{each.perplexity:.4f}" for each in expected]
    answer = regard("evaluate", reads_pictures, "--source", source, "--reference", target, "--json")
    assert json.loads(answer.out)["sentences"] == len(PAIRS)
    assert "character_error" in json.loads(answer.out)
    source.write_text(f"{tmp_path}/none.png\n" * 3)
    refused(regard("evaluate", reads_pictures, "--source", source, "--reference", target), "none.png", "line 1")


def test_what_is_not_a_picture_is_refused(regard: Regard, reads_pictures: Path, tmp_path: Path) -> None:
    refused(regard("translate", reads_pictures, "hello"), "text 1: hello: there is no such file", "PNG or JPEG")
    (tmp_path / "a.png").write_text("hello")
    refused(regard("explain", reads_pictures, tmp_path / "a.png"), "a.png: this is neither PNG nor JPEG")
    refused(regard("translate", reads_pictures, "data:image/png;base64,aGVsbG8="), "neither PNG nor JPEG")
    refused(regard("translate", reads_pictures, "data:image/png;base64," + "A" * 9_000), "neither PNG nor JPEG")
    Image.new("L", (600, 20)).save(tmp_path / "wide.png")
    refused(regard("translate", reads_pictures, tmp_path / "wide.png"), "960 pixels wide", "more than 256", "cut it")


def test_an_empty_line_has_an_empty_output(regard: Regard, reads_pictures: Path) -> None:
    assert regard("translate", reads_pictures, stdin=b"\n").out == "\n"


def test_a_model_of_texts_refuses_pictures(regard: Regard, trained: Path, pictures: list[Path]) -> None:
    refused(regard("translate", trained, pictures[0]), "is a picture, and this model reads texts")
    refused(regard("translate", trained, PAIRS[0].source), "this is a picture, and this model reads texts")
    translator = package.load(trained)
    for picture in (pictures[0], Image.new("L", (3, 3))):
        with pytest.raises(package.UserError, match="is not a text"):
            translator.translate([picture])


def test_a_model_of_pictures_and_one_of_texts_form_no_ensemble(regard: Regard, reads_pictures: Path, trained) -> None:
    refused(regard("translate", reads_pictures, trained, "hello"), "cannot form an ensemble")
