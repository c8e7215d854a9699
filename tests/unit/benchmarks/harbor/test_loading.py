"""What becomes of task folders, good and hostile, when a data set is loaded."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from harbor_tasks import TASKS, make_task

from agentcompass.contracts import DatasetError, EvaluationMode, RunRequest, TaskSpec
from agentcompass.plugins.benchmarks.harbor import Harbor, HarborParams


def request_on(environment: str) -> RunRequest:
    return RunRequest.model_validate(
        {
            "benchmark": {"id": "harbor"},
            "harness": {"id": "oracle"},
            "environment": {"id": environment},
            "model": {"id": "none"},
        }
    )


SERVICES = "services:\n  db:\n    image: db:1\n"


async def load(path: Path, environment: str = "docker", **params: Any) -> list[TaskSpec]:
    source = params if {"git", "registry"} & set(params) else {"path": str(path), **params}
    return await Harbor(HarborParams.model_validate(source)).load_tasks(request_on(environment))


async def refusal(path: Path, **params: Any) -> str:
    with pytest.raises(DatasetError) as caught:
        await load(path, **params)
    return str(caught.value)


async def test_the_keys_of_task_toml_become_the_task() -> None:
    tasks = {task.task_id: task for task in await load(TASKS)}
    assert list(tasks) == ["counting", "greeting", "handover"]
    counting, greeting, handover = tasks.values()
    assert (counting.category, greeting.category) == ("medium", "files")
    assert counting.resources is not None and counting.resources.memory_mb == 64
    assert counting.env_variables == {"FIXTURE": "counting"}
    assert counting.evaluation_env_variables == {"EXPECTED": "3"}
    assert (counting.run_timeout_seconds, counting.evaluation_timeout_seconds) == (120, 600)
    assert counting.run_network_policy is not None and counting.network_policy is None
    assert greeting.question.startswith("Write the text `hello`")  # without its canary line
    assert handover.evaluation_environment_mode is EvaluationMode.FRESH
    assert [item.source for item in handover.artifacts or []] == ["/app/out", "/logs/artifacts"]
    assert greeting.oracle is not None and greeting.oracle.command == "/solution/solve.sh"


async def test_a_single_task_folder_is_a_data_set_of_one() -> None:
    assert [task.task_id for task in await load(TASKS / "greeting")] == ["greeting"]


async def test_the_same_task_in_another_place_is_the_same_task(tmp_path: Path) -> None:
    shutil.copytree(TASKS, tmp_path / "copy")
    assert await load(tmp_path / "copy") == await load(TASKS)
    (tmp_path / "copy/greeting/tests/test.sh").write_text("#!/bin/sh\n")
    assert await load(tmp_path / "copy") != await load(TASKS)


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("x = ", "task.toml is not TOML"),
        ("[agent]\ntimeout_sec = 'soon'", "task.toml: 'agent.timeout_sec': Input should be a valid number"),
        ("[agent]\ntimeout_sec = nan", "'agent.timeout_sec'"),
        ("[agent]\nnetwork_mode = 'sometimes'", "'agent.network_mode'"),
        ("[agent]\nallowed_hosts = ['https://example.com/']", "is a URL; give its host name only"),
        ("[environment]\nmemory = 'much'", "'much' is not a size"),
        ("[environment]\nworkdir = 'app'", "'environment.workdir'"),
        ("[environment]\nos = 'windows'", "only linux is supported"),
        ("[[environment.mcp_servers]]\nname = 'x'", "transport 'sse' needs a url"),
        ("[[environment.mcp_servers]]\nname = 'x y'\nurl = 'http://x'", "name"),
        (
            "[[environment.mcp_servers]]\nname = 'x'\nurl = 'http://x'\nheaders = {A = 'b'}",
            "environment.mcp_servers: headers are not supported",
        ),
        ("schema_version = '2.0'", "schema version '2.0' is not one of 1.x"),
        ("artifacts = ['/app/../etc']", "without '..'"),
        ("artifacts = [{source = '/x', destination = '../x'}]", "must stay below the artifact directory"),
        (
            "[environment.env]\nKEY = '${SECRET_OF_THE_WORKER}'",
            "reads the worker's variable SECRET_OF_THE_WORKER",
        ),
        ("[environment.env]\nKEY = 'x${PATH}'", "only a whole value"),
        ("[verifier.env]\nKEY = 'file:/etc/passwd'", "may not begin with 'env:' or 'file:/'"),
        ("[solution.env]\nKEY = 'env:HOME'", "may not begin with 'env:' or 'file:/'"),
        (
            "[environment.env]\nKEY = '${NOT_SET_HERE:-file:/etc/passwd}'",
            "may not begin with 'env:' or 'file:/'",
        ),
        ("[environment.env]\n'A=B' = 'x'", "is not the name of a variable"),
    ],
)
async def test_a_task_that_cannot_be_run_is_named_with_its_reason(
    tmp_path: Path, toml: str, message: str
) -> None:
    make_task(tmp_path / "good")
    make_task(tmp_path / "bad", toml + "\n", solution__solve_dot_sh="#!/bin/sh\n")
    told = await refusal(tmp_path)
    assert "1 of 2 tasks cannot be run" in told
    assert "bad: " in told and message in told
    assert [task.task_id for task in await load(tmp_path, skip_invalid=True)] == ["good"]
    assert [task.task_id for task in await load(tmp_path, sample_ids=["good"])] == ["good"]


async def test_variables_of_the_worker_are_given_by_permission_only_and_as_references(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN_FOR_TASKS", "very-secret")
    make_task(tmp_path / "t", "[environment.env]\nA = '${TOKEN_FOR_TASKS}'\nB = '${NOT_SET:-plain}'\n")
    [task] = await load(tmp_path, host_variables=["TOKEN_FOR_TASKS"])
    assert task.env_variables == {"A": "env:TOKEN_FOR_TASKS", "B": "plain"}


async def test_unknown_keys_are_named_in_the_log_and_nothing_more(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make_task(tmp_path / "t", "new_key = 1\n[agent]\nother = 2\n")
    assert len(await load(tmp_path)) == 1
    assert "task t: task.toml has unknown keys: new_key, agent.other" in caplog.text


@pytest.mark.parametrize("target", ["/etc/passwd", "../../outside", "../task.toml"])
async def test_links_that_leave_their_folder_are_refused(tmp_path: Path, target: str) -> None:
    make_task(tmp_path / "t")
    (tmp_path / "outside").write_text("x")
    (tmp_path / "t/tests/link").symlink_to(target)
    assert f"tests/link is a link that leaves tests/, to {target!r}" in await refusal(tmp_path)


async def test_links_in_place_of_the_main_files_are_not_followed(tmp_path: Path) -> None:
    make_task(tmp_path / "t")
    (tmp_path / "secret").write_text("the secret")
    (tmp_path / "t/instruction.md").unlink()
    (tmp_path / "t/instruction.md").symlink_to(tmp_path / "secret")
    assert "instruction.md is missing" in await refusal(tmp_path)


async def test_a_pipe_in_a_task_is_refused_and_nobody_waits_for_it(tmp_path: Path) -> None:
    make_task(tmp_path / "t")
    os.mkfifo(tmp_path / "t/environment/pipe")
    assert "environment/pipe is neither a file nor a folder" in await refusal(tmp_path)


async def test_a_huge_instruction_is_refused(tmp_path: Path) -> None:
    make_task(tmp_path / "t", instruction_dot_md="x" * 2_000_000)
    assert "instruction.md is larger than" in await refusal(tmp_path)


async def test_tasks_with_images_are_refused_where_there_are_none(tmp_path: Path) -> None:
    make_task(tmp_path / "named", "[environment]\ndocker_image = 'x'\n")
    make_task(tmp_path / "built", environment__Dockerfile="FROM x\n")
    told = await refusal(tmp_path, environment="host_process")
    assert "2 of 2 tasks cannot be run" in told and "use --env docker" in told


async def test_what_harborignore_names_is_no_part_of_the_tests(tmp_path: Path) -> None:
    make_task(tmp_path / "a")
    ignore = "# comment\n*.pyc\n/cache/\n"
    make_task(tmp_path / "b", tests___dot_harborignore=ignore, tests__x_dot_pyc="1", tests__keep="1")
    (tmp_path / "b/tests/cache").mkdir()
    (tmp_path / "b/tests/cache/big").write_text("1")
    [_, before] = await load(tmp_path)
    (tmp_path / "b/tests/cache/big").write_text("2")
    (tmp_path / "b/tests/x.pyc").write_text("2")
    assert (await load(tmp_path))[1] == before
    (tmp_path / "b/tests/keep").write_text("2")
    assert (await load(tmp_path))[1] != before


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "init.defaultBranch=main")
    ended = subprocess.run(["git", "-C", folder, *identity, *arguments], check=True, capture_output=True)
    return ended.stdout.decode().strip()


@pytest.fixture
def repository(tmp_path: Path) -> tuple[str, str]:
    """A git repository with the fixture tasks under ``tasks/``: its address and first commit."""
    folder = tmp_path / "repository"
    shutil.copytree(TASKS, folder / "tasks")
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "tasks")
    first = git(folder, "rev-parse", "HEAD")
    (folder / "tasks/greeting/instruction.md").write_text("Something else.")
    git(folder, "commit", "-qam", "changed")
    return f"file://{folder}", first


async def test_tasks_of_a_git_repository_are_those_of_the_commit(
    tmp_path: Path, repository: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTCOMPASS_HOME", str(tmp_path / "home"))
    address, first = repository
    [_, newest, _] = await load(tmp_path, git=address, subdirectory="tasks")
    [_, older, _] = await load(tmp_path, git=address, commit=first, subdirectory="tasks")
    assert newest.question == "Something else."
    assert older.question.startswith("Write the text")
    assert older.metadata["source"] == {"git": address, "commit": first, "path": "tasks/greeting"}


async def test_a_name_means_that_branch_or_tag_and_none_that_ends_so(
    tmp_path: Path, repository: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTCOMPASS_HOME", str(tmp_path / "home"))
    address, first = repository
    folder = tmp_path / "repository"
    git(folder, "branch", "a/stable", "HEAD")
    git(folder, "tag", "-a", "stable", "-m", "release", first)
    [_, found, _] = await load(tmp_path, git=address, commit="stable", subdirectory="tasks")
    assert found.metadata["source"]["commit"] == first  # type: ignore[index,call-overload]
    assert "has no branch or tag 'table'" in await refusal(tmp_path, git=address, commit="table")


async def test_environments_are_made_as_the_task_says_and_a_verifier_may_have_its_own(tmp_path: Path) -> None:
    make_task(
        tmp_path / "t",
        "[environment]\nworkdir = '/w'\ncpus = 2\nbuild_timeout_sec = 60\n"
        "[verifier.environment]\ndocker_image = 'verifier:1'\nmemory_mb = 512\n",
        environment__Dockerfile="FROM x\n",
    )
    benchmark = Harbor(HarborParams(path=str(tmp_path)))
    request = request_on("docker")
    [task] = await benchmark.load_tasks(request)
    plan = benchmark.build_plan(task, request)
    assert (plan.setup.build_context, plan.setup.workdir) == (f"{tmp_path}/t/environment", "/w")
    assert plan.setup.build_timeout_seconds == 60
    assert plan.evaluation_setup is not None and plan.evaluation_resources is not None
    assert (plan.evaluation_setup.image, plan.evaluation_setup.build_context) == ("verifier:1", None)
    assert (plan.evaluation_resources.memory_mb, plan.evaluation_resources.cpu) == (512, None)
    assert str(tmp_path) not in task.model_dump_json()  # a place is no part of a task


async def test_a_compose_file_becomes_part_of_how_the_environment_is_made(tmp_path: Path) -> None:
    make_task(tmp_path / "t", environment__Dockerfile="FROM x\n")
    (tmp_path / "t/environment/docker-compose.yaml").write_text(SERVICES)
    benchmark = Harbor(HarborParams(path=str(tmp_path)))
    [task] = await benchmark.load_tasks(request_on("docker"))
    plan = benchmark.build_plan(task, request_on("docker"))
    assert plan.setup.compose_file == f"{tmp_path}/t/environment/docker-compose.yaml"
    assert plan.setup.build_context == f"{tmp_path}/t/environment"
    assert str(tmp_path) not in task.model_dump_json()


async def test_services_are_refused_where_they_cannot_be_had_or_may_not_be(tmp_path: Path) -> None:
    make_task(tmp_path / "a/t", environment__compose_dot_yaml=SERVICES)
    for environment in ("daytona", "host_process"):
        message = await refusal(tmp_path / "a", environment=environment)
        assert f"its services (environment/compose.yaml) are not to be had on {environment}" in message
    make_task(tmp_path / "b/t", environment__compose_dot_yaml=SERVICES + "    privileged: true\n")
    assert "t: environment/compose.yaml: 'services.db.privileged'" in await refusal(tmp_path / "b")
    (tmp_path / "a/t/environment/docker-compose.yaml").symlink_to("compose.yaml")
    assert "environment/docker-compose.yaml is a link" in await refusal(tmp_path / "a")
    (tmp_path / "b/t/environment/docker-compose.yml").write_text(SERVICES)
    assert "several compose files" in await refusal(tmp_path / "b")


async def test_on_daytona_images_are_named_and_not_built(tmp_path: Path) -> None:
    named = "[environment]\ndocker_image = 'published:1'\n"
    make_task(tmp_path / "named/t", named)
    assert len(await load(tmp_path / "named", "daytona")) == 1
    make_task(tmp_path / "built/t", environment__Dockerfile="FROM x\n")
    assert "t: its image is built from environment/Dockerfile, and daytona builds none" in await refusal(
        tmp_path / "built", environment="daytona"
    )
    own = named + "[verifier]\nenvironment_mode = 'separate'\n"
    make_task(tmp_path / "verifier/t", own, tests__Dockerfile="FROM x\n")
    assert "t: its verifier's image is built" in await refusal(tmp_path / "verifier", environment="daytona")
    request = request_on("daytona")
    request.environment.setup.image = "for-all:1"
    assert len(await Harbor(HarborParams(path=str(tmp_path / "built"))).load_tasks(request)) == 1


async def test_a_registry_file_lists_tasks_by_commit(
    tmp_path: Path, repository: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTCOMPASS_HOME", str(tmp_path / "home"))
    address, first = repository
    task = {"name": "hello", "git_url": address, "git_commit_id": first, "path": "tasks/greeting"}
    registry = tmp_path / "registry.json"
    registry.write_text(
        json.dumps(
            [{"name": "d", "version": "1", "description": "", "tasks": [task]}, {"name": "e", "tasks": []}]
        )
    )
    [found] = await load(tmp_path, registry=str(registry), dataset="d@1")
    assert (found.task_id, found.question[:5]) == ("hello", "Write")
    assert "has 2 data sets; name one as 'dataset': d@1, e" in await refusal(tmp_path, registry=str(registry))
    told = await refusal(tmp_path, registry=str(registry), dataset="f")
    assert "has no data set 'f'" in told


async def test_a_repository_that_cannot_be_had_is_named(tmp_path: Path) -> None:
    told = await refusal(tmp_path, git=f"file://{tmp_path}/nothing")
    assert f"git repository file://{tmp_path}/nothing cannot be fetched" in told


@pytest.mark.parametrize("address", ["ext::sh -c id", "--upload-pack=id", "http://x/y", "/local/path"])
def test_addresses_that_could_run_something_are_refused(address: str) -> None:
    with pytest.raises(ValueError, match="must begin with https://"):
        HarborParams(git=address)


@pytest.mark.parametrize("name", ["docker-compose.yml", "compose.yaml"])
async def test_a_compose_file_that_the_task_is_about_starts_no_services(tmp_path: Path, name: str) -> None:
    make_task(tmp_path / "t", environment__Dockerfile="FROM x\n")
    (tmp_path / "t/environment" / name).write_text("services: {web: {ports: ['${PORT}:80']}}\n")
    [task] = await load(tmp_path)
    request = request_on("docker")
    plan = Harbor(HarborParams(path=str(tmp_path))).build_plan(task, request)
    assert plan.setup.compose_file is None and plan.setup.build_context == f"{tmp_path}/t/environment"


async def test_a_command_that_collects_works_as_the_user_that_it_names(tmp_path: Path) -> None:
    commands = "[[verifier.collect]]\ncommand = 'a'\nuser = 'root'\n[[verifier.collect]]\ncommand = 'b'\n"
    make_task(tmp_path / "t", commands)
    [task] = await load(tmp_path)
    assert [command.user for command in task.artifact_collect] == ["root", None]
