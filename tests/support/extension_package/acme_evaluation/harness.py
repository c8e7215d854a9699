"""Runs a command-line agent inside the environment: prompt in a file, answer on standard output."""

import asyncio
import math
from dataclasses import dataclass

from pydantic import Field

from agentcompass.contracts import (
    AttemptContext,
    Contract,
    EnvironmentSession,
    Harness,
    HarnessPlan,
    IssuePhase,
    PreparedTask,
    RunRequest,
    RunResult,
    Severity,
    Trajectory,
    TrajectoryStep,
)


class CliAgentParams(Contract):
    """Parameters, as in ``--harness-params '{"command": "my-agent --prompt-file prompt.txt"}'``."""

    command: str = Field(min_length=1)
    poll_seconds: float = Field(default=1.0, gt=0)


@dataclass(frozen=True)
class Run:
    """What the hooks share: the environment and the id of the agent's process."""

    env: EnvironmentSession
    process_id: str


class CliAgent(Harness[CliAgentParams, Run]):
    """The agent is a detached process, so it outlives this worker and is found again by its id."""

    id = "acme_agent"
    description = "A command-line agent inside the environment"
    Params = CliAgentParams
    parallel_attempts_safe = True
    steps_safe = True
    default_run_timeout_seconds = 1800.0

    async def start_session(
        self, env: EnvironmentSession, request: RunRequest, plan: HarnessPlan, context: AttemptContext
    ) -> Run:
        # The id follows from the execution: after a crash the next worker looks for the same one.
        return Run(env, f"agent-{context.label}")

    async def execute_task(
        self,
        session: Run,
        prepared: PreparedTask,
        request: RunRequest,
        plan: HarnessPlan,
        context: AttemptContext,
    ) -> None:
        env = session.env
        variables = {"AGENT_MODEL": request.model.id, "AGENT_BASE_URL": request.model.base_url}
        if request.model.api_key:
            variables["AGENT_API_KEY"] = context.resolve_secret(request.model.api_key)
        if context.deadline is not None:
            variables["AGENT_DEADLINE"] = str(math.floor(context.deadline))
        if await env.process_status(session.process_id) is None:
            await env.write(f"{env.workdir}/prompt.txt", prepared.input.prompt.encode())
            await env.start_process(session.process_id, self.params.command, env=variables)
        while True:
            status = await env.process_status(session.process_id)
            if status is None or not status.running:
                return
            context.progress(f"the agent has written {status.stdout_bytes} bytes")
            await asyncio.sleep(self.params.poll_seconds)

    async def collect_result(
        self,
        session: Run,
        prepared: PreparedTask,
        request: RunRequest,
        plan: HarnessPlan,
        context: AttemptContext,
    ) -> RunResult:
        # Also called after a timeout: end what still runs, then take what is there.
        await session.env.end_process(session.process_id)
        status = await session.env.process_status(session.process_id)
        output = await session.env.read_process_output(session.process_id, "stdout", 0, max_bytes=1_000_000)
        if status is not None and status.returncode:
            message = f"the agent ended with status {status.returncode}"
            context.report_issue(Severity.ERROR, IssuePhase.RUN, "acme_agent.exit_status", message)
        answer = output.decode("utf-8", errors="replace").strip()
        step = TrajectoryStep(step_id=1, source="agent", message=answer)
        return RunResult(
            task_id=prepared.task_id,
            category=prepared.category,
            ground_truth=prepared.ground_truth,
            final_answer=answer or None,
            trajectory=Trajectory(steps=[step]),
        )
