"""What hooks return is brought into shape, or refused by name."""

from __future__ import annotations

import pytest

from agentcompass.activities.redaction import REDACTOR
from agentcompass.activities.results import checked_result, of_type
from agentcompass.contracts.issues import Issue, IssuePhase, Severity
from agentcompass.contracts.result import RunResult, Trajectory
from agentcompass.contracts.task import PreparedTask


def issue(message: str) -> Issue:
    return Issue(severity=Severity.ERROR, phase=IssuePhase.RUN, code="acme.odd", message=message)


def test_a_proper_result_stays_the_very_same() -> None:
    result = RunResult(task_id="t", final_answer={"a": [1, None, "ü"]}, trajectory=Trajectory())
    assert checked_result(result, "evaluate") is result


@pytest.mark.parametrize("value", [None, {"task_id": "t"}, PreparedTask(task_id="t", input={})])  # type: ignore[arg-type]  # a plain map becomes the model
def test_another_type_is_refused_by_the_name_of_the_hook(value: object) -> None:
    with pytest.raises(
        TypeError, match=f"collect_result returned {type(value).__name__} instead of RunResult"
    ):
        checked_result(value, "collect_result")


def test_models_that_were_given_as_maps_become_models() -> None:
    found = checked_result(
        RunResult(task_id="t").model_copy(
            update={
                "issues": [{"severity": "error", "phase": "run", "code": "x", "message": "m"}],
                "trajectory": {"steps": [{"step_id": 1, "source": "agent"}]},
            }
        ),
        "run_task",
    )
    assert found.issues[0].code == "x"
    assert found.trajectory is not None
    assert found.trajectory.steps[0].source == "agent"


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
def test_what_no_json_can_hold_is_refused() -> None:
    with pytest.raises(TypeError, match="not JSON serializable"):
        checked_result(RunResult(task_id="t").model_copy(update={"final_answer": object()}), "evaluate")


def test_what_does_not_follow_the_schema_is_refused() -> None:
    with pytest.raises(ValueError, match="status"):
        checked_result(RunResult(task_id="t").model_copy(update={"status": 7}), "evaluate")


def test_text_that_utf_8_cannot_hold_is_replaced() -> None:
    result = RunResult(task_id="t").model_copy(update={"final_answer": "a\ud800b"})
    assert checked_result(result, "evaluate").final_answer == "a\ufffd\ufffd\ufffdb"


def test_issues_are_one_masked_line_each_and_none_twice() -> None:
    REDACTOR.register("hunter2-hunter2")
    result = RunResult(
        task_id="t",
        issues=[issue("key hunter2-hunter2\nand more"), issue("other"), issue("key hunter2-hunter2")],
    )
    assert [item.message for item in checked_result(result, "evaluate").issues] == ["key ***", "other"]


def test_an_issue_that_is_too_long_is_cut_instead_of_lost() -> None:
    assert len(issue("x" * 10_000).message) == 4000
    assert issue("a\udcffb").message == "a?b"


def test_of_type_returns_what_fits() -> None:
    assert of_type(int, 3, "hook") == 3
