"""The benchmark ``command``, with real commands in the environment ``host_process``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from agentcompass.contracts import (
    DatasetError,
    EnvironmentSession,
    ExecutionPlan,
    PreparedTask,
    RunRequest,
    RunResult,
    TaskInput,
    TaskSpec,
    TaskStatus,
    UsageError,
)
from agentcompass.plugins.benchmarks.command import CommandBenchmark, CommandParams
from agentcompass.plugins.testing import RecordingContext

REQUEST = RunRequest.model_validate(
    {
        "benchmark": {"id": "command"},
        "harness": {"id": "none"},
        "environment": {"id": "host_process"},
        "model": {"id": "none"},
    }
)


def benchmark(folder: Path, *rows: dict[str, Any] | str, **params: Any) -> CommandBenchmark:
    """A benchmark over a file with these rows; a string is written as it is."""
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path = folder / "tasks.jsonl"
    path.write_text("\n".join(lines))
    return CommandBenchmark(CommandParams(path=str(path), **params))


async def load(folder: Path, *rows: dict[str, Any] | str) -> list[TaskSpec]:
    return await benchmark(folder, *rows).load_tasks(REQUEST)


async def prepare_and_run(
    subject: CommandBenchmark, task: TaskSpec, env: EnvironmentSession, context: RecordingContext
) -> tuple[PreparedTask, RunResult]:
    plan = subject.build_plan(task, REQUEST)
    prepared = await subject.prepare_task(task, env, REQUEST, plan, context)
    return prepared, await subject.run_task(prepared, env, REQUEST, plan, context)


async def execute(
    folder: Path, env: EnvironmentSession, row: dict[str, Any], context: RecordingContext | None = None
) -> RunResult:
    """The scored result of the only task."""
    subject = benchmark(folder, {"id": "one"} | row)
    [task] = await subject.load_tasks(REQUEST)
    context = context or RecordingContext()
    prepared, result = await prepare_and_run(subject, task, env, context)
    assert result.metrics == {}
    plan = ExecutionPlan(task_id=task.task_id, attempt=1, environment=REQUEST.environment)
    # Through JSON, as the run store keeps it; without an environment, as mode "none" evaluates.
    stored = RunResult.model_validate_json(result.model_dump_json())
    return await subject.evaluate(task, prepared, stored, REQUEST, plan, None, context)


async def test_exit_status_zero_is_correct_when_nothing_else_is_expected(
    tmp_path: Path, host: EnvironmentSession
) -> None:
    result = await execute(tmp_path, host, {"command": "echo hello", "category": "greeting"})
    assert result.metrics == {"correct": True}
    assert (result.status, result.category, result.final_answer) == ("completed", "greeting", "hello\n")


@pytest.mark.parametrize(
    ("row", "correct"),
    [
        ({"command": "exit 3"}, False),
        ({"command": "exit 3", "expected_exit_status": 3}, True),
        ({"command": "true", "expected_exit_status": 3}, False),
        ({"command": "echo hello", "expected_stdout": "hello"}, True),
        ({"command": "printf hello", "expected_stdout": "hello\n"}, True),
        ({"command": "echo ' hello'", "expected_stdout": "hello"}, False),
        ({"command": "true", "expected_stdout": ""}, True),
        ({"command": "echo hello; exit 1", "expected_stdout": "hello"}, False),
        ({"command": "echo hello >&2", "expected_stdout": "hello"}, False),
        ({"command": "echo took 12 s", "expected_pattern": r"took \d+ s"}, True),
        ({"command": "echo took long", "expected_pattern": r"took \d+ s"}, False),
        ({"command": "kill -9 $$", "expected_exit_status": -9}, True),
        ({"command": "yes | head -c 400000", "expected_stdout": "y"}, False),
    ],
)
async def test_every_given_expectation_must_hold(
    tmp_path: Path, host: EnvironmentSession, row: dict[str, Any], correct: bool
) -> None:
    assert (await execute(tmp_path, host, row)).metrics == {"correct": correct}


async def test_files_of_the_task_are_in_the_work_directory(tmp_path: Path, host: EnvironmentSession) -> None:
    files = {"a.txt": "ä\n", "sub/b.txt": "b"}
    row = {"command": "cat a.txt sub/b.txt", "files": files, "expected_stdout": "ä\nb"}
    assert (await execute(tmp_path, host, row)).metrics == {"correct": True}


async def test_a_command_out_of_time_is_wrong_and_an_error_beside_the_score(
    tmp_path: Path, host: EnvironmentSession
) -> None:
    result = await execute(tmp_path, host, {"command": "echo begun; sleep 60", "timeout_seconds": 0.5})
    assert result.metrics == {"correct": False}
    assert result.status is TaskStatus.RUN_ERROR
    assert [(issue.severity, issue.code) for issue in result.issues] == [("error", "harness_timeout")]
    assert result.final_answer == "begun\n"


async def test_a_result_that_the_run_budget_cut_off_is_wrong(tmp_path: Path) -> None:
    subject = benchmark(tmp_path, {"id": "a", "command": "true"})
    [task] = await subject.load_tasks(REQUEST)
    prepared = PreparedTask(task_id="a", ground_truth=task.ground_truth, input=TaskInput(prompt="true"))
    plan = ExecutionPlan(task_id="a", attempt=1, environment=REQUEST.environment)
    blank = RunResult(task_id="a")
    result = await subject.evaluate(task, prepared, blank, REQUEST, plan, None, RecordingContext())
    assert result.metrics == {"correct": False}


async def test_the_trajectory_is_the_one_command(tmp_path: Path, host: EnvironmentSession) -> None:
    context = RecordingContext()
    result = await execute(tmp_path, host, {"command": "echo out; echo err >&2; exit 4"}, context)
    assert result.trajectory is not None
    [step] = result.trajectory.steps
    assert context.steps == [step]
    assert (step.step_id, step.source) == (1, "agent")
    assert [(call.name, call.arguments) for call in step.tool_calls] == [
        ("exec", {"command": "echo out; echo err >&2; exit 4"})
    ]
    assert step.observations[0].content == {"returncode": 4, "stdout": "out\n", "stderr": "err\n"}


async def test_a_large_output_is_cut_in_the_answer(tmp_path: Path, host: EnvironmentSession) -> None:
    result = await execute(tmp_path, host, {"command": "yes | head -c 1000000"})
    assert isinstance(result.final_answer, str) and len(result.final_answer) == 65536
    outcome: Any = result.extra["command"]
    assert (outcome["stdout_bytes"], outcome["stdout_complete"]) == (1_000_000, False)


async def test_a_pattern_is_found_at_the_end_of_a_large_output(
    tmp_path: Path, host: EnvironmentSession
) -> None:
    row = {"command": "yes | head -c 1000000; echo END", "expected_pattern": "END$"}
    assert (await execute(tmp_path, host, row)).metrics == {"correct": True}


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ('{"id": "b", "command": ', "malformed JSON"),
        ({"id": "b", "comand": "true"}, "unknown key 'comand'; did you mean 'command'"),
        ({"command": "true"}, "'id' is required"),
        ({"id": "b"}, "'command' is required"),
        ({"id": "", "command": "true"}, "'id': must not be empty"),
        ({"id": "b", "command": "  "}, "'command': must not be empty"),
        ({"id": "b", "command": "true", "expected_pattern": "("}, "'(' is not a regular expression"),
        ({"id": "b", "command": "true", "expected_stdout": "", "expected_pattern": ""}, "exclude each other"),
        ({"id": "b", "command": "true", "timeout_seconds": 0}, "'timeout_seconds'"),
        ({"id": "b", "command": "true", "files": {"../x": ""}}, "'../x' must be a relative path"),
        ({"id": "b", "command": "true", "files": {"/x": ""}}, "'/x' must be a relative path"),
        ('["b"]', "expected a JSON object, got a list"),
    ],
)
async def test_a_wrong_row_is_named_by_file_and_line(
    tmp_path: Path, row: dict[str, Any] | str, reason: str
) -> None:
    with pytest.raises(DatasetError) as raised:
        await load(tmp_path, {"id": "a", "command": "true"}, row)
    assert str(raised.value).startswith(f"{tmp_path}/tasks.jsonl:2: ")
    assert reason in str(raised.value)


async def test_a_row_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    (tmp_path / "tasks.jsonl").write_bytes(b'{"id": "a", "command": "echo \xe4"}\n')
    subject = CommandBenchmark(CommandParams(path=str(tmp_path / "tasks.jsonl")))
    with pytest.raises(DatasetError, match=r"tasks\.jsonl:1: not UTF-8"):
        await subject.load_tasks(REQUEST)


async def test_an_empty_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="has no rows"):
        await load(tmp_path, "")
    with pytest.raises(DatasetError, match="does not exist"):
        await CommandBenchmark(CommandParams(path=str(tmp_path / "none.jsonl"))).load_tasks(REQUEST)


async def test_tasks_keep_the_order_of_the_file_and_can_be_selected(tmp_path: Path) -> None:
    rows = [{"id": name, "command": "true"} for name in "cab"]
    subject = benchmark(tmp_path, *rows, sample_ids=["b", "c"])
    tasks = await subject.load_tasks(REQUEST)
    assert [task.task_id for task in tasks] == ["c", "a", "b"]
    assert [task.task_id for task in await subject.select_tasks(tasks, REQUEST)] == ["c", "b"]
    subject = benchmark(tmp_path, *rows, sample_ids=["nobody"])
    with pytest.raises(UsageError, match="no task 'nobody'"):
        await subject.select_tasks(tasks, REQUEST)


def test_an_unknown_parameter_is_refused() -> None:
    with pytest.raises(ValidationError, match="pathh"):
        CommandParams.model_validate({"path": "x", "pathh": "y"})
