"""The pool of one provider: places and turns for environments, over all launches of a cluster.

It runs only while limits are set. The rules are in ``contracts/pool.py``. Who asks while there is a place is
answered at once. The others are told when they ask: the worker processes in which they wait look for all of theirs
together, by a query, which leaves nothing in the history. So a lease costs the question and the giving back, and a pool
does nothing by itself but to wake up when a turn comes.

Each signal is answered by itself, in its handler, which makes who comes next depend on nothing that came after it: a
workflow task may be executed again, with more signals than the first time, after somebody was told.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from ..contracts.pool import LeaseRequest, PlacesAnswer, PlacesAsked, Pool, PoolChange
    from ..contracts.workflows import (
        ACQUIRE_SIGNAL,
        ACQUIRE_UPDATE,
        GONE_SIGNAL,
        PLACES_QUERY,
        POOL_LIMITS_SIGNAL,
        POOL_WORKFLOW,
        RELEASE_SIGNAL,
        STATUS_QUERY,
        PoolAnswer,
        PoolInput,
        PoolStatus,
    )
    from .calls import in_background
    from .signals import model_of, text_of


@workflow.defn(name=POOL_WORKFLOW)
class ProviderPoolWorkflow:
    """Ends when its limits are off and nobody needs it."""

    @workflow.init
    def __init__(self, input: PoolInput) -> None:
        self._input = input
        self._pool = Pool(input.state)
        self._changed = False
        """True when there is something to do since the main coroutine looked."""
        self._timer: asyncio.Task[None] | None = None
        self._timer_at = 0.0

    @workflow.run
    async def run(self, input: PoolInput) -> None:
        """Hand out leases until there is nothing to keep to."""
        self._pick()
        while not self._pool.over(workflow.time()):
            if self._history_is_long:
                state = self._pool.state(workflow.time())
                workflow.continue_as_new(input.model_copy(update={"state": state}))
            self._changed = False
            self._show()
            self._set_timer()
            await workflow.wait_condition(lambda: self._changed)
        self._show()

    def _pick(self) -> None:
        """Choose who may go on now."""
        self._pool.take_grants(workflow.time())
        self._changed = True

    @property
    def _history_is_long(self) -> bool:
        info = workflow.info()
        long = info.get_current_history_length() >= self._input.continue_as_new_after
        return long or info.is_continue_as_new_suggested()

    def _set_timer(self) -> None:
        """One timer at a time, kept while signals come and go, so that it costs nothing per lease."""
        now = workflow.time()
        wake = self._pool.wake_at(now)
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

    @workflow.query(name=PLACES_QUERY)
    def places(self, asked: PlacesAsked) -> PlacesAnswer:
        """What became of attempts that wait."""
        return self._pool.answer(asked)

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

        Updates come after all signals of their workflow task, so what those were told does not depend on them.
        """
        self._pool.acquire(request)
        self._pick()
        return PoolAnswer(grant=self._pool.granted_to(request))

    @workflow.signal(name=RELEASE_SIGNAL)
    def release(self, *arguments: Any) -> None:
        """``attempt workflow id, environment id``: it is closed."""
        self._pool.release(text_of(arguments), text_of(arguments, 1))
        self._pick()

    @workflow.signal(name=GONE_SIGNAL)
    def gone(self, *arguments: Any) -> None:
        """``attempt workflow id, …``: these are over, and nobody gave back what they held."""
        self._pool.drop(text_of(arguments, place) for place in range(len(arguments)))
        self._pick()

    @workflow.signal(name=POOL_LIMITS_SIGNAL)
    def set_limits(self, *arguments: Any) -> None:
        """``PoolChange``: other limits from now on."""
        change = model_of(PoolChange, arguments)
        if change is not None:
            self._pool.change(change)
            self._pick()
