"""Older records: converted where evidence allows it, else shown but not counted."""

import json
from pathlib import Path
from typing import Any

import pytest

from agentcompass.activities.store import (
    UnclassifiedRecordError,
    UnclassifiedTask,
    read_run_info,
    read_task_for_display,
)
from agentcompass.activities.store.legacy import read_task_record
from agentcompass.contracts import RecordError, Severity
from agentcompass.contracts.records import TaskRecord

ISSUE = {"severity": "error", "phase": "run", "code": "model_timeout", "message": "m"}


def write(tmp_path: Path, value: Any) -> Path:
    path = tmp_path / "record.json"
    path.write_text(json.dumps(value))
    return path


def task_v2(*attempts: dict[str, Any], **fields: Any) -> dict[str, Any]:
    numbered = {str(number): attempt for number, attempt in enumerate(attempts, 1)}
    return {"schema_version": "agentcompass.task.v2", "task_id": "q1", "attempts": numbered, **fields}


def test_completed_v2_attempts_are_converted(tmp_path: Path) -> None:
    done = {"status": "completed", "metrics": {"correct": True}, "final_answer": "4", "error": ""}
    steps = {"steps": [{"step_id": 0}]}
    fields = {
        "category": None,
        "ground_truth": "4",
        "attempt_plan": {"k": 2, "strategy": "avg"},
        "unknown": 1,
    }
    path = write(tmp_path, task_v2(done, {**done, "trajectory": steps}, **fields))
    record = read_task_record(path)
    assert (record.schema_version, record.category, record.ground_truth) == ("agentcompass.task.v3", "", "4")
    assert record.attempt_plan.k == 2
    assert record.attempts["1"].metrics == {"correct": True} and record.attempts["1"].issues == []
    assert record.attempts["2"].extra == {"legacy_trajectory": steps}


def test_v2_attempt_with_issues_is_converted_whatever_its_free_text(tmp_path: Path) -> None:
    attempt = {"status": "run_error_or_eval_error", "issues": [ISSUE], "error": "TimeoutError: …"}
    record = read_task_record(write(tmp_path, task_v2(attempt)))
    assert record.attempts["1"].status == "run_error"
    assert record.attempts["1"].issues[0].severity is Severity.ERROR
    assert record.attempt_plan.k == 1


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (task_v2({"status": "run_error", "error": "boom"}), "attempt 1 failed with a free text only"),
        (task_v2({"status": "completed"}, error="boom"), "attempt 1 failed with a free text only"),
        (
            task_v2({"status": "eval_error"}),
            "attempt 1 has the status 'eval_error' and no issue that explains it",
        ),
        (task_v2(), "it has no numbered attempts"),
    ],
)
def test_v2_without_structured_evidence_is_shown_but_not_counted(
    tmp_path: Path, value: dict[str, Any], reason: str
) -> None:
    path = write(tmp_path, value)
    with pytest.raises(UnclassifiedRecordError, match="execute the task again"):
        read_task_record(path)
    shown = read_task_for_display(path)
    assert isinstance(shown, UnclassifiedTask)
    assert (shown.task_id, shown.reason, shown.content) == ("q1", reason, value)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"attempts": {"1": {"status": "completed"}}}, r"attempts\.1\.issues: Field required"),
        ({"attempts": {"1": {"status": "completed", "issues": [], "error": "x"}}}, r"attempts\.1\.error"),
        ({"schema_version": "agentcompass.task.v1"}, "'agentcompass.task.v1' is not one of"),
        ({"schema_version": None}, "schema_version is missing"),
    ],
)
def test_new_record_with_error_or_without_issues_is_a_format_error(
    tmp_path: Path, change: dict[str, Any], reason: str
) -> None:
    good = {
        "schema_version": "agentcompass.task.v3",
        "task_id": "q1",
        "attempt_plan": {"k": 1},
        "attempts": {},
    }
    assert isinstance(read_task_for_display(write(tmp_path, good)), TaskRecord)
    with pytest.raises(RecordError, match=reason) as caught:
        read_task_record(write(tmp_path, {**good, **change}))
    assert not isinstance(caught.value, UnclassifiedRecordError)


def test_truncated_record_is_an_error_with_path_and_reason(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    path.write_text('{"schema_version": "agentcompass.task.v3", "task_id"')
    with pytest.raises(RecordError, match=r"record\.json"):
        read_task_record(path)


@pytest.mark.parametrize("version", ["agentcompass.run_info.v1", "agentcompass.run_info.v2"])
def test_older_run_info_is_read_as_todays(tmp_path: Path, version: str) -> None:
    plan = {
        "environment": {"id": "docker"},
        "evaluation_network_policy": {"network_mode": "no-network"},
        "more": 1,
    }
    value = {
        "schema_version": version,
        "run_id": "r",
        "started_at": "2025-01-01T00:00:00+00:00",
        "request": {"benchmark": {"id": "b"}},
        "resolved_execution_plans": {"q1": {"attempts": {"1": plan}}},
        "metric_artifacts": {},
        "status": "completed",
    }
    info = read_run_info(write(tmp_path, value))
    assert (info.schema_version, info.status) == ("agentcompass.run_info.v3", "completed")
    summary = info.resolved_execution_plans["q1"].attempts["1"]
    assert summary.environment == {"id": "docker"}
    assert summary.verifier_network_policy.network_mode == "no-network"


def test_run_info_of_an_unknown_version_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, {"schema_version": "agentcompass.run_info.v9"})
    with pytest.raises(RecordError, match=r"run_info\.v9' is not one of"):
        read_run_info(path)
