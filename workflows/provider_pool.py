"""The pool of one provider: places and turns for environments, over all launches of a cluster.

It runs only while limits are set. The rules are in ``contracts/pool.py``. Who asks while there is a place is
answered at once, which costs its attempt one event and some five here. The others are told: the grants of
a round go out in one local activity. A place is given back by the activity that closes the environment,
and there is no timer while nobody waits.

A workflow task may be executed again, with more signals than the first time, after attempts were told.
They must then be the same ones, or two would be in one place: so each signal is answered by itself, in
its handler, which makes an answer depend on nothing that came after it. For the same reason a run that
gets long continues as new before it tells anybody anything.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.exceptions import FailureError

with workflow.unsafe.imports_passed_through():
    from ..contracts.activities import FIND_GONE_HOLDERS, GRANT_LEASES
    from ..contracts.pool import Grant, LeaseRequest, Pool, PoolChange
    from ..contracts.upkeep import GoneHolders, GrantInput, HoldersInput
    from ..contracts.workflows import (
        ACQUIRE_SIGNAL,
        ACQUIRE_UPDATE,
        POOL_LIMITS_SIGNAL,
        POOL_WORKFLOW,
        RELEASE_SIGNAL,
        STATUS_QUERY,
        PoolAnswer,
        PoolInput,
        PoolStatus,
    )
    from .calls import bookkeeping, in_background, root_cause
    from .signals import model_of, text_of

_LOOK_SECONDS = 30.0
"""How often the holders are looked after while somebody waits for a place."""


@workflow.defn(name=POOL_WORKFLOW)
class ProviderPoolWorkflow:
    """Ends when its limits are off and nobody needs it."""

    @workflow.init
    def __init__(self, input: PoolInput) -> None:
        self._input = input
        self._pool = Pool(input.state)
        self._outbox = list(input.state.outbox)
        self._changed = False
        """True when there is something to do since the main coroutine looked."""
        self._timer: asyncio.Task[None] | None = None
        self._timer_at = 0.0
        self._looked_at = 0.0
        """When the holders were looked after last."""

    @workflow.run
    async def run(self, input: PoolInput) -> None:
        """Hand out leases until there is nothing to keep to."""
        self._pick()
        while True:
            if self._history_is_long:
                state = self._pool.state(workflow.time()).model_copy(update={"outbox": self._outbox})
                workflow.continue_as_new(input.model_copy(update={"state": state}))
            self._changed = False
            await self._tell()
            await self._look_after_holders()
            self._show()
            if self._changed or self._outbox:
                continue
            if self._pool.over(workflow.time()):
                return
            self._set_timer()
            await workflow.wait_condition(lambda: self._changed)

    def _pick(self, asking: str = "") -> Grant | None:
        """Choose who may go on now; they are told as soon as the workflow gets to it.

        Returns the grant of the attempt that is ``asking`` in this moment, and need not be told.
        """
        grants = self._pool.take_grants(workflow.time())
        self._outbox += [grant for grant in grants if grant.workflow_id != asking]
        self._changed = True
        return next((grant for grant in grants if grant.workflow_id == asking), None)

    async def _tell(self) -> None:
        grants, self._outbox = self._outbox, []
        if not grants:
            return
        try:
            gone = await bookkeeping(
                GRANT_LEASES, GrantInput(grants=grants), summary=f"grant {len(grants)} leases"
            )
        except FailureError as error:
            # A bug of ours. They ask again by themselves, and whoever is gone is found out.
            workflow.logger.error("leases were not granted: %s", root_cause(error))
            return
        self._drop(gone)

    def _drop(self, gone: GoneHolders) -> None:
        if gone.workflow_ids:
            self._pool.drop(gone.workflow_ids)
            self._pick()

    async def _look_after_holders(self) -> None:
        """A place must not stay taken by an attempt that was killed; nobody misses it while there are others."""
        now = workflow.time()
        if not self._pool.full:
            self._looked_at = 0.0
            return
        if self._looked_at == 0.0:
            self._looked_at = now  # somebody began to wait: the holders are most likely at work
        if now - self._looked_at < _LOOK_SECONDS:
            return
        self._looked_at = now
        argument = HoldersInput(workflow_ids=self._pool.holders)
        try:
            gone = await bookkeeping(FIND_GONE_HOLDERS, argument, summary="look after holders")
        except FailureError as error:
            workflow.logger.error("holders were not looked after: %s", root_cause(error))
            return
        self._drop(gone)

    @property
    def _history_is_long(self) -> bool:
        info = workflow.info()
        long = info.get_current_history_length() >= self._input.continue_as_new_after
        return long or info.is_continue_as_new_suggested()

    def _set_timer(self) -> None:
        """One timer at a time, kept while signals come and go, so that it costs nothing per lease."""
        now = workflow.time()
        wake = self._pool.wake_at(now)
        if self._pool.full:
            look = self._looked_at + _LOOK_SECONDS
            wake = look if wake is None else min(wake, look)
        if wake is None or (self._timer is not None and self._timer_at <= wake):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = wake
        self._timer = in_background(self._ring(max(0.01, wake - now)))

    async def _ring(self, seconds: float) -> None:
        await workflow.sleep(timedelta(seconds=seconds), summary="look again")
        self._timer = None
        self._pick()

    def _show(self) -> None:
        status = self.status()
        limits = status.settings
        rows = [
            f"| {name} | {status.held.get(name, 0)} | {status.waiting.get(name, 0)} |"
            for name in self._launches
        ]
        workflow.set_current_details(
            f"**{self._input.provider}** capacity {limits.capacity or 'none'}, "
            f"opened per second {limits.open_per_second or 'no limit'}\n\n"
            "| launch | places | waiting |\n|---|---|---|\n" + "\n".join(rows[:50])
        )

    @property
    def _launches(self) -> list[str]:
        return sorted({*self._pool.held_by(), *self._pool.waiting_of()})

    @workflow.query(name=STATUS_QUERY)
    def status(self) -> PoolStatus:
        """Limits, and who holds and waits."""
        return PoolStatus(
            provider=self._input.provider,
            settings=self._pool.settings,
            held=dict(self._pool.held_by()),
            waiting=dict(self._pool.waiting_of()),
        )

    @workflow.signal(name=ACQUIRE_SIGNAL)
    def acquire(self, *arguments: Any) -> None:
        """``LeaseRequest``: an attempt wants to open an environment."""
        request = model_of(LeaseRequest, arguments)
        if request is not None:
            self._pool.acquire(request)
            self._pick()

    @workflow.update(name=ACQUIRE_UPDATE)
    def acquire_now(self, request: LeaseRequest) -> PoolAnswer:
        """The same as ``acquire``, and the grant if there is one at once.

        Updates come after all signals of their workflow task, so what was told of those does not depend on them.
        """
        self._pool.acquire(request)
        return PoolAnswer(grant=self._pick(request.workflow_id))

    @workflow.signal(name=RELEASE_SIGNAL)
    def release(self, *arguments: Any) -> None:
        """``attempt workflow id, environment id``: it is closed."""
        self._pool.release(text_of(arguments), text_of(arguments, 1))
        self._pick()

    @workflow.signal(name=POOL_LIMITS_SIGNAL)
    def set_limits(self, *arguments: Any) -> None:
        """``PoolChange``: other limits from now on."""
        change = model_of(PoolChange, arguments)
        if change is not None:
            self._pool.change(change)
            self._pick()
