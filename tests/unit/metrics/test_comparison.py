"""Two runs compared: pairs, intervals, what is left out, and what counts as a step back."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from recorded_runs import fatal, scored, tasks_of, write_run

from agentcompass.activities.metrics.comparison import compare_runs
from agentcompass.activities.metrics.paired import newcombe_paired, paired_interval
from agentcompass.cli.main import run_cli
from agentcompass.contracts import TaskSpec
from agentcompass.contracts.errors import RecordError, UsageError
from agentcompass.contracts.metrics import MetricKind


@pytest.mark.parametrize(
    ("table", "low", "high"),
    [
        ((36, 12, 2, 0), 0.0569, 0.3404),  # Newcombe 1998, table II
        ((1, 1, 7, 12), -0.507, -0.026),  # Fagerland, Lydersen, Laake 2014 (airway responsiveness)
    ],
)
def test_paired_rates_have_the_published_interval(
    table: tuple[int, int, int, int], low: float, high: float
) -> None:
    interval = newcombe_paired(*table)
    digits = len(str(high).partition(".")[2])
    assert (round(interval.low, digits), round(interval.high, digits)) == (low, high)


def test_runs_that_agree_on_every_task_still_have_an_interval_of_some_width() -> None:
    values = [1.0, 0.0, 1.0, 1.0]
    interval = paired_interval(values, values, [0.25] * 4, 0.0, MetricKind.BINARY)
    assert interval is not None and interval.low < 0 < interval.high


def test_scalars_have_the_interval_of_the_paired_t_test() -> None:
    # differences 1, 2, 3: mean 2, s = 1, n = 3: 2 ± 4.3027 / sqrt(3)
    interval = paired_interval([0.0, 5.0, 9.0], [1.0, 7.0, 12.0], [1 / 3] * 3, 2.0, MetricKind.SCALAR)
    assert interval is not None
    assert (round(interval.low, 3), round(interval.high, 3)) == (-0.484, 4.484)


def test_tasks_that_flipped_are_named_and_gaps_stand_beside_them(tmp_path: Path) -> None:
    old = {
        "a": [scored(True)],
        "b": [scored(False)],
        "c": [scored(True)],
        "d": [scored(None)],
        "e": [scored(True)],
    }
    new = {
        "a": [scored(False)],
        "b": [scored(True)],
        "c": [scored(None)],
        "d": [scored(True)],
        "f": [scored(True)],
    }
    write_run(tmp_path / "old", old)
    write_run(tmp_path / "new", new)
    found = compare_runs(tmp_path / "old", tmp_path / "new")
    assert ([item.task_id for item in found.worse], [item.task_id for item in found.better]) == (["a"], ["b"])
    assert ([item.task_id for item in found.lost], [item.task_id for item in found.gained]) == (["c"], ["d"])
    assert (found.only_old, found.only_new) == (1, 1)
    assert (found.paired.tasks, found.paired.difference) == (2, 0.0)
    assert (found.old.counts.evaluated, found.new.counts.total) == (4, 5)
    assert found.regressions == ["1 task that the old run evaluated lost the score"]


def test_a_drop_within_its_interval_is_no_regression_and_a_clear_one_is(tmp_path: Path) -> None:
    ids = [f"t{number:02}" for number in range(40)]
    write_run(tmp_path / "old", {task: [scored(True)] for task in ids})
    write_run(tmp_path / "noise", {task: [scored(task != "t00")] for task in ids})
    write_run(tmp_path / "worse", {task: [scored(task > "t20")] for task in ids})
    assert not compare_runs(tmp_path / "old", tmp_path / "noise").regressed
    found = compare_runs(tmp_path / "old", tmp_path / "worse")
    assert found.paired.worse == 21
    assert found.paired.interval is not None and found.paired.interval.high < 0
    [reason] = found.regressions
    assert reason.startswith("correct changed by -0.5250 (95 % CI ") and reason.endswith(" over 40 tasks")


def test_a_task_whose_content_changed_is_not_compared(tmp_path: Path) -> None:
    write_run(tmp_path / "old", {"a": [scored(True)], "b": [scored(True)]})
    tasks = [*tasks_of(["a"]), TaskSpec(task_id="b", question="Something else?")]
    write_run(tmp_path / "new", {"a": [scored(True)], "b": [scored(False)]}, tasks=tasks)
    found = compare_runs(tmp_path / "old", tmp_path / "new")
    assert (found.changed_content, found.paired.tasks, found.regressed) == (["b"], 1, False)


def test_a_fatal_issue_takes_the_new_runs_score_away_and_counts_as_a_regression(tmp_path: Path) -> None:
    write_run(tmp_path / "old", {"a": [scored(True)], "b": [scored(True)]})
    write_run(tmp_path / "new", {"a": [scored(True)], "b": [fatal()]})
    found = compare_runs(tmp_path / "old", tmp_path / "new")
    assert (found.new.value, found.new.reference_value) == (None, 1.0)
    assert found.lost[0].reason == "attempt 1: model_quota: no credit"
    assert "the new run has no official score, the old one has" in found.regressions


def test_one_attempt_is_compared_with_the_mean_of_several(tmp_path: Path) -> None:
    write_run(tmp_path / "old", {"a": [scored(True)]})
    write_run(tmp_path / "new", {"a": [scored(True), scored(False)]}, k=2)
    found = compare_runs(tmp_path / "old", tmp_path / "new")
    assert (found.old.series, found.new.series) == ("correct.native@1", "correct.avg@2")
    assert found.worse[0].new == 0.5
    assert found.notes == ["correct.native@1 of the old run is compared with correct.avg@2 of the new one"]


def test_a_damaged_record_loses_its_own_task_only(tmp_path: Path) -> None:
    write_run(tmp_path / "old", {"a": [scored(True)], "b": [scored(True)]})
    write_run(tmp_path / "new", {"a": [scored(True)], "b": [scored(True)]})
    (tmp_path / "new" / "details" / "b.json").write_text('{"schema_version": "agentcompass.task.v3"')
    found = compare_runs(tmp_path / "old", tmp_path / "new")
    assert [(item.task_id, item.code) for item in found.lost] == [("b", "record_unreadable")]


def test_copies_without_the_hidden_files_are_compared(tmp_path: Path) -> None:
    for name, correct in (("old", False), ("new", True)):
        write_run(tmp_path / name, {"a": [scored(correct)]})
        shutil.rmtree(tmp_path / name / ".state")
    found = compare_runs(tmp_path / "old", tmp_path / "new")
    assert (found.paired.better, found.new.model) == (1, "org/model")


def test_runs_of_different_benchmarks_and_directories_without_a_run_are_refused(tmp_path: Path) -> None:
    write_run(tmp_path / "old", {"a": [scored(True)]})
    write_run(tmp_path / "new", {"a": [scored(True)]})
    path = tmp_path / "new" / "metrics.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "benchmark": "other"}))
    with pytest.raises(UsageError, match="different benchmarks"):
        compare_runs(tmp_path / "old", tmp_path / "new")
    (tmp_path / "empty").mkdir()
    with pytest.raises(RecordError, match="run_info"):
        compare_runs(tmp_path / "old", tmp_path / "empty")


def test_the_command_tells_the_difference_and_fails_when_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ids = [f"t{number:02}" for number in range(30)]
    write_run(tmp_path / "old", {task: [scored(True)] for task in ids})
    write_run(tmp_path / "new", {task: [scored(False)] for task in ids})
    arguments = ["compare", str(tmp_path / "old"), str(tmp_path / "new")]
    assert run_cli(arguments) == 0
    shown = capsys.readouterr().out
    assert "Difference: -1.0000" in shown and "Worse: 30" in shown and "… and 10 more" in shown
    assert run_cli([*arguments, "--fail-on-regression", "--json"]) == 1
    output = capsys.readouterr()
    assert json.loads(output.out)["paired"]["worse"] == 30
    assert output.err.startswith("Not passed: correct changed by -1.0000")
