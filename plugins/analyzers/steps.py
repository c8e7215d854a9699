"""What the built-in analyzers share: the steps of the agent, bounded texts, amounts that are none."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator

from pydantic import JsonValue

from ...contracts.result import RunResult, TrajectoryStep

MAX_LISTED = 20
"""Step numbers that a finding lists."""


def agent_steps(result: RunResult) -> list[TrajectoryStep]:
    """The steps that the agent took, in order."""
    return [step for step in all_steps(result) if step.source == "agent"]


def all_steps(result: RunResult) -> Iterator[TrajectoryStep]:
    """Every step of the trajectory; none without one."""
    yield from result.trajectory.steps if result.trajectory else ()


def is_blank(value: JsonValue) -> bool:
    """True for nothing: null, white space, an empty list or map."""
    return value is None or (isinstance(value, str) and not value.strip()) or value in ([], {})


def step_numbers(steps: list[TrajectoryStep]) -> list[JsonValue]:
    """The first numbers of ``steps``."""
    return [step.step_id for step in steps[:MAX_LISTED]]


def canonical(value: JsonValue) -> str:
    """A text that is equal for equal JSON values, whatever the order of their keys."""
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False)


def excerpt(text: str, limit: int = 200) -> str:
    """The beginning of ``text``."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def amount(value: float | None) -> float | None:
    """``value``, or ``None`` for what is no amount: an agent's own report may hold anything."""
    return value if value is not None and math.isfinite(value) and value >= 0 else None
