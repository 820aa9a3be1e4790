"""What a server tells of itself."""

from __future__ import annotations

import re
from collections.abc import Callable

from starlette.testclient import TestClient

from regard.serving.metrics import Histogram, resident_bytes

Ask = Callable[..., TestClient]


def values(text: str) -> dict[str, float]:
    """By name and labels, as Prometheus would read them."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    for line in lines:
        assert re.fullmatch(r'[a-z_]+(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? [-+.\de]+', line), line
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_requests_are_counted_by_path_and_status(ask: Ask):
    client = ask()
    for _ in range(3):
        client.post("/api/translate", json={"texts": ["abc", "de"]})
    client.post("/api/translate", json={"texts": 1})
    client.get("/an/invention")
    answer = client.get("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    told = values(answer.text)
    assert told['regard_requests_total{path="/api/translate",status="200"}'] == 3
    assert told['regard_requests_total{path="/api/translate",status="422"}'] == 1
    assert told['regard_requests_total{path="other",status="404"}'] == 1
    assert told['regard_request_seconds_count{path="/api/translate"}'] == 4
    assert told['regard_batch_texts_bucket{le="1"}'] == 0
    assert told['regard_batch_texts_bucket{le="2"}'] == told["regard_batch_texts_count"] == 3
    assert told["regard_batch_texts_sum"] == 6
    assert told["regard_work_seconds_total"] > 0
    assert told["regard_waiting_texts"] == told["regard_under_way_texts"] == 0
    assert "an/invention" not in answer.text


def test_every_measure_is_explained(ask: Ask):
    client = ask()
    client.get("/healthz")
    text = client.get("/metrics").text
    names = {re.sub(r"_(bucket|sum|count)$", "", name) for name in re.findall(r"^\w+", text, re.M)}
    assert names == set(re.findall(r"^# HELP (\w+) \w", text, re.M)) == set(re.findall(r"^# TYPE (\w+) \w", text, re.M))


def test_a_histogram_counts_what_is_at_most_so_large():
    histogram = Histogram((1, 2))
    for value in (0.5, 1, 1.5, 7):
        histogram.add(value)
    assert list(histogram.lines("x", {"path": "/"})) == [
        'x_bucket{path="/",le="1"} 2',
        'x_bucket{path="/",le="2"} 3',
        'x_bucket{path="/",le="+Inf"} 4',
        'x_sum{path="/"} 10',
        'x_count{path="/"} 4',
    ]


def test_memory_is_that_of_this_process():
    before = resident_bytes()
    assert before is not None
    block = bytearray(64_000_000)
    assert before + 60_000_000 < (resident_bytes() or 0)
    assert len(block) == 64_000_000
