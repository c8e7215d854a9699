"""Keep an environment alive while its attempt waits for somebody to mend an account."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from ..contracts.activities import HOLD_ENVIRONMENT, Done, ExecutionRef, PhaseInput
from ..contracts.environment import Environment, EnvironmentHandle, EnvironmentLostError
from .boundary import activity_boundary
from .classification import describe
from .heartbeat import heartbeating
from .hook_calls import HOOK_FAILURES, call_hook, raise_if_cancelled
from .leases import Leases
from .services import Services, build_environment
from .store import run_log_scope

LOOK_SECONDS = 300.0
_CALL_SECONDS = 60.0
_log = logging.getLogger(__name__)


class HoldEnvironment:
    """Running it twice is safe: it changes nothing but the environment's time to live."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @activity.defn(name=HOLD_ENVIRONMENT.name)
    @activity_boundary
    async def hold_environment(self, input: PhaseInput) -> Done:
        """Renew its time to live, and call it now and then, until cancelled or until it is gone.

        Whoever needs it next finds out whether it is still there.
        """
        handle = input.handle
        if handle is None:
            return Done()
        ref, store = input.ref, self._services.store(input.ref.run_dir)
        request = self._services.components(ref.run_dir).request
        spec = store.execution(ref).load_plan().environment
        environment = build_environment(spec, self._services.registry(request))
        with run_log_scope(ref.run_dir):
            leases = Leases(store.environments, _log)
            leases.hold(environment, handle)
            async with heartbeating(), leases.renewing(first=0):
                while await _is_there(environment, handle, ref):
                    await _pause(LOOK_SECONDS)
        return Done()


async def _pause(seconds: float) -> None:
    """Raises ``ApplicationError`` when the worker is to leave: the next one goes on at once, and nobody waits."""
    leaving = asyncio.create_task(activity.wait_for_worker_shutdown())
    try:
        done, _ = await asyncio.wait({leaving}, timeout=seconds)
    finally:
        leaving.cancel()
    if done:
        raise ApplicationError(
            "its worker leaves", type="worker_leaves", category=ApplicationErrorCategory.BENIGN
        )


async def _is_there(environment: Environment[Any], handle: EnvironmentHandle, ref: ExecutionRef) -> bool:
    """Run a command in it: some providers stop a sandbox that nobody has called for a while."""
    try:
        async with asyncio.timeout(_CALL_SECONDS):
            session = await call_hook(environment.attach, handle)
            await call_hook(session.exec, "true")
    except EnvironmentLostError as error:
        _log.warning("[%s a%d] while the run is paused: %s", ref.task_id, ref.attempt, describe(error))
        return False
    except HOOK_FAILURES as error:  # extension code; a provider that cannot be reached now may be later
        raise_if_cancelled(error)
        _log.warning("[%s a%d] not called: %s", ref.task_id, ref.attempt, describe(error))
    return True
