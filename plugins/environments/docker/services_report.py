"""What became of the services of a sandbox, before it is removed."""

from __future__ import annotations

from typing import Any

from ....contracts.environment import ServiceReport
from .container import MAIN, SERVICE_LABEL
from .engine import Engine
from .services_network import services_of

_MOST_LINES = 5000
LARGEST_LOG_BYTES = 256 * 1024


def report_services(engine: Engine, environment_id: str) -> list[ServiceReport]:
    """A report on every service but ``main``. Blocks."""
    return [
        _report(engine, item["Id"], str(item["Labels"][SERVICE_LABEL]))
        for item in services_of(engine, environment_id)
        if item["Labels"][SERVICE_LABEL] != MAIN
    ]


def _report(engine: Engine, container: str, name: str) -> ServiceReport:
    state: dict[str, Any] = engine.translated(engine.api.inspect_container, container)["State"]
    running = bool(state["Running"])
    health = str((state.get("Health") or {}).get("Status") or "")
    log: bytes = engine.translated(engine.api.logs, container, tail=_MOST_LINES, timestamps=True)
    problem = ""
    if not running and state.get("OOMKilled"):
        problem = "was ended because it ran out of memory"
    elif not running and state["Status"] != "created" and state["ExitCode"] != 0:
        problem = f"ended with status {state['ExitCode']} at {state.get('FinishedAt')}"
    elif running and health == "unhealthy":
        problem = "is not healthy any more"
    return ServiceReport(name=name, running=running, problem=problem, log=log[-LARGEST_LOG_BYTES:])
