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


def endless(folder: Path, name: str) -> str:
    """One process that leaves its session, and one that is waited for; both have the folder in their arguments."""
    left, waited = folder / f"{name}.left", folder / f"{name}.waited"
    return f"sh:touch '{left}' '{waited}'; setsid tail -f '{left}' > /dev/null 2>&1 & exec tail -f '{waited}'"


@pytest.fixture(scope="module")
def runs(embedded_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Rows]]:
    """Phases that share a step, and phases that are activities of their own."""
    lines = {
        name: make_command_line(embedded_home, tmp_path_factory.mktemp("budgets"))
        for name in ("rows", "rows_slow")
    }

    def run(name: str) -> Rows:
        line = lines[name]
        rows = [
            {"id": task, "mode": "reuse", "do": {budget.hook: endless(line.folder, task)}, **budget.row}
            for task, budget in BUDGETS.items()
        ]
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
    for name in (f"{task}.left", f"{task}.waited"):
        assert (folder / name).exists()
        assert running_with(str(folder / name)) == []
