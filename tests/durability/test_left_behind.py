"""``kill -9`` of everything: what is left behind goes when its attempt is over, and not before."""

from __future__ import annotations

import asyncio
import json

import pytest
from command_line import CommandLine, Running, is_alive, kill_and_wait, wait_for
from gated_runs import start_gated, terminate_launch
from gates import Gates
from temporalio.client import Client

from agentcompass.contracts.workflows import NAMESPACE, launch_workflow_id

ROWS = [{"id": "q1", "question": "2 + 2?", "answer": "4"}]


def environments(command_line: CommandLine) -> set[str]:
    folder = command_line.home / "environments" / "host_process"
    return {path.name for path in folder.glob("ac-*")}


def start_and_stop_in_the_agent(command_line: CommandLine, name: str) -> tuple[Running, Gates, int]:
    """A run whose agent works, and its worker."""
    gates = Gates(command_line.folder / "gates")
    gates.close(name, "execute_task")
    running = start_gated(command_line, gates, "--run-id", name, tasks=[name])
    return running, gates, gates.wait(name, "execute_task")


def test_leftovers_of_dead_attempts_go_with_the_next_run_and_those_of_others_stay(
    secluded: CommandLine,
) -> None:
    command_line = secluded
    dead, _, dead_worker = start_and_stop_in_the_agent(command_line, "dead")
    paused, gates, paused_worker = start_and_stop_in_the_agent(command_line, "paused")
    dead_launch, paused_launch = dead.launch_id, paused.launch_id
    for running in (dead, paused):
        running.kill()
    for pid in (dead_worker, paused_worker, command_line.server_pid):
        kill_and_wait(pid)
    left = environments(command_line)
    assert len(left) == 2

    command_line.run("server", "start").expect(0)
    terminate_launch(command_line, dead_launch)
    arguments = ("run", "qa", "oracle", "none", "--benchmark-params", command_line.dataset(ROWS))
    command_line.run(*arguments, env=gates.env).expect(0)
    [still] = wait_for("the dead attempt's environment to go", lambda: one_of(environments(command_line)))
    assert still.startswith("ac-paused-")

    gates.open("paused", "execute_task")
    command_line.run("attach", paused_launch, env=gates.env).expect(0)
    wait_for("the end of all environments", lambda: not environments(command_line))


def one_of(names: set[str]) -> set[str] | None:
    return names if len(names) == 1 else None


def test_what_a_terminated_launch_left_goes_before_its_worker_does(secluded: CommandLine) -> None:
    """Terminated: no workflow closed anything."""
    command_line = secluded
    running, _, _ = start_and_stop_in_the_agent(command_line, "one")
    [name] = environments(command_line)
    folder = command_line.home / "environments" / "host_process" / name
    terminate_launch(command_line, running.launch_id)
    running.wait()
    wait_for("the environment to go", lambda: not folder.exists())


def test_attempts_of_a_request_that_was_terminated_go_before_the_worker_does(secluded: CommandLine) -> None:
    """With the local server: its launch is over at once, and nobody else would serve them."""
    running, _, worker = start_and_stop_in_the_agent(secluded, "one")
    asyncio.run(terminate_only(secluded, f"{launch_workflow_id(running.launch_id)}/1-gated-gated"))
    running.wait().expect(1)
    wait_for("the end of its worker", lambda: not is_alive(worker))
    assert environments(secluded) == set()


@pytest.mark.parametrize("how", ["the next run", "cancel"])
def test_what_a_launch_left_that_was_terminated_without_a_worker_is_told_and_cleaned_up(
    secluded: CommandLine, how: str
) -> None:
    running, gates, worker = start_and_stop_in_the_agent(secluded, "one")
    launch_id = running.launch_id
    running.kill()
    kill_and_wait(worker)
    asyncio.run(terminate_only(secluded, launch_workflow_id(launch_id)))

    def told() -> list[dict[str, str]]:
        found: list[dict[str, str]] = secluded.run("doctor", "--json").json["findings"]
        return [item for item in found if item["name"] == "left behind"]

    [finding] = wait_for("the server to list its end", told)
    assert launch_id in finding["detail"] and launch_id in finding["advice"]
    if how == "cancel":
        said = secluded.run("cancel", launch_id, env=gates.env).expect(0).stdout
        assert "what it left behind is now asked to end" in said
    else:
        arguments = ("run", "qa", "oracle", "none", "--benchmark-params", secluded.dataset(ROWS))
        secluded.run(*arguments, env=gates.env).expect(0)
    wait_for("the environment to go", lambda: not environments(secluded))
    [state] = secluded.results.glob("*/one/run_info.json")
    wait_for("its state", lambda: json.loads(state.read_bytes()).get("status") == "cancelled")


def test_requests_of_a_launch_of_many_that_was_terminated_end_and_clean_up(secluded: CommandLine) -> None:
    """Such a launch continues as new, so nothing of the server ends its requests with it."""
    count = 17
    plan = {
        "version": 1,
        "task_concurrency": 3,
        "defaults": {
            "benchmark": {"id": "command", "path": "tasks.jsonl"},
            "harness": {"id": "none"},
            "model": {"id": "none"},
        },
        "requests": [{"name": f"r{number}"} for number in range(count)],
    }
    secluded.dataset([{"id": "long", "command": "sleep 600"}])
    (secluded.folder / "plan.yaml").write_text(json.dumps(plan), encoding="utf-8")
    running = secluded.start("launch", "plan.yaml", "--progress", "plain")
    wait_for("three attempts", lambda: len(environments(secluded)) == 3)

    launch_id, worker = running.launch_id, running.worker_pid
    asyncio.run(terminate_only(secluded, launch_workflow_id(launch_id)))
    assert "terminated" in running.wait().expect(1).stderr.lower()
    wait_for("the end of its worker", lambda: not is_alive(worker))
    assert environments(secluded) == set()
    begun = [json.loads(path.read_bytes()) for path in secluded.results.glob("*/*/run_info.json")]
    assert len(begun) >= 3
    assert {(info["status"], info["error"]) for info in begun} == {
        ("cancelled", "its launch was ended without it")
    }


async def terminate_only(command_line: CommandLine, workflow_id: str) -> None:
    client = await Client.connect(f"127.0.0.1:{command_line.server_port}", namespace=NAMESPACE)
    await client.get_workflow_handle(workflow_id).terminate("by mistake")


def test_after_the_loss_of_the_database_finished_work_is_taken_over_and_the_rest_can_be_removed(
    secluded: CommandLine,
) -> None:
    """What the runbook tells to do with the local server."""
    questions = ("run", "qa", "oracle", "none", "--benchmark-params", secluded.dataset(ROWS))
    secluded.run(*questions).expect(0)
    running, gates, worker = start_and_stop_in_the_agent(secluded, "lost")
    launch_id = running.launch_id
    running.kill()
    kill_and_wait(worker)
    secluded.run("server", "stop").expect(0)
    for file in (secluded.home / "server").glob("temporal.db*"):
        file.unlink()

    again = secluded.run(*questions, "--reuse", "--progress", "plain").expect(0)
    assert "reused=1" in again.stderr
    [left] = secluded.run("env", "list", "--json", env=gates.env).expect(0).json
    assert (left["state"], left["launch"]) == ("unknown", launch_id)
    secluded.run("env", "release", "--launch", launch_id, env=gates.env).expect(0)
    assert environments(secluded) == set()
    assert "there is no launch" in secluded.run("attach", launch_id).expect(2).stderr
    findings = secluded.run("doctor", "--json").json["findings"]
    assert not [item for item in findings if launch_id in item["detail"]]
