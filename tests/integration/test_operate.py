"""Operating a running launch through the command line: several requests, limits, single requests and tasks, retries."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from command_line import CommandLine, Running, kill_and_wait, wait_for
from gates import Gates
from model_answers import Reply
from model_server import ModelServer
from run_directory import events, status_of

from agentcompass import worker
from agentcompass.activities.data_converter import data_converter
from agentcompass.cli.connection import ConnectionConfig, connect
from agentcompass.contracts.errors import UsageError
from agentcompass.contracts.workflows import NAMESPACE

PLAN = """
version: 1
name: pair
task_concurrency: {concurrency}
runtime: {{heartbeat_timeout_seconds: 4, cleanup_grace_seconds: 20, progress: plain}}
defaults:
  harness: {{id: gated}}
  environment: {{id: gated}}
  model: {{id: none}}
requests:
  - name: first
    benchmark: {{id: gated, tasks: [a1, a2]}}
  - name: second
    benchmark: {{id: gated, tasks: [b1, b2]}}
"""


@pytest.fixture
def gates(command_line: CommandLine) -> Gates:
    return Gates(command_line.folder / "gates")


def launch_pair(command_line: CommandLine, gates: Gates, concurrency: int) -> Running:
    plan = command_line.folder / "plan.yaml"
    plan.write_text(PLAN.format(concurrency=concurrency), encoding="utf-8")
    return command_line.start("launch", str(plan), env=gates.env)


def summary_of(command_line: CommandLine) -> dict[str, Any]:
    [path] = (command_line.results / "launches").glob("*/launch_summary.json")
    found: dict[str, Any] = json.loads(path.read_bytes())
    return found


def test_a_second_request_begins_in_the_slots_that_the_first_leaves(
    command_line: CommandLine, gates: Gates
) -> None:
    for task in ("a1", "a2", "b1"):
        gates.close(task, "execute_task")
    running = launch_pair(command_line, gates, 3)
    for task in ("a1", "a2", "b1"):
        gates.wait(task, "execute_task")
    status = command_line.run("status", running.launch_id, "--json").expect(0).json
    assert [item["running_attempts"] for item in status["requests"]] == [2, 1]
    for task in ("a1", "a2", "b1"):
        gates.open(task, "execute_task")
    ended = running.wait().expect(0)

    assert "launch_summary.md" in ended.stdout
    summary = summary_of(command_line)
    assert (summary["status"], summary["name"]) == ("completed", "pair")
    assert [(item["name"], item["status"], item["value"]) for item in summary["requests"]] == [
        ("first", "completed", 1.0),
        ("second", "completed", 1.0),
    ]
    assert all((command_line.results / item["run_dir"]).is_dir() for item in summary["requests"])


def test_the_concurrency_of_a_running_launch_can_be_changed(command_line: CommandLine, gates: Gates) -> None:
    for task in ("a1", "a2", "b1", "b2"):
        gates.close(task, "execute_task")
    running = launch_pair(command_line, gates, 1)
    gates.wait("a1", "execute_task")
    launch = running.launch_id
    said = command_line.run("set", launch, "--task-concurrency", "4", "provider-limit=gated=3").expect(0)
    assert "task-concurrency=4" in said.stdout
    for task in ("a2", "b1"):
        gates.wait(task, "execute_task")
    assert "4 attempts at a time, gated 3" in command_line.run("status", launch).expect(0).stdout
    for task in ("a1", "a2", "b1", "b2"):
        gates.open(task, "execute_task")
    running.wait().expect(0)
    assert "nothing to do" in command_line.run("set", launch, "task-concurrency=2").expect(0).stdout


def test_one_request_is_cancelled_and_the_other_goes_on(command_line: CommandLine, gates: Gates) -> None:
    gates.close("a1", "execute_task")
    running = launch_pair(command_line, gates, 1)
    gates.wait("a1", "execute_task")
    launch = running.launch_id
    wrong = command_line.run("cancel", launch, "--request", "frist").expect(2)
    assert "did you mean 'first'?" in wrong.stderr
    command_line.run("cancel", launch, "--request", "first").expect(0)
    ended = running.wait().expect(1)
    assert "cancelled by `agentcompass cancel --request`" in ended.stdout
    states = {path.parent.name: status_of(path) for path in command_line.run_dirs}
    assert states == {"first": "cancelled", "second": "completed"}
    assert summary_of(command_line)["status"] == "partial_failure"


def test_a_paused_launch_starts_nothing_until_it_is_resumed(command_line: CommandLine, gates: Gates) -> None:
    gates.close("a1", "execute_task")
    running = launch_pair(command_line, gates, 1)
    gates.wait("a1", "execute_task")
    launch = running.launch_id
    command_line.run("pause", launch, "--reason", "no money").expect(0)
    gates.open("a1", "execute_task")

    def stands() -> bool:
        told = command_line.run("status", launch, "--json").expect(0).json
        return told["state"] == "paused" and told["requests"][0]["running_attempts"] == 0

    wait_for("what ran to end", stands)
    assert "no money" in command_line.run("status", launch).expect(0).stdout
    worker = running.worker_pid
    running.kill()
    kill_and_wait(worker)
    unserved = command_line.run("status", launch).expect(0).stdout
    listed = command_line.run("list", "--json").expect(0).json
    assert {item["launch_id"]: item["status"] for item in listed}[launch] == "paused"
    assert "(paused)" in unserved and "no money" in unserved and "no worker runs" in unserved
    assert not {entry.task for entry in gates.entries()} & {"a2", "b1"}
    command_line.run("resume", launch, env=gates.env).expect(0)
    command_line.run("attach", launch, env=gates.env).expect(0)


def test_commands_with_nothing_to_do_say_why_and_change_nothing(
    command_line: CommandLine, gates: Gates
) -> None:
    gates.close("a1", "execute_task")
    running = launch_pair(command_line, gates, 1)
    gates.wait("a1", "execute_task")
    launch = running.launch_id
    said = command_line.run("retry", launch, "--failed").expect(0).stdout
    assert "no task of a running request has failed so far" in said
    assert "task-concurrency=N" in command_line.run("set", launch).expect(2).stderr
    [line] = command_line.run("set", launch, "provider-limit=gatde=1").expect(2).errors
    assert "has environment 'gatde'; did you mean 'gated'?" in line
    [line] = command_line.run("cancel", launch, "--request", "second", "--task", "b1").expect(2).errors
    assert "request 'second' of launch" in line and "has not begun" in line
    command_line.run("cancel", launch, "--request", "second").expect(0)
    for task in ([], ["--task", "b1"]):
        again = command_line.run("cancel", launch, "--request", "second", *task).expect(0).stdout
        assert again == f"Request second of launch {launch} is over already; there is nothing to do.\n"
    gates.open("a1", "execute_task")
    running.wait().expect(1)
    over = command_line.run("cancel", launch, "--request", "second").expect(0).stdout
    assert over == f"Launch {launch} is over already; there is nothing to do.\n"
    assert f"agentcompass retry {launch} --failed" in command_line.run("resume", launch).expect(0).stdout
    assert [item["status"] for item in summary_of(command_line)["requests"]] == ["completed", "cancelled"]


def test_one_task_is_cancelled_and_its_request_goes_on(command_line: CommandLine, gates: Gates) -> None:
    gates.close("a1", "execute_task")
    running = launch_pair(command_line, gates, 1)
    gates.wait("a1", "execute_task")
    launch = running.launch_id
    assert "say --request" in command_line.run("cancel", launch, "--task", "a1").expect(2).stderr.lower()
    missing = command_line.run("cancel", launch, "--request", "first", "--task", "a9").expect(2)
    assert "there is no task 'a9'" in missing.stderr
    for task in ("a2", "a1"):  # one that waits, one that runs
        command_line.run("cancel", launch, "--request", "first", "--task", task).expect(0)
    running.wait()
    first = next(path for path in command_line.run_dirs if path.parent.name == "first")
    for task in ("a1", "a2"):
        attempt = json.loads((first / "details" / f"{task}.json").read_bytes())["attempts"]["1"]
        assert attempt["status"] == "cancelled"
        assert [(issue["code"], issue["message"]) for issue in attempt["issues"]] == [
            ("cancelled", "cancelled by an operator")
        ]
    assert status_of(first) == "completed"


ROWS = [
    {"id": "good", "question": "good?", "answer": "ok"},
    {"id": "bad", "question": "bad?", "answer": "ok"},
    {"id": "slow", "question": "slow?", "answer": "ok"},
]


KEY = {"THE_KEY": "k-0123456789"}


def start_model_run(
    command_line: CommandLine, server: ModelServer, key: str = "${THE_KEY}", concurrency: int = 1
) -> Running:
    return command_line.start(
        *("run", "qa", "openai_chat", "m", "--benchmark-params", command_line.dataset(ROWS)),
        *("--model-base-url", server.base_url, "--model-api-key", key, "--progress", "plain"),
        *("--model-api-protocol", "openai-chat", "--model-params", '{"max_attempts": 1}'),
        *("--env", "host_process", "--task-concurrency", str(concurrency)),
        env=KEY,
    )  # fmt: skip


def records(run_dir: Path) -> set[str]:
    return {path.name for path in (run_dir / "details").iterdir()}


async def test_failed_tasks_of_a_running_launch_are_executed_again_in_the_same_run(
    command_line: CommandLine,
) -> None:
    async with ModelServer() as server:
        server.script("bad?", Reply(status=500))
        server.script("slow?", Reply("ok", hang=True))
        server.script("good?", Reply("ok"))
        running = await asyncio.to_thread(start_model_run, command_line, server)
        launch = await asyncio.to_thread(lambda: running.launch_id)
        [run_dir] = await asyncio.to_thread(wait_for, "a run", lambda: command_line.run_dirs)
        await asyncio.to_thread(
            wait_for, "a failed task", lambda: (run_dir / "details" / "_error_bad.json").exists()
        )
        await asyncio.to_thread(wait_for, "the last task", lambda: server.counts["slow?"])
        server.script("bad?", Reply("ok"))
        said = await asyncio.to_thread(lambda: command_line.run("retry", launch, "--failed").expect(0))
        assert "queued again" in said.stdout
        server.release()
        ended = await asyncio.to_thread(running.wait)
    ended.expect(0)
    assert "3/3 tasks evaluated" in ended.stdout
    assert records(run_dir) == {"good.json", "bad.json", "slow.json"}
    assert [path.name for path in (run_dir / "retry_details").iterdir()] == ["bad.record1.json"]
    progress = json.loads((run_dir / "progress.json").read_bytes())
    assert (progress["finished_tasks"], progress["failed_tasks"]) == (3, 0)
    starts = [event for event in events(run_dir) if event["event"] == "task_started"]
    assert [event["task_id"] for event in starts] == ["good", "bad", "slow", "bad"]
    assert starts[-1]["payload"]["reopened"] == {"status": "failed", "severity": "fatal"}


async def test_a_task_that_is_executed_again_has_a_living_environment_and_can_be_ended(
    command_line: CommandLine,
) -> None:
    async with ModelServer() as server:
        server.script("bad?", Reply(status=500))
        server.script("slow?", Reply("ok", hang=True))
        server.script("good?", Reply("ok"))
        running = await asyncio.to_thread(start_model_run, command_line, server, concurrency=2)
        launch = await asyncio.to_thread(lambda: running.launch_id)
        [run_dir] = await asyncio.to_thread(wait_for, "a run", lambda: command_line.run_dirs)
        await asyncio.to_thread(
            wait_for, "a failed task", lambda: (run_dir / "details" / "_error_bad.json").exists()
        )
        server.script("bad?", Reply("ok", hang=True))
        await asyncio.to_thread(lambda: command_line.run("retry", launch, "--failed").expect(0))
        await asyncio.to_thread(wait_for, "it again", lambda: server.counts["bad?"] == 2)

        def living() -> set[str]:
            command_line.run("env", "release", "--all-closed").expect(0)
            listed = command_line.run("env", "list", "--launch", launch, "--json").expect(0).json
            return {item["task"] for item in listed if item["state"] == "live"}

        assert await asyncio.to_thread(living) == {"bad", "slow"}
        await asyncio.to_thread(lambda: command_line.run("end", "bad", "--reason", "too long").expect(0))
        record = await asyncio.to_thread(
            wait_for, "its record", lambda: next((run_dir / "details").glob("*bad.json"), None)
        )
        server.release()
        await asyncio.to_thread(running.wait)
    [issue] = json.loads(record.read_bytes())["attempts"]["1"]["issues"]
    assert issue["code"] == "ended_by_operator"


async def test_a_finished_launch_is_followed_by_one_that_repeats_what_failed(
    command_line: CommandLine,
) -> None:
    async with ModelServer() as server:
        server.script("", Reply("ok"))
        server.script("bad?", Reply(status=500))
        running = await asyncio.to_thread(start_model_run, command_line, server)
        launch = await asyncio.to_thread(lambda: running.launch_id)
        (await asyncio.to_thread(running.wait)).expect(1)
        server.script("bad?", Reply("ok"))
        again = await asyncio.to_thread(
            lambda: command_line.run("retry", launch, "--failed", "--json", env=KEY).expect(0)
        )
        calls = dict(server.counts)
    assert (calls["good?"], calls["slow?"]) == (1, 1)
    [request] = again.json["requests"]
    assert (request["status"], request["evaluated_tasks"]) == ("completed", 3)
    assert len(command_line.run_dirs) == 2

    said = await asyncio.to_thread(lambda: command_line.run("retry", again.json["launch_id"], "--failed"))
    assert "nothing to do" in said.expect(0).stdout


async def test_a_launch_whose_key_was_removed_with_it_is_not_repeated_without_one(
    command_line: CommandLine,
) -> None:
    async with ModelServer() as server:
        server.script("", Reply(status=500))
        running = await asyncio.to_thread(start_model_run, command_line, server, "k-0123456789")
        launch = await asyncio.to_thread(lambda: running.launch_id)
        (await asyncio.to_thread(running.wait)).expect(1)
        refused = await asyncio.to_thread(command_line.run, "retry", launch, "--failed")
    [line] = refused.expect(2).errors
    assert "repeat it with the key" in line


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["set", "x", "task-concurency=3"], "did you mean 'task-concurrency'?"),
        (["set", "x", "task-concurrency=0"], "task-concurrency: "),
        (["set", "x", "task-concurrency=many"], "'many' is not a whole number"),
        (["set", "x", "provider-limit=docker"], "expected provider-limit=ENVIRONMENT=N"),
        (["set", "x", "task-concurrency=3"], "there is no launch 'x'"),
        (["retry", "x"], "agentcompass retry LAUNCH --failed"),
        (["retry", "x", "--failed"], "there is no launch 'x'"),
        (["cancel", "x", "--task", "t"], "there is no launch 'x'"),
        (["run", "humaneval", "oracle", "none", "--max-unevaluated", "0", "--detach"], "nobody waits"),
    ],
)
def test_bad_usage_is_refused_with_one_line(
    arguments: list[str], message: str, command_line: CommandLine
) -> None:
    [line] = command_line.run(*arguments).expect(2).errors
    assert message in line


async def test_a_worker_for_a_launch_that_there_is_not_says_so(
    embedded_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "LAUNCH_PATIENCE_SECONDS", 0.0)
    connection = await connect(
        ConnectionConfig("embedded", NAMESPACE, None), data_converter=data_converter(), home=embedded_home
    )
    with pytest.raises(UsageError, match="there is no launch 'nope' for which a worker could wait"):
        await worker._until_closed(connection, "nope")
