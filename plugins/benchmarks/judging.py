"""Asking a model for a verdict. Whatever it does but giving one is nobody's wrong answer: there is no score."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Callable
from typing import TypeVar

from pydantic import Field, JsonValue, ValidationError

from ...contracts.base import Contract
from ...contracts.context import AttemptContext
from ...contracts.errors import StageFailure
from ...contracts.issues import IssueCode, IssuePhase
from ...contracts.request import ModelSpec
from ...contracts.result import Usage
from ...contracts.task import Message
from ..models import Conversation, ModelResponse, create_model_client

VerdictT = TypeVar("VerdictT", bound=bool | float)

_SHOWN_CHARS = 2000
_SCORE = re.compile(r"^SCORE: (\d+(?:\.\d+)?)$", re.MULTILINE)
_VERDICT = re.compile(r"^VERDICT: (CORRECT|INCORRECT)$", re.MULTILINE)


class JudgeSettings(Contract):
    """Which model judges, and how long and how often it is asked."""

    judge: ModelSpec
    timeout_seconds: float = Field(gt=0)
    """Of one answer of the judge, its retries included."""
    attempts: int = Field(ge=1)
    """How often it is asked before an answer without a verdict is taken as a failure."""


class JudgeCall(Contract):
    """One answer of the judge, for the record."""

    text: str
    usage: Usage
    cost_usd: float | None = None
    latency_seconds: float = 0.0
    model: str = ""

    @classmethod
    def of(cls, response: ModelResponse) -> JudgeCall:
        """What is kept of a response."""
        return cls(
            text=response.content,
            usage=response.usage,
            cost_usd=response.cost_usd,
            latency_seconds=response.latency_seconds,
            model=response.model,
        )


class _Checkpoint(Contract):
    """Answers that are paid for already."""

    calls: list[JudgeCall]


class MalformedVerdictError(Exception):
    """The judge did not keep to its protocol; the message says how."""


def parse_verdict(text: str) -> bool:
    """``VERDICT: CORRECT`` or ``VERDICT: INCORRECT``, once, as the last line. Raises ``MalformedVerdictError``."""
    return _only(_VERDICT, text, "VERDICT: CORRECT or VERDICT: INCORRECT") == "CORRECT"


def parse_score(text: str) -> float:
    """``SCORE: x`` with x from 0 to 1, once, as the last line. Raises ``MalformedVerdictError``."""
    value = float(_only(_SCORE, text, "SCORE: and a number from 0 to 1"))
    if value > 1:
        raise MalformedVerdictError(f"the score {value:g} is above 1")
    return value


def _only(pattern: re.Pattern[str], text: str, wanted: str) -> str:
    lines = text.replace("\r\n", "\n").strip()
    found = list(pattern.finditer(lines))
    if not found:
        raise MalformedVerdictError(f"no line {wanted}")
    if len(found) > 1:
        raise MalformedVerdictError(f"{len(found)} lines {wanted}")
    if found[0].end() != len(lines):
        raise MalformedVerdictError("text after the verdict")
    return found[0][1]


def quoted(**parts: str) -> str:
    """Texts of others between marks that they cannot know, each under its name."""
    mark = secrets.token_hex(8)
    return "\n\n".join(f"<{name}-{mark}>\n{text}\n</{name}-{mark}>" for name, text in parts.items())


async def ask_judge(
    prompt: str, settings: JudgeSettings, parse: Callable[[str], VerdictT], context: AttemptContext
) -> tuple[VerdictT, dict[str, JsonValue]]:
    """The verdict, and facts for ``meta.benchmark``: the judge's words, tokens and cost.

    An answer is checkpointed as soon as it is there. Raises ``StageFailure``: what the model client raises,
    or ``judge_failed`` (FATAL) for no answer in time and for answers without a verdict.
    """
    calls = await _checkpointed(context)
    while True:
        problem = ""
        for number, call in enumerate(calls, start=1):
            try:
                return parse(call.text), _facts(settings, calls[:number])
            except MalformedVerdictError as error:
                problem = str(error)
        if len(calls) >= settings.attempts:
            shown = calls[-1].text.strip()[-200:]
            raise _failed(
                f"{problem} in {len(calls)} answers of judge {settings.judge.id!r}; the last ends: {shown!r}"
            )
        context.progress(f"waiting for the judge {settings.judge.id}")
        calls.append(await _ask(prompt, settings, context, answered=len(calls)))
        await context.save_checkpoint(_Checkpoint(calls=calls).model_dump(mode="json"))


async def _ask(prompt: str, settings: JudgeSettings, context: AttemptContext, *, answered: int) -> JudgeCall:
    spec = settings.judge
    client = create_model_client(
        spec,
        spec.api_key,  # of a component's parameters: resolved already
        deadline=context.deadline,
        phase=IssuePhase.EVALUATE,
        log=context.log,
        conversation=Conversation.of(context, answered),
    )
    limit = asyncio.timeout(settings.timeout_seconds)
    async with client:
        try:
            async with limit:
                return JudgeCall.of(await client.generate([Message(role="user", content=prompt)]))
        except TimeoutError as error:
            if not limit.expired():
                raise
            seconds = settings.timeout_seconds
            raise _failed(
                f"judge {spec.id!r} gave no answer within {seconds:g} s (judge_timeout_seconds)"
            ) from error


async def _checkpointed(context: AttemptContext) -> list[JudgeCall]:
    saved = await context.load_checkpoint()
    if saved is None:
        return []
    try:
        return _Checkpoint.model_validate(saved).calls
    except ValidationError:
        context.log.warning("the checkpoint is of another version and is not used; the judge is asked again")
        return []


def _facts(settings: JudgeSettings, calls: list[JudgeCall]) -> dict[str, JsonValue]:
    """What the judge said and what it cost; the evaluated model's own usage is not touched."""
    usage = {
        name: sum(values)
        for name in Usage.model_fields
        if (values := [value for call in calls if (value := getattr(call.usage, name)) is not None])
    }
    costs = [call.cost_usd for call in calls if call.cost_usd is not None]
    return {
        "model": calls[-1].model or settings.judge.id,
        "answer": calls[-1].text[-_SHOWN_CHARS:],
        "calls": len(calls),
        "usage": dict(usage),
        "cost_usd": sum(costs) if costs else None,
        "seconds": round(sum(call.latency_seconds for call in calls), 3),
    }


def _failed(message: str) -> StageFailure:
    return StageFailure.fatal(IssuePhase.EVALUATE, IssueCode.JUDGE_FAILED, message)
