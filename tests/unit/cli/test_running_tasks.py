"""What `status` tells of tasks in flight: how long they have been quiet."""

from __future__ import annotations

import json
import os
from pathlib import Path

from agentcompass.activities.store import open_store, task_file_stem
from agentcompass.cli.running_tasks import running_tasks
from agentcompass.contracts.records import ActiveTask, ProgressSnapshot


def run_with(folder: Path, **active: ActiveTask) -> Path:
    snapshot = ProgressSnapshot(run_id="r", active_tasks=active)
    (folder / "progress.json").write_text(json.dumps(snapshot.model_dump(mode="json")))
    return folder


def record_step(folder: Path, task_id: str, at: float) -> None:
    steps = folder / ".state" / "work" / task_file_stem(task_id) / "a1" / "e1" / "steps.jsonl"
    steps.parent.mkdir(parents=True)
    steps.write_text("{}\n")
    os.utime(steps, (at, at))


def test_the_age_of_the_last_step_is_told(tmp_path: Path) -> None:
    run = run_with(tmp_path, one=ActiveTask(phase="run_harness", attempt=1, updated_at=1000.0))
    record_step(run, "one", 1040.0)
    [task] = running_tasks(str(run), now=1100.0)
    assert (task.phase, task.phase_seconds, task.last_step_seconds) == ("run_harness", 100.0, 60.0)


def test_a_task_without_steps_has_no_age_of_one(tmp_path: Path) -> None:
    run = run_with(tmp_path, one=ActiveTask(phase="plan", attempt=1, updated_at=1000.0))
    [task] = running_tasks(str(run), now=1001.0)
    assert task.last_step_seconds is None


def test_the_one_without_news_for_longest_comes_first(tmp_path: Path) -> None:
    run = run_with(
        tmp_path,
        busy=ActiveTask(phase="run_harness", attempt=1, updated_at=1000.0),
        stalled=ActiveTask(phase="run_harness", attempt=1, updated_at=1000.0),
    )
    record_step(run, "busy", 1099.0)
    record_step(run, "stalled", 1010.0)
    assert [task.task_id for task in running_tasks(str(run), now=1100.0)] == ["stalled", "busy"]


def test_a_directory_on_another_machine_tells_nothing(tmp_path: Path) -> None:
    assert running_tasks(str(tmp_path / "absent")) == []


def test_the_store_finds_no_step_of_a_finished_task(tmp_path: Path) -> None:
    assert open_store(tmp_path).last_step_at("one", 1) is None
