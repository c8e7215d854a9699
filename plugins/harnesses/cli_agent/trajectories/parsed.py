"""What every reader returns, and what they share."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime

import orjson
from pydantic import Field, JsonValue

from .....contracts.base import Contract
from .....contracts.result import TrajectoryStep, Usage
from ....models.json_values import JsonObject, count_in, depth_exceeds

MAX_DEPTH = 64


class UnreadableTrajectory(ValueError):
    """Nothing in the agent's trajectory could be understood; the message says why."""


class ParsedTrajectory(Contract):
    """The steps of an agent, and what it says about the whole."""

    steps: list[TrajectoryStep] = Field(default_factory=list)
    answer: str | None = None
    agent_version: str | None = None
    cost_usd: float | None = None
    """Of the whole run, as the agent computed it."""
    problem: str | None = None
    """Why the agent stopped, when it was not because it was done."""


def json_lines(data: bytes) -> Iterator[JsonObject]:
    """The objects among the lines; agents print other things in between, and die in the middle of one."""
    for line in data.split(b"\n"):
        if not line.lstrip().startswith(b"{"):
            continue
        try:
            value: JsonValue = orjson.loads(line)
        except orjson.JSONDecodeError:
            continue
        if isinstance(value, dict) and not depth_exceeds(value, MAX_DEPTH):
            yield value


def object_in(value: JsonValue, key: str) -> JsonObject:
    """The object under a key; an empty one where there is none."""
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def objects_in(value: JsonValue, key: str) -> list[JsonObject]:
    """The objects in the array under a key."""
    found = value.get(key) if isinstance(value, dict) else None
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def text_in(value: JsonValue, key: str) -> str:
    """The text under a key; empty where there is none."""
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, str) else ""


def shown(value: JsonValue) -> str:
    """Text as it is, the texts of an array of parts, anything else as JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and all(isinstance(part, dict) and "text" in part for part in value):
        return "\n".join(text_in(part, "text") for part in value)
    return json.dumps(value, ensure_ascii=False)


def unix_time(value: JsonValue) -> float | None:
    """Unix seconds of an ISO time, of milliseconds or of seconds."""
    if isinstance(value, str):
        try:
            return datetime.fromisoformat(value).timestamp()
        except (ValueError, OverflowError, OSError):
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    seconds = value / 1000 if value > 1e11 else float(value)
    return seconds if 0 < seconds < 1e11 else None


def usage_in(value: JsonValue, prompt: str, completion: str, cached: str = "", reasoning: str = "") -> Usage:
    """Counts under these names; ``None`` where a name is empty or holds no count."""
    return Usage(
        prompt_tokens=count_in(value, prompt),
        completion_tokens=count_in(value, completion),
        cached_tokens=count_in(value, cached) if cached else None,
        reasoning_tokens=count_in(value, reasoning) if reasoning else None,
    )


def charge_whole_run(steps: list[TrajectoryStep], usage: Usage, cost_usd: float | None) -> None:
    """Put totals of the run on the last step of the agent, for agents that tell nothing finer."""
    last = next((step for step in reversed(steps) if step.source == "agent"), None)
    if last is None:
        return
    for step in steps:
        step.usage, step.cost_usd = None, None
    last.usage, last.cost_usd = usage, cost_usd
    last.extra["usage_of"] = "the whole run"
