"""ATIF, the Agent Trajectory Interchange Format, version 1.8: models of what we write.

Documented at https://www.harborframework.com (RFC 0001). Keys that the format does not know are
allowed nowhere but under ``extra``; what is ``None`` is left out of the file.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final, Literal

from pydantic import Field, JsonValue, field_validator, model_validator

from .base import Contract

ATIF_SCHEMA: Final = "ATIF-v1.8"

Extra = dict[str, JsonValue]


class AtifToolCall(Contract):
    """A call that the agent asked for; ids are unique within a step."""

    tool_call_id: str
    function_name: str
    arguments: dict[str, JsonValue]


class AtifResult(Contract):
    """What came back, for a call of the same step or, without an id, for the step."""

    source_call_id: str | None = None
    content: str | None = None


class AtifObservation(Contract):
    """What the environment answered to a step."""

    results: list[AtifResult]


class AtifMetrics(Contract):
    """Tokens and US dollars of a model call; cached tokens are among the prompt tokens."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None
    extra: Extra | None = None


class AtifStep(Contract):
    """One step; what belongs to a model call is on steps of the agent only."""

    step_id: int = Field(ge=1)
    timestamp: str | None = None
    """ISO 8601."""
    source: Literal["system", "user", "agent"]
    model_name: str | None = None
    message: str
    reasoning_content: str | None = None
    tool_calls: list[AtifToolCall] | None = None
    observation: AtifObservation | None = None
    metrics: AtifMetrics | None = None
    extra: Extra | None = None

    @field_validator("timestamp")
    @classmethod
    def _is_a_time(cls, value: str | None) -> str | None:
        if value is not None:
            datetime.fromisoformat(value)
        return value

    @model_validator(mode="after")
    def _agent_fields(self) -> AtifStep:
        if self.source != "agent":
            for name in ("model_name", "reasoning_content", "tool_calls", "metrics"):
                if getattr(self, name) is not None:
                    raise ValueError(f"{name} on a step of the {self.source}")
        ids = [call.tool_call_id for call in self.tool_calls or []]
        if len(set(ids)) != len(ids):
            raise ValueError("two tool calls have one id")
        for result in self.observation.results if self.observation else []:
            if result.source_call_id is not None and result.source_call_id not in ids:
                raise ValueError(
                    f"an observation names the call {result.source_call_id!r}, which is not there"
                )
        return self


class AtifAgent(Contract):
    """Who acted; tool definitions are in the shape of OpenAI's functions."""

    name: str
    version: str
    model_name: str | None = None
    tool_definitions: list[dict[str, JsonValue]] | None = None
    extra: Extra | None = None


class AtifFinalMetrics(Contract):
    """Sums over the steps that report."""

    total_prompt_tokens: int | None = None
    total_completion_tokens: int | None = None
    total_cached_tokens: int | None = None
    total_cost_usd: float | None = None
    total_steps: int = Field(ge=0)


class AtifTrajectory(Contract):
    """A whole trajectory; steps count from 1 without gaps."""

    schema_version: Literal["ATIF-v1.8"] = ATIF_SCHEMA
    session_id: str
    trajectory_id: str
    agent: AtifAgent
    steps: list[AtifStep] = Field(min_length=1)
    final_metrics: AtifFinalMetrics
    extra: Extra | None = None

    @model_validator(mode="after")
    def _no_gaps(self) -> AtifTrajectory:
        for number, step in enumerate(self.steps, start=1):
            if step.step_id != number:
                raise ValueError(f"step {number} has the id {step.step_id}")
        return self
