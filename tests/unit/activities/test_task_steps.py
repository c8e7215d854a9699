"""What the steps of a task left, put together as one result."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentcompass.activities.store import RunStore, open_store
from agentcompass.activities.task_steps import diagnostics_of, latest_result
from agentcompass.contracts import (
    Issue,
    IssuePhase,
    RunResult,
    Severity,
    TaskSpec,
    Trajectory,
    TrajectoryStep,
)
from agentcompass.contracts.activities import ExecutionRef
from agentcompass.contracts.result import ResultMeta

TASK = TaskSpec(task_id="t", category="c", steps=[TaskSpec(task_id=name) for name in ("one", "two", "three")])


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    return open_store(tmp_path)


def ref_of(store: RunStore, step: int = 0) -> ExecutionRef:
    return ExecutionRef(run_dir=str(store.run_dir), task_index=0, task_id="t", attempt=1, step=step)


def result(*messages: str, **fields: object) -> RunResult:
    steps = [
        TrajectoryStep(step_id=number, source="agent", message=text)
        for number, text in enumerate(messages, start=1)
    ]
    return RunResult.model_validate(
        {"task_id": "t", "trajectory": Trajectory(steps=steps) if steps else None, **fields}
    )


def test_nothing_is_made_of_steps_that_left_nothing(store: RunStore) -> None:
    assert latest_result(store, ref_of(store), TASK) is None


def test_the_steps_so_far_are_one_result_whose_trajectory_goes_on(store: RunStore) -> None:
    warning = Issue(severity=Severity.WARNING, phase=IssuePhase.RUN, code="w", message="w")
    error = Issue(severity=Severity.ERROR, phase=IssuePhase.RUN, code="harness_timeout", message="late")
    first = result("a", "b", final_answer="1", issues=[warning], metrics={"reward": 1.0})
    first = first.model_copy(update={"meta": ResultMeta(timings={"run": 1.5})})
    second = result("c", final_answer="2", issues=[warning, error])
    second = second.model_copy(update={"meta": ResultMeta(timings={"run": 2.0, "evaluate": 1.0})})
    store.execution(ref_of(store, 1)).save_scored(first)
    store.execution(ref_of(store, 2)).save_result(second)
    store.execution(ref_of(store, 2)).add_diagnostics("a traceback")

    whole = latest_result(store, ref_of(store), TASK)

    assert whole is not None and whole.trajectory is not None
    assert [(step.step_id, step.message, step.extra["step"]) for step in whole.trajectory.steps] == [
        (1, "a", "one"),
        (2, "b", "one"),
        (3, "c", "two"),
    ]
    assert [(step.name, step.metrics, step.trajectory_steps) for step in whole.steps] == [
        ("one", {"reward": 1.0}, [1, 2]),
        ("two", {}, [3, 3]),
    ]
    assert (whole.final_answer, whole.metrics, whole.category) == ("2", {}, "c")
    assert (whole.issues, whole.status) == ([warning, error], "run_error")
    assert whole.meta.timings == {"run": 3.5, "evaluate": 1.0}
    assert whole.steps[1].artifacts == {"execution_diagnostics": "a traceback"}


def test_tracebacks_of_a_step_without_a_result_are_those_of_the_task(store: RunStore) -> None:
    store.execution(ref_of(store, 1)).save_scored(result("a"))
    for step, text in ((1, "told by its result"), (2, "prepare_task failed"), (0, "the task as a whole")):
        store.execution(ref_of(store, step)).add_diagnostics(text)
    assert diagnostics_of(store, ref_of(store), TASK) == "the task as a whole\nprepare_task failed"


def test_what_is_the_same_in_every_step_is_told_once_and_lists_are_joined(store: RunStore) -> None:
    for step, call in ((1, "x"), (2, "y")):
        extra = {"tool_definitions": [{"name": "bash"}], "model_calls": [call]}
        trajectory = Trajectory(steps=[TrajectoryStep(step_id=1, source="agent")], extra=extra)
        store.execution(ref_of(store, step)).save_result(RunResult(task_id="t", trajectory=trajectory))
    whole = latest_result(store, ref_of(store), TASK)
    assert whole is not None and whole.trajectory is not None
    assert whole.trajectory.extra == {"tool_definitions": [{"name": "bash"}], "model_calls": ["x", "y"]}


def test_what_was_scored_as_a_whole_stands(store: RunStore) -> None:
    store.execution(ref_of(store, 1)).save_result(result("a"))
    store.execution(ref_of(store)).save_scored(RunResult(task_id="t", metrics={"reward": 0.5}))
    whole = latest_result(store, ref_of(store), TASK)
    assert whole is not None and whole.metrics == {"reward": 0.5}


def test_steps_are_read_while_they_are_recorded_and_their_numbers_go_on(store: RunStore) -> None:
    reader = store.step_reader("t", 1)
    one, two = (store.execution(ref_of(store, step)) for step in (1, 2))
    one.append_step(TrajectoryStep(step_id=1, source="agent", message="a"))
    one.append_step(TrajectoryStep(step_id=2, source="agent", message="b"))
    assert [(item.step.step_id, item.step.message) for item in reader.read()] == [(1, "a"), (2, "b")]
    two.append_step(TrajectoryStep(step_id=1, source="agent", message="c"))
    two.append_step(TrajectoryStep(step_id=1, source="agent", message="c, grown"))
    assert [(item.step.step_id, item.step.message) for item in reader.read()] == [(3, "c"), (3, "c, grown")]
    assert reader.read() == []
    assert store.last_step_at("t", 1) is not None


def test_forgetting_an_execution_forgets_its_steps(store: RunStore) -> None:
    step = store.execution(ref_of(store, 1))
    step.save_result(result("a"))
    (step.artifact_dir() / "file").write_text("x")
    store.execution(ref_of(store)).discard()
    assert latest_result(store, ref_of(store), TASK) is None
    assert not (store.run_dir / step.artifact_path()).exists()
