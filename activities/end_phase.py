"""Write down an operator's decision to end the phase that runs."""

from __future__ import annotations

import asyncio

from temporalio import activity

from ..contracts.activities import END_PHASE, Done, EndPhaseInput
from .boundary import activity_boundary
from .services import Services


class EndPhase:
    """Running it twice is safe: it replaces what it wrote. See ``phase_limit.py`` for who reads it."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @activity.defn(name=END_PHASE.name)
    @activity_boundary
    async def end_phase(self, input: EndPhaseInput) -> Done:
        """Durable: the worker that executes the phase may die before it sees the decision."""
        execution = self._services.store(input.ref.run_dir).execution(input.ref)
        await asyncio.to_thread(execution.save_end, input.end)
        return Done()
