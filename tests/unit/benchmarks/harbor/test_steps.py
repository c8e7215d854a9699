"""Tasks of several steps: how they are read, when they stop, and what they are worth."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from harbor_tasks import STEPS, make_steps

from agentcompass.contracts import (
    DatasetError,
    EvaluationMode,
    RunRequest,
    RunResult,
    TaskSpec,
)
from agentcompass.contracts.result import ResultMeta
from agentcompass.contracts.task import step_of
from agentcompass.plugins.benchmarks.harbor import Harbor, HarborParams
from agentcompass.plugins.benchmarks.harbor.facts import HarborFacts


def request_on(environment: str) -> RunRequest:
    return RunRequest.model_validate(
        {
            "benchmark": {"id": "harbor"},
            "harness": {"id": "oracle"},
            "environment": {"id": environment},
            "model": {"id": "none"},
        }
    )


async def load(path: Path, environment: str = "docker", **params: Any) -> dict[str, TaskSpec]:
    harbor = Harbor(HarborParams(path=str(path), **params))
    return {task.task_id: task for task in await harbor.load_tasks(request_on(environment))}


async def refusal(folder: Path) -> str:
    with pytest.raises(DatasetError) as caught:
        await load(folder)
    return str(caught.value)


async def test_a_step_has_what_it_says_and_the_task_s_own_for_the_rest() -> None:
    relay = (await load(STEPS))["relay"]
    write, extend, finish = relay.steps
    assert [step.task_id for step in relay.steps] == ["write", "extend", "finish"]
    assert write.question == "Write the line `one` into `log.txt`.\n"
    assert (write.run_timeout_seconds, extend.run_timeout_seconds) == (120, 60)
    assert (write.evaluation_timeout_seconds, extend.evaluation_timeout_seconds) == (600, 90)
    assert write.evaluation_env_variables == {"GOAL": "task"}
    assert extend.evaluation_env_variables == {"GOAL": "step"}
    assert [item.source for item in extend.artifacts or []] == ["/logs/artifacts", "/app/log.txt"]
    assert [item.source for item in finish.artifacts or []] == ["/logs/artifacts"]
    facts = HarborFacts.of(extend)
    assert [part.path for part in facts.tests] == ["tests", "steps/extend/tests"]
    assert facts.step is not None and facts.step.setup_script and not facts.step.first
    assert facts.solution is not None and facts.solution.path == "steps/extend/solution"


async def test_the_mode_of_a_step_s_verifier_is_its_own() -> None:
    draft, final = (await load(STEPS))["last"].steps
    assert draft.evaluation_environment_mode is None
    assert final.evaluation_environment_mode is EvaluationMode.FRESH


async def test_what_makes_the_environment_is_the_whole_task_s(tmp_path: Path) -> None:
    toml = '[environment]\nmemory_mb = 64\nenv = {A = "1"}\nskills_dir = "/skills"\n[[steps]]\nname = "one"\n'
    make_steps(tmp_path / "t", toml, {"one": {}})
    task = (await load(tmp_path))["t"]
    step = step_of(task, 1)
    assert (step.task_id, step.question) == ("t", "Do one.")
    assert (step.resources, step.env_variables, step.skills_dir) == (task.resources, {"A": "1"}, "/skills")
    assert step_of(task, 0) is task


async def test_a_change_in_any_step_makes_it_another_task(tmp_path: Path) -> None:
    shutil.copytree(STEPS, tmp_path / "copy")
    assert await load(tmp_path / "copy") == await load(STEPS)
    (tmp_path / "copy/relay/steps/finish/instruction.md").write_text("Something else.")
    assert (await load(tmp_path / "copy"))["relay"] != (await load(STEPS))["relay"]


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("[[steps]]\nname = 'two'\n", "steps/two/ is missing"),
        ("[[steps]]\nname = '../one'\n", "is not the name of a folder below steps/"),
        ("[[steps]]\nname = '..'\n", "is not the name of a folder below steps/"),
        ("[[steps]]\nname = 'one'\n[[steps]]\nname = 'ONE'\n", "two steps are called 'one'"),
        ("[[steps]]\nname = 'one'\nmin_reward = 'much'\n", "'steps.0.min_reward"),
        ("multi_step_reward_strategy = 'best'\n[[steps]]\nname = 'one'\n", "'multi_step_reward_strategy'"),
        ("[[steps]]\nname = 'one'\n[[steps.verifier.collect]]\ncommand = 'x'\nservice = 'db'\n", "than main"),
    ],
)
async def test_steps_that_cannot_be_run_are_refused_with_the_reason(
    tmp_path: Path, toml: str, message: str
) -> None:
    make_steps(tmp_path / "t", toml, {"one": {}})
    assert message in await refusal(tmp_path)


async def test_a_step_without_any_test_or_instruction_is_refused(tmp_path: Path) -> None:
    make_steps(tmp_path / "t", "[[steps]]\nname = 'one'\n", {"one": {}})
    (tmp_path / "t/tests/test.sh").unlink()
    assert "steps/one/tests/test.sh is missing" in await refusal(tmp_path)
    (tmp_path / "t/steps/one/tests").mkdir()
    (tmp_path / "t/steps/one/tests/test.sh").write_text("#!/bin/sh\n")
    (tmp_path / "t/steps/one/instruction.md").unlink()
    assert "steps/one/instruction.md is missing" in await refusal(tmp_path)


@pytest.mark.parametrize("linked", ["steps", "steps/one"])
async def test_steps_are_not_looked_for_through_a_link(tmp_path: Path, linked: str) -> None:
    make_steps(tmp_path / "t", "[[steps]]\nname = 'one'\n", {"one": {}})
    (tmp_path / "t" / linked).rename(tmp_path / "elsewhere")
    (tmp_path / "t" / linked).symlink_to(tmp_path / "elsewhere")
    assert "steps" in await refusal(tmp_path)


def scored(value: float | None, **rewards: float) -> RunResult:
    told = rewards or ({} if value is None else {"reward": value})
    return RunResult(
        task_id="t",
        metrics={} if value is None else {"reward": value, "correct": value >= 1},
        meta=ResultMeta(benchmark={"rewards": dict(told)}),
    )


async def task_of(folder: Path, toml: str) -> tuple[Harbor, TaskSpec]:
    toml += "[[steps]]\nname = 'two'\n[[steps]]\nname = 'three'\n"
    make_steps(folder / "t", toml, {"one": {}, "two": {}, "three": {}})
    return Harbor(HarborParams(path=str(folder))), (await load(folder))["t"]


@pytest.mark.parametrize(
    ("least", "result", "reason"),
    [
        ("0.5", scored(0.5), ""),
        ("0.5", scored(0.4), "reward is 0.4, below min_reward 0.5"),
        ("0.5", scored(0.7, score=0.7), ""),
        ("0.0", scored(0.0, reward=0.0), ""),
        ("{style = 0.5}", scored(1.0, reward=1.0, style=0.2), "style is 0.2, below min_reward 0.5"),
        ("{style = 0.5}", scored(1.0), "style is -inf, below min_reward 0.5"),
    ],
)
async def test_the_steps_end_where_a_threshold_is_missed(
    tmp_path: Path, least: str, result: RunResult, reason: str
) -> None:
    harbor, task = await task_of(tmp_path, f"[[steps]]\nname = 'one'\nmin_reward = {least}\n")
    assert harbor.stops_after_step(task, 1, result) == reason


async def test_an_unreadable_reward_misses_every_threshold(tmp_path: Path) -> None:
    harbor, task = await task_of(tmp_path, "[[steps]]\nname = 'one'\nmin_reward = 0.0\n")
    unreadable = scored(0.0).model_copy(update={"meta": ResultMeta(benchmark={"rewards": {}})})
    assert "reward is -inf" in harbor.stops_after_step(task, 1, unreadable)


@pytest.mark.parametrize(
    ("strategy", "rewards", "reward", "theirs"),
    [
        ("mean", [1.0, 0.5, 0.0], 0.5, 0.5),
        ("mean", [1.0, 1.0, 1.0], 1.0, 1.0),
        ("mean", [0.6], 0.2, 0.6),
        ("final", [0.0, 0.0, 1.0], 1.0, 1.0),
        ("final", [0.9], 0.0, 0.9),
    ],
)
async def test_steps_that_were_not_reached_are_worth_nothing_and_harbor_s_number_stands_beside(
    tmp_path: Path, strategy: str, rewards: list[float], reward: float, theirs: float
) -> None:
    toml = f"multi_step_reward_strategy = '{strategy}'\n[[steps]]\nname = 'one'\nmin_reward = 0.95\n"
    harbor, task = await task_of(tmp_path, toml)
    whole = harbor.combine_steps(task, [scored(value) for value in rewards], RunResult(task_id="t"))
    assert whole.metrics["reward"] == pytest.approx(reward)
    assert whole.metrics["correct"] is (reward >= 1)
    told = whole.meta.benchmark
    assert told["harbor_reward"] == pytest.approx(theirs)
    assert (told["steps_declared"], told["steps_executed"]) == (3, len(rewards))
    assert ("stopped" in told) is (len(rewards) < 3)


async def test_a_step_without_a_score_leaves_the_task_without_one(tmp_path: Path) -> None:
    harbor, task = await task_of(tmp_path, "[[steps]]\nname = 'one'\n")
    whole = harbor.combine_steps(task, [scored(1.0), scored(None)], RunResult(task_id="t"))
    assert whole.metrics == {}
