"""Requests are held against the models of Daytona's own SDK, and more strictly than those do."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from aiohttp import web
from pydantic import BaseModel, ValidationError

M = TypeVar("M", bound=BaseModel)


def refusal(status: int, message: str, **headers: str) -> web.HTTPException:
    """An answer as Daytona words it."""
    kinds = {
        400: web.HTTPBadRequest,
        401: web.HTTPUnauthorized,
        403: web.HTTPForbidden,
        404: web.HTTPNotFound,
        409: web.HTTPConflict,
        429: web.HTTPTooManyRequests,
        503: web.HTTPServiceUnavailable,
    }
    body = json.dumps({"statusCode": status, "message": message})
    return kinds[status](text=body, content_type="application/json", headers=headers)


async def parsed(request: web.Request, model: type[M]) -> M:
    """The body of a request. A field that the model does not have, or of another type, is refused."""
    try:
        document = await request.json()
    except ValueError:
        raise refusal(400, "the body is no JSON") from None
    known = {field.serialization_alias or name: name for name, field in model.model_fields.items()}
    known.pop("additional_properties", None)
    unknown = sorted(set(document) - set(known))
    if unknown:
        raise refusal(400, f"property {unknown[0]} should not exist")
    try:
        return model.model_validate({known[name]: value for name, value in document.items()})
    except ValidationError as error:
        raise refusal(400, f"{error.errors()[0]['loc']} {error.errors()[0]['msg']}") from error


def query(request: web.Request, *allowed: str) -> dict[str, str]:
    """The query of a request. Raises for a parameter that does not exist."""
    unknown = sorted(set(request.query) - set(allowed))
    if unknown:
        raise refusal(400, f"query parameter {unknown[0]} should not exist")
    return dict(request.query)


def answer(model: BaseModel, status: int = 200) -> web.Response:
    """A model of the SDK as JSON under its own names."""
    data: dict[str, Any] = model.model_dump(
        mode="json", by_alias=True, exclude={"additional_properties"}, exclude_none=True
    )
    return web.json_response(data, status=status)
