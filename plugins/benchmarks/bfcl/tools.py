"""The functions of a problem as tools of a model's API."""

from __future__ import annotations

import re

from pydantic import JsonValue

from ....contracts.task import ToolDefinition
from .dataset import FunctionDoc

_TYPES = {
    "integer": "integer",
    "number": "number",
    "float": "number",
    "string": "string",
    "boolean": "boolean",
    "bool": "boolean",
    "array": "array",
    "list": "array",
    "tuple": "array",
    "dict": "object",
    "object": "object",
    "any": "string",
}
_DEPTH = 20


def tool_name(name: str) -> str:
    """A name that every API takes; the leaderboard replaces dots in the same way."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64]


def tool_of(function: FunctionDoc) -> ToolDefinition:
    """The function with its types as JSON Schema has them."""
    return ToolDefinition(
        name=tool_name(function.name),
        description=f"{function.description} Note that the provided function is in Python 3 syntax.".strip(),
        parameters=_schema({**function.parameters, "type": "object"}, 0),
    )


def _schema(value: dict[str, JsonValue], depth: int) -> dict[str, JsonValue]:
    schema = dict(value)
    kind = schema.get("type")
    if isinstance(kind, str):
        schema["type"] = _TYPES.get(kind, "string")
        if kind == "float":  # JSON Schema knows no difference from an integer that models would heed
            schema["format"] = "float"
            schema["description"] = f"{schema.get('description', '')} This is a float type value.".strip()
    if depth < _DEPTH:
        for name in ("items", "additionalProperties"):
            inner = schema.get(name)
            if isinstance(inner, dict):
                schema[name] = _schema(inner, depth + 1)
        properties = schema.get("properties")
        if isinstance(properties, dict):
            schema["properties"] = {
                key: _schema(item, depth + 1) if isinstance(item, dict) else item
                for key, item in properties.items()
            }
    return schema
