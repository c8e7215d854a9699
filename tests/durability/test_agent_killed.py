"""``kill -9`` of the worker while an agent works: no finished model call or command is repeated."""

from __future__ import annotations

import json
from pathlib import Path

from command_line import CommandLine, kill_and_wait, wait_for
from gated_runs import CONFIG, QUICK_HEARTBEAT
from model_process import ModelProcess
from own_agent import describe

WAIT = "until test -e {gate}; do sleep 0.05; done"


def tool(name: str, **arguments: object) -> dict[str, object]:
    return {"tool_calls": [{"id": "c", "name": name, "arguments": arguments}], "stop_reason": "tool_calls"}


def test_a_killed_worker_costs_a_terminal_agent_nothing_that_was_finished(
    command_line: CommandLine, tmp_path: Path
) -> None:
    """Killed while a command runs, and while the model is asked."""
    made, gate = tmp_path / "made", tmp_path / "gate"
    script = [
        tool("bash", command=f"echo first >> {made}"),
        tool("bash", command=f"echo second >> {made}; {WAIT.format(gate=gate)}; echo gone on"),
        {**tool("bash", command=f"echo never >> {made}"), "hang": True},
        tool("finish", answer="42"),
    ]
    with ModelProcess(tmp_path, [{"contains": "", "replies": script}]) as model:
        config = tmp_path / "config.yaml"
        config.write_text(CONFIG.format(heartbeat_timeout_seconds=QUICK_HEARTBEAT))
        running = command_line.start(
            *("run", "qa", "terminal_agent", "m", "--model-base-url", model.base_url),
            *("--benchmark-params", command_line.dataset([{"id": "q", "question": "?", "answer": "42"}])),
            *("--config", str(config)),
        )
        wait_for("the second command", lambda: made.exists() and "second" in made.read_text())
        kill_and_wait(running.worker_pid)
        gate.touch()
        wait_for("the third model call", lambda: model.calls() == 3)
        kill_and_wait(running.worker_pid)
        running.wait().expect(0)
        # The call that nobody had answered when the worker died is the only one that is made again.
        assert model.calls() == 4
    assert made.read_text().split() == ["first", "second"]
    record = json.loads(next(command_line.results.glob("*/*/details/q.json")).read_bytes())
    steps = record["attempts"]["1"]["trajectory"]["steps"]
    agent = [step for step in steps if step["source"] == "agent"]
    assert [step["tool_calls"][0]["name"] for step in agent] == ["bash", "bash", "finish"]
    assert agent[1]["observations"][0]["content"] == "gone on\n[exit status 0]"
    assert record["attempts"]["1"]["metrics"] == {"correct": True}


def test_a_killed_worker_leaves_a_command_line_agent_running_and_serves_it_again(
    command_line: CommandLine, tmp_path: Path
) -> None:
    """It calls the model through its worker: once before the kill, once after another has taken over."""
    program = 'python3 "$AGENT_RUN_DIR/program.py"'
    run = f'echo $$ >> "{tmp_path}/agents"; {program}; until {program}; do sleep 0.3; done'
    description = describe(tmp_path, run=run)
    (tmp_path / "gate").unlink()
    params = {"description": str(description), "poll_seconds": 0.1, "proxy": {}}
    replies = [{"content": "41"}, {"content": "42"}]
    with ModelProcess(tmp_path, [{"contains": "", "replies": replies}]) as model:
        config = tmp_path / "config.yaml"
        config.write_text(CONFIG.format(heartbeat_timeout_seconds=QUICK_HEARTBEAT))
        running = command_line.start(
            *("run", "qa", "cli_agent", "m", "--model-base-url", model.base_url, "--config", str(config)),
            *("--harness-params", json.dumps(params)),
            *("--benchmark-params", command_line.dataset([{"id": "q", "question": "?", "answer": "42!"}])),
        )
        environments = command_line.home / "environments" / "host_process"
        wait_for(
            "the first answer in the agent's output",
            lambda: [
                file
                for file in environments.glob("*/proc/process-cli-agent-*/stdout")
                if b"41" in file.read_bytes()
            ],
        )
        kill_and_wait(running.worker_pid)
        (tmp_path / "gate").touch()
        running.wait().expect(0)
        assert model.calls() == 2
    assert len((tmp_path / "agents").read_text().splitlines()) == 1
    assert (tmp_path / "installations").read_text() == "x\n"
    record = json.loads(next(command_line.results.glob("*/*/details/q.json")).read_bytes())
    attempt = record["attempts"]["1"]
    assert (attempt["final_answer"], attempt["metrics"], attempt["issues"]) == ("42!", {"correct": True}, [])
    assert len(attempt["trajectory"]["extra"]["model_calls"]) == 2
