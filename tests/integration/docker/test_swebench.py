"""SWE-bench in images of the official names: found here, or pulled from a registry."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest
from command_line import CommandLine
from docker_engine import containers_of
from image_registry import Registry, serving
from tool_images import OFFICIAL_NAME, official_image

DATA = Path(__file__).parents[2] / "data" / "swebench" / "fixture.jsonl"
MEND = "test $SWE_BENCH_ENVIRONMENT = active && sed -i 's/a - b/a + b/' calc.py && rm -rf __pycache__"


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    with serving(Registry(tmp_path)) as running:
        yield running


def rows(folder: Path, *images: str | None) -> str:
    """A data set as the project publishes it: without our own setup script."""
    row = json.loads(DATA.read_text())
    script = row["eval_script"].replace("cd testbed", "cd /testbed")
    lines = []
    for number, image in enumerate(images, start=1):
        name = f"fixture__calc-{number}"
        lines.append(
            json.dumps(
                {**row, "instance_id": name, "image": image, "eval_script": script, "setup_script": ""}
            )
        )
    (folder / "rows.jsonl").write_text("\n".join(lines))
    return json.dumps({"path": str(folder / "rows.jsonl")})


def attempts(line: CommandLine) -> dict[str, dict[str, Any]]:
    records = [json.loads(file.read_bytes()) for file in (line.run_dirs[-1] / "details").glob("*.json")]
    return {record["task_id"]: record["attempts"]["1"] for record in records}


def evaluated(line: CommandLine, *arguments: str) -> dict[str, dict[str, Any]]:
    host = {name: os.environ[name] for name in ("DOCKER_HOST",) if name in os.environ}
    line.run(
        "run", "swebench_verified", *arguments, "--env", "docker", "--progress", "none", env=host
    ).expect(0)
    return attempts(line)


def test_the_gold_patch_resolves_tasks_in_images_that_are_here_and_that_are_pulled(
    command_line: CommandLine, client: docker.DockerClient, registry: Registry, tmp_path: Path
) -> None:
    pytest.importorskip("swebench", reason="grading needs the extra 'swebench', which is large")
    pulled = registry.push_image(client, official_image(client), OFFICIAL_NAME)
    try:
        found = evaluated(command_line, "oracle", "none", "--benchmark-params", rows(tmp_path, None, pulled))
    finally:
        client.images.remove(pulled, force=True)
    assert {name: (item["metrics"], item["issues"]) for name, item in found.items()} == {
        "fixture__calc-1": ({"correct": True}, []),
        "fixture__calc-2": ({"correct": True}, []),
    }
    [run_dir] = command_line.run_dirs
    info = json.loads((run_dir / "run_info.json").read_bytes())
    plans = info["resolved_execution_plans"]
    assert "swebench_verified_docker" in json.dumps(plans)
    assert containers_of(client, launch=info["launch_id"]) == []


def test_the_commands_of_an_agent_run_in_the_images_own_environment(
    command_line: CommandLine, client: docker.DockerClient, tmp_path: Path
) -> None:
    pytest.importorskip("swebench", reason="grading needs the extra 'swebench', which is large")
    official_image(client)
    script = tmp_path / "answers.jsonl"
    calls = (
        [{"id": "1", "name": "bash", "arguments": {"command": MEND}}],
        [{"id": "2", "name": "finish", "arguments": {}}],
    )
    script.write_text("\n".join(json.dumps({"tool_calls": call}) for call in calls))
    found = evaluated(
        command_line,
        *("terminal_agent", "scripted", "--model-params", json.dumps({"script": str(script)})),
        *("--benchmark-params", rows(tmp_path, None)),
    )
    attempt = found["fixture__calc-1"]
    assert (attempt["metrics"], attempt["issues"]) == ({"correct": True}, [])
    assert attempt["extra"]["model_patch"].count("\n+") == 2  # the file's header and the mended line
