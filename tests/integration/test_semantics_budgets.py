"""A budget that is used up names itself, and nothing of what it stopped runs any more.

The environments are kept, so that nothing ends only because its environment is removed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from command_line import CommandLine, running_with
from row_runs import Rows, finish, make_command_line, start_rows

SECONDS = 4.0
"""Of each budget; no other task comes near it, however slow the machine is."""


MARKS = ("left", "waited")
"""What each task has when its budget ends: a process that nobody waits for, and one that a hook waits for."""


@dataclass(frozen=True)
class Budget:
    """A budget that a hook uses up."""

    hook: str
    issue: tuple[str, str, str]
    message: str
    row: dict[str, Any]
    correct: bool | None


BUDGETS = {
    "run": Budget(
        "execute_task",
        ("error", "run", "harness_timeout"),
        "the run budget of 4 s (run_timeout_seconds) is used up",
        {"run_timeout_seconds": SECONDS},
        True,
    ),
    "result": Budget(
        "collect_result",
        ("fatal", "collect", "result_collection_failed"),
        "the budget of 4 s for collecting the result (harness_result_timeout_seconds) is used up",
        {},
        None,
    ),
    "evaluation": Budget(
        "evaluate",
        ("error", "evaluate", "evaluation_timeout"),
        "the evaluation budget of 4 s (evaluation_timeout_seconds) is used up",
        {"evaluation_timeout_seconds": SECONDS},
        None,
    ),
}


def leave(mark: Path) -> str:
    """A command that is over at once, and leaves a process of its own session."""
    return f"sh:touch '{mark}'; setsid tail -f '{mark}' > /dev/null 2>&1 &"


def wait(mark: Path) -> str:
    """A command that never ends."""
    return f"sh:touch '{mark}'; exec tail -f '{mark}'"


def look_for_them(folder: Path) -> str:
    """Write down which of such processes live, seen from inside of the environment."""
    lines = "cat /proc/[0-9]*/cmdline 2> /dev/null | tr '\\0' ' '"
    return f"sh:{lines} | grep -o '[t]ail -f {folder}' > '{folder}/seen'"


@pytest.fixture(scope="module")
def runs(embedded_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Rows]]:
    """Phases that share a step, and phases that are activities of their own."""
    lines = {
        name: make_command_line(embedded_home, tmp_path_factory.mktemp("budgets"))
        for name in ("rows", "rows_slow")
    }

    def run(name: str) -> Rows:
        line = lines[name]
        rows: list[dict[str, Any]] = []
        for task, budget in BUDGETS.items():
            marks = [line.folder / f"{task}.{name}" for name in MARKS]
            do = {"start_session": leave(marks[0]), budget.hook: wait(marks[1])}
            rows.append({"id": task, "mode": "reuse", "do": do, **budget.row})
        rows[0]["do"]["collect_result"] = look_for_them(line.folder)
        rows.append({"id": "judged", "mode": "reuse", "do": {"evaluate": leave(line.folder / "judged.left")}})
        rows.append(
            {"id": "apart", "mode": "none", "do": {"execute_task": leave(line.folder / "apart.left")}}
        )
        execution = {"harness_result_timeout_seconds": SECONDS, "keep_environment": True}
        return finish(line, start_rows(line, rows, benchmark=name, harness=name, execution=execution))

    try:
        with ThreadPoolExecutor(2) as pool:
            yield dict(zip(lines, pool.map(run, lines), strict=True))
    finally:
        for line in lines.values():
            line.end_all()
            release(line)


def release(line: CommandLine) -> None:
    """Remove the kept environments of a command line's run."""
    for run_dir in line.run_dirs:
        launch = json.loads((run_dir / "run_info.json").read_bytes())["launch_id"]
        line.run("env", "release", "--launch", launch).expect(0)


EVERY = pytest.mark.parametrize(
    ("kind", "task"), [(kind, task) for kind in ("rows", "rows_slow") for task in BUDGETS]
)


@EVERY
def test_it_names_itself(runs: dict[str, Rows], kind: str, task: str) -> None:
    run, budget = runs[kind], BUDGETS[task]
    assert run.issues(task) == [budget.issue]
    assert run.message(task) == budget.message
    assert run.correct(task) is budget.correct


@EVERY
def test_nothing_of_what_it_stopped_is_left(runs: dict[str, Rows], kind: str, task: str) -> None:
    folder = runs[kind].run_dir.parents[2]
    for name in MARKS:
        assert (folder / f"{task}.{name}").exists()
        assert running_with(str(folder / f"{task}.{name}")) == []


@pytest.mark.parametrize("kind", ["rows", "rows_slow"])
def test_an_agent_whose_time_is_up_is_gone_before_its_result_is_collected(
    runs: dict[str, Rows], kind: str
) -> None:
    assert (runs[kind].run_dir.parents[2] / "seen").read_text() == ""


@pytest.mark.parametrize(
    ("kind", "task"), [(kind, task) for kind in ("rows", "rows_slow") for task in ("judged", "apart")]
)
def test_a_kept_environment_is_at_rest_whether_it_was_judged_in_or_not(
    runs: dict[str, Rows], kind: str, task: str
) -> None:
    mark = runs[kind].run_dir.parents[2] / f"{task}.left"
    assert (runs[kind].issues(task), runs[kind].correct(task)) == ([], True)
    assert mark.exists()
    assert running_with(str(mark)) == []
