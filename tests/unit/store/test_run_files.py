"""Files about the run as a whole."""

import json
import os
import time
from pathlib import Path

import pytest

from agentcompass.activities.redaction import Redactor
from agentcompass.activities.store import (
    EventSource,
    ProgressWriter,
    RequestState,
    RunStore,
    open_progress,
    open_store,
    recorded_params,
    recorded_request,
)
from agentcompass.contracts import (
    Issue,
    IssuePhase,
    MetricReport,
    NetworkPolicy,
    RecordError,
    RunRequest,
    RunResult,
    Severity,
)
from agentcompass.contracts.launch import LaunchRuntime
from agentcompass.contracts.records import (
    EvaluationCheckpoint,
    Identity,
    PlanSummary,
    RetryRecord,
    RunInfo,
)
from agentcompass.contracts.request import EvaluationMode
from agentcompass.contracts.task import PreparedTask, TaskInput

SOURCE = EventSource(run_id="run1")
STARTED = "2026-01-02T12:00:00+00:00"


def plan(environment: str) -> PlanSummary:
    policy = NetworkPolicy()
    return PlanSummary(
        environment={"id": environment, "token": "t"},
        run_network_policy=policy,
        verifier_network_policy=policy,
    )


def read(store: RunStore, name: str) -> dict[str, object]:
    value = json.loads((store.run_dir / name).read_text())
    assert isinstance(value, dict)
    return value


def test_request_state_is_read_back_by_another_store(store: RunStore, request_one: RunRequest) -> None:
    state = RequestState(
        run_id="run1", launch_id="l", request_key="k", request=request_one, runtime=LaunchRuntime()
    )
    store.save_request(state)
    other = open_store(store.run_dir)
    assert other.request_state() == state and other.request() == request_one
    assert open_store(str(store.run_dir)) is other


def test_run_without_a_request_is_an_error_that_names_the_file(store: RunStore) -> None:
    with pytest.raises(RecordError, match=r"request\.json: no such file"):
        store.request()


def test_recorded_request_has_no_empty_values_and_masks_secrets(
    store: RunStore, request_one: RunRequest
) -> None:
    request_one.benchmark.params = {"judge": {"api_key": "literal"}, "_runtime": 1, "empty": []}
    info = RunInfo(run_id="run1", started_at=STARTED, request=recorded_request(request_one, "run1"))
    store.files.start_run_info(info)
    written = read(store, "run_info.json")
    request = written["request"]
    assert isinstance(request, dict)
    assert request["benchmark"] == {"id": "bench", "params": {"judge": {"api_key": "***"}}}
    assert request["model"] == {"id": "org/model", "api_key": "env:KEY"}
    assert request["output"] == {"run_id": "run1"}
    assert set(written) == {
        "schema_version",
        "run_id",
        "launch_id",
        "started_at",
        "request",
        "resolved_execution_plans",
        "agentcompass_version",
    }


def test_repeated_start_keeps_the_first_start_time(store: RunStore) -> None:
    for started in (STARTED, "2026-01-02T13:00:00+00:00"):
        store.files.start_run_info(RunInfo(run_id="run1", started_at=started, request={}))
    assert store.files.run_info().started_at == STARTED


async def test_plans_are_folded_from_the_events_at_the_end(store: RunStore) -> None:
    store.files.start_run_info(RunInfo(run_id="run1", started_at=STARTED, request={}))
    writer = ProgressWriter(store.run_dir, Redactor())
    for task, attempt in (("a", 1), ("a", 2), ("token", 1)):
        await writer.emit(
            [SOURCE.execution_plan_resolved(task, None, attempt=attempt, plan=plan(f"e{attempt}"))]
        )
    await writer.close()
    assert store.files.run_info().resolved_execution_plans == {}
    store.files.finish_run_info("failed", "it broke")
    info = store.files.run_info()
    assert {task: list(plans.attempts) for task, plans in info.resolved_execution_plans.items()} == {
        "a": ["1", "2"],
        "token": ["1"],
    }
    assert info.resolved_execution_plans["token"].attempts["1"].environment == {"id": "e1", "token": "***"}
    assert (info.status, info.error, info.started_at) == ("failed", "it broke", STARTED)
    assert info.finished_at is not None


async def test_plans_are_refreshed_while_running_but_not_all_the_time(store: RunStore) -> None:
    store.files.start_run_info(RunInfo(run_id="run1", started_at=STARTED, request={}))
    writer = open_progress(store.run_dir)
    await writer.emit([SOURCE.execution_plan_resolved("a", None, attempt=1, plan=plan("e"))])
    await writer.flush()
    assert store.files.run_info().resolved_execution_plans == {}
    long_ago = time.time() - 60
    os.utime(store.run_dir / "run_info.json", (long_ago, long_ago))
    await writer.emit([SOURCE.execution_plan_resolved("b", None, attempt=1, plan=plan("e"))])
    await writer.close()
    assert list(store.files.run_info().resolved_execution_plans) == ["a", "b"]


def test_repaired_end_drops_the_earlier_error(store: RunStore) -> None:
    store.files.start_run_info(RunInfo(run_id="run1", started_at=STARTED, request={}))
    store.files.finish_run_info("failed", "it broke")
    store.files.finish_run_info("completed")
    assert (store.files.run_info().status, store.files.run_info().error) == ("completed", None)


def test_end_of_the_run_removes_what_killed_writers_left(store: RunStore) -> None:
    store.files.start_run_info(RunInfo(run_id="run1", started_at=STARTED, request={}))
    (store.run_dir / "details").mkdir()
    leftover = store.run_dir / "details" / ".tmp-1-1-aaaa"
    leftover.touch()
    os.utime(leftover, (0, 0))
    store.files.finish_run_info("completed")
    assert not leftover.exists()


def test_params_metrics_and_summary_are_written(store: RunStore, request_one: RunRequest) -> None:
    store.files.save_params(recorded_params(request_one, "run1"))
    store.files.save_metrics(MetricReport(benchmark="bench", primary="correct.native@1"))
    assert store.files.save_summary("# BENCH\n") == "summary.md"
    assert read(store, "params.json") == {
        "model": {"id": "org/model", "api_key": "env:KEY"},
        "benchmark": {"id": "bench"},
        "output": {"run_id": "run1"},
    }
    assert store.files.metrics().primary == "correct.native@1"
    assert (store.run_dir / "summary.md").read_text() == "# BENCH\n"


def test_retry_record_is_kept_once_under_a_readable_name(store: RunStore) -> None:
    issue = Issue(severity=Severity.FATAL, phase=IssuePhase.SETUP, code="c", message="Bearer abcdefgh1234")
    record = RetryRecord(
        task_id="q1",
        attempt=2,
        execution=1,
        retry=1,
        max_retries=3,
        retry_delay_seconds=5.0,
        stage="evaluate/environment",
        scope="evaluate",
        matched_pattern="fatal",
        issues=[issue],
        discarded_result=RunResult(task_id="q1"),
    )
    names = {store.save_retry(record) for _ in range(2)}
    assert names == {"retry_details/q1.attempt2.retry1.evaluate_environment.json"}
    written = read(store, names.pop())
    assert written["issues"] == [
        {"severity": "fatal", "phase": "setup", "code": "c", "message": "Bearer ***"}
    ]


def test_evaluation_checkpoint_is_found_until_its_attempt_has_a_score(store: RunStore) -> None:
    for number in (1, 2):
        store.evaluation_checkpoints.save(
            EvaluationCheckpoint(
                task_id="q1",
                attempt=number,
                mode=EvaluationMode.NONE,
                prepared=PreparedTask(task_id="q1", input=TaskInput()),
                result=RunResult(task_id="q1"),
                identity=Identity(task_digest="t", plan_digest="p"),
                run_network_policy=NetworkPolicy(),
                evaluation_network_policy=NetworkPolicy(),
                source_run="run1",
            )
        )
    store.evaluation_checkpoints.remove_scored("q1", keep={2})
    assert store.evaluation_checkpoints.find("q1", 1) is None
    found = store.evaluation_checkpoints.find("q1", 2)
    assert found is not None and found.source_run == "run1"


def test_moved_run_directory_is_read_where_it_is(
    store: RunStore, tmp_path: Path, request_one: RunRequest
) -> None:
    store.save_request(
        RequestState(
            run_id="run1", launch_id="l", request_key="k", request=request_one, runtime=LaunchRuntime()
        )
    )
    store.run_dir.rename(tmp_path / "moved")
    assert RunStore(tmp_path / "moved").request() == request_one
