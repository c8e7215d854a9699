"""What every phase of an attempt needs, put together once: store, plan, components, context."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
from collections.abc import AsyncIterator, Awaitable, Iterator
from concurrent.futures import Future
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar

from temporalio import activity
from temporalio.exceptions import FailureError

from ..contracts.activities import ANY_PHASE, ExecutionRef, OperatorEnd
from ..contracts.environment import Environment, EnvironmentHandle, EnvironmentSession
from ..contracts.issues import Issue, IssueCode, IssuePhase, Severity
from ..contracts.network import NetworkPolicy
from ..contracts.phases import ENDABLE_PHASES, Phase
from ..contracts.plan import ExecutionPlan
from ..contracts.records import ProgressEvent
from ..contracts.references import environment_id
from ..contracts.request import EnvironmentSpec
from ..contracts.task import TaskSpec, step_of
from .boundary import failed
from .classification import classify, describe, diagnostics_of
from .context import PhaseContext
from .heartbeat import heartbeating
from .hook_calls import HOOK_FAILURES, Hook, call_hook, raise_if_cancelled
from .leases import Leases
from .model_access import with_model_access
from .phase_limit import PhaseLimit
from .services import RequestComponents, Services, build_environment, resolve_variables
from .store import EventSource, ExecutionStore, RunStore, run_log_scope
from .store.progress import open_progress
from .tries import count_quick_try, refuse_blocking

T = TypeVar("T")

_posted_together: ContextVar[list[Future[None]] | None] = ContextVar("posted_together", default=None)
_RUN_PHASES = frozenset({Phase.START_HARNESS, Phase.RUN_HARNESS, Phase.RUN_TASK})


@dataclass
class PhaseScope:
    """One phase of one execution, while it runs."""

    services: Services
    ref: ExecutionRef
    phase: Phase
    store: RunStore
    execution: ExecutionStore
    components: RequestComponents
    task: TaskSpec
    """As it is in the step, of a task that is given step by step."""
    whole_task: TaskSpec
    plan: ExecutionPlan
    context: PhaseContext
    leases: Leases
    quick: bool = False
    """Whether its hooks are declared quick."""
    timings: dict[str, float] = field(default_factory=dict)
    posted: list[Future[None]] = field(default_factory=list)
    """Events on their way to the disk."""

    @property
    def events(self) -> EventSource:
        """Makes this run's progress events."""
        return EventSource.of(self.store.request_state(), self.ref.generation)

    async def emit(self, *events: ProgressEvent) -> None:
        """Write progress events; returns when they are on disk."""
        await open_progress(self.ref.run_dir).emit(events)

    async def enter(self, phase: Phase) -> None:
        """Say in the progress file which phase begins; it is on disk before the activity ends.

        A worker that dies before that has its activity repeated, and the event with it.
        """
        event = self.events.phase_changed(
            self.task.task_id,
            self.task.category or None,
            attempt=self.ref.attempt,
            execution=self.ref.execution,
            phase=phase.value,
            step=self.ref.step,
        )
        self.context.log.debug("execution %d: %s", self.ref.execution, phase.value)
        progress = open_progress(self.ref.run_dir)
        self.posted.append(progress.post([event]))
        if _posted_together.get() is None:  # a phase that may take long is seen when it begins
            progress.hurry()

    async def call(self, hook: Hook[T], *arguments: Any) -> T:
        """Call a hook; one that does not end when it has to is left behind, and a WARNING says so."""
        blocks = functools.partial(self.execution.count_block, self.phase.value)
        return await call_hook(hook, *arguments, abandoned=self._note_abandoned, blocks=blocks)

    def _note_abandoned(self, name: str) -> None:
        self.context.report_issue(
            Severity.WARNING,
            IssuePhase.CLEANUP,
            IssueCode.CLEANUP_FAILED,
            f"{name} did not end when it was cancelled; it goes on in its worker, and nobody listens to it",
        )

    def operator_end(self) -> OperatorEnd | None:
        """An operator's decision to end this phase, if there is one."""
        found = self.execution.find_end()
        if found is None:
            return None
        if found.phase == ANY_PHASE and self.phase in ENDABLE_PHASES:
            # Its own from now on: what follows is not ended, and a second try ends the same phase.
            found = found.model_copy(update={"phase": self.phase.value})
            self.execution.save_end(found)
        return found if found.phase == self.phase else None

    @contextlib.asynccontextmanager
    async def endable(self) -> AsyncIterator[None]:
        """Around what has no budget: an operator's decision ends it, and the phase, with an ERROR."""
        limit = PhaseLimit(self, None)
        try:
            async with limit:
                yield
        except TimeoutError:
            ended = limit.issue or limit.overdue
            if ended is None:
                raise
            raise failed(ended, self.context.issues) from None

    async def settle(self) -> None:
        """Wait for the events on their way, unless :func:`settled_together` does.

        Raises OSError when one could not be written.
        """
        together = _posted_together.get()
        if together is not None:
            together.extend(self.posted)
        else:
            await _settle(self.ref.run_dir, self.posted)

    def environment(self, spec: EnvironmentSpec) -> Environment[Any]:
        """The provider for a plan's environment, with the parameters that recipes settled."""
        request = self.components.request
        if spec.id == request.environment.id and spec.params == request.environment.params:
            return self.components.environment
        return build_environment(spec, self.services.registry(request))

    async def attach(self, handle: EnvironmentHandle, *, for_evaluation: bool = False) -> EnvironmentSession:
        """A session on the living environment; its commands get the phase's variables."""
        spec = (self.plan.evaluation_environment if for_evaluation else None) or self.plan.environment
        environment = self.environment(spec)
        session = await environment.attach(handle)
        self.leases.hold(environment, handle)
        session.add_variables(self._phase_variables(spec))
        return session

    def _phase_variables(self, spec: EnvironmentSpec) -> dict[str, str]:
        """The common variables, and those of the phase: of the agent, or of its judge."""
        scoped: dict[str, str] = {}
        if self.phase in _RUN_PHASES:
            scoped = spec.run_env_variables
        elif self.phase is Phase.EVALUATE:
            scoped = spec.evaluation_env_variables
        return resolve_variables({**spec.env_variables, **scoped})

    def run_policy(self) -> NetworkPolicy:
        """The policy of the run phase as it is enforced: the model can be reached, also behind a server of the harness."""
        capabilities, request = self.environment(self.plan.environment).capabilities, self.components.request
        harness = self.components.harness
        more = harness.run_hosts(environment_id(self.ref), capabilities.worker_host) if harness else []
        return with_model_access(self.plan.run_network_policy, request.model, capabilities, more)

    def opening_policy(self) -> NetworkPolicy:
        """What the task's environment is opened with: its baseline, unless it could not be changed later."""
        if self.environment(self.plan.environment).capabilities.switches_network:
            return self.plan.baseline_network_policy
        return self.run_policy()

    async def switch_network(
        self, env: EnvironmentSession, before: NetworkPolicy, after: NetworkPolicy
    ) -> None:
        """Give a living environment another policy; planning made sure that the provider can."""
        if after != before:
            await env.set_network_policy(after)

    @contextlib.contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Measure a part of the phase, in seconds, for ``meta.timings``."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.timings[name] = round(self.timings.get(name, 0.0) + time.monotonic() - began, 3)

    def note(self, error: BaseException, phase: Phase | None = None) -> Issue:
        """Turn an exception into an issue; its whole chain goes to the execution's diagnostics."""
        issue = classify(error, phase or self.phase)
        self.execution.add_diagnostics(diagnostics_of(error))
        self.context.log.warning("%s %s: %s", issue.severity, issue.code, issue.message)
        return issue

    @contextlib.contextmanager
    def hooks(self, phase: Phase | None = None) -> Iterator[None]:
        """Around calls of extension code: what it raises becomes an issue and ends the phase."""
        try:
            yield
        except FailureError:
            raise  # already an issue, or the engine's own
        except HOOK_FAILURES as error:
            raise_if_cancelled(error)
            raise failed(self.note(error, phase), self.context.issues) from None

    async def warn_on_failure(self, awaitable: Awaitable[object], phase: IssuePhase, code: str) -> None:
        """For cleanup: a failure is a WARNING and never hides what happened before."""
        try:
            await awaitable
        except HOOK_FAILURES as error:  # the result must survive it
            raise_if_cancelled(error)
            self.note(error, Phase.CLOSE_ENVIRONMENT)
            self.context.report_issue(Severity.WARNING, phase, code, describe(error))


@contextlib.asynccontextmanager
async def settled_together(run_dir: str) -> AsyncIterator[None]:
    """Around several phases of one activity: their events are waited for once, at its end."""
    posted: list[Future[None]] = []
    token = _posted_together.set(posted)
    try:
        yield
    finally:
        _posted_together.reset(token)
        await _settle(run_dir, posted)


async def _settle(run_dir: str, posted: list[Future[None]]) -> None:
    if any(not future.done() for future in posted):
        open_progress(run_dir).hurry()
    for future in posted:
        # A wait costs a round of the event loop.
        await asyncio.wrap_future(future) if not future.done() else future.result()


@contextlib.asynccontextmanager
async def phase_scope(
    services: Services, ref: ExecutionRef, phase: Phase, *, quick: bool = False, waits: bool = False
) -> AsyncIterator[PhaseScope]:
    """Load what the phase needs, send its log lines to the run's log, and heartbeat meanwhile.

    One that only ``waits`` for its turn heartbeats seldom, since many may do that, and is not measured.
    """
    store = services.store(ref.run_dir)
    with run_log_scope(ref.run_dir):
        execution, task = store.execution(ref), store.task(ref.task_index)
        if _posted_together.get() is None:  # else all phases together are counted as one step
            count_quick_try(execution, phase.value)
        refuse_blocking(execution, phase)
        context = PhaseContext(ref, phase, execution, spent_seconds=spent_so_far())
        scope = PhaseScope(
            services=services,
            ref=ref,
            phase=phase,
            store=store,
            execution=execution,
            components=services.components(ref.run_dir),
            task=step_of(task, ref.step),
            whole_task=task,
            plan=execution.load_plan(),
            context=context,
            leases=Leases(store.environments, context.log),
            quick=quick,
        )
        scope.context.on_step = lambda step: services.metrics.model_calls(scope.components.request, [step])
        beating = heartbeating(lambda: scope.context.spent_seconds, seldom=waits)
        async with beating, scope.leases.renewing():
            try:
                with contextlib.nullcontext() if waits else services.metrics.phase(phase):
                    yield scope
            finally:
                scope.context.close()
                await scope.settle()


def spent_so_far() -> float:
    """Seconds that an earlier try of this activity was charged, from its last heartbeat."""
    details = activity.info().heartbeat_details
    return float(details[0]) if details and isinstance(details[0], int | float) else 0.0
