"""Harness ``openai_chat``: one model call per task, over any of the three protocols."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from pydantic import Field, ValidationError

from ...contracts.base import Contract
from ...contracts.context import AttemptContext
from ...contracts.environment import EnvironmentSession
from ...contracts.harness import Harness
from ...contracts.plan import HarnessPlan
from ...contracts.request import EnvironmentSpec, ModelSpec, RunRequest
from ...contracts.result import ResultMeta, RunResult, Trajectory, TrajectoryStep
from ...contracts.task import Message, PreparedTask
from ..models.client import ModelResponse
from ..models.factory import client_for_attempt, model_problem
from ..models.params import parse_model_params
from .conversation import conversation_of, steps_of


class OpenAIChatParams(Contract):
    """Parameters of ``openai_chat``; how the model generates is set in ``model.params``."""

    system_prompt: str | None = None
    """Put in front when the task brings no system prompt of its own."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Limit of the answer; wins over ``model.params.max_tokens``."""


class ChatTurn(Contract):
    """A finished model call, as it is checkpointed. Times are Unix seconds."""

    response: ModelResponse
    finished_at: float


@dataclass
class ChatSession:
    """What the hooks of one execution share."""

    env: EnvironmentSession
    conversation: list[Message] = field(default_factory=list)
    turn: ChatTurn | None = None


class OpenAIChat(Harness[OpenAIChatParams, ChatSession]):
    """Sends the task's messages, or its system prompt and prompt, and takes the text as the answer.

    The answer is checkpointed as soon as it is there: after a crash it is not paid for again.
    """

    id = "openai_chat"
    description = "One model call per task; speaks openai-chat, openai-responses and anthropic."
    Params = OpenAIChatParams
    parallel_attempts_safe = True
    steps_safe = True
    takes_conversation = True
    quick_hooks = frozenset({"start_session", "collect_result", "close_session"})

    def supports(self, environment: EnvironmentSpec, model: ModelSpec) -> str | None:
        del environment
        return model_problem(model)

    async def start_session(
        self, env: EnvironmentSession, request: RunRequest, plan: HarnessPlan, context: AttemptContext
    ) -> ChatSession:
        del request, plan, context
        return ChatSession(env)

    async def execute_task(
        self,
        session: ChatSession,
        prepared: PreparedTask,
        request: RunRequest,
        plan: HarnessPlan,
        context: AttemptContext,
    ) -> None:
        del plan
        session.conversation = await conversation_of(prepared.input, session.env, self.params.system_prompt)
        for step in steps_of(session.conversation):
            context.record_step(step)
        session.turn = await self._finished_turn(context)
        if session.turn is None:
            session.turn = await self._call(session.conversation, prepared, request, context)
            await context.save_checkpoint(session.turn.model_dump(mode="json"))
        context.record_step(_steps(session)[-1])

    async def collect_result(
        self,
        session: ChatSession,
        prepared: PreparedTask,
        request: RunRequest,
        plan: HarnessPlan,
        context: AttemptContext,
    ) -> RunResult:
        del request, plan, context
        result = RunResult(
            task_id=prepared.task_id,
            category=prepared.category,
            ground_truth=prepared.ground_truth,
            trajectory=Trajectory(steps=_steps(session)),
        )
        if session.turn is None:
            return result
        response = session.turn.response
        result.final_answer = response.content
        result.meta = ResultMeta(
            harness={"http_attempts": response.attempts, "response_id": response.response_id}
        )
        return result.with_issues([response.empty_output_issue()] if response.is_empty else [])

    async def _finished_turn(self, context: AttemptContext) -> ChatTurn | None:
        saved = await context.load_checkpoint()
        if saved is None:
            return None
        try:
            return ChatTurn.model_validate(saved)
        except ValidationError:
            context.log.warning(
                "the checkpoint is of another version and is not used; the model is called again"
            )
            return None

    async def _call(
        self,
        conversation: list[Message],
        prepared: PreparedTask,
        request: RunRequest,
        context: AttemptContext,
    ) -> ChatTurn:
        model = request.model
        params = parse_model_params(model)
        if self.params.max_tokens is not None:
            params = params.model_copy(update={"max_tokens": self.params.max_tokens})
        context.progress(f"waiting for {model.id}")
        async with client_for_attempt(model, context) as client:
            response = await client.generate(conversation, prepared.input.tools, params)
        return ChatTurn(response=response, finished_at=time.time())


def _steps(session: ChatSession) -> list[TrajectoryStep]:
    steps = steps_of(session.conversation)
    if session.turn is not None:
        response = session.turn.response
        steps.append(
            TrajectoryStep(
                step_id=len(steps) + 1,
                source="agent",
                timestamp=session.turn.finished_at,
                message=response.content,
                reasoning=response.reasoning,
                tool_calls=response.tool_calls,
                model=response.model,
                usage=response.usage,
                latency_seconds=response.latency_seconds,
                stop_reason=response.stop_reason,
                cost_usd=response.cost_usd,
                extra=response.extra,
            )
        )
    return steps
