"""The requests of a launch: started in order, sharing its slots, each with its result at the end.

A launch of few requests is their parent to the end. One of many continues as new before its history gets long, so its
requests are ABANDONed: any other policy ends them with the run that started them. A later run awaits those that it
inherits by an activity, and a request looks now and then whether its launch is still there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.exceptions import FailureError
from temporalio.workflow import ParentClosePolicy

with workflow.unsafe.imports_passed_through():
    from ..contracts.activities import AWAIT_REQUESTS
    from ..contracts.dispatch import Allowance, Demand, allowances, may_prepare_next
    from ..contracts.endpoints import Breakers, EndpointState, RequestEndpoints
    from ..contracts.launch import RequestResult
    from ..contracts.launch_state import AwaitedRequests, AwaitRequestsInput, StopStatus
    from ..contracts.records import TemporalInfo
    from ..contracts.workflows import (
        ALLOWANCE_SIGNAL,
        ENDPOINT_SIGNAL,
        PAUSE_SIGNAL,
        REQUEST_WORKFLOW,
        RESUME_SIGNAL,
        STOP_SIGNAL,
        LaunchInput,
        LimitsChange,
        RequestInput,
    )
    from .attributes import request_attributes
    from .calls import BOOKKEEPING, LONGEST_PHASE, exit_code_of, in_background, root_cause
    from .member import Member, RequestHandle

_FEW = 16
"""Requests whose history can never get too long for one run of the launch."""
_EVENTS = 4000
"""Events of its history after which a launch of more requests continues as new."""


class Roster:
    """Starts requests in order, shares slots among them, and passes on what operators want."""

    def __init__(self, input: LaunchInput, changed: Callable[[], None]) -> None:
        """``changed`` is called when a request began or ended, or has other slots."""
        self._input = input
        self._changed = changed
        state, requests = input.state, input.spec.requests
        states = state.members if state else [None] * len(requests)
        self.members = [
            Member(index, request, input.launch_id, known)
            for index, (request, known) in enumerate(zip(requests, states, strict=True))
        ]
        self.task_concurrency = state.task_concurrency if state else input.spec.task_concurrency
        self.provider_limits = dict(state.provider_limits if state else input.spec.runtime.provider_limits)
        self.paused = state.paused if state else ""
        self._breakers = Breakers(state.endpoints if state else [])
        self._hold()
        self._messages: set[asyncio.Task[None]] = set()
        self._drivers: list[asyncio.Task[None]] = []
        self._leaving = False
        """True when this run of the launch starts and grants nothing any more: the next one does."""

    @property
    def shares_slots(self) -> bool:
        """True when there are several requests; a single one simply has all slots."""
        return len(self.members) > 1

    @property
    def results(self) -> list[RequestResult]:
        """Of the requests that ended, in the order of the launch."""
        return [member.result for member in self.members if member.result is not None]

    @property
    def endpoint_states(self) -> list[EndpointState]:
        """What the next run of the launch has to know of endpoints."""
        return self._breakers.states

    @property
    def settled(self) -> bool:
        """True when no start and no message is in doubt: what continue-as-new waits for."""
        return not self._messages and not any(member.starting for member in self.members)

    async def run(self) -> bool:
        """Until every request has ended; False when the launch has to continue as new first."""
        inherited = [member for member in self.members if member.inherited]
        if inherited:
            self._drivers.append(in_background(self._adopt(inherited)))
        if self._input.state is not None:
            self._allot()  # the run before held it back in the end
        while True:
            await workflow.wait_condition(
                lambda: self._over or self._history_is_long or self._next() is not None
            )
            if self._over:
                break
            if self._history_is_long:
                self._leaving = True
                await workflow.wait_condition(lambda: self.settled)
                return False
            await self._begin()
        for task in self._drivers:
            if task.done():
                task.result()  # a bug of ours is no result of a request
        return True

    async def _begin(self) -> None:
        member = self._next()
        if member is None:
            return
        member.begun = True
        self._drivers.append(in_background(self._drive(member)))
        # It must know of its own start before the next one may look at it.
        await workflow.wait_condition(lambda: not member.starting)

    def _next(self) -> Member | None:
        """The request that may start now."""
        if self.paused:
            return None
        member = next((item for item in self.members if not item.begun and item.result is None), None)
        if member is None:
            return None
        earlier = [other.share for other in self.members[: member.index]]
        return member if may_prepare_next(self.task_concurrency, earlier) else None

    @property
    def _over(self) -> bool:
        broken = any(task.done() and task.exception() is not None for task in self._drivers)
        return broken or all(member.result is not None for member in self.members)

    @property
    def _continues(self) -> bool:
        """True when this launch may have to continue as new."""
        return self._input.continue_as_new_after is not None or len(self.members) > _FEW

    @property
    def _history_is_long(self) -> bool:
        if not self._continues:
            return False
        info = workflow.info()
        limit = self._input.continue_as_new_after or _EVENTS
        return info.get_current_history_length() >= limit or info.is_continue_as_new_suggested()

    def hear(self, key: str, demand: Demand) -> None:
        """What a request says of itself; a message that was overtaken by a later one is dropped."""
        member = self.find(key)
        if member is not None and member.share.hear(demand):
            self._allot()

    def find(self, key: str) -> Member | None:
        """A request by its key."""
        return next((member for member in self.members if member.key == key), None)

    def stop_all(self, status: StopStatus, reason: str) -> None:
        """Ask every request to end."""
        for member in self.members:
            self.stop_one(member, status, reason)

    def stop_one(self, member: Member, status: StopStatus, reason: str) -> None:
        """Ask one request to end, or not to begin; nothing happens when it was asked or has ended."""
        if member.stop is not None or member.result is not None:
            return
        member.stop = (status, reason)
        if member.begun:
            self._tell(member, STOP_SIGNAL, status, reason)
        else:
            self._end(member, member.failed(status, reason, 1))

    def pause(self, reason: str) -> None:
        """No request starts further attempts."""
        self.paused = reason
        self.tell_all(PAUSE_SIGNAL, reason)

    def resume(self) -> None:
        """Go on, also where a model endpoint had refused the account."""
        self.paused = ""
        closed = self._breakers.close()
        self._hold()
        for member in self.members:
            known = [self._breakers.of(member.endpoints)] if member.endpoints.ids else []
            self._tell(member, RESUME_SIGNAL, *known)
        if closed:
            self._allot()

    def know(self, endpoints: Sequence[RequestEndpoints]) -> None:
        """The endpoints of all requests, in their order. One that is alone has nobody to tell of its own."""
        if self.shares_slots and len(endpoints) == len(self.members):
            for member, known in zip(self.members, endpoints, strict=True):
                member.endpoints = known

    def hear_of_endpoint(self, key: str, report: EndpointState) -> None:
        """A request met a refusal, or an operator says to it that one is mended: all that depend on it stop, or go on."""
        member = self.find(key)
        if member is None or report.endpoint not in member.endpoints.ids:
            return
        decision = self._breakers.hear(report)
        if decision is None:
            return
        self._hold()
        for other in self.members:
            if decision.endpoint in other.endpoints.ids:
                self._tell(other, ENDPOINT_SIGNAL, decision)
        self._allot()

    def _hold(self) -> None:
        """What is refused gets no slot from now on, so that none of them meets the news on its way."""
        for member in self.members:
            member.hold(self._breakers.refusal_for(member.endpoints))

    def set_limits(self, change: LimitsChange) -> None:
        """New limits from now on; attempts that run beyond a lowered one go on to their end."""
        if change.task_concurrency is not None:
            self.task_concurrency = change.task_concurrency
        self.provider_limits.update(change.provider_limits)
        if not self.shares_slots:
            [member] = self.members
            member.share.sent = self._whole(member.share.sent.number + 1)
            self._tell(member, ALLOWANCE_SIGNAL, member.share.sent)
        self._allot()

    def tell_all(self, signal: str, *arguments: Any) -> None:
        """Signal every request that runs."""
        for member in self.members:
            self._tell(member, signal, *arguments)

    async def _drive(self, member: Member) -> None:
        try:
            known = 0 if self.shares_slots else member.share.sent.number
            endpoints = self._breakers.of(member.endpoints)
            member.handle = await self._start(member, endpoints)
            if member.share.sent.number > known:
                # Sent while it was starting: its first report can arrive together with the news of its start.
                self._tell(member, ALLOWANCE_SIGNAL, member.share.sent)
            for state in self._breakers.of(member.endpoints):
                if state not in endpoints:
                    self._tell(member, ENDPOINT_SIGNAL, state)
            if self.paused:
                self._tell(member, PAUSE_SIGNAL, self.paused)
            if member.stop:
                self._tell(member, STOP_SIGNAL, *member.stop)
            self._allot()
            self._end(member, await member.handle)
        except FailureError as error:
            # Its workflow failed, was terminated, or could not be started: the others go on.
            self._end(member, member.failed("failed", root_cause(error), exit_code_of(error) or 1))

    async def _adopt(self, members: Sequence[Member]) -> None:
        """Wait for requests that an earlier run of the launch has started."""
        left = {member.workflow_id: member for member in members}
        while left:
            try:
                awaited = await self._next_of(list(left))
            except FailureError as error:
                # Nobody will tell how they end, so they must not go on unseen.
                for member in left.values():
                    self.stop_one(member, "cancelled", root_cause(error))
                    self._end(member, member.failed("failed", root_cause(error), 1))
                return
            for item in awaited.ended:
                member = left.pop(item.workflow_id)
                self._end(member, item.result or member.failed("failed", item.failure, item.exit_code))

    async def _next_of(self, workflow_ids: list[str]) -> AwaitedRequests:
        found: AwaitedRequests = await workflow.execute_activity(
            AWAIT_REQUESTS.name,
            AwaitRequestsInput(workflow_ids=workflow_ids),
            result_type=AwaitedRequests,
            start_to_close_timeout=LONGEST_PHASE,
            heartbeat_timeout=timedelta(seconds=self._input.spec.runtime.heartbeat_timeout_seconds),
            retry_policy=BOOKKEEPING,
            summary=f"wait for {len(workflow_ids)} requests of the run before",
        )
        return found

    def _end(self, member: Member, result: RequestResult) -> None:
        member.result, member.share.ended = result, True
        self._allot()

    async def _start(self, member: Member, endpoints: list[EndpointState]) -> RequestHandle:
        info, spec = workflow.info(), self._input.spec
        request = member.request
        if not self.shares_slots:
            member.share.sent = self._whole(member.share.sent.number)
        return await workflow.start_child_workflow(
            REQUEST_WORKFLOW,
            RequestInput(
                launch_id=self._input.launch_id,
                request_key=member.key,
                request_index=member.index,
                request_count=len(self.members),
                request=request,
                runtime=spec.runtime,
                task_concurrency=self.task_concurrency if self.shares_slots else member.share.sent.slots,
                shares_slots=self.shares_slots,
                abandoned=self._continues,
                endpoints=member.endpoints,
                endpoint_states=endpoints,
                temporal=TemporalInfo(
                    namespace=info.namespace,
                    workflow_id=info.workflow_id,
                    run_id=info.run_id,
                    ui_address=self._input.ui_address,
                ),
                **self._input.overrides.model_dump(exclude_none=True),
            ),
            id=member.workflow_id,
            result_type=RequestResult,
            parent_close_policy=(
                ParentClosePolicy.ABANDON if self._continues else ParentClosePolicy.REQUEST_CANCEL
            ),
            search_attributes=request_attributes(self._input.launch_id, request),
            static_summary=f"{request.benchmark.id} · {request.harness.id} · {request.model.id}",
        )

    def _whole(self, number: int) -> Allowance:
        """All slots, for a request that is the only one."""
        cap = self.provider_limits.get(self.members[0].share.provider, 0) or self.task_concurrency
        slots = min(cap, self.task_concurrency)
        return Allowance(number=number, slots=slots, limit=self.task_concurrency, may_finish=True)

    def _allot(self) -> None:
        """Send every request the slots that are its own from now on, when they differ from what it has."""
        if self.shares_slots and not self._leaving:
            shares = [member.share for member in self.members]
            for place in allowances(self.task_concurrency, self.provider_limits, shares):
                self._tell(self.members[place], ALLOWANCE_SIGNAL, shares[place].sent)
        self._changed()

    def _tell(self, member: Member, signal: str, *arguments: Any) -> None:
        if member.listens:
            self._spawn(self._signal(member, signal, *arguments))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = in_background(work)
        self._messages.add(task)
        task.add_done_callback(self._messages.discard)

    async def _signal(self, member: Member, name: str, *arguments: Any) -> None:
        handle = member.handle or workflow.get_external_workflow_handle(member.workflow_id)
        try:
            await handle.signal(name, args=list(arguments))
        except FailureError as error:
            # The request ended in the meantime, so there is nothing left to tell it.
            workflow.logger.info("request %s took no %s signal: %s", member.key, name, error)
