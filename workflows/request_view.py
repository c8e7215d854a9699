"""How a request looks from outside: its status, the table in the Temporal UI, a result without a summary."""

from __future__ import annotations

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from ..contracts.launch import RequestResult, RequestStatus
    from ..contracts.workflows import RequestInput, RequestState


def request_status(
    input: RequestInput,
    state: RequestState | None,
    *,
    workflow_id: str,
    shown: str,
    running: int,
    waiting: int,
    message: str,
) -> RequestStatus:
    """What the status query answers; ``state`` is ``None`` before there is a run."""
    request = input.request
    counters = state.counters if state else None
    return RequestStatus(
        key=input.request_key,
        workflow_id=workflow_id,
        run_dir=state.run_dir if state else "",
        run_id=state.run_id if state else "",
        state=shown,
        benchmark=request.benchmark.id,
        harness=request.harness.id,
        model=request.model.id,
        environment=request.environment.id,
        total_tasks=state.total_tasks if state else 0,
        reused_tasks=state.reused_tasks if state else 0,
        running_attempts=running,
        waiting_attempts=waiting,
        message=message,
        **(counters.model_dump() if counters else {}),
    )


def unsummarized(input: RequestInput, state: RequestState | None, status: str, error: str) -> RequestResult:
    """What can be told of a request without a summary."""
    request = input.request
    return RequestResult(
        key=input.request_key,
        run_id=state.run_id if state else "",
        run_dir=state.run_dir if state else "",
        status=status,
        benchmark=request.benchmark.id,
        harness=request.harness.id,
        model=request.model.id,
        environment=request.environment.id,
        total_tasks=state.total_tasks if state else 0,
        error=error,
        exit_code=1,
    )


def request_table(status: RequestStatus, *, running: int, waiting: int, slots: int) -> str:
    """The table that the Temporal UI shows for a request."""
    reused = f" ({status.reused_tasks} reused)" if status.reused_tasks else ""
    rows = {
        "state": f"{status.state} {status.message}".strip().replace("|", "/"),
        "tasks": f"{status.finished_tasks + status.reused_tasks} of {status.total_tasks} finished{reused}",
        "fatal / error / warning": f"{status.failed_tasks} / {status.error_tasks} / {status.warning_tasks}",
        "attempts running / waiting / slots": f"{running} / {waiting} / {slots}",
        "run directory": f"`{status.run_dir}`",
    }
    return "| | |\n|---|---|\n" + "\n".join(f"| {name} | {value} |" for name, value in rows.items())
