"""What the services beside a sandbox have to say before it is closed: their logs, and which of them failed."""

from __future__ import annotations

import asyncio
from typing import Any

from ..contracts.environment import Environment, EnvironmentHandle
from ..contracts.issues import IssueCode, IssuePhase, Severity
from .phase import PhaseScope


async def keep_service_logs(
    scope: PhaseScope, environment: Environment[Any], handle: EnvironmentHandle, seconds: float
) -> None:
    """Keep the logs beside the run's own; a service that failed is an ERROR, for it may explain the score.

    Safe to repeat: the files are written again. Raises what the provider raises.
    """
    async with asyncio.timeout(seconds):
        found = await scope.call(environment.services, handle)
    judging = handle.id.endswith("-v")
    phase = IssuePhase.EVALUATE if judging else IssuePhase.RUN
    for service in found:
        # The verifier's own environment may have services of the same names.
        name = f"verifier.{service.name}" if judging else service.name
        path = scope.execution.save_service_log(name, service.log) if service.log else ""
        if service.problem:
            message = f"service {service.name!r} of the task {service.problem}"
            message += f"; its log: {path}" if path else "; it has written nothing"
            scope.context.report_issue(Severity.ERROR, phase, IssueCode.SERVICE_FAILED, message)
