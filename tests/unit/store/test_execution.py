"""What one execution leaves for the next phase, maybe in another process."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from agentcompass.activities.redaction import Redactor
from agentcompass.activities.store import ExecutionStore, RunStore
from agentcompass.contracts import (
    ExecutionPlan,
    PreparedTask,
    RecordError,
    RunRequest,
    RunResult,
    TaskInput,
    TrajectoryStep,
)
from agentcompass.contracts.activities import ExecutionRef

MakeExecution = Callable[..., ExecutionStore]


@pytest.fixture
def execution(store: RunStore) -> MakeExecution:
    def make(
        number: int = 1, attempt: int = 1, task_id: str = "HumanEval/0", step: int = 0
    ) -> ExecutionStore:
        ref = reference(store, number, attempt, task_id)
        return store.execution(ref.model_copy(update={"step": step}))

    return make


def reference(
    store: RunStore, number: int = 1, attempt: int = 1, task_id: str = "HumanEval/0"
) -> ExecutionRef:
    values = {"task_index": 0, "task_id": task_id, "attempt": attempt, "execution": number}
    return ExecutionRef.model_validate({"run_dir": str(store.run_dir), **values})


def test_phases_find_what_earlier_ones_saved(execution: MakeExecution) -> None:
    prepared = PreparedTask(task_id="HumanEval/0", input=TaskInput(prompt="p"))
    execution().save_prepared(prepared)
    execution().save_result(RunResult(task_id="HumanEval/0", final_answer=10**30))
    execution().save_scored(RunResult(task_id="HumanEval/0", metrics={"correct": True}))
    assert execution().load_prepared() == prepared
    assert execution().load_result().final_answer == 10**30
    assert execution().load_scored().metrics == {"correct": True}


def test_plan_is_shared_by_the_executions_of_an_attempt(
    execution: MakeExecution, request_one: RunRequest
) -> None:
    plan = ExecutionPlan(task_id="HumanEval/0", attempt=1, environment=request_one.environment)
    execution(1).save_plan(plan)
    assert execution(2).load_plan() == plan
    assert execution(1, attempt=2).find_plan() is None


def test_missing_result_is_none_or_an_error_that_names_the_file(execution: MakeExecution) -> None:
    assert execution().find_scored() is None and not execution().exists()
    with pytest.raises(RecordError, match=r"a1/e1/scored\.json: no such file"):
        execution().load_scored()


def test_latest_result_is_the_scored_one(execution: MakeExecution) -> None:
    assert execution().find_latest_result() is None
    execution().save_result(RunResult(task_id="t"))
    assert execution().find_latest_result() == RunResult(task_id="t")
    execution().save_scored(RunResult(task_id="t", metrics={"score": 1.5}))
    assert execution().find_latest_result() == RunResult(task_id="t", metrics={"score": 1.5})


def test_checkpoints_are_kept_by_phase_and_execution(execution: MakeExecution) -> None:
    execution().save_checkpoint("run_harness", {"turns": [1]})
    execution().save_checkpoint("run_harness", {"turns": [1, 2]})
    execution().save_checkpoint("evaluate", ["x"])
    assert execution().load_checkpoint("run_harness") == {"turns": [1, 2]}
    assert execution().load_checkpoint("evaluate") == ["x"]
    assert execution(2).load_checkpoint("run_harness") is None


def test_steps_come_by_number_once_each_and_without_a_torn_last_line(
    execution: MakeExecution, store: RunStore
) -> None:
    assert execution().read_steps() == []
    for number, message in [(1, "a"), (2, "b"), (2, "b again"), (3, "c")]:
        execution().append_step(TrajectoryStep(step_id=number, source="agent", message=message))
    path = next((store.run_dir / ".state" / "work").rglob("steps.jsonl"))
    with open(path, "ab") as file:
        file.write(b'{"step_id": 4, "sou')
    assert [(step.step_id, step.message) for step in execution().read_steps()] == [
        (1, "a"),
        (2, "b again"),
        (3, "c"),
    ]


def test_diagnostics_are_kept_in_order_and_masked(execution: MakeExecution, redactor: Redactor) -> None:
    redactor.register("hunter2-hunter2")
    assert execution().diagnostics() == ""
    execution().add_diagnostics("Traceback\n  line with hunter2-hunter2\n")
    execution().add_diagnostics("second \ud800")
    assert execution().diagnostics() == "Traceback\n  line with ***\nsecond ?"


def test_registered_secret_reaches_no_working_file(
    execution: MakeExecution, store: RunStore, redactor: Redactor
) -> None:
    redactor.register("hunter2-hunter2")
    text = "see hunter2-hunter2"
    execution().save_prepared(PreparedTask(task_id="t", input=TaskInput(prompt=text)))
    execution().save_result(RunResult(task_id="t", final_answer={"a": [text]}))
    execution().save_checkpoint("run_harness", [text])
    execution().append_step(TrajectoryStep(step_id=1, source="agent", message=text))
    assert execution().load_result().final_answer == {"a": ["see ***"]}
    for path in store.run_dir.rglob("*"):
        assert path.is_dir() or b"hunter2" not in path.read_bytes(), path


def test_tries_and_blocks_are_counted_by_execution_and_step(execution: MakeExecution) -> None:
    for counted in (execution(1, step=1), execution(1, step=1), execution(1)):
        counted.count_block("evaluate")
    assert [execution(number, step=step).blocks("evaluate") for number, step in ((1, 1), (1, 0))] == [2, 1]
    assert [execution(number, step=step).blocks("evaluate") for number, step in ((2, 1), (1, 2))] == [0, 0]
    assert [execution(number, step=1).count_try("evaluate") for number in (1, 1, 2)] == [1, 2, 1]


def test_artifacts_of_executions_are_apart_and_named_relative_to_the_run(
    execution: MakeExecution, store: RunStore
) -> None:
    one, two = execution(1), execution(2)
    assert one.artifact_dir() != two.artifact_dir() and one.artifact_dir().is_dir()
    assert store.run_dir / one.artifact_path() == one.artifact_dir()
    assert one.artifact_path().startswith("artifacts/HumanEval_0-")


def test_retry_of_the_evaluation_takes_over_inference_and_artifacts(execution: MakeExecution) -> None:
    first, second = execution(1), execution(2)
    first.save_prepared(PreparedTask(task_id="t", input=TaskInput(prompt="p")))
    first.save_result(RunResult(task_id="t", final_answer="a"))
    first.save_scored(RunResult(task_id="t", final_answer="judged"))
    (first.artifact_dir() / "out.txt").write_text("x")
    os.symlink("/etc/passwd", first.artifact_dir() / "link")
    second.adopt_inference(first)
    assert second.load_result().final_answer == "a" and second.find_scored() is None
    assert (second.artifact_dir() / "out.txt").read_text() == "x"
    assert os.readlink(second.artifact_dir() / "link") == "/etc/passwd"


def test_what_a_verifier_changes_reaches_no_other_execution(execution: MakeExecution) -> None:
    first, second = execution(1), execution(2)
    first.save_prepared(PreparedTask(task_id="t", input=TaskInput(prompt="p")))
    first.save_result(RunResult(task_id="t"))
    (first.artifact_dir() / "out.txt").write_text("x")
    copy, of_another_try = first.place_for_copy(), first.place_for_copy()
    first.copy_artifacts(copy, threading.Event())
    first.copy_artifacts(of_another_try, threading.Event())
    (copy / "out.txt").write_text("changed")
    (copy / "new.txt").touch()
    second.adopt_inference(first)
    (second.artifact_dir() / "another.txt").touch()
    assert [path.name for path in first.artifact_dir().iterdir()] == ["out.txt"]
    assert (second.artifact_dir() / "out.txt").read_text() == "x"
    assert [path.name for path in of_another_try.iterdir()] == ["out.txt"]


def test_a_copy_that_nobody_waits_for_any_more_is_not_made(execution: MakeExecution) -> None:
    first, stop = execution(1), threading.Event()
    (first.artifact_dir() / "out.txt").write_text("x")
    place = first.place_for_copy()
    stop.set()
    with pytest.raises(OSError, match="nobody waits"):
        first.copy_artifacts(place, stop)
    assert not list(place.iterdir())


def test_latest_execution_of_an_attempt_is_found(execution: MakeExecution, store: RunStore) -> None:
    assert store.latest_execution(reference(store)) is None
    for number in (1, 2, 10):
        execution(number).save_result(RunResult(task_id="HumanEval/0"))
    latest = store.latest_execution(reference(store))
    assert latest is not None and latest.execution == 10 and latest.task_id == "HumanEval/0"


@pytest.mark.parametrize("task_id", ["../x", "a b", "CON", "日本語" * 100, "x" * 300, "HumanEval/0"])
def test_any_task_id_has_a_place_inside_the_run_directory(
    execution: MakeExecution, store: RunStore, tmp_path: Path, task_id: str
) -> None:
    execution(task_id=task_id).save_scored(RunResult(task_id=task_id))
    assert execution(task_id=task_id).load_scored().task_id == task_id
    outside = [path for path in tmp_path.rglob("scored.json") if store.run_dir not in path.parents]
    assert outside == []
