"""A run of a schedule beside the one before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from recorded_runs import Score, scored, write_run

from agentcompass.activities.finalize import recompute
from agentcompass.activities.previous_run import stand_against_previous
from agentcompass.activities.store import RunStore
from agentcompass.contracts.comparison import Comparison
from agentcompass.contracts.request import BenchmarkSpec, ScheduledRun

TASKS = [f"t{number}" for number in range(12)]


def write(
    path: Path,
    scores: Mapping[str, Score] | Sequence[Score],
    *,
    schedule: str = "nightly",
    fails: bool = False,
    benchmark: str = "qa",
    finished: bool = True,
) -> RunStore:
    """A finished run of a schedule."""
    by_task = scores if isinstance(scores, Mapping) else dict(zip(TASKS, scores, strict=True))
    store = write_run(path, {task: [scored(score)] for task, score in by_task.items()}, finished=finished)
    state = store.request_state()
    scheduled = ScheduledRun(schedule=schedule, scheduled_at=path.name, fail_on_regression=fails)
    request = state.request.model_copy(
        update={
            "metadata": state.request.metadata.model_copy(update={"scheduled": scheduled}),
            "benchmark": BenchmarkSpec(id=benchmark, params=state.request.benchmark.params),
        }
    )
    store.save_request(state.model_copy(update={"request": request}))
    return RunStore(path)


def compared(store: RunStore) -> Comparison:
    found = store.files.comparison()
    assert found is not None
    return found


def test_a_run_that_no_schedule_started_is_compared_with_nothing(tmp_path: Path) -> None:
    write(tmp_path / "20261130_020000", [True] * 12)
    store = write_run(tmp_path / "20261201_020000", {"t0": [scored(True)]})
    assert stand_against_previous(store, "completed").comparison == ""
    assert store.files.comparison() is None


def test_the_first_run_says_so_and_passes(tmp_path: Path) -> None:
    store = write(tmp_path / "20261201_020000", [True] * 12, fails=True)
    standing = stand_against_previous(store, "completed")
    assert standing.comparison == "no earlier valid run of schedule 'nightly' to compare with"
    assert standing.regression == ""


@pytest.mark.parametrize("fails", [True, False])
def test_a_regression_is_told_and_fails_only_when_asked(tmp_path: Path, fails: bool) -> None:
    write(tmp_path / "20261130_020000", [True] * 12)
    store = write(tmp_path / "20261201_020000", [False] * 10 + [True] * 2, fails=fails)
    standing = stand_against_previous(store, "completed")
    assert "against run 20261130_020000 over 12 common tasks: 0 better, 10 worse" in standing.comparison
    assert standing.regression.startswith("regression against run 20261130_020000: ") is fails
    assert compared(store).regressed


def test_the_summary_shows_the_comparison_also_when_it_is_made_again(tmp_path: Path) -> None:
    write(tmp_path / "20261130_020000", [True] * 12)
    store = write(tmp_path / "20261201_020000", [False] + [True] * 11)
    stand_against_previous(store, "completed")
    recompute(store.run_dir)
    summary = (store.run_dir / "summary.md").read_text(encoding="utf-8")
    assert "## Compared with 20261130" in summary
    assert "| t0 | worse | 1.0000 | 0.0000 |" in summary


def test_a_damaged_comparison_does_not_keep_the_summary_from_being_written(tmp_path: Path) -> None:
    store = write(tmp_path / "20261201_020000", [True] * 12)
    (store.run_dir / "comparison.json").write_text('{"paired": ', encoding="utf-8")
    assert recompute(store.run_dir).status == "completed"


def test_a_run_is_compared_with_the_latest_one_before_its_own_time(tmp_path: Path) -> None:
    for name in ("20261101_020000", "20261130_020000", "20261130_020000-2", "20261201_020000"):
        write(tmp_path / name, [True] * 12)
    backfilled = RunStore(tmp_path / "20261130_020000-2")
    stand_against_previous(backfilled, "completed")
    assert compared(backfilled).old.run_id == "20261130_020000"
    nightly = RunStore(tmp_path / "20261201_020000")
    stand_against_previous(nightly, "completed")
    assert compared(nightly).old.run_id == "20261130_020000-2"


def test_runs_that_cannot_serve_are_passed_over(tmp_path: Path) -> None:
    write(tmp_path / "20261101_020000", [True] * 12)
    write(tmp_path / "20261102_020000", [True] * 12, schedule="weekly")
    write(tmp_path / "20261103_020000", [True] * 12, benchmark="humaneval")
    write(tmp_path / "20261104_020000", [True] * 12, finished=False)
    broken = write(tmp_path / "20261105_020000", [True] * 12)
    (broken.run_dir / "run_info.json").write_text("{", encoding="utf-8")
    (tmp_path / "20261106_020000").mkdir()
    (tmp_path / "20261107_020000").write_text("no folder", encoding="utf-8")
    store = write(tmp_path / "20261201_020000", [True] * 12)
    stand_against_previous(store, "completed")
    assert compared(store).old.run_id == "20261101_020000"


def test_a_run_that_was_ended_early_is_not_compared(tmp_path: Path) -> None:
    write(tmp_path / "20261130_020000", [True] * 12)
    store = write(tmp_path / "20261201_020000", [True] * 12)
    assert stand_against_previous(store, "cancelled").comparison == ""


@pytest.mark.parametrize("fails", [True, False])
def test_what_cannot_be_compared_does_not_pass_where_that_is_demanded(tmp_path: Path, fails: bool) -> None:
    old = write(tmp_path / "20261130_020000", [True] * 12)
    metrics = old.files.metrics()
    other = [item.model_copy(update={"id": "other.native@1", "metric": "other"}) for item in metrics.series]
    old.files.save_metrics(metrics.model_copy(update={"series": other, "primary": "other.native@1"}))
    store = write(tmp_path / "20261201_020000", [True] * 12, fails=fails)
    standing = stand_against_previous(store, "completed")
    assert standing.comparison.startswith("not compared with run 20261130_020000: ")
    assert bool(standing.regression) is fails
