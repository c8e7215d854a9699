"""The requests of a launch: started in order, sharing its slots, each with its result at the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from temporalio import workflow
from temporalio.exceptions import FailureError
from temporalio.workflow import ParentClosePolicy

with workflow.unsafe.imports_passed_through():
    from ..contracts.dispatch import Allowance, Demand, Share, allowances, may_prepare_next
    from ..contracts.launch import RequestResult
    from ..contracts.records import TemporalInfo
    from ..contracts.request import RunRequest
    from ..contracts.workflows import (
        ALLOWANCE_SIGNAL,
        PAUSE_SIGNAL,
        REQUEST_WORKFLOW,
        RESUME_SIGNAL,
        STOP_SIGNAL,
        LaunchInput,
        LimitsChange,
        RequestInput,
        request_key,
        request_workflow_id,
    )
    from .attributes import request_attributes
    from .calls import exit_code_of, in_background, root_cause

_Handle = workflow.ChildWorkflowHandle[object, RequestResult]


class Member:
    """One request of the launch."""

    def __init__(self, index: int, request: RunRequest, launch_id: str) -> None:
        self.index = index
        self.request = request
        self.key = request_key(index, request)
        self.workflow_id = request_workflow_id(launch_id, self.key)
        self.share = Share(provider=request.environment.id)
        self.handle: _Handle | None = None
        self.result: RequestResult | None = None
        self.begun = False
        """True from its start on, also while the server has not answered yet."""
        self.stop: tuple[str, str] | None = None
        """Status and reason with which it was asked to end, alone or with the launch."""

    @property
    def state(self) -> str:
        """``waiting``, ``running``, or how it ended."""
        if self.result is not None:
            return self.result.status
        return "running" if self.handle is not None else "waiting"


class Roster:
    """Starts requests in order, shares slots among them, and passes on what operators want."""

    def __init__(self, input: LaunchInput, changed: Callable[[], None]) -> None:
        """``changed`` is called when a request began or ended, or has other slots."""
        self._input = input
        self._changed = changed
        self.members = [
            Member(index, request, input.launch_id) for index, request in enumerate(input.spec.requests)
        ]
        self.task_concurrency = input.spec.task_concurrency
        self.provider_limits = dict(input.spec.runtime.provider_limits)
        self.paused = ""
        self._messages: set[asyncio.Task[None]] = set()

    @property
    def shares_slots(self) -> bool:
        """True when there are several requests; a single one simply has all slots."""
        return len(self.members) > 1

    @property
    def results(self) -> list[RequestResult]:
        """Of the requests that ended, in the order of the launch."""
        return [member.result for member in self.members if member.result is not None]

    async def run(self) -> None:
        """Until every request that could be started has ended."""
        running: list[asyncio.Task[None]] = []
        for member in self.members:
            await workflow.wait_condition(lambda member=member: self._may_start(member))  # type: ignore[misc]
            if member.result is not None:
                continue
            member.begun = True
            running.append(in_background(self._drive(member)))
            # It must know of its own start before the next one may look at it.
            await workflow.wait_condition(
                lambda member=member: member.handle is not None or member.result is not None  # type: ignore[misc]
            )
        await workflow.wait_condition(lambda: all(task.done() for task in running))
        for task in running:
            task.result()

    def hear(self, key: str, demand: Demand) -> None:
        """What a request says of itself; a message that was overtaken by a later one is dropped."""
        member = self.find(key)
        if member is not None and member.share.hear(demand):
            self._allot()

    def find(self, key: str) -> Member | None:
        """A request by its key."""
        return next((member for member in self.members if member.key == key), None)

    def stop_all(self, status: str, reason: str) -> None:
        """Ask every request to end."""
        for member in self.members:
            self.stop_one(member, status, reason)

    def stop_one(self, member: Member, status: str, reason: str) -> None:
        """Ask one request to end, or not to begin; nothing happens when it was asked or has ended."""
        if member.stop is not None or member.result is not None:
            return
        member.stop = (status, reason)
        if member.begun:
            self._tell(member, STOP_SIGNAL, status, reason)
        else:
            self._end(member, _result(member, status, reason, 1))

    def pause(self, reason: str) -> None:
        """No request starts further attempts."""
        self.paused = reason
        self.tell_all(PAUSE_SIGNAL, reason)

    def resume(self) -> None:
        """Go on, also where a model endpoint had refused the account."""
        self.paused = ""
        self.tell_all(RESUME_SIGNAL)

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

    def _may_start(self, member: Member) -> bool:
        earlier = [other.share for other in self.members[: member.index]]
        return member.result is not None or may_prepare_next(self.task_concurrency, earlier)

    async def _drive(self, member: Member) -> None:
        try:
            known = 0 if self.shares_slots else member.share.sent.number
            member.handle = await self._start(member)
            if member.share.sent.number > known:
                # Sent while it was starting: its first report can arrive together with the news of its start.
                self._tell(member, ALLOWANCE_SIGNAL, member.share.sent)
            if self.paused:
                self._tell(member, PAUSE_SIGNAL, self.paused)
            if member.stop:
                self._tell(member, STOP_SIGNAL, *member.stop)
            self._allot()
            self._end(member, await member.handle)
        except FailureError as error:
            # Its workflow failed, was terminated, or could not be started: the others go on.
            self._end(member, failed_request(member, error))

    def _end(self, member: Member, result: RequestResult) -> None:
        member.result, member.share.ended = result, True
        self._allot()

    async def _start(self, member: Member) -> _Handle:
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
            parent_close_policy=ParentClosePolicy.REQUEST_CANCEL,
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
        if self.shares_slots:
            shares = [member.share for member in self.members]
            for place in allowances(self.task_concurrency, self.provider_limits, shares):
                self._tell(self.members[place], ALLOWANCE_SIGNAL, shares[place].sent)
        self._changed()

    def _tell(self, member: Member, signal: str, *arguments: Any) -> None:
        if member.handle is not None and member.result is None:
            self._spawn(self._signal(member.handle, signal, *arguments))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = in_background(work)
        self._messages.add(task)
        task.add_done_callback(self._messages.discard)

    async def _signal(self, child: _Handle, name: str, *arguments: Any) -> None:
        try:
            await child.signal(name, args=list(arguments))
        except FailureError as error:
            # The request ended in the meantime, so there is nothing left to tell it.
            workflow.logger.info("request %s took no %s signal: %s", child.id, name, error)


def failed_request(member: Member, error: FailureError) -> RequestResult:
    """The result of a request whose workflow failed: it could not be prepared, or we have a bug."""
    return _result(member, "failed", root_cause(error), exit_code_of(error) or 1)


def _result(member: Member, status: str, error: str, exit_code: int) -> RequestResult:
    request = member.request
    return RequestResult(
        key=member.key,
        status=status,
        benchmark=request.benchmark.id,
        harness=request.harness.id,
        model=request.model.id,
        environment=request.environment.id,
        error=error,
        exit_code=exit_code,
    )
