"""Phases on the queue of one host: what waits there for too long is given up when the host is gone.

A phase may also wait because every place of a living host is taken. So before anything is given up, the host is
asked whether it is there, on a queue that nothing else can block.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TypeVar

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import FailureError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from ..contracts.activities import BE_PRESENT
    from ..contracts.issues import Issue, IssueCode, Severity
    from ..contracts.phases import ISSUE_PHASES, Phase
    from ..contracts.upkeep import PresenceInput
    from ..contracts.workflows import presence_queue
    from .calls import PhaseFailed, waited_in_vain

T = TypeVar("T")

_ANSWER = timedelta(seconds=60)
"""How long a host may take to say that it is there: its worker may just be starting, or the server was away."""


class HostLost(PhaseFailed):
    """A phase was not begun, because no worker of the host was there for it."""

    def __init__(self, issue: Issue, queue: str) -> None:
        """``queue`` is that of the host."""
        super().__init__(issue)
        self.queue = queue


class Hosts:
    """How long the hosts of an attempt's environments may be away."""

    def __init__(self, lost_after_seconds: float, note: Callable[[str], None]) -> None:
        """``lost_after_seconds`` 0 waits for ever; ``note`` is told what is waited for."""
        self._lost_after = timedelta(seconds=lost_after_seconds)
        self._note = note

    def patience(self, queue: str | None) -> timedelta | None:
        """How long a phase may wait on a queue before its host is asked."""
        return self._lost_after or None if queue else None

    async def run(self, queue: str | None, phase: Phase, start: Callable[[], Awaitable[T]]) -> T:
        """What ``start`` returns, which is called again as long as its host is there.

        Raises :class:`HostLost` when it is not.
        """
        while True:
            try:
                return await start()
            except FailureError as error:
                if queue is None or not waited_in_vain(error):
                    raise
            self._note(f"{phase} has been waiting for {queue} for {self._lost_after.total_seconds():g} s")
            if not await self._is_present(queue):
                raise HostLost(self._issue(queue, phase), queue)

    async def _is_present(self, queue: str) -> bool:
        limit = min(self._lost_after, _ANSWER)
        try:
            await workflow.execute_activity(
                BE_PRESENT.name,
                PresenceInput(task_queue=queue),
                result_type=BE_PRESENT.output,
                task_queue=presence_queue(queue),
                schedule_to_start_timeout=limit,
                schedule_to_close_timeout=limit + _ANSWER,
                start_to_close_timeout=_ANSWER,
                retry_policy=RetryPolicy(maximum_interval=timedelta(seconds=5)),
                summary=f"is {queue} there"[:190],
            )
        except FailureError as error:
            if is_cancelled_exception(error):
                raise
            return False
        return True

    def _issue(self, queue: str, phase: Phase) -> Issue:
        seconds = self._lost_after.total_seconds()
        return Issue(
            severity=Severity.FATAL,
            phase=ISSUE_PHASES[phase],
            code=IssueCode.HOST_LOST,
            message=f"{phase}: no worker of {queue} was there for {seconds:g} s (host_lost_after_seconds)",
        )
