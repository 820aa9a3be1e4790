"""The ASGI application: the API, the web page's files, access control and metrics."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Response
from fastapi.middleware.cors import CORSMiddleware
from starlette.responses import FileResponse, HTMLResponse
from starlette.staticfiles import StaticFiles

from regard import __version__
from regard.reports import interactive
from regard.serving.access import AccessMiddleware
from regard.serving.batch_queue import BatchQueue
from regard.serving.endpoints import Endpoints
from regard.serving.errors import add_exception_handlers
from regard.serving.limits import Limits
from regard.serving.metrics import Metrics, MetricsMiddleware
from regard.serving.registry import ServedRun

PAGE = Path(__file__).with_name("page")


def build_app(
    runs: Sequence[ServedRun],
    limits: Limits,
    *,
    token: str | None = None,
    origins: Sequence[str] = (),
    metrics: Metrics | None = None,
) -> FastAPI:
    """The ASGI application for these runs.

    Args:
        runs: The runs to serve, from `open_runs`; the first is the default.
        limits: Limits on requests.
        token: The bearer token that every request of the API needs; None: no token.
        origins: Origins whose pages may send requests, besides this server's own.
        metrics: The metrics to record and export, which the server shares; None: new ones.
    """
    metrics = metrics or Metrics()
    queue = BatchQueue(limits, metrics.observe_batch)
    metrics.watch_queue(lambda: queue.queued_texts, lambda: queue.in_progress_texts)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        queue.start()
        yield
        await asyncio.to_thread(queue.close)

    app = FastAPI(
        title="Regard",
        version=__version__,
        description="Translate with your own models, and inspect their attention.",
        lifespan=lifespan,
        docs_url=None,  # FastAPI's pages load scripts from other hosts
        redoc_url=None,
    )
    add_exception_handlers(app)
    app.include_router(Endpoints(runs, limits, queue, metrics, needs_token=token is not None).router())
    _add_page(app)
    # The middleware that is added last runs first.
    app.add_middleware(AccessMiddleware, token=token, origins=origins, limits=limits)
    if origins:  # outside AccessMiddleware, so that pages of allowed origins can read its error responses
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


class PageFiles(StaticFiles):
    """Small static files, which are read at once: a client that reads slowly keeps no file open."""

    def file_response(self, *arguments: Any, **options: Any) -> Response:
        response = super().file_response(*arguments, **options)
        if not isinstance(response, FileResponse):  # not modified since the client's copy
            return response
        headers = {name: response.headers[name] for name in ("etag", "last-modified")}
        return Response(Path(response.path).read_bytes(), response.status_code, headers, response.media_type)


def _add_page(app: FastAPI) -> None:
    """Add the web page, the API documentation and their static files."""
    page_template = interactive.template()

    @app.api_route("/", methods=["GET", "HEAD"], include_in_schema=False)
    async def index() -> Response:
        return HTMLResponse((PAGE / "index.html").read_bytes())

    @app.api_route("/docs", methods=["GET", "HEAD"], include_in_schema=False)
    async def docs() -> Response:
        return HTMLResponse((PAGE / "docs.html").read_bytes())

    @app.get("/static/frozen.html", include_in_schema=False)
    async def saved_page_template() -> Response:
        # As plain text: the page fills in its data. Shown from here, the security policy would block its script.
        return Response(page_template, media_type="text/plain; charset=utf-8")

    app.mount("/static/page", PageFiles(directory=PAGE))
    app.mount("/static/view", PageFiles(directory=interactive.VIEW))
