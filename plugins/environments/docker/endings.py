"""Why a container has ended, as far as the engine still knows."""

from __future__ import annotations

import json
import time
from typing import Any

from . import lease
from .engine import Engine, EngineError

_MEMORY_SECONDS = 3600
_OUT_OF_MEMORY = "its container was ended because it ran out of memory"


def reason_of_state(state: dict[str, Any]) -> str:
    """For a container that is still there."""
    if state.get("OOMKilled"):
        return _OUT_OF_MEMORY
    if state.get("Status") == "created":
        return "its container was never started"
    return _ended(str(state.get("ExitCode")), f" at {state.get('FinishedAt')}")


def reason_of_events(engine: Engine, container: str) -> str:
    """For one that was removed, perhaps by the engine at its end. The engine remembers some 256 events. Blocks."""
    filters = {"type": ["container"], "container": [container], "event": ["die", "oom"]}
    now = time.time()
    params = {"since": f"{now - _MEMORY_SECONDS:.0f}", "until": f"{now:.9f}", "filters": json.dumps(filters)}
    removed = "its container was removed"
    try:
        lines = engine.request("GET", "/events", params=params).text.splitlines()
    except EngineError:
        return removed
    events = [json.loads(line) for line in lines if line]
    if any(event.get("Action") == "oom" for event in events):
        return f"{removed}; it had run out of memory"
    if not events:
        return removed
    return _ended(str(events[-1]["Actor"]["Attributes"].get("exitCode")), " and was removed")


def _ended(status: str, more: str) -> str:
    if status == str(lease.ENDED_STATUS):
        return "its time to live was over: no worker had shown a sign of life of its attempt"
    return f"its container has ended with status {status}{more}"
