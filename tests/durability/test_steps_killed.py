"""``kill -9`` of the worker in the middle of a task of several steps: nothing that was finished runs again."""

from __future__ import annotations

import json
from pathlib import Path

from command_line import CommandLine, kill_and_wait, wait_for
from gated_runs import CONFIG, QUICK_HEARTBEAT
from harbor_tasks import make_steps

TOML = "[[steps]]\nname = 'one'\n[[steps]]\nname = 'two'\n[[steps]]\nname = 'three'\n"


def make_task(folder: Path, made: Path, gates: Path) -> None:
    """Everything that is executed leaves a line; the second agent and the third setup wait for a gate."""

    def script(line: str, gate: str = "") -> str:
        wait = f"until test -e {gates}/{gate}; do sleep 0.05; done\n" if gate else ""
        return f"#!/bin/sh\necho {line} >> {made}\n{wait}"

    steps = {}
    for name in ("one", "two", "three"):
        steps[name] = {
            "workdir/setup.sh": script(f"{name}-setup", "setup" if name == "three" else ""),
            "solution/solve.sh": script(f"{name}-agent", "agent" if name == "two" else ""),
            "tests/test.sh": script(f"{name}-test") + "echo 1 > /logs/verifier/reward.txt\n",
        }
    make_steps(folder, TOML, steps)


def test_a_killed_worker_repeats_no_step_and_no_setup(command_line: CommandLine, tmp_path: Path) -> None:
    made, gates = tmp_path / "made", tmp_path / "gates"
    gates.mkdir()
    make_task(tmp_path / "tasks/t", made, gates)
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG.format(heartbeat_timeout_seconds=QUICK_HEARTBEAT))
    running = command_line.start(
        *("run", "harbor", "oracle", "none", "--env", "host_process", "--config", str(config)),
        *("--benchmark-params", json.dumps({"path": str(tmp_path / "tasks")})),
    )

    def lines() -> list[str]:
        return made.read_text().split()

    wait_for("the agent of the second step", lambda: "two-agent" in lines())
    kill_and_wait(running.worker_pid)
    (gates / "agent").touch()
    wait_for("the setup of the third step", lambda: "three-setup" in lines())
    kill_and_wait(running.worker_pid)
    (gates / "setup").touch()
    running.wait().expect(0)

    done = [f"{step}-{what}" for step in ("one", "two", "three") for what in ("setup", "agent", "test")]
    assert lines() == done
    [run_dir] = command_line.run_dirs
    attempt = json.loads((run_dir / "details/t.json").read_bytes())["attempts"]["1"]
    assert [(step["name"], step["metrics"]["reward"]) for step in attempt["steps"]] == [
        ("one", 1.0),
        ("two", 1.0),
        ("three", 1.0),
    ]
    assert (attempt["metrics"], attempt["issues"]) == ({"reward": 1.0, "correct": True}, [])
