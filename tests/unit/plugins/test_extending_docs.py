"""The examples of ``docs/extending/`` are taken out of the pages and run."""

import asyncio
import re
import sys
import time
import types
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from agentcompass.contracts import (
    Contract,
    EnvironmentHandle,
    EnvironmentLostError,
    EnvironmentSpec,
    ExecutionPlan,
    NetworkPolicy,
    OpenRequest,
    PreparedTask,
    RunRequest,
    RunResult,
    ServiceUnreachableError,
    TaskInput,
)
from agentcompass.plugins.testing import RecordingContext

ROOT = Path(__file__).parents[3]
PAGES = ROOT / "docs" / "extending"
PACKAGE = ROOT / "tests" / "support" / "extension_package" / "acme_evaluation"
LOCAL = ["sh", "-c"]
"""What ``ssh host`` is for another machine, for this one."""


def example(name: str) -> Any:
    """The module that a page's complete example is."""
    [code] = re.findall(
        r"^```python\n(.*?)^```", (PAGES / f"{name}.md").read_text(), re.MULTILINE | re.DOTALL
    )
    module = types.ModuleType(f"documented_{name}")
    sys.modules[module.__name__] = module  # dataclasses look their module up
    exec(compile(code, f"docs/extending/{name}.md", "exec"), module.__dict__)
    return module


def request(**model: str) -> RunRequest:
    return RunRequest.model_validate(
        {
            "benchmark": {"id": "csv_totals"},
            "harness": {"id": "acme_agent"},
            "environment": {"id": "ssh"},
            "model": {"id": "m", **model},
        }
    )


def open_request(**more: Any) -> OpenRequest:
    spec, policy = EnvironmentSpec(id="ssh"), NetworkPolicy()
    return OpenRequest(environment_id="sandbox-1", spec=spec, network_policy=policy, **more)


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait for what another process does."""
    async with asyncio.timeout(60):
        while not await condition():  # noqa: ASYNC110  no event of ours tells what another process did
            await asyncio.sleep(0.02)


async def _succeeds(env: Any, command: str) -> bool:
    return (await env.exec(command)).returncode == 0


async def _has_written(env: Any, process_id: str) -> bool:
    status = await env.process_status(process_id)
    return status is not None and status.stdout_bytes > 0


async def _has_ended(env: Any, process_id: str) -> bool:
    return not (await env.process_status(process_id)).running


@pytest.fixture
def provider(tmp_path: Path) -> Any:
    module = example("environment")
    return module.Ssh(module.SshParams(transport=LOCAL, root=str(tmp_path / "sandboxes")))


@pytest.fixture
async def env(provider: Any) -> AsyncIterator[Any]:
    session = await provider.open(
        open_request(env_variables={"PLACE": "a 'quoted' value"}, labels={"task": "t"})
    )
    try:
        yield session
    finally:
        await provider.close(session.handle)


@pytest.mark.parametrize("name", ["benchmark", "harness", "environment", "analyzer"])
def test_a_page_shows_the_code_of_the_tested_extension(name: str) -> None:
    assert f"```python\n{(PACKAGE / f'{name}.py').read_text()}```\n" in (PAGES / f"{name}.md").read_text()


# benchmark.md


async def _judged(env: Any, written: str | None) -> RunResult:
    module = example("benchmark")
    benchmark = module.CsvTotals(module.CsvTotalsParams(tasks=6))
    tasks = await benchmark.select_tasks(await benchmark.load_tasks(request()), request())
    assert [task.category for task in tasks] == ["small"] * 5 + ["large"]
    task, context = tasks[0], RecordingContext()
    plan = ExecutionPlan(task_id=task.task_id, attempt=1, environment=request().environment)
    prepared = await benchmark.prepare_task(task, env, request(), plan.benchmark_plan, context)
    if written is not None:
        await env.exec(written)
    result = RunResult(task_id=task.task_id)
    return await benchmark.evaluate(task, prepared, result, request(), plan, env, context)


async def test_the_documented_benchmark_accepts_the_right_total(env: Any) -> None:
    result = await _judged(env, "awk -F, 'NR > 1 {s += $2} END {print s}' sales.csv >total.txt")
    assert result.metrics == {"correct": True}


@pytest.mark.parametrize("command", ["echo 0 >total.txt", "head -c 5000 /dev/zero >total.txt", None])
async def test_the_documented_benchmark_fails_everything_else(env: Any, command: str | None) -> None:
    assert (await _judged(env, command)).metrics == {"correct": False}


# harness.md


def _harness(command: str) -> Any:
    module = example("harness")
    return module.CliAgent(module.CliAgentParams(command=command, poll_seconds=0.02))


PREPARED = PreparedTask(task_id="t", input=TaskInput(prompt="What is 6 times 7?"))


async def _run(harness: Any, env: Any, context: RecordingContext, run_request: RunRequest) -> RunResult:
    plan = harness.build_plan(None, run_request)
    session = await harness.start_session(env, run_request, plan, context)
    await harness.execute_task(session, PREPARED, run_request, plan, context)
    result: RunResult = await harness.collect_result(session, PREPARED, run_request, plan, context)
    await harness.close_session(session)
    return result


async def test_the_documented_harness_returns_what_the_agent_wrote(env: Any) -> None:
    context = RecordingContext(secrets={"env:KEY": "k3y"}, deadline=time.time() + 60)
    harness = _harness('cat prompt.txt; echo " $AGENT_MODEL $AGENT_API_KEY"; test $AGENT_DEADLINE -gt 0')
    result = await _run(harness, env, context, request(api_key="env:KEY"))
    assert result.final_answer == "What is 6 times 7? m k3y"
    assert context.issues == []


async def test_the_documented_harness_reports_a_failed_agent_and_keeps_its_answer(env: Any) -> None:
    context = RecordingContext()
    result = await _run(_harness("echo half; exit 3"), env, context, request())
    assert result.final_answer == "half"
    assert [(issue.severity, issue.message) for issue in context.issues] == [
        ("error", "the agent ended with status 3")
    ]


async def test_the_documented_harness_finds_its_agent_again_after_a_crash(env: Any, provider: Any) -> None:
    harness, context = (
        _harness("echo started >>starts; until [ -e go ]; do sleep 0.02; done; echo done"),
        RecordingContext(),
    )
    session = await harness.start_session(env, request(), None, context)
    first = asyncio.create_task(harness.execute_task(session, PREPARED, request(), None, context))
    await until(lambda: _succeeds(env, "test -s starts"))
    first.cancel()
    other = await provider.attach(EnvironmentHandle.model_validate_json(env.handle.model_dump_json()))
    await other.write(f"{other.workdir}/go", b"")
    result = await _run(harness, other, context.restarted(), request())
    assert result.final_answer == "done"
    assert await other.read(f"{other.workdir}/starts") == b"started\n"


async def test_the_documented_harness_ends_an_agent_that_ran_out_of_time(env: Any) -> None:
    harness, context = _harness("echo so far; touch said; sleep 600"), RecordingContext()
    session = await harness.start_session(env, request(), None, context)
    running = asyncio.create_task(harness.execute_task(session, PREPARED, request(), None, context))
    await until(lambda: _succeeds(env, "test -e said"))
    running.cancel()  # what the end of a budget does
    with pytest.raises(asyncio.CancelledError):
        await running
    result = await harness.collect_result(session, PREPARED, request(), None, context)
    assert result.final_answer == "so far"
    assert await env.end_all_processes() == 0


# environment.md


async def test_the_documented_environment_runs_commands_with_their_variables(env: Any) -> None:
    env.add_variables({"ADDED": "session"})
    result = await env.exec(
        'pwd; echo "$PLACE $ADDED $OWN"; cat; exit 7', env={"OWN": "call's"}, stdin=b"in", timeout_seconds=30
    )
    assert result.returncode == 7
    assert result.stdout.text == f"{env.workdir}\na 'quoted' value session call's\nin"


async def test_the_documented_environment_executes_a_sequence_as_it_is(env: Any) -> None:
    result = await env.exec(["printf", "%s|", "a b", "$HOME", "'"])
    assert result.stdout.text == "a b|$HOME|'|"


async def test_the_documented_environment_reports_signals_as_negative(env: Any) -> None:
    assert (await env.exec("kill -9 $$")).returncode == -9


async def test_the_documented_environment_leaves_nothing_after_a_timeout(env: Any) -> None:
    result = await env.exec("echo before; setsid sleep 600 & sleep 600", timeout_seconds=0.5)
    assert (result.timed_out, result.returncode, result.stdout.text) == (True, None, "before\n")
    assert await env.end_all_processes() == 0


async def test_the_documented_environment_leaves_nothing_after_a_cancellation(env: Any) -> None:
    running = asyncio.create_task(env.exec("touch up; sleep 600"))
    await until(lambda: _succeeds(env, "test -e up"))
    running.cancel()
    await asyncio.wait([running])
    assert await env.end_all_processes() == 0


async def test_the_documented_environment_bounds_output(env: Any) -> None:
    output = (await env.exec("head -c 1000000 /dev/zero | tr '\\0' x; echo end")).stdout
    assert (output.total_bytes, len(output.head), len(output.tail)) == (1_000_004, 65536, 65536)
    assert output.tail.endswith(b"xend\n")
    assert len(await env.read(output.path)) == 1_000_004


async def test_the_documented_environment_starts_a_process_once(env: Any) -> None:
    await asyncio.gather(*(env.start_process("p", "echo run >>runs; exec sleep 600") for _ in range(4)))
    await until(lambda: _succeeds(env, "test -s runs"))
    status = await env.process_status("p")
    assert status.running
    assert await env.read(f"{env.workdir}/runs") == b"run\n"
    await env.end_process("p")
    ended = await env.process_status("p")
    assert (ended.running, ended.returncode) == (False, -15)
    assert await env.process_status("never") is None


async def test_the_documented_environment_ends_a_process_that_ignores_the_request(env: Any) -> None:
    await env.start_process("p", "trap '' TERM; echo up; while :; do sleep 0.1; done")
    await until(lambda: _has_written(env, "p"))
    await env.end_process("p", grace_seconds=0.2)
    assert await env.end_all_processes() == 0


async def test_the_documented_environment_reads_process_output_from_an_offset(env: Any) -> None:
    await env.start_process("p", "printf abcdef; printf err >&2")
    await until(lambda: _has_ended(env, "p"))
    assert await env.read_process_output("p", "stdout", 2, max_bytes=3) == b"cde"
    assert await env.read_process_output("p", "stdout", 6) == b""
    assert await env.read_process_output("p", "stderr", 0) == b"err"


async def test_the_documented_environment_keeps_bytes(env: Any, tmp_path: Path) -> None:
    data = bytes(range(256))
    await env.write(f"{env.workdir}/deep/er file", data, mode=0o600)
    assert await env.read(f"{env.workdir}/deep/er file") == data
    with pytest.raises(ValueError, match="longer than 255 bytes"):
        await env.read(f"{env.workdir}/deep/er file", max_bytes=255)
    with pytest.raises(FileNotFoundError):
        await env.read(f"{env.workdir}/none")


async def test_the_documented_environment_copies_trees_but_no_links_out_of_them(
    env: Any, tmp_path: Path
) -> None:
    source = tmp_path / "tree"
    (source / "sub").mkdir(parents=True)
    (source / "sub" / "file").write_bytes(b"\xff")
    await env.upload(source, f"{env.workdir}/copy")
    await env.exec("ln -s /etc/hostname copy/out; ln -s file copy/sub/in")
    await env.download(f"{env.workdir}/copy", tmp_path / "back")
    assert (tmp_path / "back" / "sub" / "in").read_bytes() == b"\xff"
    assert not (tmp_path / "back" / "out").is_symlink()
    await env.download(f"{env.workdir}/copy/sub/file", tmp_path / "one")
    assert (tmp_path / "one").read_bytes() == b"\xff"
    with pytest.raises(FileNotFoundError):
        await env.download(f"{env.workdir}/none", tmp_path / "two")


async def test_the_documented_environment_opens_attaches_lists_and_closes(env: Any, provider: Any) -> None:
    await env.write(f"{env.workdir}/kept", b"1")
    again = await provider.open(open_request(labels={"task": "t"}))
    assert await again.read(f"{again.workdir}/kept") == b"1"
    listed = await provider.list_environments({"task": "t"})
    assert [record.handle for record in listed] == [env.handle]
    assert await provider.list_environments({"task": "other"}) == []
    await provider.close(env.handle)
    await provider.close(env.handle)
    assert await provider.list_environments() == []
    with pytest.raises(EnvironmentLostError):
        await provider.attach(env.handle)


async def test_the_documented_environment_says_which_machine_does_not_answer() -> None:
    module = example("environment")
    broken = module.Ssh(module.SshParams(transport=["sh", "-c", "echo no route >&2; exit 1"]))
    with pytest.raises(ServiceUnreachableError, match="no route"):
        await broken.preflight(EnvironmentSpec(id="ssh"))


# analyzer.md


async def test_the_documented_analyzer_finds_long_answers() -> None:
    module = example("analyzer")
    analyzer = module.AnswerLength(module.AnswerLengthParams(max_chars=3))
    short, long = (RunResult(task_id="t", final_answer=answer) for answer in ("abc", "abcd"))
    assert await analyzer.analyze(short, RecordingContext()) == []
    [finding] = await analyzer.analyze(long, RecordingContext())
    assert (finding.label, finding.value) == ("long_answer", 4)


def test_the_documented_parameter_models_refuse_unknown_keys() -> None:
    for name, model in (
        ("benchmark", "CsvTotalsParams"),
        ("harness", "CliAgentParams"),
        ("environment", "SshParams"),
        ("analyzer", "AnswerLengthParams"),
    ):
        assert issubclass(getattr(example(name), model), Contract)
