"""What is taken over from another run, and that the other run is left as it is."""

import asyncio
import errno
import json
import os
import shutil
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from reuse_runs import LABEL, Runs, contents

from agentcompass.activities import hook_calls
from agentcompass.activities.reuse import taking_over
from agentcompass.activities.reuse.verdicts import Verdict
from agentcompass.activities.store import RunStore
from agentcompass.contracts import Severity, TaskStatus
from agentcompass.contracts.activities import FinishedAttempt

K3 = {"attempts": {"k": 3}}
PASS3 = {"attempts": {"k": 3, "strategy": "pass"}}


def pending(store: RunStore) -> dict[str, list[FinishedAttempt]]:
    return {task.task_id: task.finished_attempts for task in store.pending_tasks(0, 100).tasks}


def artifacts(store: RunStore, task_id: str, attempt: int = 1) -> dict[str, object]:
    found = store.attempt(task_id, attempt)
    assert found is not None
    return dict(found.record.artifacts)


async def test_finished_task_is_linked_and_the_others_run(runs: Runs) -> None:
    old = await runs.start("old")
    runs.finish(old, "q1", retry_count=2)
    before = contents(old.run_dir)
    new, report = await runs.reuse("new")
    assert (report.reused_tasks, report.tasks_to_run) == (1, 1)
    assert pending(new) == {"q2": []}
    assert (new.run_dir / "details" / "q1.json").samefile(old.run_dir / "details" / "q1.json")
    assert [path.name for path in (new.run_dir / "details").iterdir()] == ["q1.json"]
    assert contents(old.run_dir) == before


async def test_record_is_copied_where_links_cannot_be(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    old = await runs.start("old")
    runs.finish(old, "q1")

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EXDEV, "another device")

    monkeypatch.setattr(os, "link", refuse)
    new, report = await runs.reuse("new")
    assert report.reused_tasks == 1
    copied = new.run_dir / "details" / "q1.json"
    assert copied.read_bytes() == (old.run_dir / "details" / "q1.json").read_bytes()
    assert copied.stat().st_nlink == 1


async def test_new_record_of_a_linked_task_leaves_the_source_alone(runs: Runs) -> None:
    old = await runs.start("old")
    runs.finish(old, "q1")
    before = contents(old.run_dir)
    new, _ = await runs.reuse("new")
    new.reopen_task("q1", runs.success_of(new))
    runs.finish(new, "q1", correct=False)
    assert contents(old.run_dir) == before


async def test_warnings_and_errors_are_reused_and_counted(runs: Runs) -> None:
    old = await runs.start("old")
    runs.finish(old, "q1", severity=Severity.ERROR)
    runs.finish(old, "q2", severity=Severity.WARNING)
    _, report = await runs.reuse("new")
    assert (report.reused_tasks, report.error_tasks, report.warning_tasks) == (2, 1, 1)


async def test_error_that_a_pattern_matches_now_runs_again(runs: Runs) -> None:
    old = await runs.start("old")
    runs.finish(old, "q1", severity=Severity.ERROR, message="timed out")
    runs.finish(old, "q2", severity=Severity.ERROR, message="odd")
    new, report = await runs.reuse("new", execution={"retry_pattern_list": ["timed out"]})
    assert report.again == {Verdict.MATCHED: 1}
    assert pending(new) == {"q1": []}


@pytest.mark.parametrize(
    ("how", "verdict"),
    [
        ({"severity": Severity.FATAL}, Verdict.FATAL),
        ({"status": TaskStatus.CANCELLED}, Verdict.UNFINISHED),
        ({"identified": False}, Verdict.UNIDENTIFIED),
    ],
)
async def test_result_that_does_not_count_runs_again_without_a_retry_budget(
    runs: Runs, how: dict[str, object], verdict: Verdict
) -> None:
    runs.finish(await runs.start("old"), "q1", **how)  # type: ignore[arg-type]  # one keyword each
    new, report = await runs.reuse("new")
    assert report.again == {verdict: 1}
    assert new.request().execution.max_retries == 0
    assert pending(new) == {"q1": [], "q2": []}


async def test_task_with_another_content_runs_again(runs: Runs) -> None:
    old = await runs.start("old")
    runs.finish(old, "q1")
    runs.finish(old, "q2")
    runs.questions["q2"] = "another question?"
    new, report = await runs.reuse("new")
    assert report.again == {Verdict.TASK_CHANGED: 1}
    assert pending(new) == {"q2": []}


async def test_task_that_is_planned_differently_runs_again(runs: Runs) -> None:
    runs.finish(await runs.start("old"), "q1")
    reuse = {"id": "host_process", "evaluation_environment_mode": "reuse"}
    _, report = await runs.reuse("new", environment=reuse)
    assert report.again == {Verdict.PLAN_CHANGED: 1}


async def test_addresses_budgets_and_concurrency_are_no_part_of_a_result(runs: Runs) -> None:
    runs.finish(await runs.start("old"), "q1")
    new, report = await runs.reuse(
        "new",
        model={"id": "m", "base_url": "http://elsewhere:1", "params": {"temperature": 1}},
        execution={
            "max_retries": 5,
            "task_concurrency": 1,
            "run_timeout_seconds": 9,
            "timeout_multiplier": 2,
        },
    )
    assert report.reused_tasks == 1
    assert pending(new) == {"q2": []}


async def test_larger_k_keeps_what_is_there_and_runs_the_new_attempts(runs: Runs) -> None:
    runs.finish(await runs.start("old"), "q1", correct=False, retry_count=2)
    new, report = await runs.reuse("new", execution=K3)
    assert (report.reused_tasks, report.kept_attempts) == (0, 1)
    assert pending(new) == {"q1": [FinishedAttempt(attempt=1, success=False)], "q2": []}
    assert artifacts(new, "q1") == {"reuse_history": {"source_run": "old", "retry_count": 2}}


async def test_history_names_the_run_that_executed_the_attempt(runs: Runs) -> None:
    runs.finish(await runs.start("first"), "q1")
    await runs.reuse("second", execution=K3)
    new, _ = await runs.reuse("third", execution=K3)
    assert artifacts(new, "q1") == {"reuse_history": {"source_run": "first", "retry_count": 0}}


async def test_attempts_of_a_task_that_was_interrupted_are_kept(runs: Runs) -> None:
    old = await runs.start("old", runs.request(execution=K3))
    runs.finish(old, "q1", 1)
    runs.finish(old, "q1", 3, correct=False)
    new, report = await runs.reuse("new", execution=K3)
    assert report.kept_attempts == 2
    assert pending(new)["q1"] == [
        FinishedAttempt(attempt=1, success=True),
        FinishedAttempt(attempt=3, success=False),
    ]


async def test_only_the_failed_attempt_of_a_task_runs_again(runs: Runs) -> None:
    old = await runs.start("old", runs.request(execution=K3))
    runs.finish(old, "q1", 1)
    runs.finish(old, "q1", 2, severity=Severity.FATAL)
    runs.finish(old, "q1", 3)
    assert (old.run_dir / "details" / "_error_q1.json").exists()
    new, report = await runs.reuse("new", execution=K3)
    assert report.again == {Verdict.FATAL: 1}
    assert [item.attempt for item in pending(new)["q1"]] == [1, 3]
    assert not list((new.run_dir / "details").iterdir())


async def test_success_that_stopped_a_task_early_stays_with_a_larger_k(runs: Runs) -> None:
    old = await runs.start("old", runs.request(execution=PASS3))
    runs.finish(old, "q1", 1, correct=False)
    runs.finish(old, "q1", 2, correct=True)
    larger = {"attempts": {"k": 5, "strategy": "pass"}}
    new, report = await runs.reuse("new", execution=larger)
    assert report.reused_tasks == 1
    record = new.task_record("q1")
    assert record is not None
    assert (record.attempt_plan.k, record.stopped_early, sorted(record.attempts)) == (5, True, ["1", "2"])


async def test_files_of_a_reused_attempt_stand_alone(runs: Runs) -> None:
    old = await runs.start("old")
    directory = old.execution(runs.ref(old, "q1")).artifact_dir()
    (directory / "sub").mkdir()
    (directory / "sub" / "out.txt").write_text("made by the agent")
    runs.finish(old, "q1")
    new, _ = await runs.reuse("new")
    name = "artifacts/q1/attempt-1/execution-1/sub/out.txt"
    assert (new.run_dir / name).samefile(old.run_dir / name)
    moved = runs.folder / "moved"
    shutil.move(new.run_dir, moved)
    shutil.rmtree(old.run_dir)
    assert (moved / name).read_text() == "made by the agent"
    assert RunStore(moved).task_record("q1") is not None


async def test_take_over_can_be_repeated(runs: Runs) -> None:
    from agentcompass.activities.reuse import find_source, take_over

    old = await runs.start("old")
    (old.execution(runs.ref(old, "q1")).artifact_dir() / "out.txt").write_text("x")
    runs.finish(old, "q1", severity=Severity.ERROR)
    new, first = await runs.reuse("new")
    before = contents(new.run_dir)
    source = find_source(new.request(), runs.results, runs.owner("new"))
    assert source is not None
    second = await take_over(runs.components(new.request()), new, source, runs.success_of(new))
    assert (second.reused_tasks, second.error_tasks) == (first.reused_tasks, first.error_tasks) == (1, 1)
    assert contents(new.run_dir) == before


async def test_two_take_overs_of_one_source_at_once_are_both_complete(runs: Runs) -> None:
    runs.questions = {f"q{number}": "?" for number in range(30)}
    old = await runs.start("old")
    for name in runs.questions:
        runs.finish(old, name)
    before = contents(old.run_dir)
    both = await asyncio.gather(runs.reuse("one"), runs.reuse("two"))
    assert [report.reused_tasks for _, report in both] == [30, 30]
    assert [len(list((store.run_dir / "details").iterdir())) for store, _ in both] == [30, 30]
    assert contents(old.run_dir) == before


async def test_older_record_without_evidence_runs_again_and_is_counted(
    runs: Runs, caplog: pytest.LogCaptureFixture
) -> None:
    old = await runs.start("old")
    older = {
        "schema_version": "agentcompass.task.v2",
        "task_id": "q1",
        "attempts": {"1": {"error": "it broke"}},
    }
    (old.run_dir / "details").mkdir()
    (old.run_dir / "details" / "q1.json").write_text(json.dumps(older))
    caplog.set_level("INFO")
    new, report = await runs.reuse("new")
    assert report.unclassified_tasks == 1
    assert "[q1] is executed again" in caplog.text and "1 tasks unclassified (older version)" in caplog.text
    assert pending(new) == {"q1": [], "q2": []}


async def test_record_of_another_task_is_not_taken_for_this_one(runs: Runs) -> None:
    old = await runs.start("old")
    runs.finish(old, "q1")
    shutil.copy(old.run_dir / "details" / "q1.json", old.run_dir / "details" / "q2.json")
    new, report = await runs.reuse("new")
    assert (report.reused_tasks, report.broken_files) == (1, 1)
    assert pending(new) == {"q2": []}


@pytest.mark.parametrize("kind", ["symlink", "directory"])
async def test_record_that_is_no_file_costs_its_task_only(runs: Runs, kind: str) -> None:
    old = await runs.start("old")
    runs.finish(old, "q1")
    strange = old.run_dir / "details" / "q2.json"
    if kind == "symlink":
        strange.symlink_to(old.run_dir / "details" / "q1.json")
    else:
        strange.mkdir()
    new, report = await runs.reuse("new")
    assert (report.reused_tasks, report.broken_files) == (1, 1)
    assert pending(new) == {"q2": []}


async def test_broken_attempt_does_not_cost_the_others(runs: Runs) -> None:
    old = await runs.start("old", runs.request(execution=K3))
    runs.finish(old, "q1", 1)
    runs.finish(old, "q1", 2)
    [broken] = old.run_dir.rglob("a1.yes.json")
    broken.write_bytes(broken.read_bytes()[:100])
    new, report = await runs.reuse("new", execution=K3)
    assert report.broken_files == 1
    assert [item.attempt for item in pending(new)["q1"]] == [2]


@pytest.mark.parametrize(
    "version", ["agentcompass.attempt_checkpoint.v0", "agentcompass.attempt_checkpoint.v2"]
)
async def test_attempt_of_another_version_is_executed_again(runs: Runs, version: str) -> None:
    old = await runs.start("old", runs.request(execution=K3))
    runs.finish(old, "q1", 1)
    runs.finish(old, "q1", 2)
    [file] = old.run_dir.rglob("a1.yes.json")
    file.write_text(json.dumps({**json.loads(file.read_bytes()), "schema_version": version}))
    new, report = await runs.reuse("new", execution=K3)
    assert report.broken_files == 1
    assert [item.attempt for item in pending(new)["q1"]] == [2]


@pytest.mark.parametrize("numbers", [{"0": 1}, {"one": 1}, {"1": 1, "²": 1}, {"9" * 5000: 1}, {}])
async def test_attempts_without_proper_numbers_are_refused(runs: Runs, numbers: dict[str, int]) -> None:
    old = await runs.start("old")
    runs.finish(old, "q1")
    file = old.run_dir / "details" / "q1.json"
    record = json.loads(file.read_text())
    record["attempts"] = {number: record["attempts"]["1"] for number in numbers}
    file.write_text(json.dumps(record))
    new, report = await runs.reuse("new")
    assert report.broken_files == 1
    assert pending(new) == {"q1": [], "q2": []}


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_record_is_refused_or_means_the_same(runs: Runs, tmp_path: Path, data: st.DataObject) -> None:
    """Cut short, bytes replaced, fields replaced: never an exception, never a changed source."""
    runs.folder = Path(tempfile.mkdtemp(dir=tmp_path))
    asyncio.run(_damaged_record(runs, data))


async def _damaged_record(runs: Runs, data: st.DataObject) -> None:
    old = await runs.start("old")
    runs.finish(old, "q1")
    runs.finish(old, "q2")
    file = old.run_dir / "details" / "q1.json"
    file.write_bytes(damaged(file.read_bytes(), data))
    before = contents(old.run_dir)
    new, report = await runs.reuse("new")
    assert contents(old.run_dir) == before
    assert new.has_record("q2")
    assert report.reused_tasks + len(pending(new)) == 2
    if new.has_record("q1"):
        assert (new.run_dir / "details" / "q1.json").read_bytes() == file.read_bytes()
        assert new.task_record("q1") is not None
    assert not list(new.run_dir.rglob(".tmp-*"))


def damaged(content: bytes, data: st.DataObject) -> bytes:
    """A truncated file, one with bytes replaced, or one whose fields hold something else."""
    kind = data.draw(st.sampled_from(["cut", "bytes", "field"]))
    at = int(data.draw(st.floats(0, 0.9999)) * len(content))
    if kind == "cut":
        return content[:at]
    if kind == "bytes":
        return content[:at] + data.draw(st.binary(min_size=1, max_size=4)) + content[at + 1 :]
    value = json.loads(content)
    place = value if data.draw(st.booleans()) else value["attempts"]["1"]
    name = data.draw(st.sampled_from(sorted(place)))
    place[name] = data.draw(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.just([]) | st.just({})
    )
    return json.dumps(value).encode()


async def test_work_that_was_made_with_other_settings_is_taken_over_and_told(runs: Runs) -> None:
    """Content is identity, settings are not; but nobody shall take the number for one of the new settings."""
    old = await runs.start("old", runs.request(model={"id": "m", "params": {"temperature": 0, "seed": 1}}))
    runs.finish(old, "q1")
    _, report = await runs.reuse("new", model={"id": "m", "params": {"temperature": 0.7, "top_k": 3}})
    assert (report.reused_tasks, report.other_settings_attempts) == (1, 1)
    assert report.other_settings == [
        "model.params.seed: 1 there, not set here",
        "model.params.temperature: 0.0 there, 0.7 here",
        "model.params.top_k: not set there, 3 here",
    ]


async def test_where_a_model_is_and_how_long_it_may_take_are_no_settings(runs: Runs) -> None:
    old = await runs.start(
        "old", runs.request(model={"id": "m", "base_url": "http://a", "params": {"max_attempts": 1}})
    )
    runs.finish(old, "q1")
    _, report = await runs.reuse(
        "new",
        model={
            "id": "m",
            "base_url": "http://b",
            "api_key": "env:KEY",
            "params": {"request_timeout_seconds": 5, "max_attempts": 9},
        },
        execution={"task_concurrency": 3, "run_timeout_seconds": 5},
    )
    assert (report.reused_tasks, report.other_settings_attempts) == (1, 0)


async def test_a_default_that_is_written_down_is_no_other_setting(runs: Runs) -> None:
    old = await runs.start("old")
    runs.finish(old, "q1")
    benchmark = {"id": "qa", "params": {"path": str(runs.folder / "tasks.jsonl"), "scorer": "normalized"}}
    _, report = await runs.reuse("new", benchmark=benchmark)
    assert (report.reused_tasks, report.other_settings_attempts) == (1, 0)


async def test_other_settings_are_told_also_when_they_come_through_a_third_run(runs: Runs) -> None:
    """Each attempt knows what it was made with, whichever run it is taken from."""
    hot = {"id": "m", "params": {"temperature": 0.7}}
    old = await runs.start("old")
    runs.finish(old, "q1")
    new, report = await runs.reuse("new", model=hot)
    runs.finish(new, "q2")
    assert report.other_settings_attempts == 1
    _, report = await runs.reuse("newest", model=hot)
    assert (report.reused_tasks, report.other_settings_attempts) == (2, 1)
    _, report = await runs.reuse("back")
    assert (report.reused_tasks, report.other_settings_attempts) == (2, 1)


async def test_attempts_that_are_kept_and_evaluations_that_are_taken_up_count_too(runs: Runs) -> None:
    k2 = {"attempts": {"k": 2}}
    old = await runs.start("old", runs.request(execution=k2))
    runs.finish(old, "q1")
    runs.leave_unscored(old, "q2")
    _, report = await runs.reuse("new", execution=k2, model={"id": "m", "params": {"temperature": 1}})
    assert (report.kept_attempts, report.resumed_evaluations) == (1, 1)
    assert report.other_settings_attempts == 2


async def test_a_taking_over_that_is_stuck_in_an_extension_is_left_behind_and_writes_nothing_more(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = await runs.start("old")
    runs.finish(old, "q1")
    planning, go_on, over = threading.Event(), threading.Event(), threading.Event()
    plan = taking_over.plan_attempt

    def stuck(*arguments: Any) -> Any:
        planning.set()
        try:
            assert go_on.wait(60)
            return plan(*arguments)
        finally:
            over.set()

    monkeypatch.setattr(taking_over, "plan_attempt", stuck)
    monkeypatch.setattr(hook_calls, "PATIENCE_SECONDS", 0.05)
    task = asyncio.ensure_future(runs.reuse("new"))
    assert await asyncio.to_thread(planning.wait, 60)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    go_on.set()
    assert await asyncio.to_thread(over.wait, 60)
    for thread in threading.enumerate():
        if thread.name == "hook take_all":
            await asyncio.to_thread(thread.join)
    assert list((runs.results / LABEL / "new" / "details").iterdir()) == []
