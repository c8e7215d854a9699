"""An operator ends attempts that have stalled: each keeps what it has, and the run is final.

One run without and one with a harness, and one whose attempts are executed in one step, each a task for every phase that
can stall; they stall at the same time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from command_line import CommandLine, Ended, Running, running_with, wait_for
from row_runs import Rows, finish, make_command_line, start_rows

REASON = "no\tprogress since\nlunch"
HARNESS = ("rows_slow", "rows_slow")
FREE = ("rows_free_slow", "none")


def stalling(folder: Path, name: str) -> str:
    """A command that says that it runs, and runs for longer than any test."""
    return f"sh:touch {mark_of(folder, name)}; exec tail -f {mark_of(folder, name)}"


def mark_of(folder: Path, name: str) -> Path:
    """A file that says so; its path is in the command line of the process."""
    return folder / f"{name}.stalled"


class Stalled:
    """A run whose tasks have all stalled; ended one by one by the operator."""

    def __init__(
        self, line: CommandLine, kind: tuple[str, str], hooks: dict[str, str], **settings: Any
    ) -> None:
        self.line = line
        self.answers: dict[str, Ended] = {}
        self.names = list(hooks)
        tasks = [
            {"id": name, "mode": "reuse", "do": {hook: stalling(line.folder, name)}}
            for name, hook in hooks.items()
        ]
        self.running: Running = start_rows(
            line, [*tasks, {"id": "well"}], benchmark=kind[0], harness=kind[1], execution=settings
        )
        for name in hooks:
            wait_for(f"{name} to stall", mark_of(line.folder, name).exists)

    def end_all(self) -> Rows:
        """End every stalled task, and wait for the end of the run."""
        for name in self.names:
            self.answers[name] = self.line.run("end", name, "--reason", REASON)
        return finish(self.line, self.running)


@pytest.fixture(scope="module")
def stalled(
    embedded_home: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, tuple[Stalled, Rows]]]:
    """Both runs, over."""
    plans: dict[str, tuple[tuple[str, str], dict[str, str]]] = {
        "harness": (
            HARNESS,
            {
                "h-prepare": "prepare_task",
                "h-start": "start_session",
                "h-run": "execute_task",
                "h-judge": "evaluate",
            },
        ),
        "free": (FREE, {"f-run": "run_task"}),
        "quick": (("rows", "rows"), {"q-run": "execute_task", "q-judge": "evaluate"}),
    }
    lines = {name: make_command_line(embedded_home, tmp_path_factory.mktemp(name)) for name in plans}

    def run(name: str) -> tuple[Stalled, Rows]:
        kind, hooks = plans[name]
        # Neither an ERROR's pattern nor a budget brings back what an operator has ended.
        found = Stalled(lines[name], kind, hooks, max_retries=2, retry_pattern_list=["ended", "operator"])
        return found, found.end_all()

    try:
        with ThreadPoolExecutor(3) as pool:
            yield dict(zip(plans, pool.map(run, plans), strict=True))
    finally:
        for line in lines.values():
            line.end_all()


EVERY = pytest.mark.parametrize(
    ("name", "task", "phase", "issue_phase", "correct"),
    [
        ("harness", "h-run", "run_harness", "run", True),
        ("harness", "h-start", "run_harness", "run", False),
        ("free", "f-run", "run_task", "run", False),
        ("harness", "h-prepare", "prepare_task", "setup", None),
        ("harness", "h-judge", "evaluate", "evaluate", None),
        ("quick", "q-run", "run_harness", "run", True),
        ("quick", "q-judge", "evaluate", "evaluate", None),
    ],
)


@EVERY
def test_an_ended_attempt_keeps_what_it_has_beside_an_error(
    stalled: dict[str, tuple[Stalled, Rows]],
    name: str,
    task: str,
    phase: str,
    issue_phase: str,
    correct: bool | None,
) -> None:
    run = stalled[name][1]
    assert run.issues(task) == [("error", issue_phase, "ended_by_operator")]
    assert run.message(task) == f"{phase} was ended by an operator: no progress since lunch"
    assert run.correct(task) is correct
    assert run.state(task) == ("unavailable" if correct is None else "evaluated")


@EVERY
def test_its_processes_are_gone_and_it_is_not_executed_again(
    stalled: dict[str, tuple[Stalled, Rows]],
    name: str,
    task: str,
    phase: str,
    issue_phase: str,
    correct: bool | None,
) -> None:
    found, run = stalled[name]
    assert mark_of(found.line.folder, task).exists()
    assert running_with(str(mark_of(found.line.folder, task))) == []
    assert run.retry_count(task) == 0


@pytest.mark.parametrize("name", ["harness", "free", "quick"])
def test_the_run_is_final(stalled: dict[str, tuple[Stalled, Rows]], name: str) -> None:
    run = stalled[name][1]
    run.ended.expect(0)
    assert run.correct("well") is True
    assert run.metrics["evaluation_failed"] is False


def test_the_command_says_what_it_ends(stalled: dict[str, tuple[Stalled, Rows]]) -> None:
    told = stalled["harness"][0].answers["h-run"].expect(0).stdout
    assert told.startswith("Ending run_harness of attempt 1 of task 'h-run' (launch ")
    assert told.endswith("see: agentcompass logs h-run --attempt 1 --follow\n")
    told = stalled["quick"][0].answers["q-judge"].expect(0).stdout
    assert told.startswith("Ending the execution of attempt 1 of task 'q-judge' (launch ")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["h-run"], "Error: task 'h-run' is not running; it is over in launch "),
        (["h-run", "--attempt", "2"], "Error: attempt 2 of task 'h-run' is not running; "),
        (["no such 'task\""], "Error: task 'no such \\'task\"' is not running; "),
    ],
)
def test_what_does_not_run_is_refused_politely(
    stalled: dict[str, tuple[Stalled, Rows]], arguments: list[str], error: str
) -> None:
    refused = stalled["harness"][0].line.run("end", *arguments).expect(2)
    assert refused.stderr.startswith(error)
    assert refused.stdout == ""


def test_the_log_of_an_ended_attempt_tells_who_ended_it(stalled: dict[str, tuple[Stalled, Rows]]) -> None:
    found, run = stalled["harness"]
    told = found.line.run("logs", "h-run", "--run-dir", str(run.run_dir)).expect(0)
    assert told.stdout == ""
    assert told.stderr == (
        "Attempt 1 ended: run_error; error ended_by_operator: "
        "run_harness was ended by an operator: no progress since lunch\n"
    )
    assert json.loads((run.run_dir / "progress.json").read_bytes())["status"] == "completed"
