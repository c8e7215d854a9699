"""Data for the page's script: JSON in a script element that no content can end or start."""

from __future__ import annotations

from pydantic import BaseModel, JsonValue

from ..store.files import encode
from .markup import Html

_ESCAPES = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)
"""Outside of strings JSON has none of these; inside, they mean the same."""


def json_block(identifier: str, value: BaseModel | JsonValue) -> Html:
    """``<script type="application/json" id="…">``; ``identifier`` is a literal of ours."""
    plain = value.model_dump(mode="json", exclude_defaults=True) if isinstance(value, BaseModel) else value
    text = encode(plain).decode().rstrip().translate(_ESCAPES)
    return Html(f'<script type="application/json" id="{identifier}">{text}</script>\n')
