"""A request's side of the launch's slots: how many it has, and when it tells what it could use."""

from __future__ import annotations

import functools
from collections.abc import Callable
from datetime import timedelta

from temporalio import workflow
from temporalio.exceptions import FailureError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from ..contracts.dispatch import Allowance, Demand, Holding
    from ..contracts.workflows import DEMAND_SIGNAL, RequestInput
    from .calls import in_background

_LOOK_AGAIN = timedelta(minutes=15)
"""How often a request that is not ended with its launch looks whether that is still there."""
_ANSWER_PATCH = "slots that were taken back before they were used are acknowledged"


class Allotment:
    """The slots of a request. A single request has all of its launch; several ones share."""

    def __init__(
        self,
        input: RequestInput,
        measure: Callable[[], tuple[int, int] | None],
        alone: Callable[[], None],
        may_report: Callable[[], bool],
    ) -> None:
        """``measure`` tells how many attempts could start now, and how many slots are in use.

        It knows nothing (``None``) before the tasks are loaded. ``alone`` is called when the launch is gone without
        having ended this request. While ``may_report`` is false, something else has to reach the launch first.
        """
        self._measure = measure
        self._alone = alone
        self._may_report = may_report
        self._abandoned = input.abandoned
        self._key = input.request_key
        self._shares = input.shares_slots
        if input.state is not None:
            state = input.state
            self._holding = Holding(
                state.allowance, state.task_concurrency, state.reported, state.promised_slots
            )
        else:
            slots = 0 if input.shares_slots else input.task_concurrency
            first = Allowance(slots=slots, limit=input.task_concurrency, may_finish=not input.shares_slots)
            self._holding = Holding(first, slots)
        self._sending = False

    @property
    def slots(self) -> int:
        """Attempts that may run at a time."""
        return self._holding.slots

    @property
    def limit(self) -> int:
        """Attempts that the whole launch runs at a time."""
        return self._holding.heard.limit

    @property
    def may_finish(self) -> bool:
        """True when the launch lets this request be summarized."""
        return self._holding.heard.may_finish

    @property
    def settled(self) -> bool:
        """True when no report is under way: what continue-as-new waits for."""
        return not self._sending

    def state(self) -> dict[str, object]:
        """What ``continue_as_new`` carries over."""
        holding = self._holding
        return {
            "task_concurrency": holding.slots,
            "allowance": holding.heard,
            "reported": holding.told,
            "promised_slots": holding.promised,
        }

    def hear(self, allowance: Allowance) -> None:
        """What the launch says; a message that was overtaken is dropped."""
        self._holding.hear(allowance)

    def report(self) -> None:
        """Tell the launch what this request could use, when that is news; slots it cannot use go back.

        One report is under way at a time, and is followed by what changed meanwhile.
        """
        if not self._shares or self._sending or not self._may_report():
            return
        measured = self._measure()
        answers = functools.partial(workflow.patched, _ANSWER_PATCH)
        demand = None if measured is None else self._holding.tell(*measured, answers=answers)
        if demand is not None:
            self._sending = True
            in_background(self._send(demand))

    async def watch_launch(self) -> None:
        """Repeat the last report now and then: a launch that is gone does not take it."""
        while True:
            if self._holding.told is not None and not self._sending:
                self._sending = True
                await self._send(self._holding.told)
            await workflow.sleep(_LOOK_AGAIN, summary="is the launch still there")

    async def _send(self, demand: Demand) -> None:
        try:
            parent = workflow.info().parent
            if parent is not None:
                handle = workflow.get_external_workflow_handle(parent.workflow_id)
                await handle.signal(DEMAND_SIGNAL, args=[self._key, demand])
        except FailureError as error:
            if is_cancelled_exception(error):
                raise
            # The launch is over, or was terminated, which ends this request, too, unless it was abandoned.
            workflow.logger.info("the launch took no report: %s", error)
            if self._abandoned:
                self._alone()
        finally:
            self._sending = False
        self.report()
