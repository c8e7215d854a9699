"""The deadline of a launch whose requests have containers at work."""

from __future__ import annotations

import json

import docker
from command_line import CommandLine, processes_of, wait_for
from docker_engine import IMAGE, containers_of

SECONDS = 8
PLAN = """
version: 1
name: late
task_concurrency: 4
runtime: {{timeout_seconds: {seconds}, cleanup_grace_seconds: 30}}
defaults:
  harness: {{id: none}}
  model: {{id: none}}
  environment: {{id: docker, image: "{image}", pull: never}}
requests:
  - {{name: first, benchmark: {{id: command, path: {dataset}}}}}
  - {{name: second, benchmark: {{id: command, path: {dataset}}}}}
"""


def test_at_the_deadline_of_a_launch_no_container_is_left_and_every_request_has_its_state(
    command_line: CommandLine, client: docker.DockerClient
) -> None:
    rows = [{"id": name, "command": "sleep 600"} for name in ("a", "b")]
    dataset = json.loads(command_line.dataset(rows, "commands.jsonl"))["path"]
    plan = command_line.folder / "plan.yaml"
    plan.write_text(PLAN.format(seconds=SECONDS, image=IMAGE, dataset=dataset))
    running = command_line.start("launch", str(plan), "--progress", "plain")
    launch = running.launch_id
    wait_for("containers of both requests", lambda: len(containers_of(client, launch=launch)) == 4)
    running.wait().expect(1)

    assert containers_of(client, launch=launch) == []
    states = [
        json.loads((run_dir / "run_info.json").read_bytes())["status"] for run_dir in command_line.run_dirs
    ]
    assert states == ["timed_out", "timed_out"]
    [summary] = command_line.results.rglob("launch_summary.json")
    assert json.loads(summary.read_bytes())["status"] == "timed_out"
    wait_for("the worker's leaving", lambda: not processes_of(command_line.home))
