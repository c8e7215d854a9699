"""PinchBench task files: parsing, checks in the environment, and the judge's share."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from model_answers import Reply
from model_server import ModelServer

from agentcompass.contracts import (
    DatasetError,
    EnvironmentSession,
    Observation,
    RunResult,
    StageFailure,
    ToolCall,
    Trajectory,
    TrajectoryStep,
)
from agentcompass.plugins.benchmarks.pinchbench import PinchBench, PinchBenchParams
from agentcompass.plugins.benchmarks.pinchbench.checks import run_checks, transcript_of

DATA = Path(__file__).parents[2] / "data" / "pinchbench"
FRONT = "---\nid: task_x\ngrading_type: automated\n---\n"
CHECKS = (
    "## Automated Checks\n\n```python\ndef grade(transcript, workspace_path):\n    return {'a': 1.0}\n```\n"
)


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with ModelServer() as running:
        running.default = Reply("Warm.\nSCORE: 0.5")
        yield running


def benchmark(server: ModelServer, path: Path = DATA, **params: Any) -> PinchBench:
    judge = {"id": "judge", "base_url": server.base_url, "params": {"max_attempts": 1}}
    return PinchBench(PinchBenchParams.model_validate({"path": str(path), "judge": judge, **params}))


async def evaluated(used: Any, task: Any, script: str) -> RunResult:
    """The score after a shell script has done the agent's work."""
    prepared = await used.prepare(task)
    assert (await used.env.exec(script)).ok
    result = RunResult(task_id=task.task_id, final_answer="done")
    used.context = used.context.restarted()
    return await used.benchmark.evaluate(task, prepared, result, used.request, None, used.env, used.context)


async def test_checks_and_judge_count_by_their_weights(
    server: ModelServer, driver: Callable[..., Any], host: EnvironmentSession
) -> None:
    used = driver(benchmark(server), host)
    total, letter = await used.load()
    assert total.oracle is not None and letter.oracle is not None
    first = await evaluated(used, total, total.oracle.command)
    assert first.metrics == {"score": 1.0}
    assert first.meta.benchmark["checks"] == {"file_created": 1.0, "sum_right": 1.0}
    assert server.calls == []
    second = await evaluated(used, letter, letter.oracle.command)
    assert second.metrics == {"score": pytest.approx(0.25 * 1.0 + 0.75 * 0.5)}
    [call] = server.calls
    assert "Dear Ada, thank you!" in call.prompt and "Warm and polite." in call.prompt


async def test_nothing_done_scores_nothing(
    server: ModelServer, driver: Callable[..., Any], host: EnvironmentSession
) -> None:
    used = driver(benchmark(server, automated_only=True), host)
    [total] = await used.load()
    assert (await evaluated(used, total, "true")).metrics == {"score": 0.0}


async def test_tasks_that_need_a_judge_are_refused_without_one(driver: Callable[..., Any]) -> None:
    without = PinchBench(PinchBenchParams(path=str(DATA)))
    with pytest.raises(DatasetError, match=r"task_02_letter\.md needs a judge"):
        await driver(without).load()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no front matter", "does not begin with front matter"),
        ("---\n: [\n---\n", "is not YAML"),
        ("---\nid: a b\ngrading_type: automated\n---\n", "'id'"),
        ("---\nid: a\ngrading_type: magic\n---\n", "'grading_type'"),
        (FRONT + CHECKS, "the section Prompt is missing"),
        (FRONT + "## Prompt\n\nDo it.\n", "needs a section Automated Checks"),
        (
            FRONT.replace("id:", "multi_session: true\nid:") + "## Prompt\n\nDo it.\n" + CHECKS,
            "several sessions",
        ),
        (FRONT.replace("id:", "workspace_files: [{source: ../x, dest: y}]\nid:"), "without '..'"),
        (FRONT.replace("id:", "workspace_files: [{source: x, dest: /y}]\nid:"), "must be a relative path"),
        (
            FRONT.replace("id:", "workspace_files: [{source: none, dest: y}]\nid:")
            + "## Prompt\n\nDo.\n"
            + CHECKS,
            "'none' is not among the assets",
        ),
        (
            FRONT.replace("id:", "workspace_files: [{source: link, dest: y}]\nid:")
            + "## Prompt\n\nDo.\n"
            + CHECKS,
            "'link' is not among the assets",
        ),
        ("---\na: &a [1]\nb: !!python/object/apply:os.system [id]\n---\n", "is not YAML"),
    ],
)
async def test_files_that_cannot_be_used_are_named_or_left_out(
    server: ModelServer, driver: Callable[..., Any], tmp_path: Path, text: str, message: str
) -> None:
    shutil.copytree(DATA, tmp_path / "data")
    (tmp_path / "data/assets/link").symlink_to("/etc/passwd")
    (tmp_path / "data/tasks/task_03.md").write_text(text)
    with pytest.raises(DatasetError) as caught:
        await driver(benchmark(server, tmp_path / "data")).load()
    assert "task_03.md" in str(caught.value) and message in str(caught.value)
    left = await driver(benchmark(server, tmp_path / "data", skip_invalid=True)).load()
    assert [task.task_id for task in left] == ["task_01_total", "task_02_letter"]


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("def grade(t, w): raise ValueError('broken')", "(?s)without scores: .*broken"),
        ("def grade(t, w): return {}", "give no scores"),
        ("def grade(t, w): return {'a': 2}", "no number from 0 to 1"),
        ("def grade(t, w): return {'a': float('nan')}", "no number from 0 to 1"),
        ("def grade(t, w): return {'a': 'yes'}", "no number from 0 to 1"),
        ("import os\ndef grade(t, w): os._exit(0)", "without scores"),
        ("import time\ndef grade(t, w): time.sleep(60)", "did not end within"),
    ],
)
async def test_checks_that_give_no_scores_leave_no_score(
    host: EnvironmentSession, code: str, message: str
) -> None:
    seconds = 1.0 if "sleep" in code else 60.0
    with pytest.raises(StageFailure, match=message) as caught:
        await run_checks(host, code, [], python="python3", timeout_seconds=seconds)
    assert caught.value.issue.code == "evaluation_failed"


async def test_what_checks_print_is_not_taken_for_scores(host: EnvironmentSession) -> None:
    code = "def grade(t, w):\n    print('{\"a\": 1.0}')\n    return {'a': 0.25}"
    scores = await run_checks(host, code, [], python="python3", timeout_seconds=60)
    assert scores == {"a": 0.25}


async def test_a_missing_interpreter_is_nobodys_zero(host: EnvironmentSession) -> None:
    with pytest.raises(StageFailure, match="did not start") as caught:
        await run_checks(host, "", [], python="no-such-python", timeout_seconds=60)
    assert caught.value.issue.code == "environment_failed"


def test_the_transcript_has_the_events_that_checks_look_for() -> None:
    step = TrajectoryStep(
        step_id=1,
        source="agent",
        message="reading",
        tool_calls=[ToolCall(id="1", name="read", arguments={"path": "x"})],
        observations=[Observation(tool_call_id="1", content="content")],
    )
    said, seen = transcript_of(Trajectory(steps=[step]))
    call = {
        "type": "toolCall",
        "id": "1",
        "name": "read",
        "arguments": {"path": "x"},
        "params": {"path": "x"},
    }
    assert said == {
        "type": "message",
        "message": {"role": "assistant", "content": [{"type": "text", "text": "reading"}, call]},
    }
    assert isinstance(seen, dict) and seen["message"]["role"] == "toolResult"  # type: ignore[index,call-overload]
