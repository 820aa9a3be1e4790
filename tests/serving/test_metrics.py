"""The Prometheus metrics of a server."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable

import pytest
from prometheus_client import CONTENT_TYPE_LATEST
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from regard.serving.metrics import Metrics

NewClient = Callable[..., TestClient]


def parse_metrics(text: str) -> dict[str, float]:
    """Values by name and labels, such as `regard_requests_total{path="/",status="200"}`."""
    values = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = ",".join(f'{name}="{value}"' for name, value in sorted(sample.labels.items()))
            values[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return values


def test_requests_and_batches_are_counted(new_client: NewClient):
    client = new_client()
    for _ in range(3):
        client.post("/api/translate", json={"texts": ["abc", "de"]})
    client.post("/api/translate", json={"texts": 1})
    client.get("/an/invention")
    response = client.get("/metrics")
    assert response.headers["content-type"] == CONTENT_TYPE_LATEST
    values = parse_metrics(response.text)
    assert values['regard_requests_total{path="/api/translate",status="200"}'] == 3
    assert values['regard_requests_total{path="/api/translate",status="422"}'] == 1
    assert values['regard_requests_total{path="other",status="404"}'] == 1
    assert values['regard_request_duration_seconds_count{path="/api/translate"}'] == 4
    assert values['regard_batch_texts_bucket{le="1.0"}'] == 0
    assert values['regard_batch_texts_bucket{le="2.0"}'] == values["regard_batch_texts_count"] == 3
    assert values["regard_batch_texts_sum"] == 6
    assert values["regard_inference_seconds_total"] > 0
    assert values["regard_queued_texts"] == values["regard_in_progress_texts"] == 0
    assert "an/invention" not in response.text


def test_every_metric_has_help_and_type(new_client: NewClient):
    client = new_client()
    client.get("/healthz")
    text = client.get("/metrics").text
    names = {re.sub(r"_(bucket|sum|count)$", "", name) for name in re.findall(r"^\w+", text, re.M)}
    assert names == set(re.findall(r"^# HELP (\w+) \w", text, re.M)) == set(re.findall(r"^# TYPE (\w+) \w", text, re.M))


def test_buckets_count_durations_up_to_their_bound():
    metrics = Metrics()
    for seconds in (0.003, 0.25, 0.26, 100):
        metrics.observe_request("/", 200, seconds)
    values = parse_metrics(metrics.export().decode())
    bounds = ("0.005", "0.1", "0.25", "0.5", "30.0", "+Inf")
    counts = [values[f'regard_request_duration_seconds_bucket{{le="{bound}",path="/"}}'] for bound in bounds]
    assert counts == [1, 1, 2, 3, 3, 4]
    assert values['regard_request_duration_seconds_sum{path="/"}'] == pytest.approx(100.513)


def test_applications_do_not_share_metrics():
    one, other = Metrics(), Metrics()
    one.observe_batch(5, 0.5)
    assert parse_metrics(one.export().decode())["regard_batch_texts_sum"] == 5
    assert parse_metrics(other.export().decode())["regard_batch_texts_sum"] == 0


@pytest.mark.skipif(sys.platform != "linux", reason="the process collector reads /proc")
def test_resident_memory_is_that_of_this_process():
    def resident_bytes() -> float:
        return parse_metrics(Metrics().export().decode())["process_resident_memory_bytes"]

    before = resident_bytes()
    block = bytearray(64_000_000)
    assert before + 60_000_000 < resident_bytes()
    assert len(block) == 64_000_000
