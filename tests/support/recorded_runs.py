"""Run directories as a run leaves them, written through the store, without running anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from agentcompass.activities.finalize import recompute
from agentcompass.activities.store import DriverRecord, RequestState, RunStore, recorded_request
from agentcompass.contracts import (
    AttemptsSpec,
    BenchmarkSpec,
    EnvironmentSpec,
    ExecutionSpec,
    HarnessSpec,
    Issue,
    IssuePhase,
    ModelSpec,
    RunRequest,
    Severity,
    TaskSpec,
    TaskStatus,
)
from agentcompass.contracts.launch import LaunchRuntime
from agentcompass.contracts.records import AttemptRecord, RunInfo, TaskRecord

Score = bool | None


def scored(correct: Score, *, answer: str = "", issue: Issue | None = None) -> AttemptRecord:
    """An attempt with this score; ``None`` is an attempt whose verifier gave none."""
    failed = issue is not None and issue.severity is not Severity.WARNING
    return AttemptRecord(
        status=TaskStatus.RUN_ERROR if failed else TaskStatus.COMPLETED,
        metrics={} if correct is None else {"correct": correct},
        final_answer=answer,
        issues=[issue] if issue else [],
    )


def fatal(message: str = "no credit") -> AttemptRecord:
    """An attempt that invalidates its task."""
    issue = Issue(severity=Severity.FATAL, phase=IssuePhase.RUN, code="model_quota", message=message)
    return scored(None, issue=issue)


def tasks_of(ids: Sequence[str], categories: Mapping[str, str] | None = None) -> list[TaskSpec]:
    """Tasks with a question, an answer and maybe a category."""
    return [
        TaskSpec(
            task_id=task_id, question=f"What is {task_id}?", category=(categories or {}).get(task_id, "")
        )
        for task_id in ids
    ]


def write_run(
    path: Path,
    records: Mapping[str, Sequence[AttemptRecord]],
    *,
    tasks: Sequence[TaskSpec] | None = None,
    k: int = 1,
    model: str = "org/model",
    finished: bool = True,
) -> RunStore:
    """A run of the benchmark ``qa`` with these attempts by task; tasks without attempts are not finished."""
    owner = DriverRecord(launch_id="launch-1", request_key="0-one", host="host-a", reserved_at="2026-01-02")
    store = RunStore.reserve(path, owner=owner)
    request = RunRequest(
        benchmark=BenchmarkSpec(id="qa", params={"path": "/data/questions.jsonl"}),
        harness=HarnessSpec(id="openai_chat"),
        environment=EnvironmentSpec(id="host_process"),
        model=ModelSpec(id=model, api_key="env:KEY"),
        execution=ExecutionSpec(attempts=AttemptsSpec(k=k)),
    )
    store.save_request(
        RequestState(
            run_id=path.name,
            launch_id="launch-1",
            request_key="0-one",
            request=request,
            runtime=LaunchRuntime(),
        )
    )
    specs = list(tasks) if tasks is not None else tasks_of(list(records))
    store.save_tasks(specs)
    info = RunInfo(
        run_id=path.name,
        launch_id="launch-1",
        started_at="2026-01-02T03:04:05+00:00",
        request=recorded_request(request, path.name),
    )
    store.files.start_run_info(info)
    categories = {task.task_id: task.category for task in specs}
    for task_id, attempts in records.items():
        if attempts:
            store.save_task_record(
                TaskRecord(
                    task_id=task_id,
                    category=categories[task_id],
                    attempt_plan=request.execution.attempts,
                    attempts={str(number): item for number, item in enumerate(attempts, start=1)},
                )
            )
    if finished:
        failed = any(item.status is TaskStatus.RUN_ERROR for many in records.values() for item in many)
        store.files.finish_run_info("failed" if failed else "completed")
        recompute(path)
    return store
