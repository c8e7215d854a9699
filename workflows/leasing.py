"""An attempt's side of a provider's pool: it asks for a lease, and waits without anything else going on.

In the usual case the answer brings the grant along, and asking is all that it costs.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from ..contracts.activities import REQUEST_LEASE, ExecutionRef, environment_id
    from ..contracts.pool import Grant
    from ..contracts.upkeep import LeaseInput
    from .calls import bookkeeping

_ASK_AGAIN = timedelta(minutes=15)
"""How often an attempt that waits looks whether the pool is still there."""


class Leasing:
    """``granted`` is what the pool answers."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note
        self._grant: Grant | None = None

    def granted(self, grant: Grant) -> None:
        """There is a place and a turn."""
        self._grant = grant

    async def acquire(self, ref: ExecutionRef, provider: str, *, for_evaluation: bool) -> float | None:
        """Wait for a lease: the time from which on the environment may be opened; ``None`` without a pool."""
        wanted = environment_id(ref, for_evaluation=for_evaluation)
        argument = LeaseInput(ref=ref, provider=provider, for_evaluation=for_evaluation)
        self._note(f"asking for a place at {provider}")
        while True:
            # Asked twice, a pool grants once more what it has granted.
            answer = await bookkeeping(REQUEST_LEASE, argument, summary=f"ask the pool of {provider}")
            if answer.grant is not None:
                return answer.grant.not_before
            if not answer.waits:
                return None
            self._note(f"waiting for a place at {provider}")
            try:
                await workflow.wait_condition(lambda: self._is_for(wanted), timeout=_ASK_AGAIN)
            except TimeoutError:
                continue
            assert self._grant is not None  # is what the condition waited for
            return self._grant.not_before

    def _is_for(self, wanted: str) -> bool:
        """A grant for an earlier environment of this attempt may come late."""
        return self._grant is not None and self._grant.environment_id == wanted
