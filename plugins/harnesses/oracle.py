"""Harness ``oracle``: gives the reference solution, to check a benchmark's verifier.

Most tasks have a reference answer. A task that is solved by doing something has a command instead
(``TaskSpec.oracle``), which runs as a detached process: it outlives this worker and is found again.
"""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass

from pydantic import JsonValue

from ...contracts.component import NoParams
from ...contracts.context import AttemptContext
from ...contracts.environment import EnvironmentSession, ProcessStatus
from ...contracts.errors import StageFailure
from ...contracts.harness import Harness
from ...contracts.issues import IssueCode, IssuePhase, Severity
from ...contracts.plan import HarnessPlan
from ...contracts.request import RunRequest
from ...contracts.result import Observation, RunResult, ToolCall, Trajectory, TrajectoryStep
from ...contracts.secrets import is_secret_reference
from ...contracts.task import OracleCommand, PreparedTask, TaskSpec

_COMMAND = "command"
_SHOWN_BYTES = 8192
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.05, 2.0


@dataclass
class OracleSession:
    """The environment that a command runs in."""

    env: EnvironmentSession


class Oracle(Harness[NoParams, OracleSession]):
    """Answers ``prepared.metadata["oracle_answer"]``, else the ground truth; or runs the task's command."""

    id = "oracle"
    description = "Gives the reference solution; every task should be solved."
    uses_model = False
    parallel_attempts_safe = True
    steps_safe = True
    quick_hooks = frozenset({"start_session", "execute_task", "collect_result", "close_session"})

    def task_problem(self, task: TaskSpec) -> str | None:
        """Nothing: what an agent may use or is told is not needed here."""
        del task
        return None

    def build_plan(self, task: TaskSpec, request: RunRequest) -> HarnessPlan:
        """A command takes its time, an answer does not."""
        del request
        if task.oracle is None:
            return HarnessPlan()
        return HarnessPlan(quick=False, settings={_COMMAND: task.oracle.model_dump(mode="json")})

    async def start_session(
        self, env: EnvironmentSession, request: RunRequest, plan: HarnessPlan, context: AttemptContext
    ) -> OracleSession:
        del request, plan, context
        return OracleSession(env)

    async def execute_task(
        self,
        session: OracleSession,
        prepared: PreparedTask,
        request: RunRequest,
        plan: HarnessPlan,
        context: AttemptContext,
    ) -> None:
        del request
        if _COMMAND in plan.settings:
            await _carry_out(session.env, OracleCommand.model_validate(plan.settings[_COMMAND]), context)
        else:
            context.record_step(_step(reference_answer(prepared)))

    async def collect_result(
        self,
        session: OracleSession,
        prepared: PreparedTask,
        request: RunRequest,
        plan: HarnessPlan,
        context: AttemptContext,
    ) -> RunResult:
        del request
        if _COMMAND in plan.settings:
            command = OracleCommand.model_validate(plan.settings[_COMMAND])
            answer, step = await _outcome(session.env, command, context)
        else:
            answer = reference_answer(prepared)
            step = _step(answer)
        return RunResult(
            task_id=prepared.task_id,
            category=prepared.category,
            ground_truth=prepared.ground_truth,
            final_answer=answer,
            trajectory=Trajectory(steps=[step]),
        )


async def _carry_out(env: EnvironmentSession, command: OracleCommand, context: AttemptContext) -> None:
    """Start the command, unless an earlier worker has, and wait for its end."""
    process_id = _process_id(context)
    status: ProcessStatus | None = await env.process_status(process_id)
    if status is None:
        context.progress("running the reference solution")
        # One stream, in the order in which it was written.
        status = await env.start_process(
            process_id,
            f"exec 2>&1\n{command.command}",
            cwd=command.cwd,
            env={
                name: context.resolve_secret(value) if is_secret_reference(value) else value
                for name, value in command.env_variables.items()
            },
            user=command.user,
        )
    pause = _FIRST_PAUSE_SECONDS
    while status is not None and status.running:
        await asyncio.sleep(pause)
        pause = min(_LONGEST_PAUSE_SECONDS, pause * 1.5)
        status = await env.process_status(process_id)


async def _outcome(
    env: EnvironmentSession, command: OracleCommand, context: AttemptContext
) -> tuple[str, TrajectoryStep]:
    """The end of its output, and the command as a step; a failed one is an ERROR beside the score."""
    process_id = _process_id(context)
    status = await env.process_status(process_id)
    output = ""
    if status is not None:
        start = max(0, status.stdout_bytes - _SHOWN_BYTES)
        raw = await env.read_process_output(process_id, "stdout", start, _SHOWN_BYTES)
        output = raw.decode("utf-8", "replace")
    returncode = status.returncode if status is not None else None
    if status is not None and not status.running and returncode != 0:
        message = f"the reference solution ended with status {returncode}: {output.strip()[-500:]}"
        context.report_issue(Severity.ERROR, IssuePhase.RUN, IssueCode.AGENT_EXIT_STATUS, message)
    began = status.started_at if status is not None else None
    seen: JsonValue = {"returncode": returncode, "output": output}
    step = TrajectoryStep(
        step_id=1,
        source="agent",
        timestamp=began,
        tool_calls=[ToolCall(id="1", name="exec", arguments={"command": command.command})],
        observations=[Observation(tool_call_id="1", content=seen)],
        latency_seconds=None if began is None else round(max(0.0, time.time() - began), 3),
    )
    context.record_step(step)
    return output.strip(), step


def _process_id(context: AttemptContext) -> str:
    """Every step of a task has a solution of its own, in the same environment."""
    return f"oracle-{context.label}"


def _step(answer: str) -> TrajectoryStep:
    return TrajectoryStep(step_id=1, source="agent", message=answer)


def reference_answer(prepared: PreparedTask) -> str:
    """The reference as text; arrays and objects as JSON.

    Raises ``StageFailure`` (``task_input_invalid``) when the task has none.
    """
    answer: JsonValue = prepared.metadata.get("oracle_answer")
    if answer is None:
        answer = prepared.ground_truth
    if answer is None:
        raise StageFailure.fatal(
            IssuePhase.SETUP,
            IssueCode.TASK_INPUT_INVALID,
            f"task {prepared.task_id!r} has neither an oracle_answer nor a ground truth",
        )
    return json.dumps(answer, ensure_ascii=False) if isinstance(answer, list | dict) else str(answer)
