"""Prometheus metrics of a server: connections, requests, batches, the queue and the process."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, ProcessCollector, generate_latest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard import __version__

DURATION_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)  # seconds
BATCH_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128)  # texts
CLOSE_REASONS = ("idle", "evicted", "refused")  # idle for too long, closed in favor of a new one, over the limit


class Metrics:
    """The metrics of one application, in a registry of their own.

    The event loop and the inference thread both record here; the Prometheus client locks each value.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)  # memory, CPU time and file descriptors, on Linux only
        Info("regard", "The version of Regard.", registry=self.registry).info({"version": __version__})
        self.requests = Counter(
            "regard_requests_total",
            "HTTP requests by path and status code.",
            ["path", "status"],
            registry=self.registry,
        )
        self.request_duration = Histogram(
            "regard_request_duration_seconds",
            "Time from a request to the end of its response.",
            ["path"],
            registry=self.registry,
            buckets=DURATION_BUCKETS,
        )
        self.batch_texts = Histogram(
            "regard_batch_texts", "Texts per inference batch.", registry=self.registry, buckets=BATCH_BUCKETS
        )
        self.inference_time = Counter(
            "regard_inference_seconds_total", "Time spent in inference.", registry=self.registry
        )
        self.queued_texts = Gauge("regard_queued_texts", "Texts waiting in the queue.", registry=self.registry)
        self.in_progress_texts = Gauge(
            "regard_in_progress_texts", "Texts in the current batch.", registry=self.registry
        )

        self.open_connections = Gauge("regard_open_connections", "Open connections.", registry=self.registry)
        self.closed_connections = Counter(
            "regard_closed_connections_total",
            "Connections that the server closed, by reason.",
            ["reason"],
            registry=self.registry,
        )
        for reason in CLOSE_REASONS:
            self.closed_connections.labels(reason)

    def observe_request(self, path: str, status: int, seconds: float) -> None:
        """Record one HTTP response.

        Args:
            path: A path of the API, or "other".
            status: The status code.
            seconds: The time from the request to the end of the response.
        """
        self.requests.labels(path, str(status)).inc()
        self.request_duration.labels(path).observe(seconds)

    def observe_batch(self, texts: int, seconds: float) -> None:
        """Record one inference batch.

        Args:
            texts: The number of texts in the batch.
            seconds: The time that inference took.
        """
        self.batch_texts.observe(texts)
        self.inference_time.inc(seconds)

    def watch_queue(self, queued: Callable[[], float], in_progress: Callable[[], float]) -> None:
        """Read these gauges from a queue whenever metrics are exported.

        Args:
            queued: Returns the number of texts waiting in the queue.
            in_progress: Returns the number of texts in the current batch.
        """
        self.queued_texts.set_function(queued)
        self.in_progress_texts.set_function(in_progress)

    def watch_connections(self, count: Callable[[], float]) -> None:
        """Read the number of open connections whenever metrics are exported.

        Args:
            count: Returns the number.
        """
        self.open_connections.set_function(count)

    def observe_closed_connection(self, reason: str) -> None:
        """Record a connection that the server closed or refused.

        Args:
            reason: One of `CLOSE_REASONS`.
        """
        self.closed_connections.labels(reason).inc()

    def export(self) -> bytes:
        """All metrics in Prometheus's text format."""
        return generate_latest(self.registry)


class MetricsMiddleware:
    """Records every HTTP response. Paths that do not exist count as "other", so that clients cannot add labels.

    Args:
        app: The ASGI application to measure.
        metrics: Where to record.
        paths: The paths that are counted by name.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics, paths: Sequence[str]) -> None:
        self.app, self.metrics, self.paths = app, metrics, frozenset(paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        start = time.monotonic()
        status = 500

        async def send_and_record_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, send_and_record_status)
        finally:
            path = scope["path"] if scope["path"] in self.paths else "other"
            self.metrics.observe_request(path, status, time.monotonic() - start)
