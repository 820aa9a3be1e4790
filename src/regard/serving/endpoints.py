"""What can be asked of a server: each endpoint checks what it is given, and has the desk do it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Sequence
from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Depends, Request, Response
from fastapi.security import HTTPBearer
from starlette.responses import JSONResponse

from regard import __version__
from regard.errors import UserError, suggest
from regard.serving import schemas
from regard.serving.batch_queue import BatchQueue
from regard.serving.errors import described, problem
from regard.serving.jobs import Scoring, Translating
from regard.serving.limits import NOT_NOW, TOO_LARGE, Limits, RefusedError
from regard.serving.metrics import Metrics
from regard.serving.registry import ServedRun

PLAIN: dict[int | str, dict[str, Any]] = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}
CLIENT_GONE = 499  # nobody will see it, but for the metrics


class Endpoints:
    """Of these runs. `guarded`: a token is needed, which the description then says."""

    def __init__(
        self, runs: Sequence[ServedRun], limits: Limits, desk: BatchQueue, metrics: Metrics, guarded: bool = False
    ) -> None:
        self.runs = {run.name: run for run in runs}
        self.limits, self.desk, self.counted = limits, desk, metrics
        self.needs = [Depends(HTTPBearer(auto_error=False))] if guarded else []  # it is the gate that looks at it

    def router(self) -> APIRouter:
        all_problems, of_access = described(), described(401, 403)
        health = APIRouter()
        health.get("/healthz", response_model=schemas.Health, responses=described(403, NOT_NOW))(self.healthz)
        health.head("/healthz", include_in_schema=False)(self.healthz)
        router = APIRouter(dependencies=self.needs)
        router.post("/api/translate", response_model=schemas.TranslateAnswer, responses=all_problems)(self.translate)
        router.post("/api/score", response_model=schemas.ScoreAnswer, responses=all_problems)(self.score)
        router.get("/api/runs", response_model=schemas.RunsAnswer, responses=of_access)(self.list_runs)
        # Of the class Response: for another one, problems would be described as being of its type, too.
        router.get("/metrics", response_class=Response, responses=PLAIN | of_access)(self.metrics)
        health.include_router(router)
        return health

    async def translate(self, request: Request, wanted: schemas.TranslateRequest) -> Response:
        """Translate texts: one answer for each, in order."""
        run, search = self._run(wanted.run), wanted.search()
        self._check_texts("texts", wanted.texts)
        self._check_length("prefix", "".join(wanted.prefix))
        for name in ("beam", "n_best"):
            if getattr(wanted, name) > self.limits.beam:
                most = f"more than the {self.limits.beam} that are allowed here"
                raise UserError(f"{name}: {getattr(wanted, name)} is {most}")
        work = Translating(run, search, wanted.attention, wanted.alternatives, wanted.tree)
        return _listed("translations", run, await self._do(request, work, wanted.texts))

    async def score(self, request: Request, wanted: schemas.ScoreRequest) -> Response:
        """What a model thinks of given translations: log-probability and perplexity, one for each pair, in order."""
        run = self._run(wanted.run)
        self._check_texts("pairs", [pair.source for pair in wanted.pairs], ".source")
        self._check_texts("pairs", [pair.target for pair in wanted.pairs], ".target")
        pairs = [(pair.source, pair.target) for pair in wanted.pairs]
        return _listed("scores", run, await self._do(request, Scoring(run), pairs))

    async def list_runs(self) -> Response:
        """The runs that can be asked, the first of them by default, and what is too much for this server."""
        return JSONResponse({"runs": [run.about() for run in self.runs.values()], "limits": asdict(self.limits)})

    async def healthz(self) -> Response:
        """Is the server there? It answers at once, however much there is to translate."""
        if not self.desk.is_open:
            return problem(NOT_NOW, "what translates has ended; start the server anew")
        return JSONResponse({"status": "ok", "version": __version__})

    async def metrics(self) -> Response:
        """What was done so far, in Prometheus's text format."""
        told = self.counted.text(self.desk.waiting, self.desk.under_way)
        return Response(told, media_type="text/plain; version=0.0.4; charset=utf-8")

    def _run(self, name: str | None) -> ServedRun:
        if name is None:
            return next(iter(self.runs.values()))
        if name not in self.runs:
            raise UserError(f"run: there is no {name!r}; {suggest(name, self.runs)}")
        return self.runs[name]

    def _check_texts(self, name: str, texts: Sequence[str], side: str = "") -> None:
        if len(texts) > self.limits.texts:
            reason = f"{name}: {len(texts):,} are more than the {self.limits.texts:,} that one request may have"
            raise RefusedError(TOO_LARGE, f"{reason}; send several requests")
        for place, text in enumerate(texts):
            self._check_length(f"{name}[{place}]{side}", text)

    def _check_length(self, name: str, text: str) -> None:
        if len(text) > self.limits.characters:
            reason = f"{name}: {len(text):,} characters are more than the {self.limits.characters:,} of a text"
            raise RefusedError(TOO_LARGE, f"{reason}; cut it into sentences")

    async def _do(self, request: Request, work: Translating | Scoring, items: Sequence[Any]) -> list[bytes]:
        extent = await asyncio.to_thread(work.extent, items)
        megabytes = work.megabytes(extent)
        if megabytes > self.limits.memory:
            reason = f"this may take {megabytes:,.0f} megabytes of memory, and {self.limits.memory:,.0f} are allowed"
            less = "fewer or shorter texts, a narrower beam, or less to be told of them"
            raise RefusedError(TOO_LARGE, f"{reason}; ask for {less}")
        return await while_connected(request, self.desk.ask(work, items, extent))


def _listed(name: str, run: ServedRun, items: Sequence[bytes]) -> Response:
    """The items are JSON already."""
    head = f'{{"run": {json.dumps(run.name)}, "{name}": ['.encode()
    return Response(b"".join([head, b", ".join(items), b"]}"]), media_type="application/json")


async def while_connected(request: Request, answer: Coroutine[Any, Any, list[bytes]]) -> list[bytes]:
    """The answer; or none, if the client leaves before it is there, such as a page on which somebody types on."""
    answering = asyncio.ensure_future(answer)
    leaving = asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if answering.done():
            return answering.result()
        raise RefusedError(CLIENT_GONE, "the client has left")
    finally:
        answering.cancel()
        leaving.cancel()


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
