"""The whole server, but for its socket: the API, the files of the page, and who may ask."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI, Response
from fastapi.middleware.cors import CORSMiddleware
from starlette.responses import FileResponse
from starlette.staticfiles import StaticFiles

from regard import __version__
from regard.reports import interactive
from regard.serving.access import AccessMiddleware
from regard.serving.batch_queue import BatchQueue
from regard.serving.endpoints import Endpoints
from regard.serving.errors import add_handlers
from regard.serving.limits import Limits
from regard.serving.metrics import Metrics, MetricsMiddleware
from regard.serving.registry import ServedRun

PAGE = Path(__file__).with_name("page")


def build_app(
    runs: Sequence[ServedRun], limits: Limits, *, token: str | None = None, origins: Sequence[str] = ()
) -> FastAPI:
    metrics = Metrics()
    desk = BatchQueue(limits, metrics.worked)

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
    add_handlers(app)
    app.include_router(Endpoints(runs, limits, desk, metrics, guarded=token is not None).router())
    _add_page(app)
    # What is added last is asked first.
    app.add_middleware(AccessMiddleware, token=token, origins=origins, limits=limits)
    if origins:  # around the gate: a page that may ask may also read why it is refused
        app.add_middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=["*"],
            allow_headers=["*"],
            expose_headers=["Retry-After"],
        )
    app.add_middleware(
        MetricsMiddleware, metrics=metrics, paths=("/", "/docs", "/openapi.json", *app.openapi()["paths"])
    )
    return app


def _add_page(app: FastAPI) -> None:
    frozen = interactive.template()

    @app.api_route("/", methods=["GET", "HEAD"], include_in_schema=False)
    async def page() -> Response:
        return FileResponse(PAGE / "index.html")

    @app.api_route("/docs", methods=["GET", "HEAD"], include_in_schema=False)
    async def docs() -> Response:
        return FileResponse(PAGE / "docs.html")

    @app.get("/static/frozen.html", include_in_schema=False)
    async def frozen_page() -> Response:
        # It is for putting data into, not for being shown from here, where its script would not be allowed.
        return Response(frozen, media_type="text/plain; charset=utf-8")

    app.mount("/static/page", StaticFiles(directory=PAGE))
    app.mount("/static/view", StaticFiles(directory=interactive.VIEW))
