"""What `agentcompass logs` shows: steps as they are recorded, and nothing that a terminal would obey."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from recorded_runs import scored, write_run

from agentcompass.activities.store import RecordedStep, open_store, task_file_stem
from agentcompass.cli.attempt_log import AttemptLog
from agentcompass.cli.attempts import KnownAttempt, Wanted, choose_attempt
from agentcompass.cli.step_text import step_text
from agentcompass.cli.terminal_text import clipped, safe_text
from agentcompass.contracts.errors import UsageError
from agentcompass.contracts.records import ActiveTask, ProgressSnapshot
from agentcompass.contracts.result import TrajectoryStep
from agentcompass.contracts.task import TaskSpec


def step(number: int, **fields: Any) -> TrajectoryStep:
    return TrajectoryStep(step_id=number, source="agent", **fields)


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    store = open_store(tmp_path)
    store.save_tasks([TaskSpec(task_id="one", question="?"), TaskSpec(task_id="two", question="?")])
    (tmp_path / "run_info.json").write_text("{}")
    show(tmp_path, attempt=2)
    return tmp_path


def show(run_dir: Path, attempt: int | None, status: str = "running") -> None:
    active = {"one": ActiveTask(phase="run_harness", attempt=attempt, updated_at=1.0)} if attempt else {}
    snapshot = ProgressSnapshot(run_id="r", status=status, active_tasks=active)
    (run_dir / "progress.json").write_text(json.dumps(snapshot.model_dump(mode="json")))


def record(run_dir: Path, text: str, *, attempt: int = 2, execution: int = 1) -> None:
    folder = run_dir / ".state" / "work" / task_file_stem("one") / f"a{attempt}" / f"e{execution}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "steps.jsonl").open("a") as file:
        file.write(text)


def line(number: int, message: str = "") -> str:
    return step(number, message=message).model_dump_json() + "\n"


def places(log: AttemptLog) -> list[tuple[int, int]]:
    return [(found.execution, found.step.step_id) for found in log.steps()]


def test_an_attempt_that_the_run_does_not_have_is_refused(tmp_path: Path) -> None:
    write_run(tmp_path / "run", {"one": [scored(True)]})
    assert AttemptLog(tmp_path / "run", "one", 1).attempt == 1
    with pytest.raises(UsageError, match="task 'one' has 1 attempt, and no attempt 9"):
        AttemptLog(tmp_path / "run", "one", 9)


def test_each_look_shows_what_is_new(run_dir: Path) -> None:
    log = AttemptLog(run_dir, "one", None)
    assert (log.attempt, places(log), log.over, log.phase) == (2, [], False, "run_harness")
    assert AttemptLog(run_dir, "one", 1).phase == ""
    record(run_dir, line(1) + line(2))
    assert places(log) == [(1, 1), (1, 2)]
    record(run_dir, line(3))
    assert places(log) == [(1, 3)]
    record(run_dir, line(1), execution=2)
    assert places(log) == [(2, 1)]


def test_a_line_that_is_being_written_waits_for_its_end(run_dir: Path) -> None:
    log = AttemptLog(run_dir, "one", None)
    record(run_dir, line(1) + line(2)[:20])
    assert places(log) == [(1, 1)]
    record(run_dir, line(2)[20:])
    assert places(log) == [(1, 2)]


def test_a_line_that_was_cut_off_is_left_out(run_dir: Path) -> None:
    log = AttemptLog(run_dir, "one", None)
    record(run_dir, line(1)[:20] + "\n" + line(2))
    assert places(log) == [(1, 2)]


def test_a_step_that_a_second_worker_repeats_is_shown_once(run_dir: Path) -> None:
    log = AttemptLog(run_dir, "one", None)
    record(run_dir, line(1) + line(2))
    assert places(log) == [(1, 1), (1, 2)]
    record(run_dir, line(1) + line(2, "said in another way"))
    assert places(log) == [(1, 2)]


def test_following_ends_with_the_run(run_dir: Path) -> None:
    record(run_dir, line(1))
    show(run_dir, attempt=None, status="cancelled")
    log = AttemptLog(run_dir, "one", 2)
    assert [found.step.step_id for found in log.follow()] == [1]


@pytest.mark.parametrize(
    ("folder", "task", "error"),
    [("", "three", "has no task 'three'"), ("absent", "one", "is no run directory on this machine")],
)
def test_what_is_not_there_is_refused(run_dir: Path, folder: str, task: str, error: str) -> None:
    with pytest.raises(UsageError, match=error):
        AttemptLog(run_dir / folder, task, None)


def test_nothing_that_a_terminal_would_obey_is_left() -> None:
    hostile = "\x1b[2J\x1b]0;title\x07 a\rb \x9b31m \u202egnp.exe \u200b\ud800 ä\tc\r\nd"
    shown = safe_text(hostile)
    assert all(char.isprintable() or char in "\n\t" for char in shown)
    assert shown == ("\\x1b[2J\\x1b]0;title\\x07 a\\rb \\x9b31m \\u202egnp.exe \\u200b\\ud800 ä\tc\nd")


def test_every_part_of_a_step_is_made_safe() -> None:
    evil = "\x1b[31m\u202e"
    hostile = step(
        1,
        message=evil,
        reasoning=evil,
        model=evil,
        tool_calls=[{"name": evil, "arguments": {evil: evil}}],
        observations=[{"content": [evil]}],
    )
    shown = step_text(RecordedStep(execution=1, step=hostile))
    assert "\x1b" not in shown and "\u202e" not in shown
    assert shown.count("u202e") == 7


def test_a_step_is_a_headline_and_what_was_said_called_and_seen() -> None:
    shown = step_text(
        RecordedStep(
            execution=2,
            step=step(
                7,
                message="first\nsecond",
                model="m",
                latency_seconds=1.25,
                usage={"prompt_tokens": 10, "completion_tokens": 3},
                tool_calls=[{"name": "bash", "arguments": "ls"}],
                observations=[{"content": "a\nb\n"}],
            ),
        )
    )
    assert shown.splitlines() == [
        "[--:--:--] execution 2 · step 7 · agent · m · 1.2 s · 10 + 3 tokens",
        "  first",
        "  second",
        "  > bash ls",
        "  < a",
        "    b",
    ]


@pytest.mark.parametrize("timestamp", [float("inf"), float("nan"), 1e300, -1e300])
def test_a_step_from_beyond_time_is_shown(timestamp: float) -> None:
    assert "step 1" in step_text(RecordedStep(execution=1, step=step(1, timestamp=timestamp)))


def test_an_endless_text_is_cut_and_says_so() -> None:
    assert clipped("x" * 5000, chars=10, lines=5) == "xxxxxxxxxx [… 4990 more characters]"
    assert clipped("a\n" * 50, chars=1000, lines=2) == "a\na\n[… 48 more lines]"
    assert clipped("a\nb", chars=1000, lines=2) == "a\nb"


def known(launch: str = "l", request: str = "r", attempt: int = 1, *, running: bool = True) -> KnownAttempt:
    return KnownAttempt(f"launch/{launch}/{request}/t/a{attempt}", launch, request, "t", attempt, running)


def test_a_running_attempt_is_meant_before_one_that_is_over() -> None:
    over, runs = known("new", running=False), known("old")
    assert choose_attempt([over, runs], Wanted("t")) is runs
    assert choose_attempt([over], Wanted("t")) is over
    assert choose_attempt([known(attempt=1), runs := known(attempt=2)], Wanted("t", attempt=2)) is runs
    assert choose_attempt([known(request="a"), runs := known()], Wanted("t", request_key="r")) is runs


@pytest.mark.parametrize(
    ("found", "wanted", "error"),
    [
        (
            [],
            Wanted("t"),
            "task 't' is not running; `agentcompass status LAUNCH` lists what a launch is doing",
        ),
        ([known(running=False)], Wanted("t"), "task 't' is not running; it is over in launch l"),
        ([known()], Wanted("t", attempt=3), "attempt 3 of task 't' is not running; "),
        ([known("b"), known("a")], Wanted("t"), "task 't' runs several times, choose with --launch: a, b"),
        (
            [known(request="y"), known(request="x")],
            Wanted("t"),
            "task 't' runs several times, choose with --request: x, y",
        ),
        (
            [known(attempt=2), known(attempt=1)],
            Wanted("t"),
            "several attempts .* choose with --attempt: 1, 2",
        ),
        ([known()], Wanted("t", request_key="x"), "task 't' of request 'x' is not running; "),
    ],
)
def test_what_cannot_be_chosen_is_explained(found: list[KnownAttempt], wanted: Wanted, error: str) -> None:
    with pytest.raises(UsageError, match=error):
        choose_attempt(found, wanted, running=True)
