"""Command-line agents in a real environment, against a real HTTP endpoint."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from agent_runs import context_for, request_for, run_hooks, task
from model_server import ModelServer, Reply
from own_agent import describe

from agentcompass.contracts import (
    ConfigurationError,
    EnvironmentSession,
    Message,
    RunResult,
    Severity,
    TaskInput,
)
from agentcompass.plugins.harnesses.cli_agent import (
    CliAgent,
    CliAgentParams,
    load_description,
    shipped_agents,
)

PROMPT = 'Say "42" and $(touch hacked) `touch hacked`.\n\\ {model} [task: t1]'


def own(path: Path, **params: Any) -> CliAgent:
    return CliAgent(CliAgentParams(description=str(path), poll_seconds=0.05, **params))


async def solve(
    env: EnvironmentSession, server: ModelServer, agent: CliAgent, prompt: str = PROMPT
) -> RunResult:
    server.script("", Reply("42"))
    return await run_hooks(agent, env, request_for(server.base_url), task(prompt), context_for())


async def run_directory(env: EnvironmentSession) -> str:
    return (await env.exec("echo $HOME/.agentcompass/run-a1-e1")).stdout.text.strip()


async def test_an_agent_gets_its_task_and_its_model_and_is_understood(
    env: EnvironmentSession, server: ModelServer, tmp_path: Path
) -> None:
    result = await solve(env, server, own(describe(tmp_path)))
    assert (result.final_answer, result.issues) == ("42!", [])
    assert server.calls[0].body == {"model": "m", "messages": [{"role": "user", "content": PROMPT}]}
    assert result.trajectory is not None
    assert [step.message for step in result.trajectory.steps] == ["42", "42!"]
    usage = result.trajectory.steps[-1].usage
    assert usage is not None and (usage.prompt_tokens, usage.completion_tokens) == (11, 7)
    assert result.meta.harness["exit_status"] == 0


async def test_a_prompt_is_never_a_command_and_files_are_valid_json(
    env: EnvironmentSession, server: ModelServer, tmp_path: Path
) -> None:
    await solve(env, server, own(describe(tmp_path)))
    settings = json.loads(await env.read(f"{await run_directory(env)}/config/settings.json"))
    assert settings == {"task": PROMPT, "model": "m"}
    assert (await env.exec("find . -name hacked")).stdout.text == ""


async def test_the_key_is_in_no_file_of_the_environment(
    env: EnvironmentSession, server: ModelServer, tmp_path: Path
) -> None:
    result = await solve(env, server, own(describe(tmp_path)))
    assert (await env.exec('grep -r "the-model-key" "$HOME" .')).stdout.text == ""
    assert "the-model-key" not in result.model_dump_json()


async def test_attempts_that_share_a_directory_install_once(
    env: EnvironmentSession, server: ModelServer, tmp_path: Path
) -> None:
    agent = own(describe(tmp_path), install_dir=str(tmp_path / "shared"))
    server.script("", Reply("42"))
    contexts = [context_for() for _ in range(3)]
    for number, context in enumerate(contexts, start=1):
        context.attempt = number
    request = request_for(server.base_url)
    results = await asyncio.gather(*(run_hooks(agent, env, request, task(), item) for item in contexts))
    assert [result.final_answer for result in results] == ["42!"] * 3
    assert (tmp_path / "installations").read_text() == "x\n"


async def test_an_installation_that_fails_is_fatal_and_shows_why(
    env: EnvironmentSession, server: ModelServer, tmp_path: Path
) -> None:
    broken = {"check": "false", "command": "echo no such package >&2; exit 7"}
    agent = own(describe(tmp_path, install=broken))
    with pytest.raises(Exception, match="could not be installed: status 7: no such package") as caught:
        await solve(env, server, agent)
    issue = caught.value.issue  # type: ignore[attr-defined]
    assert (issue.severity, issue.code) == (Severity.FATAL, "cli_agent.install_failed")


async def test_an_installation_that_takes_too_long_is_ended(
    env: EnvironmentSession, server: ModelServer, tmp_path: Path
) -> None:
    slow = {"check": "false", "command": "sleep 600", "timeout_seconds": 0.3}
    with pytest.raises(Exception, match=r"it took longer than 0\.3 s"):
        await solve(env, server, own(describe(tmp_path, install=slow)))
    assert await env.end_all_processes() == 0


async def test_a_status_is_an_error_beside_what_was_done(
    env: EnvironmentSession, server: ModelServer, tmp_path: Path
) -> None:
    agent = own(describe(tmp_path, run="echo half; echo broken >&2; exit 3", trajectory={"format": "text"}))
    result = await solve(env, server, agent)
    [issue] = result.issues
    assert (issue.severity, issue.code) == (Severity.ERROR, "agent_exit_status")
    assert issue.message == "own ended with status 3"
    assert result.final_answer == "half"
    assert result.extra["cli_agent"] == {"stderr_tail": "broken\n", "stdout_tail": "half\n"}


async def test_a_known_failure_has_its_own_code(
    env: EnvironmentSession, server: ModelServer, tmp_path: Path
) -> None:
    failures = [{"pattern": "401 [A-Z][a-z]+", "code": "model_authentication"}]
    run = "echo HTTP 401 Unauthorized >&2; exit 1"
    result = await solve(
        env, server, own(describe(tmp_path, run=run, failures=failures, trajectory={"format": "text"}))
    )
    [issue] = result.issues
    assert (issue.severity, issue.code) == (Severity.FATAL, "model_authentication")
    assert issue.message == "own: 401 Unauthorized"


async def test_a_trajectory_that_cannot_be_read_is_a_warning(
    env: EnvironmentSession, server: ModelServer, tmp_path: Path
) -> None:
    missing = {"format": "atif", "path": "absent.json"}
    result = await solve(env, server, own(describe(tmp_path, trajectory=missing)))
    [issue] = result.issues
    assert (issue.severity, issue.code) == (Severity.WARNING, "cli_agent.trajectory_unreadable")
    assert result.final_answer is None


async def test_an_answer_can_lie_in_a_file(
    env: EnvironmentSession, server: ModelServer, tmp_path: Path
) -> None:
    run = 'echo noise; echo " 43 " > "$AGENT_RUN_DIR/answer.txt"'
    agent = own(describe(tmp_path, run=run, answer_path="answer.txt", trajectory={"format": "text"}))
    assert (await solve(env, server, agent)).final_answer == "43"


async def test_a_worker_that_takes_over_follows_the_agent_that_runs(
    env: EnvironmentSession, server: ModelServer, tmp_path: Path
) -> None:
    agent = own(describe(tmp_path))
    (tmp_path / "gate").unlink()
    server.script("", Reply("42"))
    context, request = context_for(), request_for(server.base_url)
    first = asyncio.create_task(run_hooks(agent, env, request, task(), context))
    await server.wait_for_calls(1)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)

    (tmp_path / "gate").touch()
    result = await run_hooks(agent, env, request, task(), context.restarted())
    assert (result.final_answer, len(server.calls)) == ("42!", 1)
    assert (tmp_path / "starts").read_text() == "started\n"


async def test_what_is_there_at_a_timeout_is_collected_and_the_agent_is_gone(
    env: EnvironmentSession, server: ModelServer, tmp_path: Path
) -> None:
    agent = own(describe(tmp_path))
    (tmp_path / "gate").unlink()
    server.script("", Reply("42"))
    context, request = context_for(), request_for(server.base_url)
    session = await agent.start_session(env, request, agent.build_plan(None, request), context)  # type: ignore[arg-type]
    plan = agent.build_plan(None, request)  # type: ignore[arg-type]
    running = asyncio.create_task(agent.execute_task(session, task(), request, plan, context))
    while not context.steps:
        await asyncio.wait({running}, timeout=0.05)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    result = await agent.collect_result(session, task(), request, plan, context)
    assert result.final_answer == "42"
    assert await env.end_all_processes() == 0


@pytest.mark.parametrize(
    "prepared",
    [
        TaskInput(prompt=""),
        TaskInput(messages=[Message(role="user", content=[{"type": "image_url", "image_url": "x"}])]),
    ],
)
async def test_a_task_that_is_no_text_is_refused(
    env: EnvironmentSession, server: ModelServer, tmp_path: Path, prepared: TaskInput
) -> None:
    unfit = task().model_copy(update={"input": prepared})
    result = await run_hooks(own(describe(tmp_path)), env, request_for(server.base_url), unfit, context_for())
    assert "task_input_invalid" in [issue.code for issue in result.issues]


def test_every_shipped_description_is_valid() -> None:
    assert shipped_agents() == [
        "claude-code",
        "codex",
        "mini-swe-agent",
        "opencode",
        "openhands",
        "qwen-code",
    ]
    for name in shipped_agents():
        assert load_description(name, None).id == name


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"protocols": {}}, "'protocols': Dictionary should have at least 1 item"),
        ({"protocols": {"soap": {}}}, "protocols.soap"),
        ({"variables": {"A": "{nothing}"}}, "unknown placeholder {nothing} in a variable"),
        ({"variables": {"A B": "x"}}, "'A B' is not a valid name of an environment variable"),
        ({"files": [{"path": "../x", "content": ""}]}, "must be a relative path below the run directory"),
        ({"files": [{"path": "x", "content": "{api_key}"}]}, "a key belongs into a variable"),
        ({"failures": [{"pattern": "(", "code": "x"}]}, "not a regular expression"),
        ({"runs": "x"}, "unknown key 'runs'; did you mean 'run'?"),
    ],
)
def test_a_wrong_description_says_what_is_wrong(
    tmp_path: Path, changes: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        own(describe(tmp_path, **changes))
    assert problem in str(caught.value)


def test_an_unknown_agent_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="there is no such agent; there are claude-code, codex"):
        CliAgentParams(agent="codexx")


@pytest.mark.parametrize(
    ("agent", "model", "problem"),
    [
        ("claude-code", {"api_protocol": "openai-chat"}, "speaks openai-chat; supported here: anthropic"),
        ("codex", {"id": "scripted", "base_url": ""}, "cannot be answered from a script"),
    ],
)
def test_a_model_that_an_agent_cannot_call_is_refused(
    agent: str, model: dict[str, Any], problem: str
) -> None:
    request = request_for("http://127.0.0.1:1/v1").model_copy()
    spec = request.model.model_copy(update=model)
    refusal = CliAgent(CliAgentParams(agent=agent)).supports(request.environment, spec)
    assert refusal is not None and problem in refusal
