"""A harness that answers ``ok``, or does what the script says instead."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from agentcompass.contracts import (
    AttemptContext,
    EnvironmentSession,
    Harness,
    HarnessPlan,
    NoParams,
    PreparedTask,
    RunRequest,
    RunResult,
    blocking,
)

from .script import Row, act, row_of

GARBAGE = b"\xff\xfe \x00 \xed\xa0\x80 end".decode("utf-8", "surrogateescape") + " \ud800"


@dataclass
class Session:
    """What the hooks share."""

    env: EnvironmentSession
    row: Row
    context: AttemptContext
    printed: str = ""


class RowsAgent(Harness[NoParams, Session]):
    """Does in every hook what the task's script says."""

    id = "rows"
    description = "Follows the script of the task"
    uses_model = False
    parallel_attempts_safe = True
    quick_hooks = frozenset({"start_session", "execute_task", "collect_result"})

    async def start_session(
        self, env: EnvironmentSession, request: RunRequest, plan: HarnessPlan, context: AttemptContext
    ) -> Session:
        row = row_of(request, context.task_id)
        return Session(env, row, context, await act(row, "start_session", context, env))

    async def execute_task(
        self,
        session: Session,
        prepared: PreparedTask,
        request: RunRequest,
        plan: HarnessPlan,
        context: AttemptContext,
    ) -> None:
        session.printed += await act(session.row, "execute_task", context, session.env)

    async def collect_result(
        self,
        session: Session,
        prepared: PreparedTask,
        request: RunRequest,
        plan: HarnessPlan,
        context: AttemptContext,
    ) -> RunResult:
        await act(session.row, "collect_result", context, session.env)
        action = session.row.action("collect_result", context)
        if action == "none":
            return None  # type: ignore[return-value]  # as a careless author's would
        if action == "unwritable":
            return RunResult(task_id=prepared.task_id).model_copy(update={"final_answer": object()})
        result = RunResult(task_id=prepared.task_id, final_answer="ok", extra={"run": session.printed})
        if action == "garbage":
            return result.model_copy(update={"extra": {"run": GARBAGE}})
        return result

    async def close_session(self, session: Session) -> None:
        await act(session.row, "close_session", session.context)


class SlowRowsAgent(RowsAgent):
    """The same as an activity of its own, which heartbeats."""

    id = "rows_slow"
    quick_hooks = frozenset()


class HangingAgent(SlowRowsAgent):
    """Hangs in a thread of its own, from which nothing can take it."""

    id = "rows_hanging"

    @blocking
    async def execute_task(
        self,
        session: Session,
        prepared: PreparedTask,
        request: RunRequest,
        plan: HarnessPlan,
        context: AttemptContext,
    ) -> None:
        threading.Event().wait()
