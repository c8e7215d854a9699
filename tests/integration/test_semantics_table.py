"""Severity × phase × evaluation mode × strategy × budget on the real server: what each ends in.

Five runs at the same time; the tasks of a run are the rows of the table. A row is called after what
happens in it, ``<phase>.<what>.<mode>``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from row_runs import Rows, make_command_line, run_rows

MODES = ["reuse", "none", "fresh"]
WHAT = {
    "fatal": "fatal:acme.down",
    "matching": "error:acme.transient",
    "other": "error:acme.lasting",
    "remark": "warning:acme.remark",
}
HOOKS = {
    "setup": "prepare_task",
    "run": "execute_task",
    "collect": "collect_result",
    "evaluate": "evaluate",
    "cleanup": "close_session",
}
FATAL, ERROR, WARNING = "fatal", "error", "warning"


@dataclass(frozen=True)
class Expected:
    """What follows when a hook raises, and goes on raising."""

    severity: str
    state: str
    correct: bool | None
    retried: bool
    code: str = ""
    """As the author named it, unless told otherwise."""


TABLE = {
    # A preparation that ends with an exception leaves nothing to run, whatever it is called.
    ("setup", "fatal"): Expected(FATAL, "invalidated", None, True),
    ("setup", "matching"): Expected(FATAL, "invalidated", None, True),
    ("setup", "other"): Expected(FATAL, "invalidated", None, True),
    ("setup", "remark"): Expected(FATAL, "invalidated", None, True),
    # What the agent left is scored beside an ERROR.
    ("run", "fatal"): Expected(FATAL, "invalidated", None, True),
    ("run", "matching"): Expected(ERROR, "evaluated", True, True),
    ("run", "other"): Expected(ERROR, "evaluated", True, False),
    ("run", "remark"): Expected(WARNING, "evaluated", True, False),
    # Without a result there is no answer, which is wrong.
    ("collect", "fatal"): Expected(FATAL, "invalidated", None, True),
    ("collect", "matching"): Expected(ERROR, "evaluated", False, True),
    ("collect", "other"): Expected(ERROR, "evaluated", False, False),
    ("collect", "remark"): Expected(WARNING, "evaluated", False, False),
    # A verifier that raises leaves its observation absent, which is not a wrong answer.
    ("evaluate", "fatal"): Expected(FATAL, "invalidated", None, True),
    ("evaluate", "matching"): Expected(ERROR, "unavailable", None, True),
    ("evaluate", "other"): Expected(ERROR, "unavailable", None, False),
    ("evaluate", "remark"): Expected(ERROR, "unavailable", None, False),
    # Cleaning up changes nothing.
    ("cleanup", "fatal"): Expected(WARNING, "evaluated", True, False, "cleanup_failed"),
    ("cleanup", "matching"): Expected(WARNING, "evaluated", True, False, "cleanup_failed"),
    ("cleanup", "other"): Expected(WARNING, "evaluated", True, False, "cleanup_failed"),
    ("cleanup", "remark"): Expected(WARNING, "evaluated", True, False, "cleanup_failed"),
}
CELLS = [(phase, what, mode) for phase, what in TABLE for mode in MODES]
EVERY_CELL = pytest.mark.parametrize(("phase", "what", "mode"), CELLS, ids=[".".join(cell) for cell in CELLS])
EVERY_MODE = pytest.mark.parametrize("mode", MODES)
EXPIRING: list[dict[str, Any]] = [
    {"id": f"{budget}.expired.{mode}", "mode": mode, f"{name}_timeout_seconds": 0.5, "do": {hook: "forever"}}
    for budget, name, hook in (("run", "run", "execute_task"), ("evaluate", "evaluation", "evaluate"))
    for mode in MODES
]
"""Tasks whose time is used up."""


def rows(modes: list[str], **settings: Any) -> list[dict[str, Any]]:
    return [
        {"id": f"{phase}.{what}.{mode}", "mode": mode, "do": {HOOKS[phase]: WHAT[what]}, **settings}
        for phase, what in TABLE
        for mode in modes
    ]


@pytest.fixture(scope="module")
def runs(embedded_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Rows]]:
    """All runs of the table."""
    retrying = {"max_retries": 1, "retry_pattern_list": ["acme.transient"]}
    two = {**retrying, "attempts": {"k": 2, "strategy": "pass"}}
    plans: dict[str, tuple[list[dict[str, Any]], dict[str, Any]]] = {
        "no budget": ([*rows(MODES), *EXPIRING], {"retry_pattern_list": ["acme.transient"]}),
        "in vain": (rows(MODES), retrying),
        "resolved": (rows(MODES, only_execution=1), retrying),
        "avg": (rows(MODES, only_attempt=1), {**two, "attempts": {"k": 2, "strategy": "avg"}}),
        "pass": (rows(MODES, only_attempt=1), two),
    }
    lines = {name: make_command_line(embedded_home, tmp_path_factory.mktemp("table")) for name in plans}

    def run(name: str) -> Rows:
        tasks, execution = plans[name]
        return run_rows(lines[name], tasks, "--task-concurrency", "4", execution=execution)

    try:
        with ThreadPoolExecutor(len(plans)) as pool:
            yield dict(zip(plans, pool.map(run, plans), strict=True))
    finally:
        for line in lines.values():
            line.end_all()


def issue_of(phase: str, what: str) -> list[tuple[str, str, str]]:
    expected = TABLE[phase, what]
    return [(expected.severity, phase, expected.code or WHAT[what].partition(":")[2])]


@EVERY_CELL
def test_without_a_budget_the_first_execution_stands(
    runs: dict[str, Rows], phase: str, what: str, mode: str
) -> None:
    run, task, expected = runs["no budget"], f"{phase}.{what}.{mode}", TABLE[phase, what]
    assert run.issues(task) == issue_of(phase, what)
    assert (run.state(task), run.correct(task)) == (expected.state, expected.correct)
    assert run.retry_count(task) == 0
    assert run.retries(task) == []


@EVERY_MODE
def test_what_an_agent_left_when_its_time_was_up_is_scored(runs: dict[str, Rows], mode: str) -> None:
    run, task = runs["no budget"], f"run.expired.{mode}"
    assert run.issues(task) == [("error", "run", "harness_timeout")]
    assert run.message(task) == "the run budget of 0.5 s (run_timeout_seconds) is used up"
    assert (run.state(task), run.correct(task), run.retries(task)) == ("evaluated", True, [])


@EVERY_MODE
def test_a_verifier_whose_time_is_up_leaves_its_observation_absent(runs: dict[str, Rows], mode: str) -> None:
    run, task = runs["no budget"], f"evaluate.expired.{mode}"
    assert run.issues(task) == [("error", "evaluate", "evaluation_timeout")]
    assert run.message(task) == "the evaluation budget of 0.5 s (evaluation_timeout_seconds) is used up"
    assert (run.state(task), run.correct(task), run.retries(task)) == ("unavailable", None, [])


@EVERY_CELL
def test_a_budget_is_spent_on_what_calls_for_a_retry(
    runs: dict[str, Rows], phase: str, what: str, mode: str
) -> None:
    run, task, expected = runs["in vain"], f"{phase}.{what}.{mode}", TABLE[phase, what]
    assert run.issues(task) == issue_of(phase, what)
    assert (run.state(task), run.correct(task)) == (expected.state, expected.correct)
    assert run.retry_count(task) == int(expected.retried)
    only_the_verifier = phase == "evaluate" and mode != "reuse"
    matched = "acme.transient" if expected.severity == ERROR else "fatal"
    assert [(item["scope"], item["stage"], item["matched_pattern"]) for item in run.retries(task)] == (
        [("evaluate" if only_the_verifier else "attempt", phase, matched)] if expected.retried else []
    )


@EVERY_CELL
def test_what_a_retry_resolved_is_only_in_the_history(
    runs: dict[str, Rows], phase: str, what: str, mode: str
) -> None:
    run, task, expected = runs["resolved"], f"{phase}.{what}.{mode}", TABLE[phase, what]
    assert run.retry_count(task) == int(expected.retried)
    if expected.retried:
        assert (run.issues(task), run.state(task), run.correct(task)) == ([], "evaluated", True)
        [record] = run.retries(task)
        found = [(item["severity"], item["phase"], item["code"]) for item in record["issues"]]
        assert found == issue_of(phase, what)
    else:
        assert run.issues(task) == issue_of(phase, what)
        assert (run.state(task), run.correct(task)) == (expected.state, expected.correct)


@EVERY_CELL
def test_avg_runs_the_other_attempt_whatever_happens(
    runs: dict[str, Rows], phase: str, what: str, mode: str
) -> None:
    run, task, expected = runs["avg"], f"{phase}.{what}.{mode}", TABLE[phase, what]
    assert sorted(run.record(task)["attempts"]) == ["1", "2"]
    assert run.correct(task, 2) is True
    assert run.issues(task) == issue_of(phase, what)
    assert run.state(task) == ("invalidated" if expected.severity == FATAL else expected.state)
    assert run.retry_count(task, 1) == int(expected.retried)
    assert run.retry_count(task, 2) == 0


@EVERY_CELL
def test_pass_stops_at_a_success_and_a_fatal_attempt_is_not_made_good(
    runs: dict[str, Rows], phase: str, what: str, mode: str
) -> None:
    run, task, expected = runs["pass"], f"{phase}.{what}.{mode}", TABLE[phase, what]
    solved_at_once = expected.correct is True
    assert sorted(run.record(task)["attempts"]) == (["1"] if solved_at_once else ["1", "2"])
    assert run.state(task) == ("invalidated" if expected.severity == FATAL else "evaluated")


@pytest.mark.parametrize(
    ("name", "evaluated", "unavailable", "invalidated"),
    [("no budget", 33, 12, 21), ("in vain", 30, 9, 21), ("resolved", 54, 6, 0), ("avg", 30, 9, 21), ("pass", 39, 0, 21)],
)  # fmt: skip
def test_the_counts_are_those_of_the_rows(
    runs: dict[str, Rows], name: str, evaluated: int, unavailable: int, invalidated: int
) -> None:
    counts = runs[name].metrics["counts"]
    assert counts["total"] == evaluated + unavailable + invalidated
    assert (counts["evaluated"], counts["unavailable"], counts["invalidated"]) == (
        evaluated,
        unavailable,
        invalidated,
    )


@pytest.mark.parametrize(("name", "code"), [("no budget", 1), ("in vain", 1), ("resolved", 0), ("avg", 1), ("pass", 1)])  # fmt: skip
def test_the_exit_code_says_whether_anything_is_fatal(runs: dict[str, Rows], name: str, code: int) -> None:
    runs[name].ended.expect(code)
    report = runs[name].metrics
    assert report["evaluation_failed"] is (code == 1)
    for series in report["series"]:
        assert (series["value"] is None) is (code == 1)


def test_every_retry_is_told_in_the_progress_file(runs: dict[str, Rows]) -> None:
    told = [event for event in runs["in vain"].events if event["event"] == "attempt_retry"]
    assert len(told) == sum(TABLE[phase, what].retried for phase, what, _ in CELLS) == 30
    assert {event["payload"]["matched_pattern"] for event in told} == {"fatal", "acme.transient"}


def test_an_expected_failure_is_no_traceback_in_the_log_of_its_worker(
    runs: dict[str, Rows], embedded_home: Path
) -> None:
    for run in runs.values():
        launch = re.search(r"^Launch: (\S+) ", run.ended.stdout, re.MULTILINE)
        assert launch is not None
        assert "Traceback" not in (embedded_home / "workers" / f"{launch[1]}.log").read_text()


def test_no_environment_is_left(runs: dict[str, Rows], embedded_home: Path) -> None:
    folder = embedded_home / "environments" / "host_process"
    assert [
        path.name for path in folder.iterdir() if path.is_dir() and path.name.startswith("ac-evaluate-")
    ] == []
