"""Many similar entries as a short text: for states of workflows, which have to stay far below two million bytes."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any


def pack(values: dict[str, Any]) -> str:
    """Plain JSON values, compressed."""
    text = json.dumps(values, separators=(",", ":"), ensure_ascii=False)
    return base64.b85encode(zlib.compress(text.encode(), 3)).decode()


def unpack(packed: str) -> dict[str, Any]:
    """What was packed. Raises ``ValueError`` for anything else."""
    try:
        values = json.loads(zlib.decompress(base64.b85decode(packed)))
    except zlib.error as error:
        raise ValueError(f"not what was packed: {error}") from None
    if not isinstance(values, dict):
        raise ValueError("not what was packed: no object")
    return values
