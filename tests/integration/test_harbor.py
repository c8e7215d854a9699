"""Harbor tasks through the real command line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from command_line import CommandLine
from harbor_tasks import TASKS, make_task


def run(line: CommandLine, path: Path, harness: str = "oracle", *options: str, **params: Any) -> Any:
    return line.run(
        *("run", "harbor", harness, "none", "--env", "host_process", "--progress", "none"),
        *("--benchmark-params", json.dumps({"path": str(path), **params}), *options),
    )


def attempts(line: CommandLine) -> dict[str, dict[str, Any]]:
    """The first attempt of each task in the newest run, by task."""
    records = [json.loads(file.read_bytes()) for file in (line.run_dirs[-1] / "details").glob("*.json")]
    return {record["task_id"]: record["attempts"]["1"] for record in records}


def test_the_oracle_solves_tasks_that_need_no_image_shared_and_separate(command_line: CommandLine) -> None:
    ended = run(command_line, TASKS).expect(0)
    assert "reward.native@1 = 1.0000" in ended.stdout and "3/3 tasks evaluated" in ended.stdout
    found = attempts(command_line)
    assert {name: item["issues"] for name, item in found.items()} == {name: [] for name in found}
    assert found["counting"]["meta"]["benchmark"]["rewards"] == {"reward": 1.0, "style": 0.5}
    assert found["counting"]["final_answer"] == "counted"


def test_verifiers_without_a_usable_reward_and_agents_that_fail_are_told_apart(
    command_line: CommandLine, tmp_path: Path
) -> None:
    folder = tmp_path / "tasks"
    shutil.copytree(TASKS / "greeting", folder / "failing")
    (folder / "failing/solution/solve.sh").write_text("#!/bin/sh\necho no; exit 3\n")
    solution = "#!/bin/sh\n"
    tests = {
        "silent": "#!/bin/sh\nexit 1\n",
        "odd": "#!/bin/sh\necho yes > /logs/verifier/reward.txt\n",
        "killed": "#!/bin/sh\nkill -9 $$\n",
        "foreign": "#!/no/such/interpreter\n",
        "slow": "#!/bin/sh\nsleep 1000\n",
    }
    for name, script in tests.items():
        limit = "[verifier]\ntimeout_sec = 1\n" if name == "slow" else ""
        make_task(folder / name, limit, tests__test_dot_sh=script, solution__solve_dot_sh=solution)
    run(command_line, folder).expect(1)
    found = attempts(command_line)
    told = {
        name: (
            item["metrics"].get("reward"),
            [(issue["severity"], issue["code"]) for issue in item["issues"]],
        )
        for name, item in found.items()
    }
    assert told == {
        "failing": (0.0, [("error", "agent_exit_status")]),
        "silent": (0.0, [("warning", "reward_unreadable")]),
        "odd": (0.0, [("warning", "reward_unreadable")]),
        "killed": (None, [("error", "evaluation_failed")]),
        "foreign": (None, [("fatal", "task_input_invalid")]),
        "slow": (None, [("error", "evaluation_timeout")]),
    }


def test_an_agent_that_does_nothing_gets_nothing(command_line: CommandLine) -> None:
    run(command_line, TASKS, "nop").expect(0)
    rewards = {name: item["metrics"]["reward"] for name, item in attempts(command_line).items()}
    assert rewards == {"counting": 0.25, "greeting": 0.0, "handover": 0.0}


def test_tasks_that_need_an_image_are_refused_before_anything_is_written(
    command_line: CommandLine, tmp_path: Path
) -> None:
    make_task(tmp_path / "tasks/built", environment__Dockerfile="FROM scratch\n")
    ended = run(command_line, tmp_path / "tasks").expect(2)
    assert "built: it needs an image, which host_process has not: use --env docker" in ended.stderr
    assert command_line.run_dirs == []
