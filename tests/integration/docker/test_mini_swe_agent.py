"""mini-swe-agent in a container without a network: installed there, with its model behind the worker's proxy."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from base_image import wheels
from command_line import CommandLine
from docker_engine import containers_of, require_engine
from model_process import ModelProcess
from tool_images import python_image

INSTALLATION_SECONDS = 900.0
"""Some ninety packages, on a machine that may be busy."""
KEY = "sk-mini-canary-4712"


def call(command: str, text: str) -> dict[str, Any]:
    return {
        "content": text,
        "tool_calls": [{"id": "c", "name": "bash", "arguments": {"command": command}}],
        "stop_reason": "tool_calls",
    }


@pytest.mark.timeout(INSTALLATION_SECONDS)
def test_it_is_installed_in_a_container_and_reaches_its_model_only(
    command_line: CommandLine, tmp_path: Path
) -> None:
    engine = require_engine()
    image = python_image()
    script = [
        call("env | grep -c sk-mini; echo 'Hello, world!' > greeting.txt; cat greeting.txt", "I write it."),
        call("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT", "Done."),
    ]
    config = tmp_path / "config.yaml"
    rules = [{"contains": "", "replies": script}]
    try:
        house = wheels(tmp_path, "mini-swe-agent")
        with house as packages, ModelProcess(tmp_path, rules, api_key=KEY) as model:
            mount = {"source": str(packages), "target": "/wheels"}
            sandbox = {"image": image, "pull": "never", "mounts": [mount], "network_policy": "no-network"}
            runtime = {"cleanup_grace_seconds": 300}  # thousands of files were installed
            config.write_text(yaml.safe_dump({"environments": {"docker": sandbox}, "runtime": runtime}))
            variables = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/wheels"}
            harness = {"agent": "mini-swe-agent", "proxy": {"max_calls": 5}, "variables": variables}
            running = command_line.start(
                *("run", "terminal_tasks", "cli_agent", "m", "--env", "docker", "--config", str(config)),
                *("--model-base-url", model.base_url, "--model-api-key", "${KEY}"),
                *("--harness-params", json.dumps(harness), "--progress", "none"),
                *("--benchmark-params", '{"sample_ids": ["greeting"]}'),
                env={
                    "KEY": KEY,
                    **{name: os.environ[name] for name in ("DOCKER_HOST",) if name in os.environ},
                },
            )
            running.wait(patience=INSTALLATION_SECONDS).expect(0)
            assert model.calls() == 2
    except subprocess.CalledProcessError as error:  # of pip download
        if b"No matching distribution" in error.stderr or b"connection" in error.stderr.lower():
            pytest.skip("no package index can be reached")
        raise
    [run_dir] = command_line.run_dirs
    attempt = json.loads((run_dir / "details" / "greeting.json").read_bytes())["attempts"]["1"]
    assert (attempt["metrics"], attempt["issues"]) == ({"correct": True}, [])
    steps = [step for step in attempt["trajectory"]["steps"] if step["source"] == "agent"]
    assert [step["message"] for step in steps] == ["I write it.", "Done."]
    seen = json.loads(steps[0]["observations"][0]["content"])
    assert seen["output"] == "0\nHello, world!\n"  # no variable of the agent holds the key
    assert [item["usage"]["prompt_tokens"] for item in attempt["trajectory"]["extra"]["model_calls"]] == [
        11,
        11,
    ]
    assert all(KEY.encode() not in file.read_bytes() for file in run_dir.rglob("*") if file.is_file())
    launch = json.loads((run_dir / "run_info.json").read_bytes())["launch_id"]
    assert containers_of(engine, launch=launch) == []
