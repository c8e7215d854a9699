"""A model that answers from a script, and a recorder that writes such scripts.

For the tests of extension authors: record a real conversation once, replay it for ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pydantic import TypeAdapter, ValidationError

from ...contracts.errors import AgentCompassError, StageFailure
from ...contracts.issues import Issue
from ...contracts.task import Message, ToolDefinition
from .client import ModelClient, ModelResponse
from .params import ModelParams

_LINE: TypeAdapter[ModelResponse | Issue] = TypeAdapter(ModelResponse | Issue)


class ScriptExhaustedError(AgentCompassError):
    """The code under test called the model more often than the script has answers."""


@dataclass(frozen=True)
class ModelCall:
    """One call as the client received it."""

    messages: tuple[Message, ...]
    tools: tuple[ToolDefinition, ...]
    params: ModelParams | None


class ScriptedClient(ModelClient):
    """Gives the answers in order; an :class:`Issue` among them is raised as ``StageFailure``.

    ``calls`` holds what it was asked.
    """

    def __init__(self, answers: Iterable[ModelResponse | Issue]) -> None:
        self._answers = list(answers)
        self.calls: list[ModelCall] = []

    @classmethod
    def from_file(cls, path: Path) -> Self:
        """Read JSON Lines, each a ``ModelResponse`` (``{"content": "42"}``) or an ``Issue``."""
        answers: list[ModelResponse | Issue] = []
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            if not line.strip():
                continue
            try:
                answers.append(_LINE.validate_json(line))
            except ValidationError as error:
                raise ValueError(f"{path}:{number}: {error}") from None
        return cls(answers)

    async def generate(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolDefinition] = (),
        params: ModelParams | None = None,
    ) -> ModelResponse:
        self.calls.append(ModelCall(tuple(messages), tuple(tools), params))
        if len(self.calls) > len(self._answers):
            raise ScriptExhaustedError(
                f"call {len(self.calls)} has no answer: the script has {len(self._answers)}"
            )
        answer = self._answers[len(self.calls) - 1]
        if isinstance(answer, Issue):
            raise StageFailure(answer)
        return answer


class RecordingClient(ModelClient):
    """Passes calls on to another client and appends each outcome to a script file."""

    def __init__(self, inner: ModelClient, path: Path) -> None:
        self._inner = inner
        self._path = path

    async def generate(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolDefinition] = (),
        params: ModelParams | None = None,
    ) -> ModelResponse:
        try:
            response = await self._inner.generate(messages, tools, params)
        except StageFailure as failure:
            self._append(failure.issue.model_dump_json())
            raise
        self._append(response.model_dump_json(exclude_defaults=True))
        return response

    async def close(self) -> None:
        await self._inner.close()

    def _append(self, line: str) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
