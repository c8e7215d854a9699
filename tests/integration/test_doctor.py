"""``agentcompass doctor`` as a user runs it: local server, cluster, endpoint, and that it starts nothing."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from command_line import CommandLine, Ended
from gated_runs import make_command_line
from model_server import ModelServer


def by_name(ended: Ended) -> dict[str, Any]:
    return {finding["name"]: finding for finding in ended.json["findings"]}


def test_nothing_is_started_and_nothing_is_left_behind(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    command_line = make_command_line(tmp_path / "home", folder)
    found = by_name(
        command_line.run("doctor", "--json", env={"AGENTCOMPASS_HOME": str(tmp_path / "home")}).expect(0)
    )
    assert found["local server"]["detail"].startswith("not running")
    assert not (tmp_path / "home").exists()
    assert not (folder / "results").exists()


def test_running_local_server_is_described(command_line: CommandLine) -> None:
    found = by_name(command_line.run("doctor", "--json").expect(0))
    assert f"127.0.0.1:{command_line.server_port}" in found["local server"]["detail"]
    assert {found[name]["state"] for name in ("local server", "search attributes", "clock")} == {"ok"}


def test_cluster_without_workers_is_told_with_the_command_that_starts_one(command_line: CommandLine) -> None:
    env = {
        "TEMPORAL_ADDRESS": f"127.0.0.1:{command_line.server_port}",
        "TEMPORAL_NAMESPACE": "agentcompass",
        "AGENTCOMPASS_TASK_QUEUE": "nobody-serves-this",
    }
    found = by_name(command_line.run("doctor", "--json", env=env).expect(0))
    assert found["cluster"]["state"] == "ok"
    assert found["queue 'nobody-serves-this'"]["state"] == "warning"
    assert found["queue 'nobody-serves-this'"]["advice"] == (
        "start one: agentcompass worker --task-queue nobody-serves-this"
    )


def test_cluster_that_does_not_answer_and_a_wrong_namespace_are_unreachable(
    command_line: CommandLine,
) -> None:
    away = command_line.run("doctor", env={"TEMPORAL_ADDRESS": "127.0.0.1:9"}).expect(3)
    assert "UNREACHABLE  temporal: cluster: Temporal at 127.0.0.1:9" in away.stdout
    env = {"TEMPORAL_ADDRESS": f"127.0.0.1:{command_line.server_port}", "TEMPORAL_NAMESPACE": "nowhere"}
    assert "agentcompass setup" in command_line.run("doctor", env=env).expect(3).stdout


async def test_endpoint_is_asked_when_it_is_named(command_line: CommandLine) -> None:
    async with ModelServer() as server:
        arguments = ("doctor", "--json", "--model-base-url", server.base_url)
        found = by_name((await asyncio.to_thread(command_line.run, *arguments)).expect(0))
        assert found["endpoint"]["state"] == "ok"
    closed = command_line.run("doctor", "--model-base-url", "http://127.0.0.1:9/v1?key=canary-5521").expect(3)
    assert "connection refused" in closed.stdout and "canary" not in closed.stdout
    assert command_line.run("doctor", "--model-base-url", "nonsense").expect(2).errors


def test_values_of_credentials_appear_nowhere(command_line: CommandLine) -> None:
    ended = command_line.run("doctor", "--json", env={"OPENAI_API_KEY": "canary-7d41-secret"}).expect(0)
    assert by_name(ended)["OPENAI_API_KEY"]["detail"] == "set"
    assert "canary" not in ended.stdout + ended.stderr


def test_broken_configuration_is_a_finding(command_line: CommandLine) -> None:
    (command_line.folder / "agentcompass.yaml").write_text("modle: {}\n")
    found = by_name(command_line.run("doctor", "--json").expect(1))
    assert found["configuration"]["state"] == "failed" and "modle" in found["configuration"]["detail"]


def test_output_is_json_and_nothing_else(command_line: CommandLine) -> None:
    ended = command_line.run("doctor", "--json").expect(0)
    assert json.loads(ended.stdout)["findings"]
    assert ended.stderr == ""
