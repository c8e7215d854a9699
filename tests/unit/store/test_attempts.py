"""Finished attempts become task records, whatever kills the process in between."""

import json
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from agentcompass.activities.redaction import Redactor
from agentcompass.activities.store import RunStore, worst_severity
from agentcompass.contracts import (
    AttemptsSpec,
    AttemptStrategy,
    ExecutionPlan,
    RunRequest,
    RunResult,
    Severity,
    TaskSpec,
)
from agentcompass.contracts.activities import ExecutionRef, FinishedAttempt
from agentcompass.contracts.records import AttemptCheckpoint, AttemptRecord

MakeAttempt = Callable[..., AttemptCheckpoint]
KilledAtStep = Callable[[int, Callable[[], object]], bool]
ONE = AttemptsSpec()
AVG3 = AttemptsSpec(k=3)
PASS3 = AttemptsSpec(k=3, strategy=AttemptStrategy.PASS)


def correct(record: AttemptRecord) -> bool | None:
    value = record.metrics.get("correct")
    return bool(value) if value is not None else None


def details(store: RunStore) -> list[str]:
    return sorted(path.name for path in (store.run_dir / "details").iterdir())


def execution_ref(store: RunStore, task_id: str, attempt: int = 1) -> ExecutionRef:
    return ExecutionRef(run_dir=str(store.run_dir), task_index=0, task_id=task_id, attempt=attempt)


def test_single_attempt_is_written_as_the_record_at_once(store: RunStore, attempt: MakeAttempt) -> None:
    assert store.save_attempt(attempt("q1", retry_count=2), ONE, correct) is True
    assert details(store) == ["q1.json"]
    written = json.loads((store.run_dir / "details" / "q1.json").read_text())
    assert written["schema_version"] == "agentcompass.task.v3"
    assert written["attempt_plan"] == {"k": 1, "strategy": "avg"}
    assert written["retry_counts"] == {"1": 2} and written["retry_count"] == 2
    assert written["attempts"]["1"]["metrics"] == {"correct": True}
    assert written["ground_truth"] == {"answer": 4} and written["category"] == "math"
    assert not (store.run_dir / ".state" / "attempts").exists()


def test_fatal_attempt_makes_an_error_record(store: RunStore, attempt: MakeAttempt) -> None:
    store.save_attempt(attempt("q1", correct=None, severity=Severity.FATAL), ONE, correct)
    assert details(store) == ["_error_q1.json"]
    record = store.task_record("q1")
    assert record is not None and worst_severity(record) is Severity.FATAL


def test_repaired_task_replaces_its_error_record(store: RunStore, attempt: MakeAttempt) -> None:
    store.save_attempt(attempt("q1", correct=None, severity=Severity.FATAL), ONE, correct)
    store.save_attempt(attempt("q1"), ONE, correct)
    assert details(store) == ["q1.json"]


def test_record_waits_for_all_attempts_of_avg_in_any_order(store: RunStore, attempt: MakeAttempt) -> None:
    assert store.save_attempt(attempt("q1", 3, retry_count=1), AVG3, correct) is False
    assert store.save_attempt(attempt("q1", 1, correct=False), AVG3, correct) is False
    assert not store.has_record("q1")
    assert store.finished_attempts("q1") == [
        FinishedAttempt(attempt=1, success=False),
        FinishedAttempt(attempt=3, success=True),
    ]
    assert store.save_attempt(attempt("q1", 2, severity=Severity.WARNING), AVG3, correct) is True
    record = store.task_record("q1")
    assert record is not None
    assert list(record.attempts) == ["1", "2", "3"]
    assert record.attempts["2"].final_answer == "answer 2"
    assert (record.stopped_early, record.retry_counts, record.retry_count) == (False, {"3": 1}, 1)
    assert list((store.run_dir / ".state" / "attempts").iterdir()) == []


def test_pass_stops_at_the_first_success(store: RunStore, attempt: MakeAttempt) -> None:
    assert store.save_attempt(attempt("q1", 1, correct=False), PASS3, correct) is False
    assert store.save_attempt(attempt("q1", 2), PASS3, correct) is True
    record = store.task_record("q1")
    assert record is not None and record.stopped_early and list(record.attempts) == ["1", "2"]


def test_pass_goes_on_after_a_fatal_attempt_whatever_it_observed(
    store: RunStore, attempt: MakeAttempt
) -> None:
    assert store.save_attempt(attempt("q1", 1, severity=Severity.FATAL), PASS3, correct) is False
    assert store.finished_attempts("q1") == [FinishedAttempt(attempt=1, success=True, fatal=True)]


def test_saving_the_same_attempt_twice_changes_nothing(store: RunStore, attempt: MakeAttempt) -> None:
    for _ in range(2):
        assert store.save_attempt(attempt("q1", 1), AVG3, correct) is False
    assert len(store.finished_attempts("q1")) == 1
    for number in (2, 3, 3, 1):
        finished = store.save_attempt(attempt("q1", number), AVG3, correct)
    assert finished is True and details(store) == ["q1.json"]
    assert store.finished_attempts("q1") == []


def test_later_outcome_of_an_attempt_replaces_the_earlier_one(store: RunStore, attempt: MakeAttempt) -> None:
    store.save_attempt(attempt("q1", 1, correct=None, severity=Severity.FATAL), AVG3, correct)
    store.save_attempt(attempt("q1", 1), AVG3, correct)
    assert store.finished_attempts("q1") == [FinishedAttempt(attempt=1, success=True, fatal=False)]


def test_finished_attempt_is_found_before_and_after_its_task_is_finished(
    store: RunStore, attempt: MakeAttempt
) -> None:
    assert store.attempt("q1", 1) is None
    one = attempt("q1", 1, retry_count=2)
    store.save_attempt(one, AVG3, correct)
    assert store.attempt("q1", 1) == one
    for number in (2, 3):
        store.save_attempt(attempt("q1", number), AVG3, correct)
    assert store.attempt("q1", 1) == one and store.attempt("q1", 4) is None


def test_finished_task_leaves_no_working_files(
    store: RunStore, attempt: MakeAttempt, request_one: RunRequest
) -> None:
    execution = store.execution(execution_ref(store, "q1"))
    execution.save_plan(ExecutionPlan(task_id="q1", attempt=1, environment=request_one.environment))
    execution.save_scored(RunResult(task_id="q1"))
    (execution.artifact_dir() / "kept.txt").write_text("x")
    store.save_attempt(attempt("q1"), ONE, correct)
    assert list((store.run_dir / ".state" / "work").iterdir()) == []
    assert (store.run_dir / execution.artifact_path() / "kept.txt").read_text() == "x"


def test_reopened_task_keeps_its_good_attempts(store: RunStore, attempt: MakeAttempt) -> None:
    for number in (1, 2, 3):
        severity = Severity.FATAL if number == 2 else None
        store.save_attempt(attempt("q1", number, severity=severity), AVG3, correct)
    kept = store.reopen_task("q1", correct)
    assert [item.attempt for item in kept] == [1, 3] and not store.has_record("q1")
    assert [path.name for path in (store.run_dir / "retry_details").iterdir()] == ["q1.record1.json"]
    assert store.save_attempt(attempt("q1", 2), AVG3, correct) is True
    assert details(store) == ["q1.json"]


def test_records_come_in_the_order_of_the_task_list(store: RunStore, attempt: MakeAttempt) -> None:
    store.save_tasks([TaskSpec(task_id=name) for name in ("b", "a", "c")])
    for name in ("c", "b"):
        store.save_attempt(attempt(name), ONE, correct)
    assert [record.task_id for record in store.iter_task_records()] == ["b", "c"]
    assert [(entry.task_id, record is None) for entry, record in store.iter_tasks()] == [
        ("b", False),
        ("a", True),
        ("c", False),
    ]


def test_broken_record_costs_its_own_task_only(
    store: RunStore, attempt: MakeAttempt, caplog: pytest.LogCaptureFixture
) -> None:
    store.save_tasks([TaskSpec(task_id=name) for name in ("a", "b")])
    for name in ("a", "b"):
        store.save_attempt(attempt(name), ONE, correct)
    (store.run_dir / "details" / "a.json").write_text('{"schema_version": "agentcompass.task.v3", ')
    assert [(entry.task_id, record is None) for entry, record in store.iter_tasks()] == [
        ("a", True),
        ("b", False),
    ]
    assert "task a counts as unfinished" in caplog.text and "details/a.json" in caplog.text


def test_records_are_shown_without_a_task_list(store: RunStore, attempt: MakeAttempt) -> None:
    store.save_attempt(attempt("a"), ONE, correct)
    old = {"schema_version": "agentcompass.task.v2", "task_id": "b", "attempts": {"1": {"error": "boom"}}}
    (store.run_dir / "details" / "b.json").write_text(json.dumps(old))
    shown = list(store.iter_details())
    assert [(item.task_id, type(item).__name__) for item in shown] == [
        ("a", "TaskRecord"),
        ("b", "UnclassifiedTask"),
    ]


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(answer=JSON_VALUES)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
def test_any_answer_comes_back_as_it_was(store: RunStore, attempt: MakeAttempt, answer: JsonValue) -> None:
    checkpoint = attempt("q1")
    checkpoint.record.final_answer = answer
    store.save_attempt(checkpoint, ONE, correct)
    record = store.task_record("q1")
    assert record is not None and record.attempts["1"].final_answer == answer


def test_answer_that_utf8_cannot_hold_is_kept_as_far_as_possible(
    store: RunStore, attempt: MakeAttempt
) -> None:
    checkpoint = attempt("q1")
    checkpoint.record.final_answer = ["a\ud800b", 10**40]
    checkpoint.record.meta.timings = {"run": 1.5}
    store.save_attempt(checkpoint, ONE, correct)
    record = store.task_record("q1")
    assert record is not None
    answer = record.attempts["1"].final_answer
    assert isinstance(answer, list) and answer[1] == 10**40
    assert str(answer[0]).startswith("a\ufffd") and str(answer[0]).endswith("b")


def test_secrets_are_masked_in_records_but_answers_are_kept(
    store: RunStore, redactor: Redactor, attempt: MakeAttempt
) -> None:
    redactor.register("hunter2-hunter2")
    checkpoint = attempt("q1")
    checkpoint.record.final_answer = {"key": "Enter", "said": "hunter2-hunter2"}
    checkpoint.record.extra = {"api_key": "abc", "note": "Bearer abcdefgh1234"}
    store.save_attempt(checkpoint, ONE, correct)
    record = store.task_record("q1")
    assert record is not None
    assert record.attempts["1"].final_answer == {"key": "Enter", "said": "***"}
    assert record.attempts["1"].extra == {"api_key": "***", "note": "Bearer ***"}


@pytest.mark.parametrize("spec", [ONE, AVG3, PASS3], ids=["one", "avg", "pass"])
def test_no_attempt_is_lost_when_killed_between_any_two_steps(
    store: RunStore, attempt: MakeAttempt, killed_at_step: KilledAtStep, spec: AttemptsSpec
) -> None:
    last = 2 if spec is PASS3 else spec.k
    for step in range(200):
        task_id = f"q{step}"
        for number in range(1, last):
            store.save_attempt(attempt(task_id, number, correct=False), spec, correct)
        store.execution(execution_ref(store, task_id, last)).save_scored(RunResult(task_id=task_id))
        final = attempt(task_id, last)
        killed = killed_at_step(step, lambda final=final: store.save_attempt(final, spec, correct))
        for number in range(1, last):
            assert store.attempt(task_id, number) == attempt(task_id, number, correct=False), step
        scored = store.execution(execution_ref(store, task_id, last)).find_scored()
        assert scored is not None or store.has_record(task_id), step
        assert store.save_attempt(final, spec, correct) is True
        record = store.task_record(task_id)
        assert record is not None and list(record.attempts) == [str(n) for n in range(1, last + 1)]
        assert record.attempts[str(last)] == final.record
        assert not (store.run_dir / ".state" / "work" / task_id).exists()
        if not killed:
            assert step > 5
            return
    raise AssertionError("saving an attempt never ended")


def test_repair_killed_between_any_two_steps_never_brings_the_failure_back(
    store: RunStore, attempt: MakeAttempt, killed_at_step: KilledAtStep
) -> None:
    for step in range(100):
        task_id = f"q{step}"
        store.save_attempt(attempt(task_id, correct=None, severity=Severity.FATAL), ONE, correct)
        killed = killed_at_step(
            step, lambda task_id=task_id: store.save_attempt(attempt(task_id), ONE, correct)
        )
        assert store.task_record(task_id) is not None
        store.save_attempt(attempt(task_id), ONE, correct)
        record = store.task_record(task_id)
        assert record is not None and worst_severity(record) is None
        if not killed:
            assert step > 3
            return
    raise AssertionError("the repair never ended")


def test_reopening_killed_between_any_two_steps_keeps_every_good_attempt(
    store: RunStore, attempt: MakeAttempt, killed_at_step: KilledAtStep
) -> None:
    for step in range(100):
        task_id = f"q{step}"
        for number in (1, 2, 3):
            severity = Severity.FATAL if number == 2 else None
            store.save_attempt(attempt(task_id, number, severity=severity), AVG3, correct)
        killed = killed_at_step(step, lambda task_id=task_id: store.reopen_task(task_id, correct))
        assert store.attempt(task_id, 1) == attempt(task_id, 1)
        kept = store.reopen_task(task_id, correct)
        assert [item.attempt for item in kept] == [1, 3] and not store.has_record(task_id)
        if not killed:
            assert step > 5
            return
    raise AssertionError("reopening never ended")
