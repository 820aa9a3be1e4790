"""The API with a run that reads pictures."""

from __future__ import annotations

import base64
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from starlette.testclient import TestClient

import regard
from regard.images import is_picture, picture_to_uri
from regard.serving import schemas
from regard.serving.limits import PICTURE_CHARACTERS

NewClient = Callable[..., TestClient]


@pytest.fixture
def client(new_client: NewClient, reads_pictures: Path, trained: Path) -> TestClient:
    return new_client(reads_pictures, trained)


def test_runs_say_what_they_read(client: TestClient) -> None:
    pictures, texts = schemas.RunsResponse.model_validate_json(client.get("/api/runs").content).runs
    assert (pictures.source, texts.source) == ("image", "text")
    assert len(pictures.examples) == 5
    assert all(map(is_picture, pictures.examples))


def test_pictures_are_translated_and_scored(client: TestClient, reads_pictures: Path) -> None:
    examples = client.get("/api/runs").json()["runs"][0]["examples"]
    response = client.post("/api/translate", json={"texts": examples, "attention": True, "tree": True})
    parsed = schemas.TranslateResponse.model_validate_json(response.content)
    for one, other in zip(parsed.translations, regard.load(reads_pictures).translate(examples), strict=True):
        assert one.text == other.text
        assert other.source_image is not None
        assert one.source_image is not None
        assert one.source_image.uri == other.source_image.uri
    scores = client.post("/api/score", json={"pairs": [{"source": examples[0], "target": "12"}]})
    assert scores.json()["scores"][0]["log_probability"] < 0


@pytest.mark.parametrize("text", ["/etc/passwd", "file:///etc/passwd", "a", "https://example.org/a.png"])
def test_nothing_but_a_data_uri_is_read(client: TestClient, text: str) -> None:
    response = client.post("/api/translate", json={"texts": [text]})
    assert response.status_code == 422
    assert "is not a picture: give a PNG or JPEG picture as a data URI" in response.json()["detail"]


def test_what_is_damaged_too_large_or_too_wide_is_refused(client: TestClient) -> None:
    noise = np.random.default_rng(1).integers(0, 255, (700, 700), dtype=np.uint8)
    cases = {
        "data:image/png;base64,aGVsbG8=": (422, "texts[0]: this is neither PNG nor JPEG"),
        picture_to_uri(Image.new("L", (400, 20))): (422, "640 pixels wide"),
        picture_to_uri(Image.new("1", (5_000, 4_000))): (422, "5,000 × 4,000 pixels; at most 16,000,000"),
        picture_to_uri(Image.fromarray(noise)): (413, f"the limit is {PICTURE_CHARACTERS:,}; make it smaller"),
    }
    for text, (status, message) in cases.items():
        response = client.post("/api/translate", json={"texts": [text]})
        assert (response.status_code, message in response.json()["detail"]) == (status, True), response.json()


def test_a_run_that_reads_texts_refuses_pictures(client: TestClient, trained: Path) -> None:
    picture = picture_to_uri(Image.new("L", (40, 20)))
    response = client.post("/api/translate", json={"texts": [picture], "run": trained.name})
    assert response.status_code == 422
    assert "this is a picture, and this model reads texts" in response.json()["detail"]


def test_a_photograph_that_fits_is_read(client: TestClient) -> None:
    buffer = BytesIO()
    Image.new("RGB", (3_000, 400), "white").save(buffer, "JPEG")
    text = f"data:image/jpeg;base64,{base64.b64encode(buffer.getvalue()).decode()}"
    response = client.post("/api/translate", json={"texts": [text]})
    assert response.status_code == 200
    assert response.json()["translations"][0]["source_image"]["width"] == 240
