"""Taking up an evaluation that another run did not finish."""

import asyncio
import json
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from reuse_runs import Runs, contents

from agentcompass.activities.identity import unscored_identity
from agentcompass.activities.reuse import resumes_evaluation
from agentcompass.activities.reuse.checkpointing import is_resumable
from agentcompass.activities.reuse.resuming import obstacle
from agentcompass.activities.store import RunStore, task_digest
from agentcompass.contracts import (
    EvaluationMode,
    Issue,
    IssuePhase,
    NetworkMode,
    NetworkPolicy,
    RunResult,
    Severity,
    TaskStatus,
)
from agentcompass.contracts.plan import ExecutionPlan


def resumes(runs: Runs, store: RunStore, task_id: str = "q1", attempt: int = 1) -> bool:
    plan = runs.plan(store, task_id, attempt)
    return resumes_evaluation(
        store, runs.ref(store, task_id, attempt), plan, task_digest(runs.task(store, task_id))
    )


def nothing_adopted(runs: Runs, store: RunStore) -> bool:
    execution = store.execution(runs.ref(store, "q1"))
    return not execution.exists() and not (store.run_dir / execution.artifact_path()).exists()


async def test_unscored_execution_becomes_the_first_of_the_new_run(runs: Runs) -> None:
    old = await runs.start("old")
    runs.leave_unscored(old, "q1", execution=2)
    before = contents(old.run_dir)
    new, report = await runs.reuse("new")
    assert report.resumed_evaluations == 1
    assert resumes(runs, new)
    execution = new.execution(runs.ref(new, "q1"))
    assert execution.load_prepared().input.prompt == "p"
    result = execution.load_result()
    assert result.final_answer == "yes"
    assert result.artifacts == {
        "declared_artifacts": {"directory": "artifacts/q1/attempt-1/execution-1", "complete": True},
        "reuse_history": {"source_run": "old", "retry_count": 0},
    }
    shutil.rmtree(old.run_dir) if contents(old.run_dir) == before else pytest.fail("the source was changed")
    assert (new.run_dir / "artifacts/q1/attempt-1/execution-1/out.txt").read_text() == "output of q1"


async def test_evaluation_can_be_taken_up_from_run_to_run(runs: Runs) -> None:
    runs.leave_unscored(await runs.start("first"), "q1")
    await runs.reuse("second")
    new, report = await runs.reuse("third")
    assert report.resumed_evaluations == 1
    assert resumes(runs, new)
    history = new.execution(runs.ref(new, "q1")).load_result().artifacts["reuse_history"]
    assert history == {"source_run": "first", "retry_count": 0}


async def test_fatal_evaluation_is_taken_up_and_its_retries_are_history(runs: Runs) -> None:
    old = await runs.start("old")
    runs.leave_unscored(old, "q1")
    runs.finish(old, "q1", correct=None, severity=Severity.FATAL, retry_count=3)
    new, report = await runs.reuse("new")
    assert (report.resumed_evaluations, report.reused_tasks) == (1, 0)
    history = new.execution(runs.ref(new, "q1")).load_result().artifacts["reuse_history"]
    assert history == {"source_run": "old", "retry_count": 3}


async def test_scored_attempt_leaves_no_evaluation_to_take_up(runs: Runs) -> None:
    old = await runs.start("old")
    runs.leave_unscored(old, "q1")
    runs.finish(old, "q1")
    assert not list((old.run_dir / ".state" / "evaluation").iterdir())


async def test_reused_attempt_without_a_score_can_be_evaluated_by_a_later_run(runs: Runs) -> None:
    old = await runs.start("old")
    runs.leave_unscored(old, "q1")
    runs.finish(old, "q1", correct=None, severity=Severity.ERROR)
    _, report = await runs.reuse("second")
    assert (report.reused_tasks, report.resumed_evaluations) == (1, 0)
    shutil.rmtree(old.run_dir)
    third, report = await runs.reuse("third", execution={"retry_pattern_list": ["^c$"]})
    assert (report.reused_tasks, report.resumed_evaluations) == (0, 1)
    assert resumes(runs, third)


async def test_nothing_is_taken_up_when_that_is_switched_off(runs: Runs) -> None:
    old = await runs.start("old", runs.request(execution={"attempts": {"k": 2}}))
    runs.leave_unscored(old, "q1")
    runs.finish(old, "q1", 2)
    new, report = await runs.reuse(
        "new", execution={"attempts": {"k": 2}}, runtime={"checkpoint_resume": False}
    )
    assert (report.resumed_evaluations, report.kept_attempts) == (0, 1)
    assert not resumes(runs, new)
    assert nothing_adopted(runs, new)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            {"environment": {"id": "host_process", "evaluation_environment_mode": "fresh"}},
            "evaluation mode 'none'",
        ),
        (
            {"environment": {"id": "host_process", "setup": {"workdir": "/x"}}},
            "the task is planned differently",
        ),
    ],
)
async def test_evaluation_under_another_plan_is_refused(
    runs: Runs, caplog: pytest.LogCaptureFixture, change: dict[str, object], reason: str
) -> None:
    runs.leave_unscored(await runs.start("old"), "q1")
    new, report = await runs.reuse("new", **change)
    assert (report.resumed_evaluations, report.refused_evaluations) == (0, 1)
    assert reason in caplog.text
    assert not resumes(runs, new)
    assert nothing_adopted(runs, new)


@pytest.mark.parametrize(
    ("field", "reason"),
    [
        ("run_network_policy", "the network policy of the run phase has changed"),
        ("evaluation_network_policy", "the network policy of the evaluation has changed"),
    ],
)
async def test_an_evaluation_under_another_network_policy_is_refused_by_the_phase_it_is_of(
    runs: Runs, field: str, reason: str
) -> None:
    old = await runs.start("old")
    checkpoint, plan = runs.leave_unscored(old, "q1"), runs.plan(old, "q1", 1)
    digest = task_digest(runs.task(old, "q1"))
    assert obstacle(checkpoint, plan, digest) == ""
    closed = NetworkPolicy(network_mode=NetworkMode.NO_NETWORK)
    assert obstacle(checkpoint, plan.model_copy(update={field: closed}), digest) == reason


async def test_changed_task_is_not_taken_up(runs: Runs, caplog: pytest.LogCaptureFixture) -> None:
    runs.leave_unscored(await runs.start("old"), "q1")
    runs.questions["q1"] = "another question?"
    _, report = await runs.reuse("new")
    assert (report.resumed_evaluations, report.refused_evaluations) == (0, 1)
    assert "[q1 a1] the evaluation is not taken up: the task's content has changed" in caplog.text


async def test_result_with_an_error_that_a_pattern_matches_runs_again(
    runs: Runs, caplog: pytest.LogCaptureFixture
) -> None:
    old = await runs.start("old")
    checkpoint = runs.leave_unscored(old, "q1")
    issue = Issue(severity=Severity.ERROR, phase=IssuePhase.RUN, code="harness_timeout", message="m")
    result = checkpoint.result.with_issues([issue])
    old.evaluation_checkpoints.save(checkpoint.model_copy(update={"result": result}))
    _, report = await runs.reuse("new")
    assert report.resumed_evaluations == 1
    shutil.rmtree(runs.results / "m_qa_oracle" / "new")
    _, report = await runs.reuse("new", execution={"retry_pattern_list": ["timeout"]})
    assert report.resumed_evaluations == 0
    assert "its issue harness_timeout matches the retry pattern 'timeout'" in caplog.text


@pytest.mark.parametrize("damage", ["changed", "removed", "added", "special"])
async def test_collected_files_must_be_as_they_were(
    runs: Runs, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    old = await runs.start("old")
    runs.leave_unscored(old, "q1")
    file = old.run_dir / "artifacts/q1/attempt-1/execution-1/out.txt"
    if damage == "changed":
        file.write_text("something else")
    elif damage == "removed":
        file.unlink()
    elif damage == "added":
        (file.parent / "more").mkdir()
    else:
        file.unlink()
        os.symlink("/etc/passwd", file)
    new, report = await runs.reuse("new")
    assert (report.resumed_evaluations, report.refused_evaluations) == (0, 1)
    words = {
        "changed": "artifacts/out.txt has changed",
        "removed": "artifacts/out.txt is missing",
        "added": "artifacts/more was added",
        "special": "a file it needs cannot be read",
    }
    assert f"[q1 a1] the evaluation is not taken up: {words[damage]}" in caplog.text
    assert not resumes(runs, new)
    assert nothing_adopted(runs, new)


@pytest.mark.parametrize("damage", ["changed", "removed", "folder"])
async def test_local_inputs_must_be_as_they_were(runs: Runs, damage: str) -> None:
    picture = runs.folder / "picture.png"
    picture.write_bytes(b"png")
    runs.leave_unscored(await runs.start("old"), "q1", media=str(picture))
    _, report = await runs.reuse("first")
    assert report.resumed_evaluations == 1
    picture.unlink()
    if damage == "changed":
        picture.write_bytes(b"gif")
    elif damage == "folder":
        picture.mkdir()
    _, report = await runs.reuse("second")
    assert (report.resumed_evaluations, report.refused_evaluations) == (0, 1)


async def test_adopted_execution_that_broke_since_is_dropped(runs: Runs) -> None:
    runs.leave_unscored(await runs.start("old"), "q1")
    new, _ = await runs.reuse("new")
    [result] = new.run_dir.rglob("e1/result.json")
    result.write_bytes(result.read_bytes()[:20])
    assert not resumes(runs, new)
    assert nothing_adopted(runs, new)


async def test_own_unscored_execution_is_no_reason_to_skip_the_agent(runs: Runs) -> None:
    store = await runs.start("one")
    checkpoint = runs.leave_unscored(store, "q1")
    store.execution(runs.ref(store, "q1")).save_prepared(checkpoint.prepared)
    store.execution(runs.ref(store, "q1")).save_result(checkpoint.result)
    assert not resumes(runs, store)


RESULT = RunResult(task_id="q1")
FATAL = Issue(severity=Severity.FATAL, phase=IssuePhase.RUN, code="c", message="m")


@pytest.mark.parametrize(
    ("mode", "result", "resumable"),
    [
        (EvaluationMode.NONE, RESULT, True),
        (EvaluationMode.FRESH, RESULT, True),
        (EvaluationMode.REUSE, RESULT, False),
        (EvaluationMode.NONE, RESULT.with_issues([FATAL]), False),
        (
            EvaluationMode.NONE,
            RESULT.with_issues([FATAL.model_copy(update={"severity": Severity.ERROR})]),
            True,
        ),
        (EvaluationMode.NONE, RunResult(task_id="q1", status=TaskStatus.SKIPPED), False),
        (
            EvaluationMode.FRESH,
            RunResult(task_id="q1", artifacts={"declared_artifacts": {"complete": False}}),
            False,
        ),
        (
            EvaluationMode.FRESH,
            RunResult(task_id="q1", artifacts={"declared_artifacts": {"complete": True}}),
            True,
        ),
    ],
)
async def test_only_complete_results_of_separate_evaluations_are_kept_for_another_run(
    runs: Runs, mode: EvaluationMode, result: RunResult, resumable: bool
) -> None:
    plan = runs.plan(await runs.start("one"), "q1", 1)
    assert is_resumable(plan.model_copy(update={"evaluation_environment_mode": mode}), result) is resumable


async def test_fresh_verifier_may_get_other_resources_than_the_agent_had(runs: Runs) -> None:
    plan = runs.plan(await runs.start("one"), "q1", 1)

    def with_memory(mode: EvaluationMode, memory: int) -> ExecutionPlan:
        resources = plan.environment.resources.model_copy(update={"memory_mb": memory})
        environment = plan.environment.model_copy(update={"resources": resources})
        return plan.model_copy(update={"environment": environment, "evaluation_environment_mode": mode})

    def same(mode: EvaluationMode) -> bool:
        one, other = (unscored_identity("t", with_memory(mode, memory)) for memory in (512, 1024))
        return one == other

    assert same(EvaluationMode.FRESH)
    assert not same(EvaluationMode.NONE)


@pytest.mark.parametrize(
    "version", ["agentcompass.evaluation_checkpoint.v3", "agentcompass.evaluation_checkpoint.v5", "", None]
)
async def test_checkpoint_of_another_version_is_refused_by_its_name(
    runs: Runs, caplog: pytest.LogCaptureFixture, version: str | None
) -> None:
    """Although everything else in it is as it should be."""
    old = await runs.start("old")
    runs.leave_unscored(old, "q1")
    runs.finish(old, "q2")
    [file] = (old.run_dir / ".state" / "evaluation").iterdir()
    file.write_text(json.dumps({**json.loads(file.read_bytes()), "schema_version": version}))
    caplog.set_level("INFO")
    new, report = await runs.reuse("new")
    assert (report.resumed_evaluations, report.refused_evaluations) == (0, 1)
    assert nothing_adopted(runs, new)
    assert "should be 'agentcompass.evaluation_checkpoint.v4'" in caplog.text


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kind=st.sampled_from(
        ["cut", "bytes", "schema_version", "prepared", "result", "digests", "identity", "attempt"]
    ),
    where=st.floats(0, 0.9999),
    junk=st.binary(min_size=1, max_size=4),
    value=st.none()
    | st.integers()
    | st.text(max_size=5)
    | st.just({})
    | st.just("agentcompass.evaluation_checkpoint.v3"),
)
def test_damaged_checkpoint_is_refused_and_the_attempt_runs(
    runs: Runs, tmp_path: Path, kind: str, where: float, junk: bytes, value: object
) -> None:
    """Cut short, bytes replaced, fields replaced: the attempt runs, and nothing else is lost."""
    runs.folder = Path(tempfile.mkdtemp(dir=tmp_path))
    asyncio.run(_damaged_checkpoint(runs, kind, where, junk, value))


async def _damaged_checkpoint(runs: Runs, kind: str, where: float, junk: bytes, value: object) -> None:
    old = await runs.start("old")
    intact = runs.leave_unscored(old, "q1")
    runs.finish(old, "q2")
    [file] = (old.run_dir / ".state" / "evaluation").iterdir()
    content = file.read_bytes()
    at = int(where * len(content))
    if kind == "cut":
        file.write_bytes(content[:at])
    elif kind == "bytes":
        file.write_bytes(content[:at] + junk + content[at + 1 :])
    else:
        file.write_text(json.dumps({**json.loads(content), kind: value}))
    before = contents(old.run_dir)
    new, report = await runs.reuse("new")
    assert contents(old.run_dir) == before
    assert new.has_record("q2")
    assert report.resumed_evaluations + report.refused_evaluations == 1
    assert resumes(runs, new) is bool(report.resumed_evaluations)
    if report.resumed_evaluations:
        taken = new.execution(runs.ref(new, "q1"))
        assert taken.load_prepared() == intact.prepared
        assert taken.load_result().final_answer == intact.result.final_answer
    else:
        assert nothing_adopted(runs, new)
