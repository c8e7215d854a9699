"""SWE-bench Verified with a repository of its own instead of an image; graded by the package ``swebench``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentcompass.contracts import (
    DatasetError,
    EnvironmentSession,
    EnvironmentSpec,
    EvaluationMode,
    ExecutionPlan,
    NetworkPolicy,
    OpenRequest,
    RunResult,
    StageFailure,
)
from agentcompass.plugins.benchmarks.swebench_verified import SweBenchVerified, SweBenchVerifiedParams
from agentcompass.plugins.benchmarks.swebench_verified.instance import Instance
from agentcompass.plugins.environments.host_process import HostProcess, HostProcessParams

DATA = Path(__file__).parents[2] / "data" / "swebench" / "fixture.jsonl"


@pytest.fixture
def benchmark() -> SweBenchVerified:
    pytest.importorskip("swebench", reason="grading needs the extra 'swebench', which is large")
    return SweBenchVerified(SweBenchVerifiedParams(path=str(DATA), folder="testbed"))


@pytest.fixture
async def evaluated(
    benchmark: SweBenchVerified, driver: Callable[..., Any], host: EnvironmentSession, tmp_path: Path
) -> Any:
    """The result after a shell script has done the agent's work in the repository."""
    used = driver(benchmark, host)
    provider = HostProcess(HostProcessParams(root=tmp_path / "fresh"))
    opened = OpenRequest(
        environment_id="fresh", spec=EnvironmentSpec(id="host_process"), network_policy=NetworkPolicy()
    )
    fresh = await provider.open(opened)

    async def judge(script: str) -> RunResult:
        [task] = await used.load()
        prepared = await used.prepare(task)
        ended = await host.exec(script, cwd="testbed")
        assert ended.ok, ended.stderr.text
        plan = ExecutionPlan(
            task_id=task.task_id,
            attempt=1,
            environment=used.request.environment,
            evaluation_environment_mode=EvaluationMode.FRESH,
        )
        result = RunResult(task_id=task.task_id)
        result = await benchmark.collect_artifacts(task, host, result, used.request, plan, used.context)
        return await benchmark.evaluate(task, prepared, result, used.request, plan, fresh, used.context)

    yield judge
    await provider.close(fresh.handle)


async def test_a_patch_that_mends_the_issue_resolves_it(evaluated: Any) -> None:
    result = await evaluated("sed -i 's/a - b/a + b/' calc.py")
    assert result.metrics == {"correct": True}
    assert "+    return a + b" in result.extra["model_patch"]
    assert result.meta.benchmark["fail_to_pass_success"] == 1


async def test_commits_and_new_files_are_part_of_the_patch(evaluated: Any) -> None:
    commit = "git -c user.name=a -c user.email=a@example.com commit -qm mended"
    result = await evaluated(f"sed -i 's/a - b/a + b/' calc.py && git add -A && {commit} && echo x > new.txt")
    assert result.metrics == {"correct": True}
    assert "new.txt" in result.extra["model_patch"]


async def test_a_patch_that_breaks_another_test_does_not(evaluated: Any) -> None:
    result = await evaluated("sed -i 's/a - b/a + b/; s/2 \\* a/3 * a/' calc.py")
    assert result.metrics == {"correct": False}
    assert result.meta.benchmark["failing_tests"] == ["test_calc.py::test_double"]


async def test_no_change_is_wrong(evaluated: Any) -> None:
    result = await evaluated("true")
    assert result.metrics == {"correct": False}
    assert result.meta.benchmark["problem"] == "there is no patch"


async def test_hooks_that_the_agent_leaves_are_not_executed(evaluated: Any, tmp_path: Path) -> None:
    hook = f"printf '#!/bin/sh\\ntouch {tmp_path}/hooked\\n' > .git/hooks/post-index-change && chmod +x .git/hooks/*"
    await evaluated(f"sed -i 's/a - b/a + b/' calc.py && {hook}")
    assert not (tmp_path / "hooked").exists()


async def test_it_is_judged_in_a_fresh_environment_only(
    benchmark: SweBenchVerified, driver: Callable[..., Any], host: EnvironmentSession
) -> None:
    used = driver(benchmark, host)
    [task] = await used.load()
    with pytest.raises(StageFailure, match="is judged in a fresh environment"):
        await used.judge(task, "x")


def row(**changes: Any) -> dict[str, Any]:
    [line] = DATA.read_text().splitlines()
    return {**json.loads(line), **changes}


def test_the_official_image_has_the_name_under_which_it_is_published() -> None:
    instance = Instance.model_validate(row(instance_id="astropy__astropy-12907"))
    assert instance.official_image == "swebench/sweb.eval.x86_64.astropy_1776_astropy-12907:latest"
    assert Instance.model_validate(row(image="mine:1")).official_image == "mine:1"


@pytest.mark.parametrize(
    "name", ["scikit-learn__scikit-learn-10297", "pytest-dev__pytest-10051", "A__B__Mixed.Case_1-2"]
)
def test_the_name_is_the_one_that_the_official_package_derives(name: str) -> None:
    official = pytest.importorskip("swebench.task.checks", reason="comes with the extra 'swebench'")
    assert Instance.model_validate(row(instance_id=name)).official_image == official.expected_image(name)


async def test_a_task_that_needs_its_image_is_refused_where_there_are_none(
    benchmark: SweBenchVerified, driver: Callable[..., Any], tmp_path: Path
) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps(row(setup_script="")))
    with pytest.raises(
        DatasetError, match=r"sweb\.eval\.x86_64\.fixture_1776_calc-1:latest.*use --env docker"
    ):
        await driver(SweBenchVerified(SweBenchVerifiedParams(path=str(file)))).load()


@pytest.mark.parametrize(
    "changes", [{"eval_script": ""}, {"FAIL_TO_PASS": "not json"}, {"instance_id": "../x"}]
)
async def test_rows_of_another_format_are_named(
    benchmark: SweBenchVerified, driver: Callable[..., Any], tmp_path: Path, changes: dict[str, Any]
) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps(row(**changes)))
    [name] = changes
    with pytest.raises(DatasetError, match=rf"rows\.jsonl:1: '{name}'"):
        await driver(SweBenchVerified(SweBenchVerifiedParams(path=str(file)))).load()
