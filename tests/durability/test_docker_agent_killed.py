"""``kill -9`` of the worker while an agent in a container calls its model, counted where it can be counted.

Calls at the model server, containers at the engine, processes of the agent in its container.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest
from command_line import CommandLine, kill_and_wait, wait_for
from docker_engine import IMAGE, containers_of, counting_creations, require_engine
from gated_runs import CONFIG, QUICK_HEARTBEAT
from model_process import ModelProcess
from shell_agent import describe

from agentcompass.plugins.environments.docker.engine import Engine
from agentcompass.plugins.environments.docker.public_network import public_network

RUN = """
echo started >> /shared/starts
ask >> /shared/answers
until [ -e /shared/go ]; do sleep 0.1; done
until ask > last; do sleep 0.3; done
cat last >> /shared/answers
until [ -e /shared/end ]; do sleep 0.1; done
cat last
"""
PARAMS = {"image": IMAGE, "pull": "never"}


@pytest.fixture
def client() -> docker.DockerClient:
    return require_engine()


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Path]:
    """A folder of this machine that the container sees as ``/shared``."""
    folder = tmp_path / "shared"
    folder.mkdir()
    yield folder


def agents_in(client: docker.DockerClient, container: str) -> list[str]:
    """The processes of the container that run the agent's script, without those that it is about to make another of."""
    listed: dict[str, Any] = client.api.top(container, ps_args="-eo pid,ppid,args")
    found = [line for line in listed["Processes"] if "/shared/starts" in line[-1] and "ask()" in line[-1]]
    own = {pid for pid, *_ in found}
    return [pid for pid, parent, _ in found if parent not in own]


def lines_of(file: Path) -> list[str]:
    return file.read_text().split() if file.exists() else []


@pytest.mark.parametrize("proxied", [True, False], ids=["through the model proxy", "directly"])
def test_an_agent_that_calls_its_model_survives_its_worker_and_ends_once(
    command_line: CommandLine, client: docker.DockerClient, tmp_path: Path, shared: Path, proxied: bool
) -> None:
    replies = [{"content": "41"}, {"content": "42"}]
    gateway = public_network(Engine(None, 60)).bind_address
    mounts = [{"source": str(shared), "target": "/shared", "read_only": False}]
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG.format(heartbeat_timeout_seconds=QUICK_HEARTBEAT), encoding="utf-8")
    harness = {"description": str(describe(tmp_path, RUN)), "poll_seconds": 0.1}
    answering = ModelProcess(tmp_path, [{"contains": "", "replies": replies}], host=gateway)
    with answering as model, counting_creations(client) as created:
        running = command_line.start(
            *("run", "qa", "cli_agent", "m", "--model-base-url", model.base_url, "--config", str(config)),
            *("--harness-params", json.dumps(harness | ({"proxy": {}} if proxied else {}))),
            *("--env", "docker", "--env-params", json.dumps(PARAMS | {"mounts": mounts})),
            *("--benchmark-params", command_line.dataset([{"id": "q", "question": "?", "answer": "42"}])),
        )
        launch = running.launch_id
        try:
            wait_for("the first answer", lambda: lines_of(shared / "answers") == ["41"])
            [container] = containers_of(client, launch=launch)
            assert len(agents_in(client, container)) == 1

            kill_and_wait(running.worker_pid)
            (shared / "go").touch()
            wait_for("the second answer", lambda: lines_of(shared / "answers") == ["41", "42"])
            assert running.worker_pid  # another one is there
            assert len(agents_in(client, container)) == 1
            (shared / "end").touch()
            running.wait().expect(0)
            assert model.calls() == 2
            assert lines_of(shared / "starts") == ["started"]
            assert created(launch) == 1
            assert containers_of(client, launch=launch) == []
        finally:
            for left in containers_of(client, launch=launch):
                client.api.remove_container(left, force=True)
    [attempt] = json.loads(next(command_line.results.glob("*/*/details/q.json")).read_bytes())[
        "attempts"
    ].values()
    assert (attempt["final_answer"], attempt["metrics"], attempt["issues"]) == ("42", {"correct": True}, [])
    if proxied:
        assert len(attempt["trajectory"]["extra"]["model_calls"]) == 2
