"""How a server says no: a status code, and a sentence that says what was wrong and what would be right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from regard.errors import UserError
from regard.serving.limits import NOT_NOW, TOO_LARGE, TOO_MANY, TOO_SLOW, WRONG, RefusedError
from regard.serving.schemas import ErrorSchema

RETRY_AFTER = {"Retry-After": "1"}  # seconds
DESCRIPTIONS = {
    400: "This is not JSON.",
    401: "The token is missing or wrong.",
    403: "Asked by a page from elsewhere, or by a name that is not ours.",
    TOO_SLOW: "The request did not come in time.",
    TOO_LARGE: "Too long, too many, or too much at once.",
    WRONG: "Something is not as it should be, or the model cannot do it.",
    TOO_MANY: "Too many texts are waiting; try again after Retry-After.",
    NOT_NOW: "Not done in time, or not enough memory; try again after Retry-After.",
}


def described(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """These problems, or all of them, as the description of the API tells of them."""
    later = {"Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer"}}}
    return {
        status: {
            "model": ErrorSchema,
            "description": DESCRIPTIONS[status],
            "headers": later if status in (TOO_MANY, NOT_NOW) else {},
        }
        for status in statuses or DESCRIPTIONS
    }


def problem(status: int, reason: str) -> JSONResponse:
    """The one form that all of them have. Half a character, which JSON may hold but UTF-8 may not, is escaped."""
    later = RETRY_AFTER if status in (TOO_MANY, NOT_NOW) else None
    return JSONResponse({"detail": reason.encode("utf-8", "backslashreplace").decode()}, status, later)


def add_handlers(app: FastAPI) -> None:
    """Whatever is raised becomes a problem, and never a traceback."""

    @app.exception_handler(RefusedError)
    async def refused(request: Request, error: RefusedError) -> Response:
        return problem(error.status, error.reason)

    @app.exception_handler(UserError)
    async def wrong(request: Request, error: UserError) -> Response:
        return problem(WRONG, str(error))

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        return explain_request_error(error)

    @app.exception_handler(HTTPException)
    async def refused_by_framework(request: Request, error: HTTPException) -> Response:
        unread = error.status_code == 400 and error.__cause__ is not None  # what the parser could not cope with
        answer = problem(error.status_code, "this is not JSON that can be read" if unread else str(error.detail))
        answer.headers.update(error.headers or {})
        return answer

    @app.exception_handler(MemoryError)
    async def starved(request: Request, error: MemoryError) -> Response:
        return problem(NOT_NOW, "not enough memory; ask for less at once")


def explain_request_error(error: RequestValidationError) -> JSONResponse:
    """What is wrong with a body. Not the values themselves: they may be anything, NaN for one, which is not JSON."""
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return problem(400, f"this is not JSON: at character {first['loc'][-1]}: {first['ctx']['error']}")
    if first["loc"] == ("body",) and first["type"] in ("missing", "model_attributes_type"):
        needed = "a JSON object is needed, with the header 'Content-Type: application/json'; /docs describes it"
        return problem(WRONG, needed)
    told = [_at(each["loc"], f"{each['msg'][0].lower()}{each['msg'][1:]}") for each in error.errors()[:5]]
    return problem(WRONG, "; ".join(told))


def _at(place: Sequence[Any], message: str) -> str:
    """Such as `texts[2]: input should be a valid string`."""
    names = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in place if part != "body"]
    return ": ".join(filter(None, ["".join(names).removeprefix("."), message]))
