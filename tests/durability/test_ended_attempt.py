"""``kill -9`` of the worker after an operator ended an attempt, and before that was carried out."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from command_line import CommandLine, kill_and_wait, wait_for
from gated_runs import start_gated
from gates import Gates
from run_directory import assert_progress_is_whole


@pytest.fixture
def gates(command_line: CommandLine) -> Gates:
    return Gates(command_line.folder / "gates")


def test_a_decision_outlives_the_worker_that_was_told(command_line: CommandLine, gates: Gates) -> None:
    gates.close("stalled", "execute_task")
    gates.close("stalled", "collect_result")
    running = start_gated(command_line, gates, tasks=["stalled"])
    gates.wait("stalled", "execute_task")
    shown = command_line.run("logs", "stalled", "--json").expect(0)
    steps = [json.loads(line)["step"]["message"] for line in shown.stdout.splitlines()]
    assert steps == ["turn 1", "turn 2"]
    assert shown.stderr.startswith("Attempt 1 is ")

    command_line.run("end", "stalled", "--reason", "enough").expect(0)
    worker = gates.wait(
        "stalled", "collect_result"
    )  # the agent was cancelled: it never came to its third turn
    kill_and_wait(worker)
    gates.open("stalled", "collect_result")

    running.wait().expect(0)
    calls = gates.calls()
    assert calls["stalled", "execute_task", "began"] == 1
    assert calls["stalled", "turn_3", "began"] == 0
    assert calls["stalled", "collect_result", "began"] == 2
    [run_dir] = command_line.run_dirs
    [attempt] = json.loads((run_dir / "details" / "stalled.json").read_bytes())["attempts"].values()
    assert [issue["message"] for issue in attempt["issues"]] == [
        "run_harness was ended by an operator: enough"
    ]
    assert attempt["metrics"] == {"correct": True}  # what the first turns left was right
    assert_progress_is_whole(run_dir)


def test_status_tells_how_long_ago_an_agent_took_its_last_step(
    command_line: CommandLine, gates: Gates
) -> None:
    gates.close("slow", "execute_task")
    running = start_gated(command_line, gates, tasks=["slow"])
    gates.wait("slow", "execute_task")

    def look() -> dict[str, Any] | None:
        [request] = command_line.run("status", running.launch_id, "--json").expect(0).json["requests"]
        return next((item for item in request["running_tasks"] if item["phase"] == "run_harness"), None)

    task = wait_for("the phase in the snapshot", look)
    assert task["task_id"] == "slow"
    assert 0 <= task["last_step_seconds"] <= task["phase_seconds"]
    told = command_line.run("status", running.launch_id).expect(0).stdout
    assert re.search(r"slow a1: run_harness for \d+ s, last step \d+ s ago", told)
    gates.open("slow", "execute_task")
    running.wait().expect(0)


def test_a_log_is_followed_to_the_end_of_its_attempt(command_line: CommandLine, gates: Gates) -> None:
    gates.close("slow", "execute_task")
    running = start_gated(command_line, gates, tasks=["slow"])
    gates.wait("slow", "execute_task")
    following = command_line.start("logs", "slow", "--follow", "--last", "1", "--launch", running.launch_id)
    gates.open("slow", "execute_task")
    followed = following.wait().expect(0)
    running.wait().expect(0)
    headlines = [line for line in followed.stdout.splitlines() if "step" in line]
    assert [line.partition("] ")[2] for line in headlines][-1] == "step 3 · agent"
    assert followed.stderr == "Attempt 1 ended: completed\n"
    # Afterwards the same is read from the result.
    [run_dir] = command_line.run_dirs
    again = command_line.run("logs", "slow", "--run-dir", str(run_dir), "--last", "1").expect(0)
    assert again.stdout.splitlines()[0].endswith("] step 3 · agent")
    assert again.stdout.splitlines()[1] == "  turn 3"
