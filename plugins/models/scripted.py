"""A model that answers from a script, and a recorder that writes such scripts.

For the tests of benchmarks and harnesses: record a real conversation once, replay it for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from ...contracts.errors import AgentCompassError, StageFailure
from ...contracts.issues import Issue
from ...contracts.task import Message, ToolDefinition
from .client import ModelClient, ModelResponse
from .params import ModelParams
from .script_file import Answer, Conversation, Place, append_line, read_script


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

    ``calls`` holds what it was asked; ``answered`` answers were given by an earlier client.
    """

    def __init__(self, answers: Iterable[Answer], *, answered: int = 0, name: str = "the script") -> None:
        self._answers = list(answers)
        self._answered = answered
        self._name = name
        self.calls: list[ModelCall] = []

    @classmethod
    def from_file(cls, path: Path, conversation: Conversation | None = None) -> Self:
        """The answers of a script file for one conversation. Raises ``ConfigurationError``."""
        conversation = conversation or Conversation()
        name = f"the script {path}"
        if conversation.task_id is not None:
            name += f" for task {conversation.task_id!r}"
        answers = read_script(path).answers_for(conversation)
        return cls(answers, answered=conversation.answered, name=name)

    async def generate(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolDefinition] = (),
        params: ModelParams | None = None,
    ) -> ModelResponse:
        self.calls.append(ModelCall(tuple(messages), tuple(tools), params))
        number = self._answered + len(self.calls)
        if number > len(self._answers):
            raise ScriptExhaustedError(f"call {number} has no answer: {self._name} has {len(self._answers)}")
        answer = self._answers[number - 1]
        if isinstance(answer, Issue):
            raise StageFailure(answer)
        return answer


class RecordingClient(ModelClient):
    """Passes calls on to another client and appends each outcome to a script file.

    Answers only: neither the questions nor the key are written, and a model that repeats the key
    (``secret``) has it masked.
    """

    def __init__(
        self, inner: ModelClient, path: Path, conversation: Conversation | None = None, *, secret: str = ""
    ) -> None:
        self._inner = inner
        self._path = path
        self._conversation = conversation
        self._calls = conversation.answered if conversation else 0
        self.__secret = secret

    async def generate(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolDefinition] = (),
        params: ModelParams | None = None,
    ) -> ModelResponse:
        self._calls += 1
        place = self._place()
        try:
            response = await self._inner.generate(messages, tools, params)
        except StageFailure as failure:
            await self._append(place, failure.issue)
            raise
        await self._append(place, response)
        return response

    async def close(self) -> None:
        await self._inner.close()

    def _place(self) -> Place:
        if self._conversation is None:
            return Place()
        return Place(task=self._conversation.task_id, attempt=self._conversation.attempt, call=self._calls)

    async def _append(self, place: Place, answer: Answer) -> None:
        await asyncio.to_thread(append_line, self._path, place, answer, self.__secret)
