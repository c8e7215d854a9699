"""One request of a launch, as the launch sees it."""

from __future__ import annotations

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from ..contracts.dispatch import Share
    from ..contracts.endpoints import Refusal
    from ..contracts.launch import RequestResult
    from ..contracts.launch_state import MemberState
    from ..contracts.request import RunRequest
    from ..contracts.workflows import request_key, request_workflow_id

RequestHandle = workflow.ChildWorkflowHandle[object, RequestResult]


class Member:
    """A request: what it shares, how far it is, and what became of it."""

    def __init__(
        self, index: int, request: RunRequest, launch_id: str, state: MemberState | None = None
    ) -> None:
        """``state`` is what the run before this one left."""
        state = state or MemberState(share=Share(provider=request.environment.id))
        self.index = index
        self.request = request
        self.key = request_key(index, request)
        self.workflow_id = request_workflow_id(launch_id, self.key)
        self.share = state.share
        self.endpoints = state.endpoints
        """Known after preflight, in a launch of several requests."""
        self.refusal: Refusal | None = None
        """Of one of these endpoints, while that refuses the account."""
        self.handle: RequestHandle | None = None
        """Of a request that this run of the launch has started."""
        self.result = state.result
        self.begun = state.begun
        """True from its start on, also while the server has not answered yet."""
        self.inherited = state.begun and state.result is None
        """True when an earlier run of the launch has started it, and it has not ended yet."""
        self.stop = (state.stop_status, state.stop_reason) if state.stop_status else None
        """Status and reason with which it was asked to end, alone or with the launch."""

    @property
    def listens(self) -> bool:
        """True when there is a workflow that can be told something."""
        return self.result is None and (self.handle is not None or self.inherited)

    @property
    def starting(self) -> bool:
        """True while the server has not answered that it is started."""
        return self.begun and self.result is None and not self.listens

    @property
    def state(self) -> str:
        """``waiting``, ``running``, ``paused`` by an endpoint, or how it ended."""
        if self.result is not None:
            return self.result.status
        if self.refusal is not None:
            return f"paused: {self.refusal.message} ({self.refusal.request}/{self.refusal.attempt})"
        return "running" if self.listens else "waiting"

    def hold(self, refusal: Refusal | None) -> None:
        """It starts nothing while there is a refusal."""
        self.refusal, self.share.held = refusal, refusal is not None

    def carried_over(self) -> MemberState:
        """For the next run of the launch."""
        status, reason = self.stop or (None, "")
        return MemberState(
            share=self.share,
            endpoints=self.endpoints,
            begun=self.begun,
            result=self.result,
            stop_status=status,
            stop_reason=reason,
        )

    def failed(self, status: str, error: str, exit_code: int) -> RequestResult:
        """A result for a request without one of its own."""
        request = self.request
        return RequestResult(
            key=self.key,
            status=status,
            benchmark=request.benchmark.id,
            harness=request.harness.id,
            model=request.model.id,
            environment=request.environment.id,
            error=error,
            exit_code=exit_code,
        )
