"""The script of a task: what each hook does, in which attempt and execution.

An action is a word, or a shell command for hooks that have an environment:
``fatal:CODE``, ``error:CODE``, ``warning:CODE`` raise a named failure; ``report-fatal:CODE`` and so on
report it and go on; ``raise``, ``exit``, ``cancel``, ``timeout``, ``lost``, ``none``, ``forever`` say what
they do, ``stubborn`` goes on although it is cancelled, ``hang`` blocks its thread, ``die`` takes the worker along;
``sh:COMMAND`` runs a command and prints what it printed into the result.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading

from pydantic import Field

from agentcompass.contracts import (
    AttemptContext,
    Contract,
    EnvironmentLostError,
    EnvironmentSession,
    EvaluationMode,
    Issue,
    IssuePhase,
    Severity,
    StageFailure,
)
from agentcompass.contracts.request import RunRequest

PHASES = {
    "build_plan": IssuePhase.SETUP,
    "prepare_task": IssuePhase.SETUP,
    "start_session": IssuePhase.SETUP,
    "execute_task": IssuePhase.RUN,
    "run_task": IssuePhase.RUN,
    "collect_result": IssuePhase.COLLECT,
    "collect_artifacts": IssuePhase.COLLECT,
    "evaluate": IssuePhase.EVALUATE,
    "close_session": IssuePhase.CLEANUP,
}


class Row(Contract):
    """One task and what happens in it."""

    id: str
    do: dict[str, str] = Field(default_factory=dict)
    """Actions by hook."""
    only_execution: int | None = None
    """Nothing happens in other executions."""
    only_attempt: int | None = None
    mode: EvaluationMode | None = None
    run_timeout_seconds: float | None = None
    evaluation_timeout_seconds: float | None = None
    files: list[str] = Field(default_factory=list)
    """What the agent is asked to leave."""

    def action(self, hook: str, context: AttemptContext) -> str:
        """What ``hook`` does now; empty for nothing."""
        if self.only_execution not in (None, context.execution) or self.only_attempt not in (
            None,
            context.attempt,
        ):
            return ""
        return self.do.get(hook, "")


class RowsParams(Contract):
    """Parameters of the benchmark."""

    tasks: list[Row] = Field(min_length=1)


def row_of(request: RunRequest, task_id: str) -> Row:
    """The script of a task; any hook has the request."""
    rows = RowsParams.model_validate(request.benchmark.params).tasks
    return next(row for row in rows if row.id == task_id)


async def act(row: Row, hook: str, context: AttemptContext, env: EnvironmentSession | None = None) -> str:
    """Do what the script says; what a command printed is returned."""
    action = row.action(hook, context)
    word, _, rest = action.partition(":")
    if word == "sh":
        assert env is not None
        return (await env.exec(rest)).stdout.text
    if word.startswith("report-"):
        context.report_issue(
            Severity(word.removeprefix("report-")), PHASES[hook], rest, f"{hook} said {rest}\nand more"
        )
    elif word in set(Severity):
        message = f"{hook} said {rest}"
        raise StageFailure(Issue(severity=Severity(word), phase=PHASES[hook], code=rest, message=message))
    elif word == "raise":
        raise ValueError(f"{hook} broke {rest}".strip())
    elif word == "exit":
        sys.exit(3)
    elif word == "cancel":
        raise asyncio.CancelledError
    elif word == "timeout":
        raise TimeoutError(f"{hook} waited too long")
    elif word == "lost":
        raise EnvironmentLostError(f"{hook} lost it")
    elif word == "stubborn":
        while True:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
    elif word == "hang":
        threading.Event().wait()
    elif word == "die":
        os._exit(9)
    elif word == "forever":
        await asyncio.Event().wait()
    return ""
