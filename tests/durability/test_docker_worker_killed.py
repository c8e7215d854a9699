"""An agent in a container goes on while its worker is dead, and ends once."""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path

import docker
import pytest
from command_line import CommandLine, kill_and_wait, wait_for
from docker_engine import IMAGE, containers_of, counting_creations, require_engine
from gated_runs import CONFIG, QUICK_HEARTBEAT
from run_directory import status_of

TIME_TO_LIVE = 10
PACKAGE = Path(__file__).parents[1] / "support" / "followed_package"


@pytest.fixture
def client() -> docker.DockerClient:
    return require_engine()


def env() -> dict[str, str]:
    paths = [str(PACKAGE), os.environ.get("PYTHONPATH", "")]
    return {"PYTHONPATH": os.pathsep.join(path for path in paths if path)}


def inside(client: docker.DockerClient, container: str, command: str) -> bytes:
    """What a command prints in the container; nothing before it runs."""
    try:
        output: bytes = (
            client.containers.get(container).exec_run(["sh", "-c", command], workdir="/workspace").output
        )
    except docker.errors.APIError:
        return b""
    return output


def test_an_agent_in_a_container_survives_its_worker_and_ends_once(
    command_line: CommandLine, client: docker.DockerClient
) -> None:
    config = command_line.folder / "heartbeat.yaml"
    config.write_text(CONFIG.format(heartbeat_timeout_seconds=QUICK_HEARTBEAT), encoding="utf-8")
    params = json.dumps({"image": IMAGE, "pull": "never"})
    with counting_creations(client) as created:
        running = command_line.start(
            *("run", "followed", "none", "none", "--env", "docker"),
            *("--env-params", params, "--config", str(config)),
            env=env(),
        )
        launch = running.launch_id
        try:
            [container] = wait_for("the container", lambda: containers_of(client, launch=launch))
            wait_for("the agent", lambda: inside(client, container, "cat starts") == b"started\n")

            kill_and_wait(running.worker_pid)
            inside(client, container, "touch go")
            running.wait().expect(0)

            [run_dir] = command_line.run_dirs
            assert status_of(run_dir) == "completed"
            [detail] = (run_dir / "details").glob("*.json")
            [attempt] = json.loads(detail.read_bytes())["attempts"].values()
            assert attempt["metrics"] == {"correct": True}
            assert created(launch) == 1
            assert containers_of(client, launch=launch) == []
        finally:
            for left in containers_of(client, launch=launch):
                client.api.remove_container(left, force=True)


def test_a_container_whose_worker_never_comes_back_ends_itself_and_not_before(
    command_line: CommandLine, client: docker.DockerClient
) -> None:
    params = json.dumps({"image": IMAGE, "pull": "never", "time_to_live_seconds": TIME_TO_LIVE})
    running = command_line.start(
        *("run", "followed", "none", "none", "--env", "docker", "--env-params", params), env=env()
    )
    launch = running.launch_id
    try:
        [container] = wait_for("the container", lambda: containers_of(client, launch=launch))
        wait_for("the agent", lambda: inside(client, container, "cat starts") == b"started\n")
        lived_enough = time.monotonic() + 2 * TIME_TO_LIVE
        wait_for("twice its time to live", lambda: time.monotonic() > lived_enough, 5 * TIME_TO_LIVE)
        assert containers_of(client, launch=launch) == [container]

        worker = running.worker_pid
        running.kill()  # or it would start another worker
        kill_and_wait(worker)
        with contextlib.suppress(docker.errors.NotFound):  # it was faster
            client.api.wait(container, timeout=60, condition="removed")
        assert containers_of(client, launch=launch) == []
    finally:
        for left in containers_of(client, launch=launch):
            client.api.remove_container(left, force=True)
