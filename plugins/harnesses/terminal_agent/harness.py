"""Harness ``terminal_agent``."""

from __future__ import annotations

from dataclasses import dataclass, field

from pydantic import JsonValue, ValidationError

from ....contracts.context import AttemptContext
from ....contracts.environment import EnvironmentSession
from ....contracts.harness import Harness
from ....contracts.plan import HarnessPlan
from ....contracts.request import EnvironmentSpec, ModelSpec, RunRequest
from ....contracts.result import ResultMeta, RunResult, Trajectory
from ....contracts.task import Message, PreparedTask
from ...models.factory import client_for_attempt, model_problem
from ...models.params import parse_model_params
from ...models.prices import price_of
from ..conversation import steps_of
from .loop import AgentLoop
from .params import TerminalAgentParams
from .prompts import opening
from .state import AgentState
from .steps import steps_so_far
from .toolbox import Toolbox
from .tools import TOOLS


@dataclass
class TerminalSession:
    """What the hooks of one execution share."""

    env: EnvironmentSession
    start: list[Message] = field(default_factory=list)
    state: AgentState = field(default_factory=AgentState)


class TerminalAgent(Harness[TerminalAgentParams, TerminalSession]):
    """The loop runs on the worker, its commands in the environment; both go on after a crash."""

    id = "terminal_agent"
    description = "A small agent with the tools bash, read, write and finish; runs in any environment."
    Params = TerminalAgentParams
    parallel_attempts_safe = True
    steps_safe = True
    takes_conversation = True
    quick_hooks = frozenset({"start_session", "collect_result", "close_session"})

    def supports(self, environment: EnvironmentSpec, model: ModelSpec) -> str | None:
        del environment
        if self.params.max_cost_usd is not None and price_of(self.params.prices, model.id) is None:
            return f"max_cost_usd needs the price of model {model.id!r} in prices, or one for '*'"
        return model_problem(model)

    async def start_session(
        self, env: EnvironmentSession, request: RunRequest, plan: HarnessPlan, context: AttemptContext
    ) -> TerminalSession:
        del request, plan, context
        return TerminalSession(env)

    async def execute_task(
        self,
        session: TerminalSession,
        prepared: PreparedTask,
        request: RunRequest,
        plan: HarnessPlan,
        context: AttemptContext,
    ) -> None:
        del plan
        env, model = session.env, request.model
        session.start = await opening(prepared, env, self.params.system_prompt)
        session.state = await _state_so_far(context)
        if not session.state.turns:
            for step in steps_of(session.start):
                context.record_step(step)
        toolbox = Toolbox(
            env,
            self.params,
            workdir=prepared.input.workspace or env.workdir,
            prefix=f"terminal-{context.label}",
        )
        async with client_for_attempt(model, context, answered=len(session.state.turns)) as client:
            loop = AgentLoop(
                client=client,
                toolbox=toolbox,
                params=self.params,
                model=model,
                generation=parse_model_params(model),
                context=context,
                start=session.start,
                state=session.state,
            )
            await loop.run()

    async def collect_result(
        self,
        session: TerminalSession,
        prepared: PreparedTask,
        request: RunRequest,
        plan: HarnessPlan,
        context: AttemptContext,
    ) -> RunResult:
        del request, plan, context
        state = session.state
        facts: dict[str, JsonValue] = {
            "ending": state.ending or "interrupted",
            "turns": len(state.turns),
            "tokens": state.tokens,
            "tokens_are_estimated": any(turn.estimated for turn in state.turns),
            "cost_usd": state.cost_usd,
            "agent_seconds": round(state.seconds, 3),
        }
        tools: list[JsonValue] = [tool.model_dump(mode="json") for tool in TOOLS]
        return RunResult(
            task_id=prepared.task_id,
            category=prepared.category,
            ground_truth=prepared.ground_truth,
            final_answer=state.answer,
            trajectory=Trajectory(
                steps=steps_so_far(session.start, state.turns), extra={"tool_definitions": tools}
            ),
            meta=ResultMeta(harness=facts),
        ).with_issues([state.issue] if state.issue else [])


async def _state_so_far(context: AttemptContext) -> AgentState:
    """What an earlier worker did in this execution."""
    saved = await context.load_checkpoint()
    if saved is None:
        return AgentState()
    try:
        return AgentState.model_validate(saved)
    except ValidationError:
        context.log.warning("the checkpoint is of another version and is not used; the agent begins anew")
        return AgentState()
