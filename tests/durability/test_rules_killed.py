"""``kill -9`` of the worker in the middle of a rule that has no activity under way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import CommandLine, kill_and_wait, wait_for
from row_runs import finish, make_command_line, start_rows

BACK_OFF_SECONDS = 8.0
"""Enough for a kill and a new worker."""


@pytest.fixture
def rows_command_line(embedded_home: Path, tmp_path: Path) -> Iterator[CommandLine]:
    command_line = make_command_line(embedded_home, tmp_path / "rows")
    yield command_line
    command_line.end_all()


def test_a_worker_killed_in_the_wait_for_a_retry_neither_repeats_nor_renews_anything(
    rows_command_line: CommandLine,
) -> None:
    executions = rows_command_line.folder / "executions"
    task = {
        "id": "t",
        "do": {"execute_task": f"sh:echo began >> {executions}", "collect_result": "fatal:acme.down"},
    }
    waits = {"retry_min_delay_seconds": BACK_OFF_SECONDS, "retry_max_delay_seconds": BACK_OFF_SECONDS}
    running = start_rows(
        rows_command_line, [task], "--progress", "plain", execution={"max_retries": 1, **waits}
    )
    wait_for(
        "the discarded execution", lambda: list(rows_command_line.results.glob("*/*/retry_details/*.json"))
    )
    kill_and_wait(running.worker_pid)
    run = finish(rows_command_line, running)
    assert executions.read_text().split() == ["began", "began"]
    assert (run.retry_count("t"), len(run.retries("t"))) == (1, 1)
    assert [code for _, _, code in run.issues("t")] == ["acme.down"]
