"""mini-swe-agent for real: installed from the package index into the environment, against our endpoint."""

from __future__ import annotations

import json
from typing import Any

import pytest
from command_line import CommandLine
from docker_engine import engine
from model_process import ModelProcess

INSTALLATION_SECONDS = 900.0
"""Some ninety packages, on a machine that may be busy."""
KEY = "sk-mini-canary-4711"


def call(command: str, text: str) -> dict[str, Any]:
    arguments = {"command": command}
    return {
        "content": text,
        "tool_calls": [{"id": "c", "name": "bash", "arguments": arguments}],
        "stop_reason": "tool_calls",
    }


def test_mini_swe_agent_is_installed_and_solves_a_task(command_line: CommandLine) -> None:
    if not isinstance(engine(), str):
        pytest.skip("with a Docker engine it is installed in a container: integration/docker")
    script = [
        call("echo 'Hello, world!' > greeting.txt; cat greeting.txt", "I write it."),
        call("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT", "Done."),
    ]
    with ModelProcess(command_line.folder, [{"contains": "", "replies": script}], api_key=KEY) as model:
        running = command_line.start(
            *("run", "terminal_tasks", "cli_agent", "m", "--model-base-url", model.base_url),
            *("--model-api-key", "${KEY}", "--harness-params", '{"agent": "mini-swe-agent"}'),
            *("--benchmark-params", '{"sample_ids": ["greeting"]}', "--run-id", "mini"),
            env={"KEY": KEY},
        )
        running.wait(patience=INSTALLATION_SECONDS).expect(0)
        assert model.calls() == 2
    [run_dir] = command_line.run_dirs
    attempt = json.loads((run_dir / "details" / "greeting.json").read_bytes())["attempts"]["1"]
    assert (attempt["metrics"], attempt["issues"]) == ({"correct": True}, [])
    assert attempt["meta"]["harness"]["agent_version"].startswith("2.")
    steps = [step for step in attempt["trajectory"]["steps"] if step["source"] == "agent"]
    assert [step["message"] for step in steps] == ["I write it.", "Done."]
    assert "Hello, world!" in steps[0]["observations"][0]["content"]
    assert [step["usage"]["prompt_tokens"] for step in steps] == [11, 11]
    assert all(KEY.encode() not in file.read_bytes() for file in run_dir.rglob("*") if file.is_file())
    command_line.run("export", "--format", "atif", str(run_dir)).expect(0)
