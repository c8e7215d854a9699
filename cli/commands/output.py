"""Writing of command output: results to standard output, everything else to standard error."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from pydantic import BaseModel, JsonValue

if TYPE_CHECKING:
    from ..config import ShownValue


def warn(text: str) -> None:
    """One line on standard error."""
    print(f"Warning: {text}", file=sys.stderr)


def print_json(value: BaseModel | JsonValue) -> None:
    """JSON on standard output, indented."""
    import json

    if isinstance(value, BaseModel):
        print(value.model_dump_json(indent=2))
    else:
        print(json.dumps(value, indent=2, ensure_ascii=False))


def print_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Aligned columns on standard output; plain text, so that it can be piped."""
    lines = [tuple(header), *(tuple(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def print_values(values: Sequence[ShownValue], *, as_json: bool) -> None:
    """Configuration values with the origin of each."""
    import json

    if as_json:
        print_json({item.path: {"value": item.value, "origin": item.origin} for item in values})
        return
    rows = [(item.path, json.dumps(item.value, ensure_ascii=False), item.origin) for item in values]
    print_table(("SETTING", "VALUE", "FROM"), rows)
