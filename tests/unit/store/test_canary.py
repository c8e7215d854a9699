"""A registered secret given to every writer of the run store is in no file afterwards."""

import logging
import secrets
from collections.abc import Callable
from pathlib import Path

from agentcompass.activities.redaction import Redactor
from agentcompass.activities.store import EventSource, ProgressWriter, RequestState, RunStore
from agentcompass.activities.store.run_log import RunLogHandler
from agentcompass.contracts import (
    AttemptsSpec,
    ExecutionPlan,
    Issue,
    IssuePhase,
    MetricReport,
    NetworkPolicy,
    PreparedTask,
    RunRequest,
    RunResult,
    Severity,
    TaskInput,
    TaskSpec,
    Trajectory,
    TrajectoryStep,
)
from agentcompass.contracts.activities import ExecutionRef
from agentcompass.contracts.launch import LaunchRuntime
from agentcompass.contracts.records import (
    AttemptCheckpoint,
    EvaluationCheckpoint,
    Identity,
    RetryRecord,
    RunInfo,
    RunParams,
)
from agentcompass.contracts.request import EvaluationMode

MakeAttempt = Callable[..., AttemptCheckpoint]


def write_run(store: RunStore, request: RunRequest, text: str) -> None:
    """What belongs to the run as a whole."""
    request.benchmark.params = {"note": text, text: 1}
    runtime = LaunchRuntime(results_dir=text)
    state = RequestState(run_id="run1", launch_id=text, request_key="k", request=request, runtime=runtime)
    store.save_request(state)
    store.save_tasks([TaskSpec(task_id="q1", question=text)])
    store.files.start_run_info(RunInfo(run_id="run1", started_at="now", request={"note": [text]}))
    store.files.finish_run_info("failed", text)
    store.files.save_params(RunParams(model={"id": text}, benchmark={}))
    store.files.save_metrics(MetricReport(benchmark=text, primary="x"))
    store.files.save_summary(f"# {text}\n")


def write_execution(store: RunStore, request: RunRequest, text: str) -> None:
    """What belongs to an execution."""
    ref = ExecutionRef(run_dir=str(store.run_dir), task_index=0, task_id="q1", attempt=1)
    execution, policy = store.execution(ref), NetworkPolicy()
    step = TrajectoryStep(step_id=1, source="agent", message=text)
    result = RunResult(task_id="q1", final_answer=text, trajectory=Trajectory(steps=[step]))
    prepared = PreparedTask(task_id="q1", input=TaskInput(prompt=text))
    environment = request.environment.model_copy(update={"env_variables": {"A": text}})
    execution.save_plan(ExecutionPlan(task_id="q1", attempt=1, environment=environment))
    execution.save_prepared(prepared)
    execution.save_result(result)
    execution.save_scored(result)
    execution.save_checkpoint("run_harness", {"messages": [text]})
    execution.append_step(step)
    execution.add_diagnostics(text)
    issue = Issue(severity=Severity.FATAL, phase=IssuePhase.RUN, code="c", message=text)
    fields = {"task_id": "q1", "attempt": 1, "execution": 1, "retry": 1, "max_retries": 1, "stage": "run"}
    more = {"retry_delay_seconds": 0, "scope": "attempt", "matched_pattern": text, "issues": [issue]}
    store.save_retry(RetryRecord.model_validate({**fields, **more, "discarded_result": result}))
    store.evaluation_checkpoints.save(
        EvaluationCheckpoint(
            task_id="q1",
            attempt=1,
            mode=EvaluationMode.NONE,
            prepared=prepared,
            result=result,
            identity=Identity(task_digest="t", plan_digest="p"),
            run_network_policy=policy,
            evaluation_network_policy=policy,
            source_run=text,
        )
    )


async def test_secret_is_in_no_file(
    store: RunStore, redactor: Redactor, request_one: RunRequest, attempt: MakeAttempt
) -> None:
    canary = f'k"{secrets.token_hex(12)}\\é'
    redactor.register(canary)
    text = f"before {canary} after"
    write_run(store, request_one, text)
    write_execution(store, request_one, text)
    for task_id, k in (("q2", 1), ("q3", 2)):
        checkpoint = attempt(task_id)
        checkpoint.record.final_answer = {"key": text}
        checkpoint.record.extra = {"deep": [{text: text}]}
        store.save_attempt(checkpoint, AttemptsSpec(k=k), lambda record: True)
    writer = ProgressWriter(store.run_dir, redactor)
    await writer.emit([EventSource(run_id="run1").run_finished("failed", text)])
    await writer.close()
    record = logging.LogRecord("agentcompass.x", logging.INFO, "f", 1, "%s", (text,), None)
    record.run_dir = str(store.run_dir)
    RunLogHandler(redactor).emit(record)
    files = [path for path in store.run_dir.rglob("*") if path.is_file()]
    assert len(files) > 20
    assert [path for path in files if holds(path, canary)] == []


def holds(path: Path, canary: str) -> bool:
    """The canary's middle survives any escaping."""
    return canary[2:26].encode() in path.read_bytes()
