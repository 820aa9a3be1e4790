"""The API, and the files of the page."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.cors import CORSMiddleware
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, HTMLResponse, JSONResponse
from starlette.staticfiles import StaticFiles

from regard import __version__
from regard.errors import UserError, suggest
from regard.inspection import interactive
from regard.serving import messages
from regard.serving.desk import Desk
from regard.serving.gate import Gate
from regard.serving.limits import NOT_NOW, TOO_LARGE, TOO_MANY, WRONG, Limits, RefusedError
from regard.serving.metrics import Measured, Metrics
from regard.serving.served import ServedRun
from regard.serving.work import Scoring, Translating

PAGE = Path(__file__).with_name("page")
VIEW = Path(interactive.__file__).with_name("view")
MEASURED = ("/", "/docs", "/openapi.json", "/healthz", "/metrics", "/api/runs", "/api/translate", "/api/score")
PROBLEMS: dict[int | str, dict[str, Any]] = {
    400: {"model": messages.Problem, "description": "This is not JSON."},
    401: {"model": messages.Problem, "description": "The token is missing or wrong."},
    403: {
        "model": messages.Problem,
        "description": "Asked by a page from elsewhere, or by a name that is not ours.",
    },
    TOO_LARGE: {"model": messages.Problem, "description": "Too long, too many, or too much at once."},
    WRONG: {"model": messages.Problem, "description": "Something is not as it should be, or the model cannot do it."},
    TOO_MANY: {"model": messages.Problem, "description": "Too many texts are waiting; try again after Retry-After."},
    NOT_NOW: {"model": messages.Problem, "description": "Not done in time; try again after Retry-After."},
}
ANYBODY: dict[int | str, dict[str, Any]] = {status: PROBLEMS[status] for status in (401, 403)}
PLAIN = {"content": {"text/plain": {"schema": {"type": "string"}}}}
RETRY_AFTER = "1"  # seconds
CLIENT_GONE = 499  # nobody will see it, but for the metrics

log = logging.getLogger("regard.serving")
Work = Translating | Scoring


def build_app(
    runs: Sequence[ServedRun], limits: Limits, *, token: str | None = None, origins: Sequence[str] = ()
) -> FastAPI:
    """The whole server, but for its socket."""
    metrics = Metrics()
    desk = Desk(limits, metrics.worked)
    for run in runs:
        run.heed(desk.heed)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        desk.open()
        yield
        await asyncio.to_thread(desk.close)

    app = FastAPI(
        title="Regard",
        version=__version__,
        description="Translate with your own models, and look into them.",
        lifespan=lifespan,
        docs_url=None,  # they would load scripts from elsewhere
        redoc_url=None,
    )
    _add_handlers(app)
    _add_api(app, {run.name: run for run in runs}, limits, desk, metrics)
    _add_page(app)
    app.add_middleware(Gate, token=token, origins=origins, body_bytes=limits.body_bytes)
    if origins:  # around the gate: a page that may ask may also read why it is refused
        app.add_middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=["*"],
            allow_headers=["*"],
            expose_headers=["Retry-After"],
        )
    app.add_middleware(Measured, metrics=metrics, paths=MEASURED)
    return app


def _add_api(app: FastAPI, runs: dict[str, ServedRun], limits: Limits, desk: Desk, metrics: Metrics) -> None:
    default = next(iter(runs))

    def chosen(name: str | None) -> ServedRun:
        if name is not None and name not in runs:
            raise UserError(f"run: there is no {name!r}; {suggest(name, runs)}")
        return runs[name or default]

    async def do(request: Request, work: Work, items: Sequence[Any]) -> list[str]:
        numbers = await asyncio.to_thread(work.numbers, items)
        if numbers > limits.numbers:
            reason = f"this takes about {numbers:,} numbers in memory, and {limits.numbers:,} are allowed"
            raise RefusedError(TOO_LARGE, f"{reason}; ask for fewer or shorter texts at once, or for a narrower beam")
        return await while_connected(request, desk.ask(work, items, numbers))

    @app.post("/api/translate", response_model=messages.TranslateAnswer, responses=PROBLEMS)
    async def translate(request: Request, wanted: messages.TranslateRequest) -> Response:
        """Translate texts: one answer for each, in order."""
        run, search = chosen(wanted.run), wanted.search()
        check_texts(wanted.texts, limits)
        said = wanted.prefix if isinstance(wanted.prefix, str) else "".join(wanted.prefix)
        check_texts([said], limits, "prefix")
        for name in ("beam", "n_best"):
            if getattr(wanted, name) > limits.beam:
                raise UserError(f"{name}: {getattr(wanted, name)} is more than the {limits.beam} that are allowed here")
        work = Translating(run, search, wanted.attention, wanted.alternatives, wanted.tree)
        return _listed("translations", run, await do(request, work, wanted.texts))

    @app.post("/api/score", response_model=messages.ScoreAnswer, responses=PROBLEMS)
    async def score(request: Request, wanted: messages.ScoreRequest) -> Response:
        """What a model thinks of given translations: log-probability and perplexity, one for each pair, in order."""
        run = chosen(wanted.run)
        pairs = [(pair.source, pair.target) for pair in wanted.pairs]
        check_texts([source for source, _ in pairs], limits, "pairs", ".source")
        check_texts([target for _, target in pairs], limits, "pairs", ".target")
        return _listed("scores", run, await do(request, Scoring(run), pairs))

    @app.get("/api/runs", response_model=messages.RunsAnswer, responses=ANYBODY)
    async def list_runs() -> Response:
        """The runs that can be asked, the first of them by default, and what is too much for this server."""
        return JSONResponse({"runs": [run.about() for run in runs.values()], "limits": asdict(limits)})

    @app.get("/healthz", response_model=messages.Health, responses={403: PROBLEMS[403]})
    async def healthz() -> Response:
        """Is the server there? It answers at once, however much there is to translate."""
        return JSONResponse({"status": "ok", "version": __version__})

    # Of the class Response: for another one, problems would be described as being of its type, too.
    @app.get("/metrics", response_class=Response, responses=ANYBODY | {200: PLAIN})
    async def tell_metrics() -> Response:
        """What was done so far, in Prometheus's text format."""
        return Response(metrics.text(desk.waiting), media_type="text/plain; version=0.0.4; charset=utf-8")


def _add_page(app: FastAPI) -> None:
    frozen = interactive.template()

    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        return FileResponse(PAGE / "index.html")

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return FileResponse(PAGE / "docs.html")

    @app.get("/static/frozen.html", include_in_schema=False)
    async def frozen_page() -> Response:
        # It is for putting data into, not for being shown from here, where its scripts would not be allowed.
        return HTMLResponse(frozen, media_type="text/plain; charset=utf-8")

    app.mount("/static/page", StaticFiles(directory=PAGE))
    app.mount("/static/view", StaticFiles(directory=VIEW))


def _add_handlers(app: FastAPI) -> None:
    """Every problem has the same form: a status code, and a sentence that says what was wrong."""

    @app.exception_handler(RefusedError)
    async def refused(request: Request, error: RefusedError) -> Response:
        later = {"Retry-After": RETRY_AFTER} if error.status in (TOO_MANY, NOT_NOW) else None
        return JSONResponse({"detail": error.reason}, error.status, later)

    @app.exception_handler(UserError)
    async def wrong(request: Request, error: UserError) -> Response:
        return _problem(WRONG, str(error))

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        # Not the values themselves: they may be anything, NaN for one, which is not JSON.
        first = error.errors()[0]
        if first["type"] == "json_invalid":
            return _problem(400, f"this is not JSON: at character {first['loc'][-1]}: {first['ctx']['error']}")
        if first["loc"] == ("body",) and first["type"] in ("missing", "model_attributes_type"):
            reason = "a JSON object is needed, with the header 'Content-Type: application/json'; /docs describes it"
            return _problem(WRONG, reason)
        told = [f"{_where(each['loc'])}: {each['msg'][0].lower()}{each['msg'][1:]}" for each in error.errors()[:5]]
        return _problem(WRONG, "; ".join(told))

    @app.exception_handler(HTTPException)
    async def refused_by_framework(request: Request, error: HTTPException) -> Response:
        unread = error.status_code == 400 and error.__cause__ is not None  # what JSON's parser could not cope with
        reason = "this is not JSON that can be read" if unread else str(error.detail)
        response = _problem(error.status_code, reason)
        response.headers.update(error.headers or {})
        return response

    @app.exception_handler(Exception)
    async def failed(request: Request, error: Exception) -> Response:
        if "can't allocate memory" in str(error):  # torch has no class of its own for this
            return JSONResponse({"detail": "not enough memory; ask for less at once"}, NOT_NOW, {"Retry-After": "1"})
        return _problem(500, "something went wrong here; the server's log says what")


def _problem(status: int, reason: str) -> JSONResponse:
    return JSONResponse({"detail": reason.encode("utf-8", "backslashreplace").decode()}, status)


def _where(place: Sequence[Any]) -> str:
    """Such as `texts[2]`."""
    parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in place if part != "body"]
    return "".join(parts).removeprefix(".") or "the request"


def check_texts(texts: Sequence[str], limits: Limits, name: str = "texts", side: str = "") -> None:
    if len(texts) > limits.texts:
        reason = f"{name}: {len(texts):,} are more than the {limits.texts:,} that one request may have"
        raise RefusedError(TOO_LARGE, f"{reason}; send several requests")
    for place, text in enumerate(texts):
        if len(text) > limits.text_characters:
            at = name if name == "prefix" else f"{name}[{place}]{side}"
            reason = f"{at}: {len(text):,} characters are more than the {limits.text_characters:,} of a text"
            raise RefusedError(TOO_LARGE, f"{reason}; cut it into sentences")


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
