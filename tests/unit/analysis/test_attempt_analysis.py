"""Analyzers at work on stored attempts: what they do costs only themselves."""

import asyncio
import math
from pathlib import Path
from typing import Any, ClassVar

import pytest

from agentcompass.activities.analysis import Analysis, analyze_record, analyze_tasks
from agentcompass.activities.store import DriverRecord, RunStore, TaskEntry
from agentcompass.contracts import (
    AnalysisFinding,
    Analyzer,
    AttemptContext,
    IssuePhase,
    NoParams,
    RunResult,
    Severity,
    TaskStatus,
    Trajectory,
    TrajectoryStep,
)
from agentcompass.contracts.component import blocking
from agentcompass.contracts.records import AttemptRecord, TaskRecord
from agentcompass.contracts.request import AttemptsSpec


class Scripted(Analyzer[NoParams]):
    """Does what ``does`` says."""

    does: ClassVar[Any]
    calls: ClassVar[list[str]]

    async def analyze(self, result: RunResult, context: AttemptContext) -> list[AnalysisFinding]:
        type(self).calls.append(result.task_id)
        found: list[AnalysisFinding] = await self.does(result, context)
        return found


def scripted(name: str, does: Any, **declared: Any) -> Scripted:
    fields = {"id": name, "does": staticmethod(does), "calls": [], **declared}
    made: Scripted = type(name, (Scripted,), fields)(NoParams())
    return made


async def finds(result: RunResult, context: AttemptContext) -> list[AnalysisFinding]:
    return [AnalysisFinding(label="seen", value=str(result.final_answer))]


async def raises(result: RunResult, context: AttemptContext) -> list[AnalysisFinding]:
    raise KeyError("no such thing")


async def vandalises(result: RunResult, context: AttemptContext) -> list[AnalysisFinding]:
    result.metrics["correct"] = True
    result.issues.clear()
    result.artifacts["mine"] = 1
    context.report_issue(Severity.FATAL, IssuePhase.EVALUATE, "x", "worthless")
    await context.save_checkpoint(1)
    return []


async def hangs(result: RunResult, context: AttemptContext) -> list[AnalysisFinding]:
    await asyncio.Event().wait()
    return []


async def returns_nonsense(result: RunResult, context: AttemptContext) -> Any:
    return ["a text"]


async def returns_what_is_no_json(result: RunResult, context: AttemptContext) -> Any:
    return [AnalysisFinding.model_construct(label="l", value=object(), details={})]


async def returns_far_too_much(result: RunResult, context: AttemptContext) -> list[AnalysisFinding]:
    return [AnalysisFinding(label="l", value="x" * 1_000_000)]


RECORD = TaskRecord(
    task_id="q1",
    category="math",
    ground_truth=4,
    attempt_plan=AttemptsSpec(k=2),
    retry_count=1,
    retry_counts={"2": 1},
    attempts={
        "1": AttemptRecord(
            status=TaskStatus.COMPLETED, metrics={"correct": False}, final_answer="5", issues=[]
        ),
        "2": AttemptRecord(
            status=TaskStatus.COMPLETED,
            metrics={"correct": True},
            final_answer="4",
            issues=[],
            trajectory=Trajectory(steps=[TrajectoryStep(step_id=1, source="agent", message="4")]),
        ),
    },
)
ENTRY = TaskEntry(index=0, task_id="q1", category="math", digest="")


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    owner = DriverRecord(launch_id="l", request_key="0")
    made = RunStore.reserve(tmp_path / "run", owner=owner)
    made.save_task_record(RECORD.model_copy(deep=True))
    return made


def analysis(store: RunStore, *analyzers: Scripted, seconds: float = 30.0, again: bool = False) -> Analysis:
    return Analysis(store, analyzers, seconds, again)


async def stored(store: RunStore, *analyzers: Scripted, **how: Any) -> dict[str, Any]:
    """What is in the record afterwards, by attempt and analyzer: findings as pairs, or the error."""
    await analyze_tasks(analysis(store, *analyzers, **how), [ENTRY])
    record = store.task_record("q1")
    assert record is not None
    return {
        number: {
            name: result.error or [(finding.label, finding.value) for finding in result.findings]
            for name, result in attempt.analysis_result.items()
        }
        for number, attempt in record.attempts.items()
    }


async def test_findings_are_stored_with_the_attempt_that_they_are_about(store: RunStore) -> None:
    assert await stored(store, scripted("a", finds)) == {
        "1": {"a": [("seen", "5")]},
        "2": {"a": [("seen", "4")]},
    }


async def test_it_sees_the_whole_scored_result_and_which_execution_it_is(store: RunStore) -> None:
    seen: list[Any] = []

    async def looks(result: RunResult, context: AttemptContext) -> list[AnalysisFinding]:
        place = (context.task_id, context.attempt, context.execution)
        seen.append((*place, result.metrics, result.ground_truth, result.category))
        return []

    await stored(store, scripted("a", looks))
    assert seen == [
        ("q1", 1, 1, {"correct": False}, 4, "math"),
        ("q1", 2, 2, {"correct": True}, 4, "math"),
    ]


@pytest.mark.parametrize(
    ("does", "error"),
    [
        (raises, "KeyError: 'no such thing'"),
        (
            returns_nonsense,
            "ValidationError: list[AnalysisFinding].0: Input should be a valid dictionary or instance of AnalysisFinding",
        ),
        (
            returns_what_is_no_json,
            "PydanticSerializationError: Unable to serialize unknown type: <class 'object'>",
        ),
    ],
)
async def test_a_failing_analyzer_is_recorded_and_the_others_go_on(
    store: RunStore, does: Any, error: str
) -> None:
    assert await stored(store, scripted("bad", does), scripted("good", finds)) == {
        "1": {"bad": error, "good": [("seen", "5")]},
        "2": {"bad": error, "good": [("seen", "4")]},
    }


async def test_findings_that_are_too_large_are_a_failure(store: RunStore) -> None:
    found = await stored(store, scripted("a", returns_far_too_much))
    assert found["1"]["a"].startswith("ValueError: its findings take 1000")


async def test_an_analyzer_that_hangs_is_given_up(store: RunStore) -> None:
    found = await stored(store, scripted("slow", hangs), scripted("good", finds), seconds=0.05)
    assert found["1"] == {"slow": "took longer than 0.05 s", "good": [("seen", "5")]}


async def test_a_blocking_analyzer_runs_in_a_thread_of_its_own(store: RunStore) -> None:
    loops: set[int] = set()

    class Blocking(Scripted):
        id = "blocking"

        @blocking
        async def analyze(self, result: RunResult, context: AttemptContext) -> list[AnalysisFinding]:
            loops.add(id(asyncio.get_running_loop()))
            return []

    await stored(store, Blocking(NoParams()))
    assert loops and id(asyncio.get_running_loop()) not in loops


async def test_nothing_that_an_analyzer_does_changes_the_result(store: RunStore) -> None:
    await stored(store, scripted("vandal", vandalises))
    record = store.task_record("q1")
    assert record is not None
    for attempt in record.attempts.values():
        assert list(attempt.analysis_result) == ["vandal"]
        attempt.analysis_result.clear()
    assert record == RECORD


async def test_an_attempt_without_steps_is_left_out_where_steps_are_needed(store: RunStore) -> None:
    found = await stored(store, scripted("a", finds, requires_trajectory=True))
    assert found == {"1": {}, "2": {"a": [("seen", "4")]}}


async def test_what_was_analysed_is_not_analysed_again_unless_asked_for(store: RunStore) -> None:
    analyzer = scripted("a", finds)
    await stored(store, analyzer)
    await stored(store, analyzer)
    assert analyzer.calls == ["q1", "q1"]
    await stored(store, analyzer, again=True)
    assert analyzer.calls == ["q1"] * 4


async def test_results_of_other_analyzers_stay(store: RunStore) -> None:
    await stored(store, scripted("a", finds))
    found = await stored(store, scripted("b", raises), again=True)
    assert found["1"] == {"a": [("seen", "5")], "b": "KeyError: 'no such thing'"}


async def test_numbers_that_json_has_not_become_null(store: RunStore) -> None:
    async def infinite(result: RunResult, context: AttemptContext) -> list[AnalysisFinding]:
        return [AnalysisFinding(label="l", value=math.inf)]

    assert (await stored(store, scripted("a", infinite)))["1"] == {"a": [("l", None)]}


async def test_a_task_that_is_not_finished_is_passed_over(store: RunStore) -> None:
    other = TaskEntry(index=1, task_id="q2", category="", digest="")
    done = await analyze_tasks(analysis(store, scripted("a", finds)), [other, ENTRY])
    assert (done.attempts, done.failures) == (2, 0)


async def test_a_broken_record_costs_its_own_analysis_only(store: RunStore) -> None:
    (store.run_dir / "details" / "q2.json").write_text("{")
    other = TaskEntry(index=1, task_id="q2", category="", digest="")
    done = await analyze_tasks(analysis(store, scripted("a", raises)), [other, ENTRY])
    assert (done.attempts, done.failures) == (2, 2)


async def test_a_record_that_cannot_be_written_is_an_error_of_the_machine(
    store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store, "save_analysis", full)
    with pytest.raises(OSError, match="No space left"):
        await analyze_tasks(analysis(store, scripted("a", finds)), [ENTRY])


async def test_an_attempt_that_was_executed_again_meanwhile_is_left_alone(store: RunStore) -> None:
    found = await analyze_record(analysis(store, scripted("a", finds)), ENTRY, RECORD.model_copy(deep=True))
    newer = RECORD.model_copy(deep=True)
    newer.attempts["1"].final_answer = "6"
    store.save_task_record(newer)
    assert store.save_analysis("q1", found) == 1
    record = store.task_record("q1")
    assert record is not None
    assert record.attempts["1"].analysis_result == {}
    assert record.attempts["2"].analysis_result["a"].findings[0].value == "4"
