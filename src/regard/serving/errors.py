"""Error responses: a status code and `{"detail": …}` with what is wrong and what would be right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from regard.errors import UserError
from regard.serving.limits import (
    CONTENT_TOO_LARGE,
    REQUEST_TIMEOUT,
    SERVICE_UNAVAILABLE,
    TOO_MANY_REQUESTS,
    UNPROCESSABLE_CONTENT,
)
from regard.serving.schemas import ErrorSchema

RETRY_AFTER = {"Retry-After": "1"}  # seconds
RETRY_STATUSES = (TOO_MANY_REQUESTS, SERVICE_UNAVAILABLE)
MAX_VALIDATION_ERRORS = 5  # listed in one response
DESCRIPTIONS = {
    400: "The body is not valid JSON.",
    401: "The token is missing or wrong.",
    403: "The request comes from another site's page, or names a host that is not this server's.",
    REQUEST_TIMEOUT: "The request body did not arrive in time.",
    CONTENT_TOO_LARGE: "A text is too long, or there are too many texts, or the request needs too much memory.",
    UNPROCESSABLE_CONTENT: "A field is invalid, or the model cannot process the text.",
    TOO_MANY_REQUESTS: "The queue is full; retry after `Retry-After` seconds.",
    SERVICE_UNAVAILABLE: "No result in time, not enough memory, or too many connections; retry after `Retry-After`.",
}


def error_descriptions(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The `responses` of an OpenAPI operation for these status codes.

    Args:
        statuses: Status codes; without any, all that this server uses.
    """
    retry_header = {"Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer"}}}
    return {
        status: {
            "model": ErrorSchema,
            "description": DESCRIPTIONS[status],
            "headers": retry_header if status in RETRY_STATUSES else {},
        }
        for status in statuses or DESCRIPTIONS
    }


def error_response(status: int, detail: str) -> JSONResponse:
    """The one form of all error responses. Lone surrogates, which JSON allows but UTF-8 does not, are escaped.

    Args:
        status: The status code.
        detail: What is wrong and what would be right.
    """
    headers = RETRY_AFTER if status in RETRY_STATUSES else None
    return JSONResponse({"detail": detail.encode("utf-8", "backslashreplace").decode()}, status, headers)


def add_exception_handlers(app: FastAPI) -> None:
    """Turn every expected exception into an error response.

    Args:
        app: The application that gets the handlers.
    """

    @app.exception_handler(UserError)
    async def handle_user_error(request: Request, error: UserError) -> Response:
        return error_response(UNPROCESSABLE_CONTENT, str(error))

    @app.exception_handler(RequestValidationError)
    async def handle_validation_error(request: Request, error: RequestValidationError) -> Response:
        return validation_error_response(error)

    @app.exception_handler(HTTPException)
    async def handle_http_exception(request: Request, error: HTTPException) -> Response:
        is_parser_error = error.status_code == 400 and error.__cause__ is not None  # such as too deep nesting
        detail = "the body is not JSON that can be parsed" if is_parser_error else str(error.detail)
        response = error_response(error.status_code, detail)
        response.headers.update(error.headers or {})
        return response

    @app.exception_handler(MemoryError)
    async def handle_memory_error(request: Request, error: MemoryError) -> Response:
        return error_response(SERVICE_UNAVAILABLE, "not enough memory; send fewer or shorter texts")


def validation_error_response(error: RequestValidationError) -> JSONResponse:
    """The response to an invalid body. It never repeats values, which may be anything, such as NaN.

    Args:
        error: FastAPI's validation error.
    """
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return error_response(400, f"invalid JSON at character {first['loc'][-1]}: {first['ctx']['error']}")
    if first["loc"] == ("body",) and first["type"] in ("missing", "model_attributes_type"):
        detail = "the body must be a JSON object, with the header 'Content-Type: application/json'; see /docs"
        return error_response(UNPROCESSABLE_CONTENT, detail)
    details = [
        _with_location(each["loc"], f"{each['msg'][0].lower()}{each['msg'][1:]}")
        for each in error.errors()[:MAX_VALIDATION_ERRORS]
    ]
    return error_response(UNPROCESSABLE_CONTENT, "; ".join(details))


def _with_location(location: Sequence[Any], message: str) -> str:
    """The message with its location in front, such as `texts[2]: input should be a valid string`."""
    parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in location if part != "body"]
    return ": ".join(filter(None, ["".join(parts).removeprefix("."), message]))
