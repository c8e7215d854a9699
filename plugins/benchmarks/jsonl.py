"""Reading a JSON Lines data set; every problem is named with its file and line."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import orjson
from pydantic import BaseModel, ValidationError

from ...contracts.errors import DatasetError
from ..params import describe_validation_error

RowT = TypeVar("RowT", bound=BaseModel)

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_JSON_TYPES = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}


@dataclass(frozen=True)
class NumberedRow(Generic[RowT]):
    """A row and where it stands: ``place`` is ``"<path>:<line>"``, for messages."""

    place: str
    row: RowT


def read_jsonl(path: str | Path, model: type[RowT]) -> list[NumberedRow[RowT]]:
    """Every row of a ``.jsonl`` or ``.jsonl.gz`` file, validated by ``model``; blank lines are skipped.

    Raises ``DatasetError`` with the file, the line and the reason: the file is missing, a directory,
    unreadable or without a row; a line is not UTF-8, not JSON, not an object, or not a ``model``.
    """
    source = Path(path).expanduser()
    rows = [_parse(place, line, model) for place, line in _lines(source)]
    if not rows:
        raise DatasetError(f"{source} has no rows; expected one JSON object per line")
    return rows


def require_unique(rows: list[NumberedRow[RowT]], key: Callable[[RowT], str], name: str) -> None:
    """Raise ``DatasetError`` naming both lines when two rows have the same ``key`` (called ``name``)."""
    seen: dict[str, str] = {}
    for item in rows:
        value = key(item.row)
        if value in seen:
            raise DatasetError(f"{item.place}: {name} {value!r} is already used at {seen[value]}")
        seen[value] = item.place


def _lines(source: Path) -> Iterator[tuple[str, bytes]]:
    # Split at line feeds only: U+2028 and friends are legal inside JSON strings.
    data = _read(source).removeprefix(_BYTE_ORDER_MARK)
    for number, line in enumerate(data.split(b"\n"), start=1):
        if line.strip():
            yield f"{source}:{number}", line


def _read(source: Path) -> bytes:
    try:
        data = source.read_bytes()
    except FileNotFoundError:
        raise DatasetError(f"data set {str(source)!r} does not exist") from None
    except IsADirectoryError:
        raise DatasetError(f"data set {str(source)!r} is a directory; give the .jsonl file in it") from None
    except OSError as error:
        raise DatasetError(f"data set {str(source)!r} cannot be read: {error.strerror}") from error
    if source.suffix != ".gz":
        return data
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise DatasetError(f"data set {str(source)!r} is not a complete gzip file: {error}") from error


def _parse(place: str, line: bytes, model: type[RowT]) -> NumberedRow[RowT]:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DatasetError(
            f"{place}: not UTF-8 (byte 0x{line[error.start]:02x} at column {error.start + 1})"
        ) from None
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise DatasetError(f"{place}: malformed JSON at column {error.colno}: {error.msg}") from None
    return parse_row(place, value, model)


def parse_row(place: str, value: object, model: type[RowT]) -> NumberedRow[RowT]:
    """One row of any file. Raises ``DatasetError`` that names ``place``."""
    if not isinstance(value, dict):
        raise DatasetError(f"{place}: expected a JSON object, got {_JSON_TYPES.get(type(value), 'a number')}")
    try:
        return NumberedRow(place, model.model_validate(value))
    except ValidationError as error:
        raise DatasetError(describe_validation_error(error, model, place)) from None
