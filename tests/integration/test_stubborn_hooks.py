"""Hooks that cannot be ended: their attempts go on without them, and so does the end of their worker."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from command_line import CommandLine, is_alive, running_with, wait_for
from row_runs import finish, make_command_line, start_rows
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client

from agentcompass.contracts.workflows import NAMESPACE, launch_workflow_id

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


def test_at_deadline_and_grace_all_is_over_whatever_ignores_them(embedded_home: Path, tmp_path: Path) -> None:
    """A process that ignores signals to end, and a hook for closing that goes on although it is cancelled."""
    line = make_command_line(embedded_home, tmp_path)
    mark = tmp_path / "deaf"
    deaf = f"trap '' TERM INT HUP; touch {mark}; (trap '' TERM; exec tail -f {mark}) & tail -f {mark}"
    tasks = [
        {"id": "deaf", "do": {"execute_task": f"sh:{deaf}", "close_session": "stubborn"}},
        {"id": "well"},
    ]
    (tmp_path / "grace.yaml").write_text("runtime: {timeout_seconds: 8, cleanup_grace_seconds: 4}\n")
    try:
        running = start_rows(
            line,
            tasks,
            *("--config", "grace.yaml", "--progress", "plain"),
            benchmark="rows_slow",
            harness="rows_slow",
        )
        launch, worker = running.launch_id, running.worker_pid
        run = finish(line, running)
        run.ended.expect(1)
        assert "Status: timed_out" in run.ended.stdout
        info = json.loads((run.run_dir / "run_info.json").read_bytes())
        assert (info["status"], info["error"]) == ("timed_out", "the launch ran for 8 s (timeout_seconds)")
        assert mark.exists() and running_with(str(mark)) == []
        assert (run.correct("well"), run.state("deaf")) == (True, "unavailable")
        told = [(event["event"], event["task_id"]) for event in run.events]
        assert told[-2:] == [("summary_started", None), ("run_finished", None)]
        assert ("attempt_finished", "well") in told and ("attempt_finished", "deaf") not in told
        order = asyncio.run(history_of(line, launch))
        deadline, child = order.index("TIMER_FIRED"), order.index("CHILD_WORKFLOW_EXECUTION_COMPLETED")
        assert deadline < order.index("SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED", deadline) < child
        assert order[-1] == "WORKFLOW_EXECUTION_COMPLETED"
        wait_for("the worker to leave", lambda: not is_alive(worker))
        assert line.run("env", "list", "--launch", launch, "--json").expect(0).json == []
    finally:
        line.end_all()


async def history_of(line: CommandLine, launch: str) -> list[str]:
    """The kinds of events of a launch workflow, in order."""
    client = await Client.connect(f"127.0.0.1:{line.server_port}", namespace=NAMESPACE)
    history = await client.get_workflow_handle(launch_workflow_id(launch)).fetch_history()
    return [EventType.Name(event.event_type).removeprefix("EVENT_TYPE_") for event in history.events]
