"""Hooks that cannot be ended: their attempts go on without them, and so does the end of their worker."""

from __future__ import annotations

from pathlib import Path

from command_line import is_alive, wait_for
from row_runs import finish, make_command_line, start_rows

TASKS = [
    {"id": "stubborn", "do": {"execute_task": "stubborn"}, "run_timeout_seconds": 0.5},
    {"id": "hangs", "do": {"evaluate": "hang"}, "evaluation_timeout_seconds": 0.5},
    {"id": "well"},
]


def test_a_verifier_that_blocks_its_worker_costs_its_own_score_only(
    embedded_home: Path, tmp_path: Path
) -> None:
    """Not declared ``@blocking``, it stops everything in its worker, which ends itself; the next one goes on."""
    line = make_command_line(embedded_home, tmp_path)
    tasks = [{"id": "blocks", "do": {"evaluate": "hang"}}, {"id": "well"}]
    try:
        run = finish(line, start_rows(line, tasks, env={"AGENTCOMPASS_LOOP_LIMIT_SECONDS": "2"}))
        run.ended.expect(0)
        assert run.issues("blocks") == [("error", "evaluate", "evaluation_failed")]
        assert run.message("blocks").startswith(
            "evaluate: a hook blocked the event loop of its worker 2 times"
        )
        assert (run.state("blocks"), run.correct("blocks")) == ("unavailable", None)
        assert run.correct("well")
        logs = [log.read_text(errors="replace") for log in (embedded_home / "workers").glob("*.log")]
        assert any("the event loop has not turned for 2 s, evaluate blocks it" in log for log in logs)
    finally:
        line.end_all()


def test_a_worker_leaves_although_hooks_of_it_do_not_end(embedded_home: Path, tmp_path: Path) -> None:
    line = make_command_line(embedded_home, tmp_path)
    try:
        running = start_rows(
            line, TASKS, "--progress", "plain", benchmark="rows_blocking", harness="rows_slow"
        )
        worker = running.worker_pid
        run = finish(line, running)
        left = ("warning", "cleanup", "cleanup_failed")
        assert left in run.issues("stubborn") and left in run.issues("hangs")
        assert ("error", "run", "harness_timeout") in run.issues("stubborn")
        assert ("error", "evaluate", "evaluation_timeout") in run.issues("hangs")
        assert run.correct("well")
        wait_for("the worker to leave", lambda: not is_alive(worker))
    finally:
        line.end_all()
