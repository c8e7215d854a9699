"""Harbor tasks of several steps through the real command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import CommandLine
from harbor_tasks import STEPS, make_steps, make_task


def run(line: CommandLine, path: Path, *arguments: str) -> Any:
    return line.run(
        *("run", "harbor", *arguments, "--env", "host_process", "--progress", "none"),
        *("--benchmark-params", json.dumps({"path": str(path)})),
    )


def attempts(line: CommandLine) -> dict[str, dict[str, Any]]:
    """The first attempt of each task in the newest run, by task."""
    records = [json.loads(file.read_bytes()) for file in (line.run_dirs[-1] / "details").glob("*.json")]
    return {record["task_id"]: record["attempts"]["1"] for record in records}


def steps_of(attempt: dict[str, Any]) -> list[tuple[str, float | None]]:
    return [(step["name"], step["metrics"].get("reward")) for step in attempt["steps"]]


def test_the_oracle_solves_step_by_step_until_a_threshold_is_missed(command_line: CommandLine) -> None:
    run(command_line, STEPS, "oracle", "none").expect(0)
    found = attempts(command_line)
    assert {name: item["issues"] for name, item in found.items()} == {name: [] for name in found}
    assert {name: steps_of(item) for name, item in found.items()} == {
        "relay": [("write", 1.0), ("extend", 1.0), ("finish", 0.4)],
        "gate": [("half", 0.5)],
        "last": [("draft", 0.1), ("final", 0.75)],
    }
    rewards = {name: item["metrics"]["reward"] for name, item in found.items()}
    assert rewards == pytest.approx({"relay": 0.8, "gate": 0.5 / 3, "last": 0.75})
    told = {name: item["meta"]["benchmark"] for name, item in found.items()}
    assert told["gate"]["harbor_reward"] == 0.5
    assert told["gate"]["stopped"] == "after step half: style is 0.5, below min_reward 0.6"
    relay = found["relay"]
    assert [step["final_answer"] for step in relay["steps"]] == ["wrote", "extended", "finished"]
    assert [step["trajectory_steps"] for step in relay["steps"]] == [[1, 1], [2, 2], [3, 3]]
    assert [step["extra"]["step"] for step in relay["trajectory"]["steps"]] == ["write", "extend", "finish"]
    job = command_line.folder / "job"
    command_line.run(
        "export", "--format", "harbor", str(command_line.run_dirs[-1]), "--output", str(job)
    ).expect(0)
    trial = json.loads((job / "gate__a1/result.json").read_bytes())
    rewards = {"reward": 0.5, "correct": 0}
    assert trial["step_results"] == [{"step_name": "half", "verifier_result": {"rewards": rewards}}]
    kept = relay["steps"][1]["artifacts"]["declared_artifacts"]["directory"]
    assert kept.endswith("/relay/attempt-1/execution-1/step-2")


def test_an_agent_is_asked_step_by_step_and_a_script_answers_each_of_them(
    command_line: CommandLine, tmp_path: Path
) -> None:
    def calls(task: str, command: str) -> list[dict[str, Any]]:
        bash = {"id": "1", "name": "bash", "arguments": {"command": command}}
        finish = {"id": "2", "name": "finish", "arguments": {"answer": task}}
        return [{"task": task, "tool_calls": [call]} for call in (bash, finish)]

    lines = [*calls("relay#1", "echo one > log.txt"), *calls("relay#2", "echo zwei >> log.txt")]
    lines += calls("relay#3", "echo 2 > count.txt")
    script = tmp_path / "script.jsonl"
    script.write_text("".join(json.dumps(line) + "\n" for line in lines))
    model = ("--model-api-protocol", "scripted", "--model-params", json.dumps({"script": str(script)}))
    run(command_line, STEPS / "relay", "terminal_agent", "scripted", *model).expect(0)
    relay = attempts(command_line)["relay"]
    assert steps_of(relay) == [("write", 1.0), ("extend", 0.0), ("finish", 0.4)]
    assert [step["final_answer"] for step in relay["steps"]] == ["relay#1", "relay#2", "relay#3"]
    asked = [step["message"] for step in relay["trajectory"]["steps"] if step["source"] == "user"]
    assert [text.split()[0] for text in asked] == ["Write", "Append", "Write"]
    assert [step["meta"]["harness"]["turns"] for step in relay["steps"]] == [2, 2, 2]
    logged = command_line.run("logs", "relay", "--json").expect(0).stdout
    ids = [json.loads(line)["step"]["step_id"] for line in logged.splitlines() if line.startswith("{")]
    assert ids == [step["step_id"] for step in relay["trajectory"]["steps"]][-10:]


def test_a_step_that_cannot_begin_leaves_no_score_and_keeps_what_came_before(
    command_line: CommandLine, tmp_path: Path
) -> None:
    toml = "[[steps]]\nname = 'one'\n[[steps]]\nname = 'two'\n"
    broken = {"workdir/setup.sh": "echo not here; exit 3\n"}
    make_steps(tmp_path / "tasks/t", toml, {"one": {}, "two": broken})
    run(command_line, tmp_path / "tasks", "nop", "none").expect(1)
    attempt = attempts(command_line)["t"]
    assert attempt["metrics"] == {}
    assert steps_of(attempt) == [("one", 1.0)]
    [issue] = attempt["issues"]
    assert (issue["severity"], issue["code"]) == ("fatal", "setup_failed")
    assert issue["message"] == "the step's setup.sh ended with status 3: not here"


def test_an_agent_goes_on_from_the_conversation_before_its_task(
    command_line: CommandLine, tmp_path: Path
) -> None:
    task = make_task(tmp_path / "tasks/t")
    said = [{"source": "user", "message": "The word is plum."}, {"source": "agent", "message": "I see."}]
    (task / "trajectory.json").write_text(json.dumps({"steps": said}))
    script = tmp_path / "script.jsonl"
    script.write_text(json.dumps({"content": "plum"}) + "\n")
    model = ("--model-api-protocol", "scripted", "--model-params", json.dumps({"script": str(script)}))
    run(command_line, tmp_path / "tasks", "terminal_agent", "scripted", *model).expect(0)
    steps = attempts(command_line)["t"]["trajectory"]["steps"]
    assert [(step["source"], step["message"]) for step in steps[1:]] == [
        ("user", "The word is plum."),
        ("agent", "I see."),
        ("user", "Do it."),
        ("agent", "plum"),
    ]


def test_a_harness_that_cannot_give_what_a_task_asks_for_is_refused_before_anything_is_written(
    command_line: CommandLine, tmp_path: Path
) -> None:
    server = "[[environment.mcp_servers]]\nname = 'tools'\nurl = 'http://tools:8000/sse'\n"
    make_task(tmp_path / "tasks/t", server, solution__solve_dot_sh="#!/bin/sh\n")
    script = tmp_path / "script.jsonl"
    script.write_text(json.dumps({"content": "x"}) + "\n")
    model = ("--model-api-protocol", "scripted", "--model-params", json.dumps({"script": str(script)}))
    refused = run(command_line, tmp_path / "tasks", "terminal_agent", "scripted", *model).expect(2)
    assert "task 't' brings MCP servers, and this harness has no use for them" in refused.stderr
    assert command_line.run_dirs == []
    run(command_line, tmp_path / "tasks", "nop", "none").expect(0)
