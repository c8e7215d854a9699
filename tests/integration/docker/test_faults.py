"""What goes wrong around containers in the middle of a run, told by results, issues and what is left."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest
import yaml
from command_line import CommandLine, Running, wait_for
from docker_engine import IMAGE, containers_of
from hanging_engine import engine_that_hangs, engine_that_works
from model_process import ModelProcess
from shell_agent import describe

from agentcompass.plugins.environments.docker.engine import Engine
from agentcompass.plugins.environments.docker.public_network import public_network

PARAMS: dict[str, Any] = {"image": IMAGE, "pull": "never"}
NO_WAIT = ("--execution-params", json.dumps({"retry_min_delay_seconds": 0}))


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A folder of this machine that containers see as ``/shared``."""
    folder = tmp_path / "shared"
    folder.mkdir()
    return folder


@pytest.fixture
def started(command_line: CommandLine, client: docker.DockerClient) -> Iterator[list[Running]]:
    """Runs of the test; nothing that carries their label is left on the engine."""
    runs: list[Running] = []
    yield runs
    for running in runs:
        for container in containers_of(client, launch=launch_of(running)):
            client.api.remove_container(container, force=True)


def launch_of(running: Running) -> str:
    """Also of a run that has ended."""
    return wait_for("the launch", lambda: re.search(r"workflows/launch%2F(\S+)", running.stderr))[1]


def params(shared: Path, **more: Any) -> tuple[str, ...]:
    mounts = [{"source": str(shared), "target": "/shared", "read_only": False}]
    return ("--env", "docker", "--env-params", json.dumps({**PARAMS, "mounts": mounts, **more}))


def attempt_of(line: CommandLine, task: str) -> dict[str, Any]:
    [file] = line.results.glob(f"*/*/details/*{task}.json")
    [attempt] = json.loads(file.read_bytes())["attempts"].values()
    found: dict[str, Any] = attempt
    return found


def run_command(line: CommandLine, command: str, *more: str) -> Running:
    rows = [{"id": "t", "command": command, "expected_stdout": "done"}]
    return line.start("run", "command", "none", "none", "--benchmark-params", line.dataset(rows), *more)


@pytest.fixture
def endpoint(tmp_path: Path) -> Iterator[str]:
    """A model endpoint that containers reach."""
    gateway = public_network(Engine(None, 60)).bind_address
    with ModelProcess(tmp_path, [], host=gateway) as model:
        yield model.base_url


def run_agent(line: CommandLine, endpoint: str, *more: str, **description: Any) -> Running:
    path = describe(line.folder, "echo 42")
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | description))
    return line.start(
        *("run", "qa", "cli_agent", "m", "--model-base-url", endpoint, *more),
        *("--harness-params", json.dumps({"description": str(path), "poll_seconds": 0.1})),
        *("--benchmark-params", line.dataset([{"id": "q", "question": "?", "answer": "42"}])),
    )


def test_a_run_that_is_cancelled_while_an_agent_is_installed_leaves_no_container(
    command_line: CommandLine,
    client: docker.DockerClient,
    shared: Path,
    started: list[Running],
    endpoint: str,
) -> None:
    install = {"check": "false", "command": "touch /shared/installing; sleep 1000"}
    running = run_agent(command_line, endpoint, *params(shared), install=install)
    started.append(running)
    wait_for("the installation", (shared / "installing").exists)
    assert len(containers_of(client, launch=launch_of(running))) == 1
    running.interrupt()
    running.wait().expect(130)
    assert containers_of(client, launch=launch_of(running)) == []


def test_a_run_that_is_cancelled_during_an_upload_leaves_no_container(
    command_line: CommandLine,
    client: docker.DockerClient,
    tmp_path: Path,
    shared: Path,
    started: list[Running],
    endpoint: str,
) -> None:
    """The engine takes the files and never says that it has them."""
    with engine_that_hangs(tmp_path, b"PUT ", b"/archive") as host:
        more = params(shared, host=host, engine_timeout_seconds=3)
        running = run_agent(command_line, endpoint, *more)
        started.append(running)
        wait_for("an upload that hangs", (tmp_path / "hanging").exists)
        assert len(containers_of(client, launch=launch_of(running))) == 1
        running.interrupt()
        running.wait().expect(130)
        assert containers_of(client, launch=launch_of(running)) == []


def test_a_container_that_is_removed_under_its_agent_is_replaced_by_a_retry(
    command_line: CommandLine, client: docker.DockerClient, shared: Path, started: list[Running]
) -> None:
    command = "echo x >> /shared/begun; until [ -e /shared/go ]; do sleep 0.1; done; echo done"
    running = run_command(command_line, command, *params(shared), *NO_WAIT, "--max-retries", "1")
    started.append(running)
    begun = shared / "begun"
    wait_for("the command", lambda: begun.exists() and begun.read_text() == "x\n")
    [first] = containers_of(client, launch=launch_of(running))
    client.api.remove_container(first, force=True)
    wait_for("the command of the retry", lambda: begun.read_text() == "x\nx\n")
    (shared / "go").touch()
    running.wait().expect(0)
    attempt = attempt_of(command_line, "t")
    assert (attempt["metrics"], attempt["issues"]) == ({"correct": True}, [])
    [lost] = (command_line.run_dirs[0] / "retry_details").rglob("*.json")
    assert "environment_lost" in lost.read_text()


def test_an_engine_that_hangs_on_removal_costs_a_warning_and_is_tidied_up_later(
    command_line: CommandLine,
    client: docker.DockerClient,
    tmp_path: Path,
    shared: Path,
    started: list[Running],
) -> None:
    with engine_that_hangs(tmp_path, b"DELETE ") as host:
        running = run_command(command_line, "echo done", *params(shared, host=host, engine_timeout_seconds=2))
        started.append(running)
        ended = running.wait().expect(0)
    assert "1/1 tasks evaluated" in ended.stdout
    attempt = attempt_of(command_line, "t")
    assert attempt["metrics"] == {"correct": True}
    [issue] = attempt["issues"]
    assert (issue["severity"], issue["phase"]) == ("warning", "cleanup")
    assert len(containers_of(client, launch=launch_of(running))) == 1
    with engine_that_works(tmp_path):
        command_line.run("env", "release", "--all-closed").expect(0)
    assert containers_of(client, launch=launch_of(running)) == []


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("x=1234567890; while :; do x=$x$x; done", "memory"),
        ("head -c 100000000 /dev/zero > /dev/shm/full || echo full; echo done", "full"),
    ],
)
def test_no_memory_and_a_full_disk_are_told_and_cost_their_task_only(
    command_line: CommandLine, shared: Path, started: list[Running], command: str, told: str
) -> None:
    more = params(shared, resources={"memory_mb": 64}, shm_mb=4)
    running = run_command(command_line, command, *more)
    started.append(running)
    running.wait().expect(0)
    attempt = attempt_of(command_line, "t")
    assert attempt["metrics"] == {"correct": False}
    assert told in json.dumps(attempt)


def test_a_gpu_that_is_not_there_is_refused_before_anything_is_opened(
    command_line: CommandLine, client: docker.DockerClient
) -> None:
    if "nvidia" in client.info()["Runtimes"]:
        pytest.skip("this engine has GPUs")
    wish = json.dumps({**PARAMS, "resources": {"gpu": 1}})
    rows = command_line.dataset([{"id": "t", "command": "true"}])
    ended = command_line.run(
        *(
            "run",
            "command",
            "none",
            "none",
            "--benchmark-params",
            rows,
            "--env",
            "docker",
            "--env-params",
            wish,
        ),
        env={name: os.environ[name] for name in ("DOCKER_HOST",) if name in os.environ},
    ).expect(2)
    assert "resources.gpu is 1; the Docker engine has no GPU runtime" in ended.stderr
    assert command_line.run_dirs == []
