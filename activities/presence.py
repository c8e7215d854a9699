"""A host that says it is there."""

from __future__ import annotations

from temporalio import activity

from ..contracts.activities import BE_PRESENT, Done
from ..contracts.upkeep import PresenceInput
from .boundary import activity_boundary


class Presence:
    """Served on a queue of its own, on which no work can keep it waiting. To be executed is all that it does."""

    @activity.defn(name=BE_PRESENT.name)
    @activity_boundary
    async def be_present(self, input: PresenceInput) -> Done:
        """Returns at once."""
        del input
        return Done()
