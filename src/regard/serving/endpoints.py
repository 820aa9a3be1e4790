"""What can be asked of a server: each endpoint checks what it is given, and has the desk do it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Sequence
from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.responses import JSONResponse

from regard import __version__
from regard.errors import UserError, suggest
from regard.serving import messages
from regard.serving.desk import Desk
from regard.serving.limits import TOO_LARGE, Limits, RefusedError
from regard.serving.metrics import Metrics
from regard.serving.problems import described
from regard.serving.served import ServedRun
from regard.serving.work import Scoring, Translating

PLAIN: dict[int | str, dict[str, Any]] = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}
CLIENT_GONE = 499  # nobody will see it, but for the metrics


class Endpoints:
    def __init__(self, runs: Sequence[ServedRun], limits: Limits, desk: Desk, metrics: Metrics) -> None:
        self.runs = {run.name: run for run in runs}
        self.limits, self.desk, self.counted = limits, desk, metrics

    def router(self) -> APIRouter:
        router = APIRouter()
        all_problems, of_access = described(), described(401, 403)
        router.post("/api/translate", response_model=messages.TranslateAnswer, responses=all_problems)(self.translate)
        router.post("/api/score", response_model=messages.ScoreAnswer, responses=all_problems)(self.score)
        router.get("/api/runs", response_model=messages.RunsAnswer, responses=of_access)(self.list_runs)
        router.get("/healthz", response_model=messages.Health, responses=described(403))(self.healthz)
        # Of the class Response: for another one, problems would be described as being of its type, too.
        router.get("/metrics", response_class=Response, responses=PLAIN | of_access)(self.metrics)
        return router

    async def translate(self, request: Request, wanted: messages.TranslateRequest) -> Response:
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

    async def score(self, request: Request, wanted: messages.ScoreRequest) -> Response:
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
        return JSONResponse({"status": "ok", "version": __version__})

    async def metrics(self) -> Response:
        """What was done so far, in Prometheus's text format."""
        return Response(self.counted.text(self.desk.waiting), media_type="text/plain; version=0.0.4; charset=utf-8")

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
        if len(text) > self.limits.text_characters:
            reason = f"{name}: {len(text):,} characters are more than the {self.limits.text_characters:,} of a text"
            raise RefusedError(TOO_LARGE, f"{reason}; cut it into sentences")

    async def _do(self, request: Request, work: Translating | Scoring, items: Sequence[Any]) -> list[str]:
        numbers = await asyncio.to_thread(work.numbers, items)
        if numbers > self.limits.numbers:
            reason = f"this takes about {numbers:,} numbers in memory, and {self.limits.numbers:,} are allowed"
            raise RefusedError(TOO_LARGE, f"{reason}; ask for fewer or shorter texts at once, or for a narrower beam")
        return await while_connected(request, self.desk.ask(work, items, numbers))


def _listed(name: str, run: ServedRun, items: Sequence[str]) -> Response:
    """The items are JSON already."""
    return Response(f'{{"run": {json.dumps(run.name)}, "{name}": [{", ".join(items)}]}}', media_type="application/json")


async def while_connected(request: Request, answer: Coroutine[Any, Any, list[str]]) -> list[str]:
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
