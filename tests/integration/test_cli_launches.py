"""The commands around a launch: list, status, cancel, attach, detach; and that exit codes hold."""

from __future__ import annotations

import json

import pytest
from command_line import CommandLine, kill_and_wait, processes_of, wait_for
from gated_runs import start_gated
from gates import Gates
from run_directory import status_of

ROWS = [{"id": "q1", "question": "2 + 2?", "answer": "4"}]


@pytest.fixture
def gates(command_line: CommandLine) -> Gates:
    """The task ``only`` stops while its agent works."""
    gates = Gates(command_line.folder / "gates")
    gates.close("only", "execute_task")
    return gates


def test_running_launch_is_listed_described_and_cancelled(command_line: CommandLine, gates: Gates) -> None:
    running = start_gated(command_line, gates, tasks=["only", "next"])
    launch = running.launch_id
    gates.wait("only", "execute_task")

    listed = {item["launch_id"]: item for item in command_line.run("list", "--json").expect(0).json}
    assert listed[launch]["status"] == "running"
    assert launch in command_line.run("list").expect(0).stdout
    status = command_line.run("status", launch, "--json").expect(0).json
    [request] = status["requests"]
    assert (status["state"], request["total_tasks"], request["running_attempts"]) == ("running", 2, 1)
    assert request["run_dir"] == str(command_line.run_dirs[0])
    assert "0/2" in command_line.run("status", launch).expect(0).stdout

    assert launch in command_line.run("cancel", launch).expect(0).stdout
    running.wait().expect(130)
    assert status_of(command_line.run_dirs[0]) == "cancelled"
    assert command_line.run("status", launch, "--json").expect(0).json["state"] == "cancelled"


def test_finished_launch_takes_attach_status_and_cancel_politely(command_line: CommandLine) -> None:
    dataset = command_line.dataset(ROWS)
    result = command_line.run("run", "qa", "oracle", "none", "--benchmark-params", dataset, "--json").expect(
        0
    )
    launch = result.json["launch_id"]
    assert result.json["requests"][0]["value"] == 1.0

    assert command_line.run("attach", launch, "--json").expect(0).json == result.json
    assert command_line.run("status", launch, "--json").expect(0).json["state"] == "completed"
    assert "over already" in command_line.run("cancel", launch).expect(0).stdout
    [run_dir] = command_line.run_dirs
    assert command_line.run("summary", str(run_dir), "--json").expect(0).json


def test_detached_launch_goes_on_by_itself_and_can_be_attached(
    command_line: CommandLine, gates: Gates
) -> None:
    started = start_gated(command_line, gates, "--detach", "--json", tasks=["only"]).wait().expect(0)
    launch = started.json["launch_id"]
    gates.wait("only", "execute_task")
    attached = command_line.start("attach", launch, "--json", env=gates.env)
    gates.open("only", "execute_task")

    assert attached.wait().expect(0).json["status"] == "completed"
    wait_for("worker and supervisor to leave", lambda: not processes_of(command_line.home))


def test_detached_launch_gets_another_worker_when_its_own_is_killed(
    command_line: CommandLine, gates: Gates
) -> None:
    start_gated(command_line, gates, "--detach", tasks=["only"]).wait().expect(0)
    kill_and_wait(gates.wait("only", "execute_task"))
    gates.open("only", "execute_task")
    [run_dir] = command_line.run_dirs
    wait_for("the end of the run", lambda: status_of(run_dir) == "completed")
    wait_for("worker and supervisor to leave", lambda: not processes_of(command_line.home))


@pytest.mark.parametrize(
    ("arguments", "times"), [(["--version"], 4), (["server", "status"], 4), (["list"], 10)]
)
def test_exit_code_is_0_every_time(arguments: list[str], times: int, command_line: CommandLine) -> None:
    """The SDK's threads abort about one process in five that does not leave by itself."""
    codes: list[int] = []
    while len(codes) < times:
        pair = [command_line.start(*arguments), command_line.start(*arguments)]
        codes += [item.wait().code for item in pair]
    assert codes == [0] * times


def test_server_status_tells_the_server_of_the_home(command_line: CommandLine) -> None:
    status = command_line.run("server", "status", "--json").expect(0).json
    assert (status["running"], status["pid"]) == (True, command_line.server_pid)


def test_watched_launch_is_shown_until_it_is_over(command_line: CommandLine, gates: Gates) -> None:
    running = start_gated(command_line, gates, tasks=["only"])
    launch = running.launch_id
    gates.wait("only", "execute_task")
    watching = command_line.start("status", launch, "--watch")
    lines = command_line.start("status", launch, "--watch", "--json")
    wait_for("both views", lambda: "0/1" in watching.stdout and '"running"' in lines.stdout)
    gates.open("only", "execute_task")
    running.wait().expect(0)
    assert f"Launch: {launch} (completed)" in watching.wait().expect(0).stdout
    states = [json.loads(line)["state"] for line in lines.wait().expect(0).stdout.splitlines()]
    assert (states[0], states[-1]) == ("running", "completed")


def test_ctrl_c_ends_the_view_and_leaves_the_launch_alone(command_line: CommandLine, gates: Gates) -> None:
    running = start_gated(command_line, gates, tasks=["only"])
    launch = running.launch_id
    gates.wait("only", "execute_task")
    watching = command_line.start("status", launch, "--watch")
    wait_for("the view", lambda: "0/1" in watching.stdout)
    watching.interrupt()
    assert "The launch goes on" in watching.wait().expect(130).stderr
    assert command_line.run("status", launch, "--json").expect(0).json["state"] == "running"
    gates.open("only", "execute_task")
    running.wait().expect(0)
