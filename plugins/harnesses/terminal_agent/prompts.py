"""What the agent is told at the start."""

from __future__ import annotations

from collections.abc import Sequence

from ....contracts.environment import EnvironmentSession
from ....contracts.errors import StageFailure
from ....contracts.issues import IssueCode, IssuePhase
from ....contracts.task import Message, PreparedTask
from ..conversation import conversation_of

SYSTEM_PROMPT = """\
You solve a task in a terminal, by yourself: nobody answers questions. You have the tools bash, read, write and \
finish. Work in small steps, look at what your commands print, and check your result before you finish.

When everything is done, call finish. If the task asks for an answer, give it to finish completely and exactly in \
the form that the task asks for: nothing else of what you say is looked at."""


async def opening(
    prepared: PreparedTask, env: EnvironmentSession, system_prompt: str | None
) -> list[Message]:
    """The conversation before the first turn. Raises ``StageFailure`` for a task that does not fit."""
    if prepared.input.tools:
        raise StageFailure.fatal(
            IssuePhase.SETUP,
            IssueCode.TASK_INPUT_INVALID,
            "the task brings tools of its own, which terminal_agent cannot carry out",
        )
    messages = await conversation_of(prepared.input, env)
    told = _about_files(prepared)
    if told:
        messages = [*messages, Message(role="user", content=told)]
    return _with_system_prompt(messages, SYSTEM_PROMPT if system_prompt is None else system_prompt)


def _with_system_prompt(messages: Sequence[Message], own: str) -> list[Message]:
    """One system message: ours, then the task's; not every endpoint takes two."""
    if not own:
        return list(messages)
    first = messages[0]
    if first.role == "system" and isinstance(first.content, str):
        joined = first.model_copy(update={"content": f"{own}\n\n{first.content}"})
        return [joined, *messages[1:]]
    return [Message(role="system", content=own), *messages]


def _about_files(prepared: PreparedTask) -> str:
    given = [f"- {file.path}{f' ({file.label})' if file.label else ''}" for file in prepared.input.files]
    wanted = [
        f"- {file.path}{f': {file.description}' if file.description else ''}"
        for file in prepared.output.files
    ]
    parts = []
    if given:
        parts.append("\n".join(["These files belong to the task:", *given]))
    if wanted:
        parts.append("\n".join(["Leave these files:", *wanted]))
    return "\n\n".join(parts)
