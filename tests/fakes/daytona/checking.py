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
    try:
        found = model.from_dict(document)  # type: ignore[attr-defined]  # all generated models have it
    except ValidationError as error:
        raise refusal(400, f"{error.errors()[0]['loc']} {error.errors()[0]['msg']}") from error
    _require_known(found)
    return found  # type: ignore[no-any-return]


def _require_known(model: BaseModel) -> None:
    """The SDK's models keep fields that they do not know; the service refuses them."""
    for name in getattr(model, "additional_properties", {}):
        raise refusal(400, f"property {name} should not exist")
    for name in type(model).model_fields:
        value = getattr(model, name)
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, BaseModel):
                _require_known(item)


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
