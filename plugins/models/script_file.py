"""Script files: answers of a model as JSON Lines, written by hand or by the recorder.

A line is a ``ModelResponse`` (``{"content": "42"}``), or an ``Issue`` that the call fails with. ``task``,
``attempt`` and ``call`` beside it say where it belongs; a line without ``task`` is for every task that
has no lines of its own, one without ``attempt`` for every attempt that has none.
"""

from __future__ import annotations

import fcntl
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import orjson
from pydantic import Field, JsonValue, StringConstraints, TypeAdapter, ValidationError

from ...contracts.base import Contract
from ...contracts.context import AttemptContext
from ...contracts.errors import ConfigurationError
from ...contracts.issues import Issue
from ...contracts.secrets import MASK
from .client import ModelResponse

Answer = ModelResponse | Issue
_ANSWER: TypeAdapter[Answer] = TypeAdapter(Answer)


@dataclass(frozen=True)
class Conversation:
    """Which conversation a client is made for, and how many of its calls were answered before.

    A script goes on after those: a worker that takes over asks for the next answer.
    """

    task_id: str | None = None
    attempt: int | None = None
    answered: int = 0

    @classmethod
    def of(cls, context: AttemptContext, answered: int) -> Conversation:
        """That of an attempt. Each step of a task that is given step by step has one of its own, ``TASK#2``."""
        step = f"#{context.step}" if context.step else ""
        return cls(f"{context.task_id}{step}", context.attempt, answered)


class Place(Contract):
    """Where in which conversation a line belongs."""

    task: Annotated[str, StringConstraints(min_length=1)] | None = None
    attempt: int | None = Field(default=None, ge=1)
    call: int | None = Field(default=None, ge=1)
    """From 1. A number that was there before replaces that answer and all after it: a retry was recorded."""


@dataclass(frozen=True)
class Script:
    """A script that was read."""

    path: Path
    lines: Sequence[tuple[Place, Answer]]

    def answers_for(self, conversation: Conversation) -> list[Answer]:
        """The answers of one conversation, in order."""
        own = [line for line in self.lines if line[0].task == conversation.task_id]
        lines = own or [line for line in self.lines if line[0].task is None]
        of_attempt = [line for line in lines if line[0].attempt == conversation.attempt]
        lines = of_attempt or [line for line in lines if line[0].attempt is None]
        answers: list[Answer] = []
        for place, answer in lines:
            if place.call is not None:
                del answers[place.call - 1 :]
            answers.append(answer)
        return answers


def read_script(path: Path) -> Script:
    """The script at ``path``. Raises ``ConfigurationError`` that names file and line."""
    try:
        stat = path.stat()
        return _read(path, stat.st_mtime_ns, stat.st_size)
    except OSError as error:
        raise ConfigurationError(f"script {path} cannot be read: {error.strerror}") from None


@functools.lru_cache(maxsize=8)
def _read(path: Path, modified: int, size: int) -> Script:
    """Read once for all tasks of a run; a file that changed is read again."""
    del modified, size
    lines = []
    for number, raw in enumerate(path.read_bytes().split(b"\n"), start=1):
        if raw.strip():
            lines.append(_line(raw, f"{path}:{number}"))
    return Script(path, tuple(lines))


def _line(raw: bytes, where: str) -> tuple[Place, Answer]:
    try:
        value: JsonValue = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise ConfigurationError(f"{where}: not JSON: {error}") from None
    if not isinstance(value, dict):
        raise ConfigurationError(f"{where}: not an object")
    placed = {key: value.pop(key) for key in Place.model_fields if key in value}
    try:
        place = Place.model_validate(placed)
        kind = Issue if "severity" in value else ModelResponse
        return place, kind.model_validate(value)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        raise ConfigurationError(f"{where}: {'.'.join(map(str, problem['loc']))}: {problem['msg']}") from None


def append_line(path: Path, place: Place, answer: Answer, secret: str) -> None:
    """Add a line for an answer, ``secret`` masked in it; several processes may do so at once."""
    line = place.model_dump(mode="json", exclude_none=True) | answer.model_dump(
        mode="json", exclude_defaults=True
    )
    raw = orjson.dumps(_masked(line, secret)) + b"\n"
    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(raw)


def _masked(value: JsonValue, secret: str) -> JsonValue:
    if isinstance(value, str):
        text = value.replace(secret, MASK) if secret else value
        return text.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, list):
        return [_masked(item, secret) for item in value]
    if isinstance(value, dict):
        return {key: _masked(item, secret) for key, item in value.items()}
    return value
