"""What ends a phase from outside: its budget, or an operator who decides that it has stalled."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Protocol, Self

from ..contracts.ending import OperatorEnd, ended_issue
from ..contracts.issues import Issue
from ..contracts.phases import ISSUE_PHASES, Phase
from .classification import make_issue, overdue, tidy
from .context import PhaseContext

POLL_SECONDS = 1.0
"""How soon an operator's decision is seen. It lies in the run directory: a worker that takes the phase
over after another one died finds it there, too."""

QUICK_SECONDS = 60.0
"""What a hook may take that is declared to end within about a second. A smaller budget wins."""


class LimitedPhase(Protocol):
    """What a limit must know of its phase; see ``PhaseScope``."""

    context: PhaseContext
    phase: Phase
    quick: bool
    """Whether its hooks are declared quick."""

    def operator_end(self) -> OperatorEnd | None:
        """An operator's decision to end this phase, if there is one."""
        ...


class PhaseLimit:
    """An asynchronous context manager that ends its block with ``TimeoutError``.

    ``seconds`` is what is left of the budget, ``None`` without one; waiting that is not charged
    (``AttemptContext.wait_uncharged``) moves its end. Hooks that are declared quick get no more than
    :data:`QUICK_SECONDS`. Afterwards :attr:`issue` is the operator's decision, if it was that,
    :attr:`overdue` tells of a quick hook that did not end, and :attr:`expired` whether it was either of the limits.
    ``phase`` is what an overdue hook is a failure of, by default the phase of the scope.
    """

    def __init__(
        self,
        scope: LimitedPhase,
        seconds: float | None,
        *,
        endable: bool = True,
        phase: Phase | None = None,
    ) -> None:
        self._scope = scope
        self._phase = phase or scope.phase
        self._quick = scope.quick and (seconds is None or seconds > QUICK_SECONDS)
        self._timeout = asyncio.timeout(QUICK_SECONDS if self._quick else seconds)
        self._endable = endable
        self._end: OperatorEnd | None = None
        self._watch: asyncio.Task[None] | None = None

    @property
    def issue(self) -> Issue | None:
        """The operator's decision, as an ERROR beside whatever is left; ``None`` when there was none."""
        return None if self._end is None else tidy(ended_issue(self._end))

    @property
    def overdue(self) -> Issue | None:
        """That a hook which is declared quick did not end; ``None`` when it was not that."""
        return overdue_issue(self._phase, QUICK_SECONDS) if self._quick and self.expired else None

    @property
    def expired(self) -> bool:
        """True when the time was used up."""
        return self._end is None and self._timeout.expired()

    async def __aenter__(self) -> Self:
        if self._endable and self._decided():
            raise TimeoutError("ended by an operator before it began")
        await self._timeout.__aenter__()
        self._loop = asyncio.get_running_loop()
        self._scope.context.on_uncharged = self._move
        if self._endable:
            self._watch = asyncio.create_task(self._watch_for_decision())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._watch is not None:
            self._watch.cancel()
        self._scope.context.on_uncharged = None
        await self._timeout.__aexit__(kind, error, traceback)

    def _move(self, seconds: float) -> None:
        """Called from any thread: blocking hooks have one of their own."""
        self._loop.call_soon_threadsafe(self._reschedule, seconds)

    def _reschedule(self, seconds: float) -> None:
        when = self._timeout.when()
        if (
            when is not None
            and self._scope.context.on_uncharged == self._move
            and not self._timeout.expired()
        ):
            self._timeout.reschedule(when + seconds)

    def _decided(self) -> bool:
        self._end = self._scope.operator_end()
        return self._end is not None

    async def _watch_for_decision(self) -> None:
        """It comes as a file, perhaps of another machine. After the end of the budget it comes too late."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            if self._timeout.expired():
                return
            end = await asyncio.to_thread(self._scope.operator_end)  # disks may hang
            if end is not None and not self._timeout.expired():
                self._end = end
                self._timeout.reschedule(self._loop.time())
                return


def overdue_issue(phase: Phase, seconds: float) -> Issue:
    """Hooks that are declared quick did not end: of the agent and the verifier that is a timeout as any other."""
    found = overdue(phase)
    message = f"{phase} is declared quick (quick_hooks) and did not end within {seconds:g} s"
    return make_issue(found.severity, ISSUE_PHASES[phase], found.code, message)
