"""Waiting until services are what others need of them: started, healthy, or done."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from .compose import ComposeProject, Condition
from .engine import NOT_FOUND, Engine, EngineError

_POLL_SECONDS = 0.1
_SHOWN_LINES = 10
_SHOWN_CHARACTERS = 600


class Readiness:
    """The services of one opening, by the containers that were started so far."""

    def __init__(self, engine: Engine, project: ComposeProject, deadline: float) -> None:
        self.containers: dict[str, str] = {}
        self._engine = engine
        self._project = project
        self._began = time.monotonic()
        self._deadline = deadline

    async def reached(self, service: str, condition: Condition) -> None:
        """Wait for what somebody needs of a service. Raises ``OSError`` that names it and says why not."""
        while True:
            state = await self._state(service)
            if condition is Condition.HEALTHY and "Health" not in state and state["Running"]:
                raise OSError(f"service {service!r} has no health check, which another one waits for")
            if _is(state, condition):
                return
            await self._require_hope(service, state, condition)
            await asyncio.sleep(_POLL_SECONDS)

    async def all_ready(self) -> None:
        """Wait until each service runs and is healthy where it can tell, or has done its work."""
        for service in self.containers:
            while True:
                state = await self._state(service)
                if _succeeded(state) or (state["Running"] and _health(state) in ("", "healthy")):
                    break
                await self._require_hope(service, state, Condition.HEALTHY)
                await asyncio.sleep(_POLL_SECONDS)

    async def _require_hope(self, service: str, state: dict[str, Any], condition: Condition) -> None:
        """Raise ``OSError`` when a service cannot get there any more, or had its time."""
        wanted = "done" if condition is Condition.COMPLETED else "healthy"
        if state["Status"] in ("exited", "dead") and not (_succeeded(state) and wanted == "done"):
            problem = f"has ended with status {state['ExitCode']} before it was {wanted}"
        elif _health(state) == "unhealthy":
            problem = f"is not healthy: {_last_check(state)}"
        elif time.monotonic() > self._deadline:
            waited = time.monotonic() - self._began
            check = f"; its last check: {_last_check(state)}" if _health(state) else ""
            problem = f"was not {wanted} within {waited:.0f} s{check}"
        else:
            return
        output = await self._engine.call(last_output, self._engine, self.containers[service])
        raise OSError(f"service {service!r} {problem}; its last output: {output or 'none'}")

    async def _state(self, service: str) -> dict[str, Any]:
        container = self.containers[service]
        try:
            facts = await self._engine.call(lambda: self._engine.api.inspect_container(container))
        except EngineError as error:
            if error.status != NOT_FOUND:
                raise
            raise OSError(
                f"the container of service {service!r} was removed while it was waited for"
            ) from None
        state: dict[str, Any] = facts["State"]
        return state


def last_output(engine: Engine, container: str) -> str:
    """The end of what a service has written, in one line for people. Blocks."""
    data: bytes = engine.translated(engine.api.logs, container, tail=_SHOWN_LINES)
    lines = data.decode("utf-8", "replace").splitlines()
    return " | ".join(line.strip() for line in lines if line.strip())[-_SHOWN_CHARACTERS:]


def _is(state: dict[str, Any], condition: Condition) -> bool:
    if condition is Condition.STARTED:
        return True
    return _succeeded(state) if condition is Condition.COMPLETED else _health(state) == "healthy"


def _succeeded(state: dict[str, Any]) -> bool:
    return bool(state["Status"] == "exited" and state["ExitCode"] == 0)


def _health(state: dict[str, Any]) -> str:
    return str((state.get("Health") or {}).get("Status") or "")


def _last_check(state: dict[str, Any]) -> str:
    log = (state.get("Health") or {}).get("Log") or []
    last = log[-1] if log else {}
    output = " ".join(str(last.get("Output") or "").split())[-_SHOWN_CHARACTERS:]
    return f"status {last.get('ExitCode')} {output}".strip() if last else "none ended yet"
