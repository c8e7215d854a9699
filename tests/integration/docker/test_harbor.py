"""Harbor tasks in containers: images that are named and built, users, networks, and an agent that cheats."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from command_line import CommandLine
from compose_services import write_compose
from docker_engine import IMAGE, containers_of, require_engine
from harbor_tasks import IMAGES, SERVICES, STEPPED_IMAGES, make_task


def run_harbor(
    command_line: CommandLine, harness: str, path: Path, run_id: str
) -> tuple[Path, dict[str, Any]]:
    """The run directory, and the first attempt of each task."""
    host = {name: os.environ[name] for name in ("DOCKER_HOST",) if name in os.environ}
    command_line.run(
        *("run", "harbor", harness, "none", "--env", "docker", "--progress", "none", "--run-id", run_id),
        *("--benchmark-params", json.dumps({"path": str(path)})),
        env=host,
    ).expect(0)
    [run_dir] = [folder for folder in command_line.run_dirs if folder.name == run_id]
    records = [json.loads(file.read_bytes()) for file in (run_dir / "details").glob("*.json")]
    return run_dir, {record["task_id"]: record["attempts"]["1"] for record in records}


def left_of(run_dir: Path) -> list[str]:
    """What the engine still has of a run: containers, networks, volumes."""
    client = require_engine()
    launch = json.loads((run_dir / "run_info.json").read_bytes())["launch_id"]
    filters = {"label": [f"agentcompass.label.launch={launch}"]}
    networks = [item["Name"] for item in client.api.networks(filters=filters)]
    volumes = [item["Name"] for item in client.api.volumes(filters=filters)["Volumes"] or []]
    return [*containers_of(client, launch=launch), *networks, *volumes]


def test_the_oracle_runs_a_data_set_and_a_forged_reward_does_not_count(command_line: CommandLine) -> None:
    engine = require_engine()
    host = {name: os.environ[name] for name in ("DOCKER_HOST",) if name in os.environ}
    ended = command_line.run(
        *("run", "harbor", "oracle", "none", "--env", "docker", "--progress", "none"),
        *("--benchmark-params", json.dumps({"path": str(IMAGES)})),
        env=host,
    ).expect(0)
    assert "3/3 tasks evaluated" in ended.stdout
    [run_dir] = command_line.run_dirs
    records = [json.loads(file.read_bytes()) for file in (run_dir / "details").glob("*.json")]
    found = {record["task_id"]: record["attempts"]["1"] for record in records}
    rewards = {name: (item["metrics"]["reward"], item["issues"]) for name, item in found.items()}
    assert rewards == {"built": (1.0, []), "forger": (0.5, []), "separate": (1.0, [])}
    assert found["built"]["final_answer"] == "agent"
    launch = json.loads((run_dir / "run_info.json").read_bytes())["launch_id"]
    assert containers_of(engine, launch=launch) == []


def test_tasks_with_services_are_solved_by_the_oracle_only_and_leave_nothing(
    command_line: CommandLine,
) -> None:
    require_engine()
    run_dir, solved = run_harbor(command_line, "oracle", SERVICES, "solved")
    rewards = {name: (item["metrics"]["reward"], item["issues"]) for name, item in solved.items()}
    assert rewards == {"apart": (1.0, []), "ledger": (1.0, [])}
    log = run_dir / "logs/services/ledger/attempt-1/execution-1/db.log"
    assert "response:200" in log.read_text(encoding="utf-8")
    other_dir, idle = run_harbor(command_line, "nop", SERVICES, "idle")
    assert {name: item["metrics"]["reward"] for name, item in idle.items()} == {"apart": 0.0, "ledger": 0.0}
    assert left_of(run_dir) == left_of(other_dir) == []


def test_a_service_that_died_is_an_error_beside_the_score(command_line: CommandLine, tmp_path: Path) -> None:
    require_engine()
    wait = "until [ -e /shared/stop ]; do sleep 0.1; done; echo last words; touch /shared/stopped; exit 5"
    services = {
        "main": {"volumes": ["shared:/shared"]},
        "db": {"image": IMAGE, "command": ["sh", "-c", wait], "volumes": ["shared:/shared"]},
    }
    solution = "#!/bin/sh\ntouch /shared/stop\nuntil [ -e /shared/stopped ]; do sleep 0.1; done\n"
    task = make_task(
        tmp_path / "data/task",
        f'[environment]\ndocker_image = "{IMAGE}"\n',
        solution__solve_dot_sh=solution,
    )
    write_compose(task / "environment", services, volumes={"shared": {}})
    run_dir, found = run_harbor(command_line, "oracle", tmp_path / "data", "died")
    [issue] = found["task"]["issues"]
    assert (issue["severity"], issue["code"], issue["phase"]) == ("error", "service_failed", "run")
    assert "service 'db' of the task ended with status 5" in issue["message"]
    assert found["task"]["metrics"]["reward"] == 1.0
    assert "last words" in (run_dir / issue["message"].partition("its log: ")[2]).read_text(encoding="utf-8")
    assert left_of(run_dir) == []


def test_a_process_of_an_earlier_step_grades_no_later_one(command_line: CommandLine) -> None:
    require_engine()
    run_dir, found = run_harbor(command_line, "oracle", STEPPED_IMAGES, "stepped")
    planter = found["planter"]
    assert [(step["name"], step["metrics"]["reward"], step["final_answer"]) for step in planter["steps"]] == [
        ("plant", 0.5, "agent"),
        ("reap", 0.25, "agent"),
        ("again", 0.0, "agent"),
    ]
    assert (planter["metrics"], planter["issues"]) == ({"reward": 0.25, "correct": False}, [])
    assert left_of(run_dir) == []
