"""Harbor tasks in containers: images that are named and built, users, networks, and an agent that cheats."""

from __future__ import annotations

import json
import os

from command_line import CommandLine
from docker_engine import containers_of, require_engine
from harbor_tasks import IMAGES


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
