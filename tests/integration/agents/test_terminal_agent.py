"""The terminal agent in a real environment, against a real HTTP endpoint."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
from agent_runs import calling, context_for, request_for, run_hooks, task
from model_server import ModelServer, Reply

from agentcompass.contracts import EnvironmentSession, Message, RunResult, Severity, TaskOutput
from agentcompass.contracts.task import FileRef, OutputFile, ToolDefinition
from agentcompass.plugins.harnesses.terminal_agent import TerminalAgent, TerminalAgentParams
from agentcompass.plugins.testing import RecordingContext

FINISH = calling("finish", answer="42")
PRICES = {"m": {"prompt": 1.0, "completion": 2.0}}


def agent(**params: Any) -> TerminalAgent:
    return TerminalAgent(TerminalAgentParams.model_validate(params))


async def solve(
    env: EnvironmentSession,
    server: ModelServer,
    *replies: Reply,
    params: dict[str, Any] | None = None,
    context: RecordingContext | None = None,
    **model: Any,
) -> RunResult:
    server.script("", *replies)
    return await run_hooks(
        agent(**params or {}), env, request_for(server.base_url, **model), task(), context or context_for()
    )


def outputs(result: RunResult) -> list[Any]:
    assert result.trajectory is not None
    return [seen.content for step in result.trajectory.steps for seen in step.observations]


@pytest.mark.parametrize("protocol", ["openai-chat", "openai-responses", "anthropic"])
async def test_tools_work_over_every_protocol(
    env: EnvironmentSession, server: ModelServer, protocol: str
) -> None:
    result = await solve(
        env,
        server,
        calling("write", "c1", "I write.", path="notes/a.txt", content="one\ntwo\n"),
        calling("bash", "c2", command="cat notes/a.txt; echo oops >&2; exit 3"),
        calling("read", "c3", path="notes/a.txt", first_line=2),
        FINISH,
        api_protocol=protocol,
    )
    assert (result.final_answer, result.issues) == ("42", [])
    assert outputs(result) == [
        "Wrote 8 bytes to notes/a.txt.",
        "one\ntwo\noops\n[exit status 3]",
        "two\n",
        "Finished.",
    ]
    assert result.meta.harness["turns"] == 4
    assert result.meta.harness["tokens"] == 4 * 18
    sent = json.dumps(server.calls[3].body)
    assert "I write." in sent and "exit status 3" in sent


async def test_a_text_without_a_tool_call_is_the_answer(env: EnvironmentSession, server: ModelServer) -> None:
    result = await solve(env, server, calling("bash", command="true"), Reply("It is 42."))
    assert (result.final_answer, result.meta.harness["ending"]) == ("It is 42.", "answer")


async def test_every_step_is_shown_when_it_is_done(env: EnvironmentSession, server: ModelServer) -> None:
    context = context_for()
    result = await solve(env, server, calling("bash", command="echo hi"), FINISH, context=context)
    latest = {step.step_id: step for step in context.steps}
    assert result.trajectory is not None
    assert [latest[number] for number in sorted(latest)] == result.trajectory.steps
    assert [step.source for step in result.trajectory.steps] == ["system", "user", "agent", "agent"]


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ({"name": "fly", "arguments": {}}, "Error: there is no tool 'fly'; the tools are bash, read, write"),
        ({"name": "bash", "arguments": '{"command": '}, "Error: the arguments are not a JSON object"),
        ({"name": "bash", "arguments": {}}, "Error: wrong arguments: command: Field required"),
        ({"name": "bash", "arguments": {"command": "a\0b"}}, "Error: wrong arguments: command: Value error"),
        ({"name": "bash", "arguments": {"command": "x" * 100_001}}, "Error: wrong arguments: command: Value"),
        ({"name": "read", "arguments": {"path": "absent"}}, "Error: absent: No such file"),
        ({"name": "read", "arguments": {"path": "."}}, "Error: .: "),
        ({"name": "write", "arguments": {"path": "/", "content": ""}}, "Error: /: "),
    ],
)
async def test_a_wrong_call_is_answered_to_the_model(
    env: EnvironmentSession, server: ModelServer, call: dict[str, Any], told: str
) -> None:
    result = await solve(env, server, Reply(tool_calls=(call,), stop_reason="tool_calls"), FINISH)
    assert outputs(result)[0].startswith(told)
    assert (result.final_answer, result.issues) == ("42", [])


async def test_calls_with_equal_ids_get_their_own_results(
    env: EnvironmentSession, server: ModelServer
) -> None:
    calls = tuple({"id": "same", "name": "bash", "arguments": {"command": f"echo {n}"}} for n in "ab")
    await solve(env, server, Reply(tool_calls=calls, stop_reason="tool_calls"), FINISH)
    results = [item for item in server.calls[1].body["messages"] if item["role"] == "tool"]
    assert [(item["tool_call_id"], item["content"][0]) for item in results] == [
        ("same", "a"),
        ("call_1_2", "b"),
    ]


async def test_what_follows_finish_is_not_carried_out(env: EnvironmentSession, server: ModelServer) -> None:
    calls = (
        {"id": "1", "name": "finish", "arguments": {"answer": "42"}},
        {"id": "2", "name": "bash", "arguments": {"command": "touch later"}},
    )
    result = await solve(env, server, Reply(tool_calls=calls, stop_reason="tool_calls"))
    assert result.final_answer == "42"
    with pytest.raises(FileNotFoundError):
        await env.read("later")


async def test_long_output_is_shown_by_head_and_tail(env: EnvironmentSession, server: ModelServer) -> None:
    command = "printf 'begin\\377'; head -c 100000 /dev/zero | tr '\\0' x; printf end"
    result = await solve(env, server, calling("bash", command=command), FINISH, params={"output_bytes": 1000})
    shown = outputs(result)[0]
    assert shown.startswith("begin\N{REPLACEMENT CHARACTER}xxx")
    assert "[… 99009 bytes left out …]" in shown
    assert shown.endswith("xend\n[exit status 0]")


async def test_a_command_over_its_time_is_dead_with_all_it_started(
    env: EnvironmentSession, server: ModelServer
) -> None:
    command = "(sleep 600; touch late) & echo started; sleep 600"
    result = await solve(env, server, calling("bash", command=command, timeout_seconds=0.3), FINISH)
    assert outputs(result)[0].startswith("started\n[ended: it ran longer than 0.3 s")
    assert await env.end_all_processes() == 0


async def test_what_a_command_leaves_in_the_background_does_not_hold_it_up(
    env: EnvironmentSession, server: ModelServer
) -> None:
    result = await solve(env, server, calling("bash", command="sleep 600 & echo started"), FINISH)
    assert outputs(result)[0] == "started\n[exit status 0]"
    assert await env.end_all_processes() > 0


@pytest.mark.parametrize(
    ("params", "code", "message", "turns"),
    [
        (
            {"max_turns": 2},
            "terminal_agent.turn_budget",
            "the budget of 2 turns (max_turns) is used up",
            2,
        ),
        (
            {"max_total_tokens": 30},
            "terminal_agent.token_budget",
            "the budget of 30 tokens (max_total_tokens) is used up: 36",
            2,
        ),
        (
            {"max_cost_usd": 6e-5, "prices": PRICES},
            "terminal_agent.cost_budget",
            "the budget of 6e-05 USD (max_cost_usd) is used up: 7.5e-05",
            3,
        ),
    ],
)
async def test_a_budget_names_itself_at_its_end(
    env: EnvironmentSession,
    server: ModelServer,
    params: dict[str, Any],
    code: str,
    message: str,
    turns: int,
) -> None:
    result = await solve(env, server, calling("bash", command="echo x >> made"), params=params)
    [issue] = result.issues
    assert (issue.severity, issue.code, issue.message) == (Severity.ERROR, code, message)
    assert len(server.calls) == turns
    assert await env.read("made") == b"x\n" * turns


async def test_the_time_budget_ends_a_model_call_that_hangs(
    env: EnvironmentSession, server: ModelServer
) -> None:
    result = await solve(env, server, Reply(hang=True), params={"max_seconds": 0.3})
    [issue] = result.issues
    assert (issue.code, len(server.calls)) == ("terminal_agent.time_budget", 1)
    assert issue.message == "the budget of 0.3 s (max_seconds) is used up"


async def test_the_time_budget_ends_a_command(env: EnvironmentSession, server: ModelServer) -> None:
    result = await solve(env, server, calling("bash", command="sleep 600"), params={"max_seconds": 1})
    assert [issue.code for issue in result.issues] == ["terminal_agent.time_budget"]
    assert len(server.calls) == 1


async def test_an_agent_that_only_calls_nonsense_is_ended(
    env: EnvironmentSession, server: ModelServer
) -> None:
    result = await solve(env, server, calling("fly"))
    [issue] = result.issues
    assert (issue.code, len(server.calls)) == ("terminal_agent.idle", 3)


async def test_an_empty_and_a_cut_off_answer_are_not_the_end(
    env: EnvironmentSession, server: ModelServer
) -> None:
    result = await solve(env, server, Reply(""), Reply("It is", stop_reason="length"), Reply("42"))
    assert (result.final_answer, result.issues) == ("42", [])
    assert server.calls[1].prompt.endswith(
        "Your answer was empty. Call a tool, or call finish when you are done."
    )
    assert "cut off at its length limit" in server.calls[2].prompt


async def test_a_full_window_shortens_old_outputs_and_says_so(
    env: EnvironmentSession, server: ModelServer
) -> None:
    command = "echo output {}; head -c 3000 /dev/zero | tr '\\0' x"
    noisy = [
        replace(calling("bash", f"c{n}", command=command.format(n)), prompt_tokens=400 + 760 * n)
        for n in range(14)
    ]
    result = await solve(env, server, *noisy, FINISH, params={"context_tokens": 4000})
    assert (result.final_answer, result.issues) == ("42", [])
    assert result.trajectory is not None
    shortened = [step for step in result.trajectory.steps if "conversation_shortened" in step.extra]
    assert shortened
    last = server.calls[-1].prompt
    assert "bytes left out" in last or "turns were left out" in last
    assert "output 13" in last and "Do it." in last
    assert len(outputs(result)[0]) > 3000  # the trajectory keeps the whole


async def test_a_conversation_that_the_endpoint_refuses_is_shortened_and_sent_again(
    env: EnvironmentSession, server: ModelServer
) -> None:
    noisy = [calling("bash", f"c{n}", command=f"echo output {n}") for n in range(10)]
    too_long = Reply(
        status=400, code="context_length_exceeded", message="maximum context length is 100 tokens"
    )
    result = await solve(env, server, *noisy, too_long, too_long, FINISH)
    assert (result.final_answer, result.issues) == ("42", [])
    assert len(server.calls) == 13


async def test_a_window_too_small_for_anything_is_an_issue_of_its_own(
    env: EnvironmentSession, server: ModelServer
) -> None:
    too_long = Reply(status=400, code="context_length_exceeded", message="maximum context length is 1 token")
    result = await solve(env, server, calling("bash", command="true"), too_long)
    [issue] = result.issues
    assert (issue.severity, issue.code) == (Severity.ERROR, "terminal_agent.context_limit")


async def test_a_failing_endpoint_ends_the_run_and_keeps_what_was_done(
    env: EnvironmentSession, server: ModelServer
) -> None:
    result = await solve(env, server, calling("bash", command="echo hi"), Reply(status=401))
    assert [issue.code for issue in result.issues] == ["model_authentication"]
    assert outputs(result) == ["hi\n[exit status 0]"]


async def test_a_worker_that_takes_over_repeats_neither_call_nor_command(
    env: EnvironmentSession, server: ModelServer
) -> None:
    server.script(
        "", calling("bash", command="echo x >> made; until test -e go; do sleep 0.02; done"), FINISH
    )
    context, request, harness = context_for(), request_for(server.base_url), agent()
    first = asyncio.create_task(run_hooks(harness, env, request, task(), context))
    await env.exec("until test -s made; do sleep 0.02; done", timeout_seconds=60)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)

    await env.write("go", b"")
    result = await run_hooks(harness, env, request, task(), context.restarted())
    assert (result.final_answer, len(server.calls)) == ("42", 2)
    assert await env.read("made") == b"x\n"


async def test_a_finished_agent_that_is_called_again_does_nothing(
    env: EnvironmentSession, server: ModelServer
) -> None:
    server.script("", calling("bash", command="echo x >> made"), FINISH)
    context, request, harness = context_for(), request_for(server.base_url), agent()
    first = await run_hooks(harness, env, request, task(), context)
    again = await run_hooks(harness, env, request, task(), context.restarted())
    assert again.final_answer == first.final_answer == "42"
    assert len(server.calls) == 2


async def test_the_task_says_which_files_it_has_and_wants(
    env: EnvironmentSession, server: ModelServer
) -> None:
    server.script("", FINISH)
    prepared = task(
        system_prompt="You are brief.", files=[FileRef(path="in.csv", label="the data")]
    ).model_copy(update={"output": TaskOutput(files=[OutputFile(path="out.csv", description="the sums")])})
    await run_hooks(agent(system_prompt="Own."), env, request_for(server.base_url), prepared, context_for())
    prompt = server.calls[0].prompt
    assert server.calls[0].body["messages"][0]["content"] == "Own.\n\nYou are brief."
    assert "- in.csv (the data)" in prompt and "- out.csv: the sums" in prompt


async def test_a_task_with_its_own_tools_is_refused(env: EnvironmentSession, server: ModelServer) -> None:
    prepared = task(messages=[Message(role="user", content="?")], tools=[ToolDefinition(name="f")])
    result = await run_hooks(agent(), env, request_for(server.base_url), prepared, context_for())
    assert [issue.code for issue in result.issues] == ["task_input_invalid"]
    assert server.calls == []


def test_a_cost_budget_without_a_price_is_refused() -> None:
    request = request_for("http://127.0.0.1:1/v1")
    refusal = agent(max_cost_usd=1.0).supports(request.environment, request.model)
    assert refusal == "max_cost_usd needs the price of model 'm' in prices, or one for '*'"
    priced = agent(max_cost_usd=1.0, prices={"*": {"prompt": 1, "completion": 1}})
    assert priced.supports(request.environment, request.model) is None
