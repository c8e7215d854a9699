"""Typed fakes of the activities, under the names by which workflows know them.

Each fake notes its call and then does what the test told it to do; what a test does not speak of
succeeds. Fakes keep no records: what a real activity writes is the subject of its own tests.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

from pydantic import BaseModel
from temporalio import activity
from temporalio.exceptions import ApplicationError

from agentcompass.activities.boundary import failed
from agentcompass.contracts.activities import (
    ALL_ACTIVITIES,
    ANALYZE_TASKS,
    BE_PRESENT,
    BEGIN_ATTEMPT,
    CLOSE_ENVIRONMENT,
    COLLECT_ARTIFACTS,
    DISCARD_REQUEST,
    END_PHASE,
    EVALUATE,
    FINALIZE_REQUEST,
    HOLD_ENVIRONMENT,
    OPEN_ENVIRONMENT,
    PENDING_TASKS,
    PLAN_ATTEMPT,
    PREFLIGHT,
    PREPARE_REQUEST,
    PREPARE_TASK,
    QUICK_EXECUTION,
    REAP_ENVIRONMENTS,
    REQUEUE_FAILED,
    RUN_HARNESS,
    RUN_TASK,
    SAVE_ATTEMPT,
    SAVE_LAUNCH_SUMMARY,
    SAVE_RETRY,
    ActivityStub,
    AnalyzedTasks,
    AttemptBegun,
    AttemptOutcome,
    AttemptPlan,
    Done,
    FinalizeInput,
    FinishedAttempt,
    OpenedEnvironment,
    OpenEnvironmentInput,
    PendingTask,
    PendingTasks,
    PendingTasksInput,
    PhaseOutcome,
    PreflightReport,
    PreparedRequest,
    QuickExecution,
    RequeuedTasks,
    RequeueFailedInput,
    SaveAttemptInput,
    SavedLaunchSummary,
    environment_id,
)
from agentcompass.contracts.environment import EnvironmentHandle
from agentcompass.contracts.issues import Issue, IssuePhase, Severity
from agentcompass.contracts.launch import RequestResult
from agentcompass.contracts.phases import Phase
from agentcompass.contracts.plan import RetryPlan
from agentcompass.contracts.request import AttemptStrategy, EvaluationMode
from agentcompass.contracts.upkeep import SweepReport

InputT = TypeVar("InputT", bound=BaseModel)
OutputT = TypeVar("OutputT", bound=BaseModel)
Behaviour = Callable[[Any], Any]
RUN_DIR = "/runs/one"
LOCAL_PHASES = [phase.value for phase in Phase if phase is not Phase.PREPARE_TASK]
"""Phases in local activities, each in one of its own: were all of them quick, one would execute them all."""


def plan(**changes: Any) -> AttemptPlan:
    """A plan of mode ``none`` without retries and back-off."""
    values: dict[str, Any] = {
        "environment": "sandbox",
        "mode": EvaluationMode.NONE,
        "retry": RetryPlan(min_delay_seconds=0, max_delay_seconds=0),
    }
    return AttemptPlan(**{**values, **changes})


def retrying(max_retries: int, patterns: list[str] | None = None, delay: float = 0.0) -> RetryPlan:
    """A retry policy whose delay does not grow."""
    return RetryPlan(
        max_retries=max_retries,
        retry_pattern_list=patterns,
        min_delay_seconds=delay,
        max_delay_seconds=delay,
    )


def issue(
    severity: Severity = Severity.FATAL,
    phase: IssuePhase = IssuePhase.RUN,
    code: str = "broken",
    message: str = "it broke",
) -> Issue:
    """An issue; a FATAL one of the run by default."""
    return Issue(severity=severity, phase=phase, code=code, message=message)


def raising(found: Issue) -> Behaviour:
    """Fail as a phase does: with an issue, not to be tried again by Temporal."""

    def behave(_: Any) -> None:
        raise failed(found)

    return behave


def reporting(*issues: Issue) -> Behaviour:
    """Succeed with issues in the outcome."""
    return lambda _: PhaseOutcome(issues=list(issues))


def in_turn(*behaviours: Behaviour | None) -> Behaviour:
    """One behaviour for each call, in order; ``None`` is the default, also after the last one."""
    left = list(behaviours)

    def behave(input: Any) -> Any:
        chosen = left.pop(0) if left else None
        return None if chosen is None else chosen(input)

    return behave


def for_task(task_id: str, behaviour: Behaviour) -> Behaviour:
    """A behaviour for one task; the others get the default."""
    return lambda input: behaviour(input) if input.ref.task_id == task_id else None


@contextlib.asynccontextmanager
async def _beating() -> AsyncIterator[None]:
    """Heartbeat often, so that a test need not wait for a cancellation to arrive."""

    async def beat() -> None:
        while True:
            activity.heartbeat()
            await asyncio.sleep(0.1)

    task = None if activity.info().is_local else asyncio.create_task(beat())
    try:
        yield
    finally:
        if task is not None:
            task.cancel()


class Gate:
    """Holds a fake until the test opens it; says when somebody stands before it."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()
        self.standing = 0
        self.cancelled = 0

    async def __call__(self, _: Any = None) -> None:
        """Stand before the gate, heartbeating, so that a cancellation arrives."""
        self.standing += 1
        self.reached.set()
        try:
            async with _beating():
                await self.opened.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.standing -= 1


class Stubborn(Gate):
    """Hears that it is cancelled and goes on until the test opens it, as a blocking hook would."""

    def __init__(self) -> None:
        super().__init__()
        self.asked_to_stop = asyncio.Event()

    async def __call__(self, _: Any = None) -> None:
        """Stand before the gate whatever happens."""
        self.reached.set()
        async with _beating():
            while not self.opened.is_set():
                try:
                    await self.opened.wait()
                except asyncio.CancelledError:
                    self.asked_to_stop.set()


class FakeActivities:
    """All activities of a worker. ``calls`` holds every call in order."""

    def __init__(self, tasks: list[str] | None = None, *, plan: AttemptPlan | None = None) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.tasks = tasks or []
        self.finished: dict[str, list[FinishedAttempt]] = {}
        self.parallel_attempts = False
        self.saved: list[SaveAttemptInput] = []
        self._plan = plan
        self._behaviours: dict[str, Behaviour] = {}

    def on(self, stub: ActivityStub[Any, Any], behaviour: Behaviour) -> None:
        """What an activity does from now on; returning ``None`` means its default."""
        self._behaviours[stub.name] = behaviour

    def inputs(self, stub: ActivityStub[InputT, Any]) -> list[InputT]:
        """What an activity was called with."""
        return [input for name, input in self.calls if name == stub.name]

    def names(self) -> list[str]:
        """The activities that were called, in order."""
        return [name for name, _ in self.calls]

    def registered(self, *, without: tuple[ActivityStub[Any, Any], ...] = ()) -> list[Callable[..., Any]]:
        """What a worker registers; ``without`` leaves room for a real activity."""
        return [self._fake(stub) for stub in ALL_ACTIVITIES if stub not in without]

    def _fake(self, stub: ActivityStub[Any, Any]) -> Callable[..., Awaitable[Any]]:
        async def fake(input):  # type: ignore[no-untyped-def]  # typed below, by its stub
            self.calls.append((stub.name, input))
            behaviour = self._behaviours.get(stub.name)
            result = None if behaviour is None else behaviour(input)
            if inspect.isawaitable(result):
                result = await result
            if result is None and stub is BEGIN_ATTEMPT:  # as the real one, for what is not quick
                return AttemptBegun(plan=await self._fake(PLAN_ATTEMPT)(input.ref))
            return self._default(stub, input) if result is None else result

        fake.__annotations__ = {"input": stub.input, "return": stub.output}
        return activity.defn(name=stub.name)(fake)

    def _default(self, stub: ActivityStub[Any, Any], input: Any) -> BaseModel:
        defaults: dict[str, Callable[[Any], BaseModel]] = {
            PREFLIGHT.name: lambda _: PreflightReport(),
            PREPARE_REQUEST.name: lambda _: PreparedRequest(
                run_dir=RUN_DIR,
                run_id="run-1",
                total_tasks=len(self.tasks),
                parallel_attempts=self.parallel_attempts,
            ),
            PENDING_TASKS.name: self._page,
            ANALYZE_TASKS.name: lambda _: AnalyzedTasks(),
            QUICK_EXECUTION.name: lambda _: QuickExecution(has_result=True),
            PLAN_ATTEMPT.name: lambda _: self._plan or plan(),
            OPEN_ENVIRONMENT.name: _opened,
            END_PHASE.name: lambda _: Done(),
            DISCARD_REQUEST.name: lambda _: Done(),
            HOLD_ENVIRONMENT.name: lambda _: Done(),
            BE_PRESENT.name: lambda _: Done(),
            SAVE_RETRY.name: lambda _: Done(),
            SAVE_ATTEMPT.name: self._save,
            FINALIZE_REQUEST.name: _finalized,
            REQUEUE_FAILED.name: self._requeue,
            SAVE_LAUNCH_SUMMARY.name: lambda _: SavedLaunchSummary(path="/results/launches/one"),
            REAP_ENVIRONMENTS.name: lambda _: SweepReport(released=["ac-task-a1-e1"], left=2),
        }
        if stub in (PREPARE_TASK, RUN_HARNESS, RUN_TASK, COLLECT_ARTIFACTS, EVALUATE, CLOSE_ENVIRONMENT):
            return PhaseOutcome()
        if stub.name not in defaults:
            raise ApplicationError(f"this test must say what {stub.name} does", non_retryable=True)
        return defaults[stub.name](input)

    def _page(self, input: PendingTasksInput) -> PendingTasks:
        end = input.offset + input.limit
        page = [
            PendingTask(
                index=index,
                task_id=self.tasks[index],
                finished_attempts=self.finished.get(self.tasks[index], []),
            )
            for index in range(input.offset, min(end, len(self.tasks)))
        ]
        return PendingTasks(tasks=page, next_offset=end if end < len(self.tasks) else None)

    def _requeue(self, input: RequeueFailedInput) -> RequeuedTasks:
        """Tasks of which an attempt was fatal, that attempt forgotten."""
        tasks = []
        for index, task in enumerate(self.tasks[input.offset : input.before]):
            done = self.finished.get(task, [])
            if any(attempt.fatal for attempt in done):
                self.finished[task] = [attempt for attempt in done if not attempt.fatal]
                tasks.append(
                    PendingTask(
                        index=input.offset + index,
                        task_id=task,
                        finished_attempts=self.finished[task],
                        generation=input.generation,
                    )
                )
        return RequeuedTasks(tasks=tasks)

    def _save(self, input: SaveAttemptInput) -> AttemptOutcome:
        """As the real one: the first result of an attempt stands, the last attempt finishes the task."""
        self.saved.append(input)
        ref, severities = input.ref, {found.severity for found in input.issues}
        fatal, error = Severity.FATAL in severities, Severity.ERROR in severities
        success = False if fatal or error else self.succeeds(ref.task_id, ref.attempt)
        done = self.finished.setdefault(ref.task_id, [])
        done.append(FinishedAttempt(attempt=ref.attempt, success=success, fatal=fatal))
        stopped = input.attempts.strategy is AttemptStrategy.PASS and success
        return AttemptOutcome(
            task_id=ref.task_id,
            attempt=ref.attempt,
            status="cancelled" if input.cancelled else "run_error" if fatal or error else "completed",
            success=success,
            fatal=fatal,
            error=error,
            warning=Severity.WARNING in severities,
            task_finished=stopped or len(done) >= input.attempts.k,
            message=input.issues[0].message if input.issues else "",
        )

    def succeeds(self, task_id: str, attempt: int) -> bool:
        """Whether an attempt that went well is right; tests that care assign their own."""
        return True


def _opened(input: OpenEnvironmentInput) -> OpenedEnvironment:
    found = environment_id(input.ref, for_evaluation=input.for_evaluation)
    return OpenedEnvironment(handle=EnvironmentHandle(provider="sandbox", id=found))


def _finalized(input: FinalizeInput) -> RequestResult:
    return RequestResult(
        key=input.request_key,
        run_id="run-1",
        run_dir=input.run_dir,
        status=input.status,
        error=input.error,
        exit_code=0 if input.status == "completed" else 1,
    )
