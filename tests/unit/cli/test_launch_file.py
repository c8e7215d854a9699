"""Launch files: where each value comes from, and what the command line may say over them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentcompass.cli.config import LaunchArguments, ResolvedLaunch, leave_literal, resolve_launch
from agentcompass.contracts.errors import ConfigurationError

PLAN = """\
version: 1
task_concurrency: 5
defaults:
  model: {id: none}
requests:
  - name: one
    benchmark: {id: qa, path: questions.jsonl}
    harness: {id: oracle}
    environment: {id: host_process}
"""


def resolve(
    folder: Path, text: str = PLAN, env: dict[str, str] | None = None, **given: Any
) -> ResolvedLaunch:
    """``text`` as a file in a folder beside the working directory."""
    (folder / "plans").mkdir(exist_ok=True)
    (folder / "work").mkdir(exist_ok=True)
    file = folder / "plans" / "plan.yaml"
    file.write_text(text, encoding="utf-8")
    return resolve_launch(
        file,
        LaunchArguments(**given),
        store_literal=leave_literal,
        cwd=folder / "work",
        env={"HOME": str(folder), **(env or {})},
    )


def origins(launch: ResolvedLaunch) -> dict[str, str]:
    """Source of each value, a file without its folder."""
    return {path: str(origin).rpartition("/")[2] for path, origin in launch.runs[0].origins.items()}


def test_what_stands_in_the_file_has_the_file_and_line_as_its_origin(tmp_path: Path) -> None:
    found = origins(resolve(tmp_path))
    assert found["execution.task_concurrency"] == "plan.yaml:2"
    assert found["model.id"] == "plan.yaml:4"
    assert found["benchmark.id"] == "plan.yaml:7"
    assert found["harness.id"] == "plan.yaml:8"
    assert found["environment.id"] == "plan.yaml:9"


def test_flags_win_and_are_named_as_origin(tmp_path: Path) -> None:
    launch = resolve(tmp_path, task_concurrency=9, k=2, reuse="xy", checkpoint_resume=False)
    [request] = launch.spec.requests
    assert (launch.spec.task_concurrency, request.execution.attempts.k) == (9, 2)
    assert (request.runtime.reuse, request.runtime.reuse_run_id) == (True, "xy")
    assert request.runtime.checkpoint_resume is False
    found = origins(launch)
    assert found["execution.task_concurrency"] == "--task-concurrency"
    assert found["execution.attempts.k"] == "--k"


def test_limit_may_come_from_a_variable_or_from_a_file_below(tmp_path: Path) -> None:
    with_variable = PLAN.replace("task_concurrency: 5", "task_concurrency: ${TC}")
    assert resolve(tmp_path, with_variable, {"TC": "7"}).spec.task_concurrency == 7
    with pytest.raises(ConfigurationError, match=r"plan\.yaml:2: task_concurrency: .*TC is not set"):
        resolve(tmp_path, with_variable)
    without = PLAN.replace("task_concurrency: 5\n", "")
    assert resolve(tmp_path, without).spec.task_concurrency == 32
    (tmp_path / "work" / "agentcompass.yaml").write_text("task_concurrency: 3\n")
    assert resolve(tmp_path, without).spec.task_concurrency == 3


def test_local_paths_are_relative_to_the_file_and_results_to_the_working_directory(tmp_path: Path) -> None:
    launch = resolve(tmp_path, PLAN.replace("defaults:", "runtime: {results_dir: out}\ndefaults:"))
    assert launch.spec.requests[0].benchmark.params["path"] == str(tmp_path / "plans" / "questions.jsonl")
    assert launch.spec.runtime.results_dir == str(tmp_path / "work" / "out")


def test_missing_component_is_named_with_its_request(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"plan\.yaml:6: request has no harness\.id"):
        resolve(tmp_path, PLAN.replace("    harness: {id: oracle}\n", ""))
