"""Tasks that are given step by step: what their steps left, put together."""

from __future__ import annotations

import asyncio
import functools

from pydantic import JsonValue

from ..contracts.activities import ExecutionRef
from ..contracts.issues import Issue
from ..contracts.result import (
    ResultMeta,
    RunResult,
    StepResult,
    TaskStatus,
    Trajectory,
    TrajectoryStep,
    status_of,
)
from ..contracts.task import TaskSpec
from .metrics import check_metrics
from .own_thread import in_own_thread
from .phase import PhaseScope
from .results import checked_result, of_type
from .store import RunStore

STEP_KEY = "step"
"""In ``extra`` of a step of the trajectory: the name of the task's step that it belongs to."""
DIAGNOSTICS = "execution_diagnostics"


def with_diagnostics(result: RunResult, diagnostics: str) -> RunResult:
    """The result with its tracebacks under ``artifacts.execution_diagnostics``."""
    if not diagnostics:
        return result
    return result.model_copy(update={"artifacts": {**result.artifacts, DIAGNOSTICS: diagnostics}})


def latest_result(store: RunStore, ref: ExecutionRef, task: TaskSpec) -> RunResult | None:
    """What an execution has: its result, or that of as many of its task's steps as have one. Blocks."""
    found = store.execution(ref).find_latest_result()
    if found is not None or not task.steps:
        return found
    results = _results_of(store, ref, task)
    return _together(task, results) if results else None


def diagnostics_of(store: RunStore, ref: ExecutionRef, task: TaskSpec) -> str:
    """The tracebacks of an execution, and those of its task's steps that have no result to tell them. Blocks."""
    executions = [store.execution(ref)]
    for number in range(1, len(task.steps) + 1):
        step = store.execution(ref.model_copy(update={"step": number}))
        if step.find_latest_result() is None:
            executions.append(step)
    return "\n".join(text for execution in executions if (text := execution.diagnostics()))


async def conclude_step(scope: PhaseScope, scored: RunResult) -> bool:
    """Whether no step follows the one that was scored; then the whole task is scored, too, and stored.

    Raises what the benchmark raises, and ``LeftBehindError`` when it does not end.
    """
    task, number, benchmark = scope.whole_task, scope.ref.step, scope.components.benchmark
    if number < len(task.steps):
        stops = functools.partial(benchmark.stops_after_step, task, number, scored)
        reason = await in_own_thread(stops, "stops_after_step")
        if not reason:
            return False
        scope.context.log.info("no step follows %s: %s", task.steps[number - 1].task_id, reason)
    results = await asyncio.to_thread(_results_of, scope.store, scope.ref, task)
    combine = functools.partial(benchmark.combine_steps, task, results, _together(task, results))
    combined = await in_own_thread(combine, "combine_steps")
    whole = of_type(RunResult, combined, "combine_steps")
    valid, issues = check_metrics(whole.metrics, benchmark.metric_contract)
    whole = checked_result(whole.model_copy(update={"metrics": valid}), "combine_steps").with_issues(issues)
    execution = scope.store.execution(scope.ref.model_copy(update={"step": 0}))
    await asyncio.to_thread(execution.save_scored, whole)
    return True


def _results_of(store: RunStore, ref: ExecutionRef, task: TaskSpec) -> list[RunResult]:
    """Of the steps in their order, up to the first that has none."""
    results = []
    for number in range(1, len(task.steps) + 1):
        execution = store.execution(ref.model_copy(update={"step": number}))
        result = execution.find_latest_result()
        if result is None:
            break
        results.append(with_diagnostics(result, execution.diagnostics()))
    return results


def _together(task: TaskSpec, results: list[RunResult]) -> RunResult:
    """One result of several, without metrics: what the agent did, in one trajectory."""
    steps: list[StepResult] = []
    trajectory = Trajectory()
    issues: list[Issue] = []
    timings: dict[str, float] = {}
    for spec, result in zip(task.steps, results, strict=False):
        begun = len(trajectory.steps)
        if result.trajectory is not None:
            trajectory = _joined(trajectory, result.trajectory, spec.task_id)
        ended = len(trajectory.steps)
        issues += [issue for issue in result.issues if issue not in issues]
        for name, seconds in result.meta.timings.items():
            timings[name] = round(timings.get(name, 0.0) + seconds, 3)
        steps.append(
            StepResult(
                name=spec.task_id,
                trajectory_steps=[begun + 1, ended] if ended > begun else [],
                **{name: getattr(result, name) for name in StepResult.model_fields.keys() & _SHARED},
            )
        )
    return RunResult(
        task_id=task.task_id,
        status=status_of(issues, TaskStatus.COMPLETED),
        category=task.category,
        ground_truth=task.ground_truth,
        final_answer=results[-1].final_answer,
        trajectory=trajectory if trajectory.steps else None,
        issues=issues,
        meta=ResultMeta(timings=timings),
        steps=steps,
    )


_SHARED = RunResult.model_fields.keys() - {"steps"}


def _joined(before: Trajectory, after: Trajectory, name: str) -> Trajectory:
    """One trajectory, whose steps are numbered on."""
    count = len(before.steps)
    added = [_renumbered(step, count + place, name) for place, step in enumerate(after.steps, start=1)]
    extra = dict(before.extra)
    for key, value in after.extra.items():
        extra[key] = _both(extra[key], value) if key in extra else value
    return Trajectory(steps=[*before.steps, *added], extra=extra)


def _renumbered(step: TrajectoryStep, number: int, name: str) -> TrajectoryStep:
    return step.model_copy(update={"step_id": number, "extra": {**step.extra, STEP_KEY: name}})


def _both(earlier: JsonValue, later: JsonValue) -> JsonValue:
    """What is the same in each step stays as it is (tools, say); lists are joined (calls of the model)."""
    if earlier != later and isinstance(earlier, list) and isinstance(later, list):
        return [*earlier, *later]
    return later
