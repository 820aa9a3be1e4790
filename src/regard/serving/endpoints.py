"""The API's endpoints: each checks its request and submits it to the batch queue."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Sequence
from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Depends, HTTPException, Request, Response
from fastapi.security import HTTPBearer
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import JSONResponse

from regard import __version__
from regard.errors import UserError, suggest
from regard.images import is_picture
from regard.serving import schemas
from regard.serving.batch_queue import BatchQueue
from regard.serving.errors import error_descriptions, error_response
from regard.serving.jobs import ScoreJob, TranslateJob
from regard.serving.limits import CONTENT_TOO_LARGE, PICTURE_CHARACTERS, SERVICE_UNAVAILABLE, Limits
from regard.serving.metrics import Metrics
from regard.serving.registry import ServedRun

PLAIN_TEXT: dict[int | str, dict[str, Any]] = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}
CLIENT_CLOSED_REQUEST = 499  # only the metrics show it: the client has left


class Endpoints:
    """The endpoints of a server.

    Args:
        runs: The runs to choose from; the first is the default.
        limits: Limits on a request.
        queue: The queue that runs the requests.
        metrics: The metrics that `/metrics` exports.
        needs_token: True if the OpenAPI description should ask for a token; `AccessMiddleware` checks it.
    """

    def __init__(
        self, runs: Sequence[ServedRun], limits: Limits, queue: BatchQueue, metrics: Metrics, needs_token: bool = False
    ) -> None:
        self.runs = {run.name: run for run in runs}
        self.limits, self.queue, self.recorded = limits, queue, metrics
        self.dependencies = [Depends(HTTPBearer(auto_error=False))] if needs_token else []

    def router(self) -> APIRouter:
        """The routes of all endpoints."""
        all_errors, access_errors = error_descriptions(), error_descriptions(401, 403)
        public = APIRouter()
        health_errors = error_descriptions(403, SERVICE_UNAVAILABLE)
        public.get("/healthz", response_model=schemas.HealthResponse, responses=health_errors)(self.healthz)
        public.head("/healthz", include_in_schema=False)(self.healthz)
        router = APIRouter(dependencies=self.dependencies)
        router.post("/api/translate", response_model=schemas.TranslateResponse, responses=all_errors)(self.translate)
        router.post("/api/score", response_model=schemas.ScoreResponse, responses=all_errors)(self.score)
        router.get("/api/runs", response_model=schemas.RunsResponse, responses=access_errors)(self.list_runs)
        # The class Response has no media type of its own, which OpenAPI would list for errors, too.
        router.get("/metrics", response_class=Response, responses=PLAIN_TEXT | access_errors)(self.metrics)
        public.include_router(router)
        return public

    async def translate(self, request: Request, body: schemas.TranslateRequest) -> Response:
        """Translate texts. The response has one translation for each text, in order."""
        run, options = self._find_run(body.run), body.search_options()
        self._check_texts("texts", body.texts)
        self._check_length("prefix", "".join(body.prefix))
        for name in ("beam", "n_best"):
            if getattr(body, name) > self.limits.beam:
                raise UserError(f"{name}: {getattr(body, name)} is above this server's limit of {self.limits.beam}")
        job = TranslateJob(run, options, body.attention, body.self_attention, body.alternatives, body.tree)
        return _json_list_response("translations", run, await self._submit(request, job, body.texts))

    async def score(self, request: Request, body: schemas.ScoreRequest) -> Response:
        """Score given translations: log-probability and perplexity for each pair, in order."""
        run = self._find_run(body.run)
        self._check_texts("pairs", [pair.source for pair in body.pairs], ".source")
        self._check_texts("pairs", [pair.target for pair in body.pairs], ".target")
        pairs = [(pair.source, pair.target) for pair in body.pairs]
        return _json_list_response("scores", run, await self._submit(request, ScoreJob(run), pairs))

    async def list_runs(self) -> Response:
        """List the runs of this server, the default first, and its limits."""
        return JSONResponse({"runs": [run.to_dict() for run in self.runs.values()], "limits": asdict(self.limits)})

    async def healthz(self) -> Response:
        """Check the server's health. It responds at once, whatever the load."""
        if not self.queue.is_running:
            return error_response(SERVICE_UNAVAILABLE, "the inference thread has ended; restart the server")
        return JSONResponse({"status": "ok", "version": __version__})

    async def metrics(self) -> Response:
        """Export metrics in Prometheus's text format."""
        return Response(self.recorded.export(), media_type=CONTENT_TYPE_LATEST)

    def _find_run(self, name: str | None) -> ServedRun:
        if name is None:
            return next(iter(self.runs.values()))
        if name not in self.runs:
            raise UserError(f"run: there is no run {name!r}; {suggest(name, self.runs)}")
        return self.runs[name]

    def _check_texts(self, name: str, texts: Sequence[str], side: str = "") -> None:
        if len(texts) > self.limits.texts:
            detail = f"{name}: {len(texts):,} are above this server's limit of {self.limits.texts:,} in one request"
            raise HTTPException(CONTENT_TOO_LARGE, f"{detail}; send several requests")
        for index, text in enumerate(texts):
            self._check_length(f"{name}[{index}]{side}", text)

    def _check_length(self, name: str, text: str) -> None:
        if is_picture(text):
            if len(text) > PICTURE_CHARACTERS:
                detail = f"{name}: this picture has {len(text):,} characters; the limit is {PICTURE_CHARACTERS:,}"
                raise HTTPException(CONTENT_TOO_LARGE, f"{detail}; make it smaller")
        elif len(text) > self.limits.characters:
            detail = f"{name}: {len(text):,} characters are above this server's limit of {self.limits.characters:,}"
            raise HTTPException(CONTENT_TOO_LARGE, f"{detail}; split the text into sentences")

    async def _submit(self, request: Request, job: TranslateJob | ScoreJob, items: Sequence[Any]) -> list[bytes]:
        encoded: Sequence[Any] = await asyncio.to_thread(job.encode, items)
        size = job.measure_size(encoded)
        megabytes = job.megabytes(size)
        if megabytes > self.limits.memory:
            detail = f"this request may need {megabytes:,.0f} MB of memory; the limit is {self.limits.memory:,.0f} MB"
            remedy = "send fewer or shorter texts, use a narrower beam, or ask for fewer details"
            raise HTTPException(CONTENT_TOO_LARGE, f"{detail}; {remedy}")
        return await wait_while_connected(request, self.queue.submit(job, encoded, size))


def _json_list_response(name: str, run: ServedRun, items: Sequence[bytes]) -> Response:
    """The response of items that are JSON already."""
    head = f'{{"run": {json.dumps(run.name)}, "{name}": ['.encode()
    return Response(b"".join([head, b", ".join(items), b"]}"]), media_type="application/json")


async def wait_while_connected(request: Request, results: Coroutine[Any, Any, list[bytes]]) -> list[bytes]:
    """The results. If the client disconnects first, as the web page does at each new key, waiting is cancelled.

    Args:
        request: The client's request.
        results: What to wait for.

    Raises:
        HTTPException: 499 if the client disconnects.
    """
    waiting = asyncio.ensure_future(results)
    disconnecting = asyncio.ensure_future(_wait_for_disconnect(request))
    try:
        await asyncio.wait({waiting, disconnecting}, return_when=asyncio.FIRST_COMPLETED)
        if waiting.done():
            return waiting.result()
        raise HTTPException(CLIENT_CLOSED_REQUEST, "the client has disconnected")
    finally:
        waiting.cancel()
        disconnecting.cancel()


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
