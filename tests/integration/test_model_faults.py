"""Endpoints that drop connections, never answer, or ask for patience, under each kind of agent."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from command_line import CommandLine, Ended
from model_server import ModelServer, Reply
from own_agent import PROGRAM, describe

FINISH = Reply(
    "", tool_calls=({"id": "c", "name": "finish", "arguments": {"answer": "42"}},), stop_reason="tool_calls"
)
ANSWERS = {"openai_chat": Reply("42"), "terminal_agent": FINISH, "cli_agent": Reply("42")}
AGENTS = pytest.mark.parametrize("agent", list(ANSWERS))
PATIENT = """
import os, time, urllib.error
while True:
    try:
        exec(open(os.environ["AGENT_RUN_DIR"] + "/program.py").read())
        break
    except urllib.error.HTTPError as error:
        if error.code != 429:
            raise
        time.sleep(float(error.headers["retry-after"]))
"""
QUICK = {"retry_min_delay_seconds": 0.02, "retry_max_delay_seconds": 0.1}
"""An outage of half a minute in a second."""


def harness_params(agent: str, folder: Path) -> dict[str, Any]:
    if agent != "cli_agent":
        return {}
    path = describe(
        folder,
        files=[
            {"path": "program.py", "content": PROGRAM},
            {"path": "patient.py", "content": PATIENT},
        ],
        run='exec python3 "$AGENT_RUN_DIR/patient.py"',
    )
    return {"description": str(path), "poll_seconds": 0.1, "proxy": {}}


async def run(line: CommandLine, server: ModelServer, agent: str, *more: str, model: dict[str, Any]) -> Ended:
    rows = [{"id": "q", "question": "?", "answer": "42" if agent != "cli_agent" else "42!"}]
    return await asyncio.to_thread(
        line.run,
        *("run", "qa", agent, "m", "--model-base-url", server.base_url, "--progress", "none"),
        *("--model-api-protocol", "openai-chat", "--model-params", json.dumps(model)),
        *("--harness-params", json.dumps(harness_params(agent, line.folder))),
        *("--benchmark-params", line.dataset(rows), *more),
    )


def attempt_of(line: CommandLine) -> dict[str, Any]:
    [file] = line.results.glob("*/*/details/*q.json")
    [attempt] = json.loads(file.read_bytes())["attempts"].values()
    found: dict[str, Any] = attempt
    return found


@AGENTS
async def test_connections_that_are_reset_for_a_while_cost_nothing(
    command_line: CommandLine, agent: str
) -> None:
    async with ModelServer() as server:
        server.script("", *[Reply(drop="reset")] * 6, ANSWERS[agent])
        (await run(command_line, server, agent, model=QUICK)).expect(0)
        assert len(server.calls) == 7
    attempt = attempt_of(command_line)
    assert (attempt["metrics"], attempt["issues"]) == ({"correct": True}, [])


@AGENTS
async def test_connections_that_are_always_reset_are_told(command_line: CommandLine, agent: str) -> None:
    async with ModelServer() as server:
        server.script("", Reply(drop="reset"))
        await run(command_line, server, agent, model=QUICK | {"max_attempts": 3})
        assert len(server.calls) == 3
    issues = attempt_of(command_line)["issues"]
    told = " ".join(f"{issue['code']} {issue['message']}" for issue in issues)
    assert ("model_unreachable" if agent != "cli_agent" else "agent_exit_status") in told
    if agent != "cli_agent":
        assert "connection reset" in told


@AGENTS
async def test_an_endpoint_that_never_answers_ends_with_the_budget_and_is_told(
    command_line: CommandLine, agent: str
) -> None:
    async with ModelServer() as server:
        server.script("", Reply(hang=True))
        limit = ("--execution-params", json.dumps({"run_timeout_seconds": 3}))
        ended = await run(command_line, server, agent, *limit, model={})
        assert len(server.calls) == 1
    assert "1/1 tasks evaluated" in ended.stdout
    attempt = attempt_of(command_line)
    assert attempt["metrics"] == {"correct": False}
    severities = {issue["severity"] for issue in attempt["issues"]}
    assert "error" in severities and "fatal" not in severities


@AGENTS
async def test_a_request_without_an_answer_is_made_once_more_but_never_by_the_proxy(
    command_line: CommandLine, agent: str
) -> None:
    """Agents behind the proxy repeat requests themselves, as they please: two who do so would pay twice."""
    async with ModelServer() as server:
        server.script("", Reply(hang=True), ANSWERS[agent])
        (await run(command_line, server, agent, model={"request_timeout_seconds": 1, **QUICK})).expect(0)
        assert len(server.calls) == (1 if agent == "cli_agent" else 2)
    assert [issue["severity"] for issue in attempt_of(command_line)["issues"] if agent != "cli_agent"] == []


@AGENTS
async def test_the_wait_that_an_endpoint_asks_for_is_kept(command_line: CommandLine, agent: str) -> None:
    async with ModelServer() as server:
        server.script("", Reply(status=429, headers={"Retry-After": "2"}), ANSWERS[agent])
        (await run(command_line, server, agent, model=QUICK | {"retry_max_delay_seconds": 60})).expect(0)
        first, second = server.calls
        assert second.at - first.at >= 2
    assert attempt_of(command_line)["issues"] == []
