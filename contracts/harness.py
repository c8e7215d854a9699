"""Harnesses: what drives a model or an agent through a task."""

from __future__ import annotations

import abc
from typing import ClassVar, Generic, TypeVar

from pydantic import BaseModel

from .component import Component
from .context import AttemptContext
from .environment import EnvironmentSession
from .plan import HarnessPlan
from .request import EnvironmentSpec, ModelSpec, RunRequest
from .result import RunResult
from .task import PreparedTask, TaskSpec

ParamsT = TypeVar("ParamsT", bound=BaseModel)
SessionT = TypeVar("SessionT")


class Harness(Component[ParamsT], Generic[ParamsT, SessionT]):
    """Drives one execution: start a session, execute, collect, close.

    The four hooks run in one process in this order; after a crash all run again in another one,
    with the same execution number: use ``context.load_checkpoint`` or a detached process of the
    environment to go on where the first one stopped.
    """

    uses_model: ClassVar[bool] = True
    """False when no model endpoint is needed; the model is then usually called ``none``."""
    parallel_attempts_safe: ClassVar[bool] = False
    default_run_timeout_seconds: ClassVar[float | None] = None

    steps_safe: ClassVar[bool] = False
    """True when it may run several times in one environment, a session after the other: whatever it names there
    (processes, folders) is named after :attr:`AttemptContext.label`."""

    takes_conversation: ClassVar[bool] = False
    """True when the agent goes on from ``PreparedTask.input.messages`` as from its own conversation."""

    def supports(self, environment: EnvironmentSpec, model: ModelSpec) -> str | None:
        """Why this combination cannot work, or ``None`` when it can."""
        del environment, model
        return None

    def task_problem(self, task: TaskSpec) -> str | None:
        """What a task asks for that this harness cannot give, or ``None``. Pure; asked before anything is opened."""
        if task.steps and not self.steps_safe:
            return "is given step by step, and this harness does not say that it can run several times (steps_safe)"
        if task.mcp_servers:
            return "brings MCP servers, and this harness has no use for them"
        conversation = task.conversation or any(step.conversation for step in task.steps)
        if conversation and not self.takes_conversation:
            return "goes on from an earlier conversation, and this harness cannot begin with one"
        return None

    def run_hosts(self, environment_id: str, worker_host: str | None) -> list[str]:
        """What the run phase must reach beside the model's endpoint, as entries of ``allowed_hosts``.

        Such as a server of its own on the worker's machine, which sandboxes know as ``worker_host``. Pure; also
        asked at preflight, with an id of no sandbox. Raises a ``UsageError`` when it cannot work like that.
        """
        del environment_id, worker_host
        return []

    def build_plan(self, task: TaskSpec, request: RunRequest) -> HarnessPlan:
        """Settings for this task. Pure: no clock, no files, no network."""
        del task, request
        return HarnessPlan(run_timeout_seconds=self.default_run_timeout_seconds)

    @abc.abstractmethod
    async def start_session(
        self, env: EnvironmentSession, request: RunRequest, plan: HarnessPlan, context: AttemptContext
    ) -> SessionT:
        """Whatever the other hooks need: a client, a running server, an installed agent."""

    @abc.abstractmethod
    async def execute_task(
        self,
        session: SessionT,
        prepared: PreparedTask,
        request: RunRequest,
        plan: HarnessPlan,
        context: AttemptContext,
    ) -> None:
        """Run the agent. This alone is charged to the run budget and cancelled at its end."""

    @abc.abstractmethod
    async def collect_result(
        self,
        session: SessionT,
        prepared: PreparedTask,
        request: RunRequest,
        plan: HarnessPlan,
        context: AttemptContext,
    ) -> RunResult:
        """Build the result from what is there, after success, failure or timeout alike."""

    async def close_session(self, session: SessionT) -> None:
        """Release what ``start_session`` took."""
        del session
