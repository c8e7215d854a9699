"""Harness ``cli_agent``."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field

from pydantic import JsonValue

from ....contracts.context import AttemptContext
from ....contracts.environment import EnvironmentSession, ProcessStatus
from ....contracts.errors import ConfigurationError, StageFailure, UsageError
from ....contracts.harness import Harness
from ....contracts.issues import Issue, IssueCode, IssuePhase, Severity
from ....contracts.plan import HarnessPlan
from ....contracts.request import EnvironmentSpec, ModelProtocol, ModelSpec, RunRequest
from ....contracts.result import ResultMeta, RunResult, Trajectory
from ....contracts.task import PreparedTask, TaskSpec
from ...model_proxy import ModelProxy, ProxiedCall
from ...models.endpoint import choose_protocol
from ...models.factory import model_problem
from ...models.prices import price_of
from .description import AgentDescription, TrajectoryFormat, load_description
from .params import CliAgentParams
from .processes import MAX_OUTPUT_BYTES, follow, install, read_output, tail_of
from .proxied import candidate_ports, open_proxy, proxy_state
from .surroundings import Directories, find_directories, prompt_of, surroundings_of
from .trajectories import ParsedTrajectory, UnreadableTrajectory, parse_trajectory, with_calls

TRAJECTORY_UNREADABLE = "cli_agent.trajectory_unreadable"
LOOPBACK = ("127.0.0.1", "localhost", "::1", "[::1]")
AGENT_STOPPED = "cli_agent.agent_stopped"
_SLOWER = 10
"""A trajectory is read again at most after this many times as long as reading it took."""


@dataclass
class CliSession:
    """What the hooks of one execution share."""

    env: EnvironmentSession
    process_id: str
    directories: Directories
    calls: list[ProxiedCall] = field(default_factory=list)
    """What went through the model proxy."""
    shown_steps: int = 0
    look_again_at: float = 0.0


class CliAgent(Harness[CliAgentParams, CliSession]):
    """The agent is a detached process: it outlives this worker and is found again by its id."""

    id = "cli_agent"
    description = "A command-line agent inside the environment, from a description of it."
    Params = CliAgentParams
    parallel_attempts_safe = True
    steps_safe = True

    def __init__(self, params: CliAgentParams) -> None:
        super().__init__(params)
        self._agent: AgentDescription = load_description(params.agent, params.description)

    def supports(self, environment: EnvironmentSpec, model: ModelSpec) -> str | None:
        proxy = self.params.proxy
        if proxy is not None and proxy.host in LOOPBACK and environment.id != "host_process":
            return f"proxy.host {proxy.host!r} is not this machine inside environment {environment.id!r}"
        if proxy is not None and proxy.max_cost_usd is not None and not price_of(proxy.prices, model.id):
            return f"proxy.max_cost_usd needs the price of model {model.id!r} in proxy.prices, or one for '*'"
        try:
            self._protocol(model)
        except ConfigurationError as error:
            return f"agent {self._agent.id!r}: {error}"
        return model_problem(model)

    def task_problem(self, task: TaskSpec) -> str | None:
        """MCP servers can be used by an agent whose description says how it is told of them."""
        dialect = self._agent.mcp
        if task.mcp_servers and dialect is None:
            return f"brings MCP servers, and the description of agent {self._agent.id!r} does not say how to use them"
        for server in task.mcp_servers:
            if dialect is not None and server.transport not in dialect.transports:
                return f"brings MCP server {server.name!r}, and agent {self._agent.id!r} does not speak {server.transport}"
        return super().task_problem(task.model_copy(update={"mcp_servers": []}))

    def run_hosts(self, environment_id: str, worker_host: str | None) -> list[str]:
        """The addresses that the model proxy may get. Raises ``UsageError`` when it would be unreachable."""
        proxy = self.params.proxy
        if proxy is None:
            return []
        host = proxy.host or worker_host
        if host is None:
            raise UsageError(
                "this environment does not say how it reaches the worker's machine; give proxy.host, and "
                "proxy.bind, an address of this machine"
            )
        return [f"{host}:{port}" for port in candidate_ports(environment_id)]

    def _protocol(self, model: ModelSpec) -> ModelProtocol:
        """The model's protocol; where it names none, the one that the agent prefers."""
        known = list(self._agent.protocols)
        if model.api_protocol:
            return choose_protocol(model, known)
        guessed = choose_protocol(model)
        if guessed is ModelProtocol.SCRIPTED:
            raise ConfigurationError("a program in the environment cannot be answered from a script")
        return guessed if guessed in known else known[0]

    async def start_session(
        self, env: EnvironmentSession, request: RunRequest, plan: HarnessPlan, context: AttemptContext
    ) -> CliSession:
        del plan
        execution = context.label
        directories = await find_directories(env, self.params.install_dir, execution, None)
        if self.params.install == "auto":
            # The installation gets neither the task nor the key.
            surroundings = surroundings_of(
                self._agent, self._protocol(request.model), directories, request.model, "", ""
            )
            await install(
                env,
                f"cli-install-{execution}",
                check=self._agent.install.check,
                command=self._agent.install.command,
                variables=surroundings.variables(self.params.version, self.params.variables),
                timeout_seconds=self._agent.install.timeout_seconds,
                poll_seconds=self.params.poll_seconds,
                progress=context.progress,
            )
        return CliSession(env, f"cli-agent-{execution}", directories)

    async def execute_task(
        self,
        session: CliSession,
        prepared: PreparedTask,
        request: RunRequest,
        plan: HarnessPlan,
        context: AttemptContext,
    ) -> None:
        del plan
        model = request.model
        if self.params.proxy is None:
            key = context.resolve_secret(model.api_key)
            await self._drive(session, prepared, model, self._protocol(model), key, context)
            return
        status = await session.env.process_status(session.process_id)
        if status is not None and not status.running:  # it ended while no worker had it
            found = await proxy_state(context)
            session.calls = found.calls if found else []
            return
        async with open_proxy(model, self.params.proxy, session.env, context) as opened:
            proxy, seen, token = opened
            session.calls = proxy.calls
            await self._drive(session, prepared, seen, self._protocol(model), token, context, proxy)
            if proxy.issue is not None:
                raise StageFailure(proxy.issue)

    async def _drive(
        self,
        session: CliSession,
        prepared: PreparedTask,
        model: ModelSpec,
        protocol: ModelProtocol,
        key: str,
        context: AttemptContext,
        proxy: ModelProxy | None = None,
    ) -> None:
        """Start the agent unless it runs, and follow it to its end."""
        env = session.env
        if await env.process_status(session.process_id) is None:
            workdir = prepared.input.workspace or env.workdir
            directories = Directories(session.directories.install, session.directories.run, workdir)
            surroundings = surroundings_of(
                self._agent,
                protocol,
                directories,
                model,
                key,
                prompt_of(prepared),
                servers=prepared.input.mcp_servers,
                skills_dir=prepared.input.skills_dir or "",
            )
            await surroundings.write_files(env)
            await env.start_process(
                session.process_id,
                ["sh", "-c", self._agent.run],
                cwd=workdir,
                env=surroundings.variables(self.params.version, self.params.variables),
            )

        async def look(status: ProcessStatus) -> None:
            await self._show(session, status, context)

        def enough() -> bool:
            return proxy is not None and proxy.issue is not None

        await follow(env, session.process_id, self.params.poll_seconds, look, enough)

    async def collect_result(
        self,
        session: CliSession,
        prepared: PreparedTask,
        request: RunRequest,
        plan: HarnessPlan,
        context: AttemptContext,
    ) -> RunResult:
        del request, plan
        env = session.env
        status = await env.process_status(session.process_id)
        if status is not None and status.running:
            await env.end_process(session.process_id)
            status = await env.process_status(session.process_id) or status
        issues: list[Issue] = []
        try:
            parsed = await self._parsed(session)
        except UnreadableTrajectory as problem:
            parsed = ParsedTrajectory()
            issues.append(_issue(Severity.WARNING, TRAJECTORY_UNREADABLE, str(problem)))
        if session.calls:
            parsed = with_calls(parsed, session.calls)
        for step in parsed.steps[max(0, session.shown_steps - 1) :]:
            context.record_step(step)
        tails = await self._tails(session, status)
        issues += self._issues(status, tails, parsed)
        facts: dict[str, JsonValue] = {
            "agent": self._agent.id,
            "agent_version": parsed.agent_version or self.params.version or None,
            "exit_status": status.returncode if status else None,
            "cost_usd": parsed.cost_usd,
        }
        return RunResult(
            task_id=prepared.task_id,
            category=prepared.category,
            ground_truth=prepared.ground_truth,
            final_answer=await self._answer(session, parsed),
            trajectory=Trajectory(
                steps=parsed.steps,
                extra={"model_calls": [call.summary() for call in session.calls]} if session.calls else {},
            ),
            meta=ResultMeta(harness=facts),
            extra={"cli_agent": {**tails}},
        ).with_issues(issues)

    async def _show(self, session: CliSession, status: ProcessStatus, context: AttemptContext) -> None:
        """Record the steps that are finished so far; the last one may still grow."""
        began = time.monotonic()
        if self._agent.trajectory.format is TrajectoryFormat.TEXT or began < session.look_again_at:
            context.progress(f"{self._agent.id} has written {status.stdout_bytes} bytes")
            return
        try:
            steps = (await self._parsed(session)).steps
        except UnreadableTrajectory:
            return  # it is being written; at the end it is told
        for step in steps[max(0, session.shown_steps - 1) :]:
            context.record_step(step)
        session.shown_steps = len(steps)
        session.look_again_at = time.monotonic() + _SLOWER * (time.monotonic() - began)
        context.progress(f"{self._agent.id} has taken {len(steps)} steps")

    async def _parsed(self, session: CliSession) -> ParsedTrajectory:
        """Raises :class:`UnreadableTrajectory`."""
        source = self._agent.trajectory
        if await session.env.process_status(session.process_id) is None:
            raise UnreadableTrajectory("the agent was never started")
        if source.path is None:
            data = await read_output(session.env, session.process_id, "stdout")
        else:
            path = f"{session.directories.run}/{source.path}"
            try:
                data = await session.env.read(path, max_bytes=MAX_OUTPUT_BYTES)
            except (OSError, ValueError) as error:
                raise UnreadableTrajectory(f"{source.path}: {error}") from None
        return parse_trajectory(source.format, data)

    async def _answer(self, session: CliSession, parsed: ParsedTrajectory) -> str | None:
        if self._agent.answer_path is not None:
            path = f"{session.directories.run}/{self._agent.answer_path}"
            try:
                data = await session.env.read(path, max_bytes=MAX_OUTPUT_BYTES)
            except (OSError, ValueError):
                return parsed.answer
            return data.decode("utf-8", errors="replace").strip() or parsed.answer
        return parsed.answer

    async def _tails(self, session: CliSession, status: ProcessStatus | None) -> dict[str, JsonValue]:
        """The end of what it wrote; of standard output only where it may say why the agent failed."""
        if status is None:
            return {}
        tails: dict[str, JsonValue] = {"stderr_tail": await tail_of(session.env, status, "stderr")}
        if status.returncode != 0:
            tails["stdout_tail"] = await tail_of(session.env, status, "stdout")
        return tails

    def _issues(
        self, status: ProcessStatus | None, tails: dict[str, JsonValue], parsed: ParsedTrajectory
    ) -> list[Issue]:
        if status is None:
            return []
        found = [_issue(Severity.ERROR, AGENT_STOPPED, parsed.problem)] if parsed.problem else []
        if status.returncode == 0:
            return found
        output = "\n".join(str(tail) for tail in tails.values())
        for failure in self._agent.failures:
            if match := re.search(failure.pattern, output):
                line = " ".join(match[0].split())[:300]
                return [*found, _issue(failure.severity, failure.code, f"{self._agent.id}: {line}")]
        message = f"{self._agent.id} ended with status {status.returncode}"
        return [*found, _issue(Severity.ERROR, IssueCode.AGENT_EXIT_STATUS, message)]


def _issue(severity: Severity, code: str, message: str) -> Issue:
    return Issue(severity=severity, phase=IssuePhase.RUN, code=code, message=message)
