"""Reading and writing single files: atomic, optionally durable, never through a symbolic link."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import json
import os
import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import orjson
from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticSerializationError

from ...contracts.errors import RecordError

ModelT = TypeVar("ModelT", bound=BaseModel)
TEMPORARY_PREFIX = ".tmp-"
_ONE_READ = 65536
_counter = itertools.count()
_NOFOLLOW = os.O_NOFOLLOW | os.O_CLOEXEC


def encode(value: BaseModel | Any, *, indent: bool = False) -> bytes:
    """JSON in UTF-8, with a newline at the end. Lone surrogates, which UTF-8 cannot hold, become U+FFFD."""
    try:
        if isinstance(value, BaseModel):
            return value.model_dump_json(indent=2 if indent else None).encode() + b"\n"
        options = orjson.OPT_APPEND_NEWLINE | orjson.OPT_NON_STR_KEYS
        return orjson.dumps(value, option=options | (orjson.OPT_INDENT_2 if indent else 0))
    except (PydanticSerializationError, UnicodeEncodeError, orjson.JSONEncodeError):
        # Lone surrogates, or (orjson only) integers beyond 64 bits: rare, legal in JSON, and slow.
        plain = value.model_dump(mode="python") if isinstance(value, BaseModel) else value
        separators = None if indent else (",", ":")
        text = json.dumps(
            _finite(plain), ensure_ascii=False, indent=2 if indent else None, separators=separators
        )
        return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace").encode() + b"\n"


def _finite(value: Any) -> Any:
    """``value`` with NaN and infinities as null, as the fast encoders write them."""
    if isinstance(value, float) and value - value != 0:
        return None
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


def write_atomic(path: Path, data: bytes, *, durable: bool) -> None:
    """Put ``data`` at ``path`` in one step: a reader sees the old file or the new one.

    ``durable`` also survives a power cut. Missing directories are made. A symbolic link at
    ``path`` is replaced, not followed.
    """
    temporary = path.parent / f"{TEMPORARY_PREFIX}{os.getpid()}-{next(_counter)}-{secrets.token_hex(4)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NOFOLLOW
    try:
        descriptor = os.open(temporary, flags, 0o666)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(temporary, flags, 0o666)
    try:
        try:
            write_all(descriptor, data)
            if durable:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    if durable:
        sync_directory(path.parent)


def write_json_atomic(path: Path, value: BaseModel | Any, *, durable: bool, indent: bool = False) -> None:
    """:func:`encode` and :func:`write_atomic`."""
    write_atomic(path, encode(value, indent=indent), durable=durable)


def write_all(descriptor: int, data: bytes) -> None:
    """``os.write`` until everything is written."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def append(path: Path, data: bytes) -> None:
    """Add ``data`` to the end of ``path`` in one call, so that writers do not cut each other's lines."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | _NOFOLLOW
    try:
        descriptor = os.open(path, flags, 0o666)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, flags, 0o666)
    try:
        write_all(descriptor, data)
    finally:
        os.close(descriptor)


def sync_directory(path: Path) -> None:
    """Make a rename or removal in ``path`` durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_leftovers(directory: Path, *, older_than_seconds: float) -> None:
    """Remove the temporary files of writers that were killed."""
    for path in directory.glob(f"{TEMPORARY_PREFIX}*"):
        with contextlib.suppress(FileNotFoundError):
            if time.time() - path.stat().st_mtime > older_than_seconds:
                path.unlink()


def read_bytes(path: Path) -> bytes | None:
    """The content of ``path``; ``None`` when there is no such file. A symbolic link or a folder is an error."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | _NOFOLLOW)  # a pipe has nothing to say
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise RecordError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        # Most files are small: without a file object, which costs more than what it reads here.
        data = os.read(descriptor, _ONE_READ)
        if len(data) < _ONE_READ:
            return data
        pieces = [data]
        while piece := os.read(descriptor, _ONE_READ):
            pieces.append(piece)
        return b"".join(pieces)
    except IsADirectoryError as error:
        raise RecordError(f"{path}: cannot be read: {error.strerror}") from error
    finally:
        os.close(descriptor)


def read_model(path: Path, model: type[ModelT]) -> ModelT:
    """The model stored at ``path``; RecordError with the reason when it is missing or not valid."""
    found = find_model(path, model)
    if found is None:
        raise RecordError(f"{path}: no such file")
    return found


def find_model(path: Path, model: type[ModelT]) -> ModelT | None:
    """As :func:`read_model`, with ``None`` when there is no such file."""
    data = read_bytes(path)
    if data is None:
        return None
    return parse_model(data, model, path)


def parse_model(data: bytes, model: type[ModelT], path: Path) -> ModelT:
    """``data`` as ``model``; RecordError names ``path`` and what is wrong, but repeats no content."""
    try:
        return model.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        parts = (str(part) for part in first["loc"])
        place = ".".join(part if part.isprintable() else repr(part) for part in parts) or "the file"
        more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
        raise RecordError(f"{path}: not a valid {model.__name__}: {place}: {first['msg']}{more}") from None


def read_json(path: Path) -> Any:
    """The JSON value at ``path``, ``None`` when there is no such file; RecordError when it is broken."""
    data = read_bytes(path)
    if data is None:
        return None
    try:
        return json.loads(data)  # not orjson: integers beyond 64 bits must stay integers
    except ValueError as error:
        raise RecordError(f"{path}: not JSON: {error}") from None
    except RecursionError:
        raise RecordError(f"{path}: not a record: nested too deeply") from None


@contextlib.contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Hold an exclusive lock among threads, processes and (where the file system can) hosts.

    The kernel releases it when its holder dies. Lock files stay; they are never removed, because
    a removed one could be held by one process and made anew by another.
    """
    flags = os.O_RDWR | os.O_CREAT | _NOFOLLOW
    try:
        descriptor = os.open(path, flags, 0o666)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, flags, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def try_file_lock(path: Path) -> Iterator[bool]:
    """Hold an exclusive lock if nobody else does; yields whether it is held."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | _NOFOLLOW, 0o666)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
    finally:
        os.close(descriptor)
