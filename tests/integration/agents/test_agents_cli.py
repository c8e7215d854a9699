"""Agents on the command line: tried with a scripted model, recorded, exported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import CommandLine
from model_process import ModelProcess

from agentcompass.contracts.atif import AtifTrajectory

QUESTIONS = [{"id": f"q{n}", "question": f"{n} + {n}? [task: q{n}]", "answer": str(2 * n)} for n in (1, 2)]


def read(path: Path) -> Any:
    return json.loads(path.read_bytes())


def test_the_built_in_tasks_are_solved_by_a_scripted_agent_and_exported(command_line: CommandLine) -> None:
    command_line.run("run", "terminal_tasks", "terminal_agent", "scripted", "--run-id", "demo").expect(0)
    [run_dir] = command_line.run_dirs
    assert read(run_dir / "metrics.json")["series"][0]["value"] == 1.0

    told = command_line.run("export", "--format", "harbor", str(run_dir)).expect(0).stdout
    job = run_dir.with_name("demo_harbor")
    assert told.splitlines()[:2] == [
        "Exported: 4 attempts, 4 of them with a trajectory",
        f"Directory: {job}",
    ]
    trials = sorted(path.parent for path in job.glob("*/result.json"))
    assert [trial.name for trial in trials] == [
        "count-errors__a1",
        "fix-program__a1",
        "greeting__a1",
        "rename__a1",
    ]
    for trial in trials:
        AtifTrajectory.model_validate(read(trial / "agent" / "trajectory.json"))
        assert read(trial / "verifier" / "reward.json") == {"correct": 1, "reward": 1}
        assert read(trial / "result.json")["verifier_result"] == {"rewards": {"correct": 1, "reward": 1}}
    stats = read(job / "result.json")["stats"]
    assert (stats["n_trials"], stats["n_errors"]) == (4, 0)
    assert (stats["n_completed_trials"], stats["n_errored_trials"]) == (4, 0)
    assert stats["n_input_tokens"] > 0

    command_line.run("export", "--format", "atif", str(run_dir), "--output", "out").expect(0)
    files = sorted((command_line.folder / "out").iterdir())
    assert [AtifTrajectory.model_validate(read(file)).agent.name for file in files] == ["terminal_agent"] * 4

    again = command_line.run("export", "--format", "atif", str(run_dir), "--output", "out").expect(2)
    assert again.errors == ["Error: out exists already; choose another --output"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Error: --format: give one of atif, harbor"),
        (["--format", "csv"], "Error: --format: 'csv' is not one of atif, harbor"),
    ],
)
def test_an_unknown_format_is_refused(command_line: CommandLine, arguments: list[str], message: str) -> None:
    assert command_line.run("export", *arguments, str(command_line.folder)).expect(2).errors == [message]


def test_a_folder_that_is_no_run_is_refused_and_nothing_is_left(command_line: CommandLine) -> None:
    empty = command_line.folder / "empty"
    empty.mkdir()
    command_line.run("export", "--format", "atif", str(empty)).expect(2)
    assert not empty.with_name("empty_atif").exists()


def test_a_recorded_run_is_replayed_without_its_endpoint(command_line: CommandLine) -> None:
    """Two tasks at once; the script is named relative to where the command runs."""
    key = "sk-recorded-canary-4711"
    rules = [{"contains": f"{n} + {n}", "replies": [{"content": str(2 * n)}]} for n in (1, 2)]
    data = ("--benchmark-params", command_line.dataset(QUESTIONS))
    with ModelProcess(command_line.folder, rules, api_key=key) as model:
        command_line.run(
            *("run", "qa", "openai_chat", "m", "--model-base-url", model.base_url, *data),
            *("--model-api-key", "${KEY}", "--model-params", '{"record": "answers.jsonl"}'),
            env={"KEY": key},
        ).expect(0)
    script = command_line.folder / "answers.jsonl"
    assert key not in script.read_text()
    assert sorted(json.loads(line)["task"] for line in script.read_text().splitlines()) == ["q1", "q2"]

    command_line.run(
        *("run", "qa", "openai_chat", "m", "--model-api-protocol", "scripted", *data),
        *("--model-params", '{"script": "answers.jsonl"}', "--fail-under", "correct=1"),
    ).expect(0)


def test_a_script_that_is_missing_is_refused_before_anything_runs(command_line: CommandLine) -> None:
    refused = command_line.run(
        *("run", "qa", "openai_chat", "scripted", "--benchmark-params", command_line.dataset(QUESTIONS)),
        *("--model-params", '{"script": "absent.jsonl"}'),
    ).expect(2)
    assert "absent.jsonl cannot be read: No such file or directory" in refused.stderr
    assert command_line.run_dirs == []
