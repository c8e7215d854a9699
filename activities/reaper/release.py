"""Remove one environment that was found."""

from __future__ import annotations

import asyncio

from ...contracts.request import EnvironmentSpec
from ...plugins.registry import Registry
from ..classification import describe
from ..hook_calls import HOOK_FAILURES, call_hook, raise_if_cancelled
from ..redaction import REDACTOR
from ..services import build_environment
from ..store.ledger import EnvironmentLedger
from .finding import Sighting

RELEASE_SECONDS = 120.0


async def release(sighting: Sighting, registry: Registry, host: str) -> str:
    """Remove it; returns why it could not be removed, or nothing. Safe to repeat.

    A failure is noted in the run's ledger, so that it is seen and tried again.
    """
    if sighting.host not in ("", host):
        return f"it is on another machine, {sighting.host}"
    ledger = EnvironmentLedger(sighting.run_dir) if sighting.run_dir else None
    try:
        spec = EnvironmentSpec(id=sighting.provider, params=dict(sighting.params))
        environment = build_environment(spec, registry)
        async with asyncio.timeout(RELEASE_SECONDS):
            await call_hook(environment.close, sighting.handle)
    except HOOK_FAILURES as error:  # extension code may raise anything
        raise_if_cancelled(error)
        reason = REDACTOR.text(describe(error))
        if ledger is not None:
            ledger.note_failed_removal(sighting.id, reason)
        return reason
    if ledger is not None:
        ledger.remove(sighting.id)
    return ""
