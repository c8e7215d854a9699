"""The steps of an agent as text."""

from __future__ import annotations

import json
from datetime import datetime

from pydantic import JsonValue

from ..activities.store import RecordedStep
from ..contracts.result import TrajectoryStep
from .terminal_text import clipped, safe_text

SHOWN_CHARS = 2000
SHOWN_LINES = 25


def step_text(recorded: RecordedStep) -> str:
    """A headline and, indented, what was said, called and seen; bounded, and safe for a terminal."""
    step = recorded.step
    parts = [_headline(recorded)]
    for mark, value in (("  ", step.message), ("  (thinks) ", step.reasoning)):
        if value:
            parts.append(_block(mark, value))
    parts += [_block(f"  > {safe_text(call.name)[:80]} ", call.arguments) for call in step.tool_calls]
    parts += [_block("  < ", seen.content) for seen in step.observations]
    return "\n".join(parts)


def _headline(recorded: RecordedStep) -> str:
    step = recorded.step
    facts = [f"step {step.step_id}", step.source]
    if recorded.execution > 1:
        facts.insert(0, f"execution {recorded.execution}")
    if step.model:
        facts.append(safe_text(step.model)[:80].replace("\n", " "))
    if step.latency_seconds is not None:
        facts.append(f"{step.latency_seconds:.1f} s")
    facts += _tokens(step)
    return f"[{_clock(step.timestamp)}] {' · '.join(facts)}"


def _clock(timestamp: float | None) -> str:
    try:
        return f"{datetime.fromtimestamp(timestamp):%H:%M:%S}" if timestamp is not None else "--:--:--"
    except (OverflowError, OSError, ValueError):  # a harness may have written any number
        return "--:--:--"


def _tokens(step: TrajectoryStep) -> list[str]:
    usage = step.usage
    if usage is None or (usage.prompt_tokens is None and usage.completion_tokens is None):
        return []
    counts = (
        "?" if count is None else str(count) for count in (usage.prompt_tokens, usage.completion_tokens)
    )
    return [f"{' + '.join(counts)} tokens"]


def _block(mark: str, value: JsonValue) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    shown = clipped(safe_text(text).strip("\n"), chars=SHOWN_CHARS, lines=SHOWN_LINES)
    return mark + shown.replace("\n", "\n" + " " * len(mark))
