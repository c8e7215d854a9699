"""Prepare a request: load and check its tasks, reserve the run directory, write down the start."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
import socket
from collections import Counter
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from typing import Any

from temporalio import activity

from .. import __version__
from ..contracts.activities import (
    DISCARD_REQUEST,
    PENDING_TASKS,
    PREPARE_REQUEST,
    REQUEUE_FAILED,
    Done,
    PendingTasks,
    PendingTasksInput,
    PreparedRequest,
    PrepareRequestInput,
    RequeuedTasks,
    RequeueFailedInput,
)
from ..contracts.benchmark import Benchmark
from ..contracts.errors import AgentCompassError, DatasetError, UsageError
from ..contracts.records import OtherSettings, RunInfo
from ..contracts.request import AttemptStrategy, RunRequest
from ..contracts.task import TaskSpec
from .analysis import select_analyzers
from .boundary import activity_boundary
from .classification import describe
from .heartbeat import heartbeating
from .hook_calls import call_hook
from .metrics import unplaced_categories
from .own_thread import LeftBehindError, in_own_thread
from .reuse import ReuseReport, ReuseSource, find_source, settled_source, take_over
from .save import success_reader
from .services import RequestComponents, Services, build_components
from .store import (
    DriverRecord,
    EventSource,
    RequestState,
    RunStore,
    log_held,
    open_store,
    records_held,
    run_log_scope,
)
from .store.progress import open_progress
from .store.recorded import recorded_params, recorded_request
from .store.requeueing import requeue_failed
from .store.reservation import discard_reservation
from .threads import in_settled_thread

_log = logging.getLogger(__name__)


class PrepareRequest:
    """A second try finds the directory that the first one reserved and writes the same again."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @activity.defn(name=PREPARE_REQUEST.name)
    @activity_boundary
    async def prepare_request(self, input: PrepareRequestInput) -> PreparedRequest:
        """Everything that can be refused is refused before the directory is made."""
        async with heartbeating():
            registry = self._services.registry(input.request)
            components = build_components(input.request, registry)
            with records_held() as said_by_loading:
                tasks = await load_tasks(components)
            owner = _owner(input)
            results_dir = Path(input.runtime.results_dir)
            found = await asyncio.to_thread(find_source, input.request, results_dir, owner)
            async with self._reserved(input, owner) as store:
                source = await in_settled_thread(settled_source, store, found)
                with run_log_scope(store.run_dir):
                    await self._write(input, store, tasks, source)
                    _log_start(input, store, len(tasks))
                    log_held(said_by_loading, store.run_dir)
                    reused = await self._reuse(components, store, source)
                    _log_reuse(input.request, source, reused)
            return PreparedRequest(
                run_dir=str(store.run_dir),
                run_id=store.run_id,
                total_tasks=len(tasks),
                reused_tasks=reused,
                parallel_attempts=attempts_overlap(components),
                analyzes=bool(select_analyzers(input.request, registry)),
            )

    @contextlib.asynccontextmanager
    async def _reserved(self, input: PrepareRequestInput, owner: DriverRecord) -> AsyncIterator[RunStore]:
        """The run directory. A request that is stopped before it has begun leaves none behind."""
        reserving = asyncio.ensure_future(asyncio.to_thread(self._reserve, input, owner))
        try:
            yield await asyncio.shield(reserving)
        except asyncio.CancelledError:
            details = activity.cancellation_details()
            # Only when the request asks for it: a worker that is shut down leaves it to the next one.
            if details is not None and details.cancel_requested:
                await asyncio.wait([reserving])
                if reserving.exception() is None:
                    await self._give_back(reserving.result(), owner)
            raise

    async def _give_back(self, store: RunStore, owner: DriverRecord) -> None:
        await open_progress(store.run_dir).flush()
        await in_settled_thread(discard_reservation, store.run_dir, owner)

    def _reserve(self, input: PrepareRequestInput, owner: DriverRecord) -> RunStore:
        # The scheduled time is the same in every try, so that a retry finds its directory.
        started_at: datetime = activity.info().scheduled_time.astimezone()
        reserved = RunStore.reserve_for(
            input.request, Path(input.runtime.results_dir), owner=owner, started_at=started_at
        )
        return open_store(reserved.run_dir)

    async def _write(
        self, input: PrepareRequestInput, store: RunStore, tasks: list[TaskSpec], source: ReuseSource | None
    ) -> None:
        request = input.request
        state = RequestState(
            run_id=store.run_id,
            launch_id=input.launch_id,
            request_key=input.request_key,
            request_index=input.request_index,
            request_count=input.request_count,
            request=request,
            runtime=input.runtime,
            temporal=input.temporal,
        )
        info = RunInfo(
            run_id=store.run_id,
            launch_id=input.launch_id,
            started_at=activity.info().scheduled_time.astimezone().isoformat(timespec="seconds"),
            request=recorded_request(request, store.run_id),
            reused_from=source.reused_from if source else None,
            temporal=input.temporal,
            agentcompass_version=__version__,
        )
        await in_settled_thread(store.save_request, state)
        await in_settled_thread(store.files.start_run_info, info)
        events, progress = EventSource.of(state), open_progress(store.run_dir)
        await progress.emit(
            [
                events.run_started(
                    model=request.model.id,
                    benchmark=request.benchmark.id,
                    harness=request.harness.id,
                    environment=request.environment.id,
                )
            ]
        )
        await in_settled_thread(store.save_tasks, tasks)
        await in_settled_thread(store.files.save_params, recorded_params(request, store.run_id))
        await progress.emit([events.tasks_loaded(len(tasks))])

    async def _reuse(self, components: RequestComponents, store: RunStore, source: ReuseSource | None) -> int:
        """Take over finished work; returns how many tasks are finished by that."""
        report = ReuseReport(total_tasks=store.task_count())
        if source is not None:
            success_of = success_reader(components.benchmark.metric_contract)
            report = await take_over(components, store, source, success_of)
            await in_settled_thread(_tell_settings, store, source, report)
        event = EventSource.of(store.request_state()).reuse_loaded(
            reused_tasks=report.reused_tasks,
            tasks_to_run=report.tasks_to_run,
            error_tasks=report.error_tasks,
            warning_tasks=report.warning_tasks,
            kept_attempts=report.kept_attempts,
        )
        progress = open_progress(store.run_dir)
        await progress.emit([event])
        if source is not None:
            await progress.flush()  # a run without anything to execute may be over within a moment
        return report.reused_tasks

    @activity.defn(name=DISCARD_REQUEST.name)
    @activity_boundary
    async def discard_request(self, input: PrepareRequestInput) -> Done:
        """Remove what a worker had reserved that died while the request was stopped. Twice is safe: then there is none."""
        await in_settled_thread(
            RunStore.discard_for, input.request, Path(input.runtime.results_dir), _owner(input)
        )
        return Done()

    @activity.defn(name=PENDING_TASKS.name)
    @activity_boundary
    async def pending_tasks(self, input: PendingTasksInput) -> PendingTasks:
        """The next page of tasks without a record."""
        store = self._services.store(input.run_dir)
        return await asyncio.to_thread(store.pending_tasks, input.offset, input.limit)

    @activity.defn(name=REQUEUE_FAILED.name)
    @activity_boundary
    async def requeue_failed(self, input: RequeueFailedInput) -> RequeuedTasks:
        """The next page of failed tasks, ready to be executed again."""
        store = self._services.store(input.run_dir)
        success_of = success_reader(self._services.components(input.run_dir).benchmark.metric_contract)
        return await asyncio.to_thread(requeue_failed, store, input, success_of)


def _tell_settings(store: RunStore, source: ReuseSource, report: ReuseReport) -> None:
    """``run_info.json`` says which results were made with other settings; whoever reads a number has to know."""
    if not report.other_settings_attempts:
        return
    others = OtherSettings(attempts=report.other_settings_attempts, differences=report.other_settings)
    told = source.reused_from.model_copy(update={"other_settings": others})
    store.files.start_run_info(store.files.run_info().model_copy(update={"reused_from": told}))


def _log_start(input: PrepareRequestInput, store: RunStore, tasks: int) -> None:
    request = input.request
    _log.info(
        "run started: benchmark %s, harness %s, model %s, environment %s; %d tasks, k = %d; launch %s; %s",
        request.benchmark.id,
        request.harness.id,
        request.model.id,
        request.environment.id,
        tasks,
        request.execution.attempts.k,
        input.launch_id,
        store.run_dir,
    )


def _log_reuse(request: RunRequest, source: ReuseSource | None, reused: int) -> None:
    if source is not None:
        _log.info("%d tasks are finished already, taken over from run %s", reused, source.reused_from.run_id)
    elif request.runtime.reuse:
        _log.info("there is no earlier run to take finished tasks over from")


def _owner(input: PrepareRequestInput) -> DriverRecord:
    return DriverRecord(
        launch_id=input.launch_id,
        request_key=input.request_key,
        namespace=input.temporal.namespace,
        workflow_id=input.temporal.workflow_id,
        host=socket.gethostname(),
        pid=os.getpid(),
        reserved_at=activity.info().scheduled_time.isoformat(),
    )


async def load_tasks(components: RequestComponents) -> list[TaskSpec]:
    """Load and select; raises ``DatasetError`` for what no run can be made of."""
    benchmark, request = components.benchmark, components.request
    name = f"benchmark {request.benchmark.id!r}"
    try:
        tasks = await call_hook(benchmark.load_tasks, request)
        check_task_ids(tasks, name)
        selected = await call_hook(benchmark.select_tasks, tasks, request)
    except AgentCompassError:
        raise
    except Exception as error:  # extension code may raise anything; the plugin is named
        raise DatasetError(f"{name} could not load its tasks: {describe(error)}") from error
    if not selected:
        raise DatasetError(f"{name} has no task to run" + (" after selection" if tasks else ""))
    try:
        await in_own_thread(functools.partial(check_categories, benchmark, selected, name), "aggregation")
        await in_own_thread(functools.partial(check_harness, components, selected), "task_problem")
    except LeftBehindError as error:
        raise UsageError(f"{name} with harness {request.harness.id!r}: {error}") from error
    return selected


def check_harness(components: RequestComponents, tasks: list[TaskSpec]) -> None:
    """Every task can be carried out by the harness. Raises ``UsageError`` that names those which cannot."""
    harness, id = components.harness, components.request.harness.id
    if harness is None:
        return
    try:
        found = [(task.task_id, problem) for task in tasks if (problem := harness.task_problem(task))]
    except Exception as error:  # extension code may raise anything; the plugin is named
        raise UsageError(f"harness {id!r} does not say what it can do: {describe(error)}") from error
    if found:
        shown = "; ".join(f"task {task_id!r} {problem}" for task_id, problem in found[:3])
        more = f"; and {len(found) - 3} more" if len(found) > 3 else ""
        raise UsageError(
            f"harness {id!r} cannot carry out {len(found)} of {len(tasks)} tasks (choose another one, or leave them "
            f"out): {shown}{more}"
        )


def check_categories(benchmark: Benchmark[Any], tasks: list[TaskSpec], name: str) -> None:
    """A tree of categories has to count every task that is run."""
    try:
        spec = benchmark.aggregation()
    except Exception as error:  # extension code may raise anything; the plugin is named
        raise UsageError(f"{name} does not say how to aggregate: {describe(error)}") from error
    unplaced = unplaced_categories({task.category for task in tasks}, spec)
    if unplaced:
        shown = ", ".join(map(repr, unplaced[:5]))
        raise UsageError(
            f"{name}: category_hierarchy has no leaf for {len(unplaced)} of its categories: {shown}"
        )


def check_task_ids(tasks: list[TaskSpec], name: str) -> None:
    """Every task needs an id of its own, without blanks around it."""
    for number, task in enumerate(tasks, start=1):
        if not task.task_id or task.task_id != task.task_id.strip():
            raise DatasetError(f"{name}: task number {number} has the id {task.task_id!r}")
    repeated = [task_id for task_id, count in Counter(task.task_id for task in tasks).items() if count > 1]
    if repeated:
        shown = ", ".join(map(repr, repeated[:3]))
        raise DatasetError(f"{name}: {len(repeated)} task ids occur more than once: {shown}")


def attempts_overlap(components: RequestComponents) -> bool:
    """Attempts of one task overlap for ``avg`` only, and when all sides declare that they may."""
    attempts = components.request.execution.attempts
    if attempts.k == 1 or attempts.strategy is not AttemptStrategy.AVG:
        return False
    harness_safe = components.harness is None or components.harness.parallel_attempts_safe
    return components.benchmark.parallel_attempts_safe and harness_safe
