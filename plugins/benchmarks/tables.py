"""Reading the rows of a data file, whichever of the usual formats it has."""

from __future__ import annotations

import importlib
from pathlib import Path

import orjson

from ...contracts.errors import DatasetError
from ...contracts.extras import install_command
from .jsonl import NumberedRow, RowT, parse_row, read_jsonl


def read_rows(path: str | Path, model: type[RowT]) -> list[NumberedRow[RowT]]:
    """Every row of a ``.parquet``, ``.json`` (a list), ``.jsonl`` or ``.jsonl.gz`` file, validated by ``model``.

    Raises ``DatasetError`` with the file, the row and the reason. Blocks.
    """
    source = Path(path).expanduser()
    if source.suffix not in (".parquet", ".json"):
        return read_jsonl(source, model)
    if not source.is_file():
        raise DatasetError(f"data set {str(source)!r} does not exist, or is no file")
    try:
        values = _parquet(source) if source.suffix == ".parquet" else orjson.loads(source.read_bytes())
    except orjson.JSONDecodeError as error:
        raise DatasetError(f"{source}: malformed JSON: {error.msg}") from None
    except OSError as error:
        raise DatasetError(f"data set {str(source)!r} cannot be read: {error}") from error
    if not isinstance(values, list) or not values:
        raise DatasetError(f"{source} has no rows; expected a list of objects")
    return [
        parse_row(f"{source}: row {number}", value, model) for number, value in enumerate(values, start=1)
    ]


def _parquet(source: Path) -> list[object]:
    try:
        parquet = importlib.import_module("pyarrow.parquet")
        arrow = importlib.import_module("pyarrow")
    except ImportError as error:
        raise DatasetError(
            f"reading {source.name} needs pyarrow ({error}): {install_command('parquet')}"
        ) from None
    try:
        rows: list[dict[str, object]] = parquet.ParquetFile(source).read().to_pylist()
    except arrow.ArrowException as error:
        raise DatasetError(f"{source} is no complete Parquet file: {error}") from error
    # Every row has every column there; one that says nothing is null.
    return [{name: value for name, value in row.items() if value is not None} for row in rows]
