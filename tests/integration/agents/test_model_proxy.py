"""The endpoint between an agent and its model, on real sockets."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from agent_runs import context_for, request_for, run_hooks, task
from model_server import ModelServer, Reply
from own_agent import describe

from agentcompass.contracts import EnvironmentSession, Severity, Usage, UsageError
from agentcompass.plugins.harnesses.cli_agent import CliAgent, CliAgentParams
from agentcompass.plugins.harnesses.cli_agent.proxied import candidate_ports
from agentcompass.plugins.model_proxy import ModelProxy, ModelProxyParams, ProxiedCall

KEY = "the-model-key"
TOKEN = "ac-token"
PRICES = {"m": {"prompt": 1.0, "completion": 2.0}}


async def nothing() -> None:
    return None


def proxy_for(
    server: ModelServer,
    port: int,
    key: str = KEY,
    *,
    model_params: dict[str, Any] | None = None,
    on_call: Callable[[], Awaitable[None]] = nothing,
    **params: Any,
) -> ModelProxy:
    spec = request_for(server.base_url, params=model_params or {}).model
    limits = ModelProxyParams.model_validate(params)
    return ModelProxy(spec, key, TOKEN, limits, port=port, calls=[], on_call=on_call)


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number: int = probe.getsockname()[1]
        return number


@pytest.fixture
async def client(port: int) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"authorization": f"Bearer {TOKEN}"}
    async with httpx.AsyncClient(
        base_url=f"http://127.0.0.1:{port}/v1", headers=headers, trust_env=False, timeout=60
    ) as made:
        yield made


def body_of(path: str, **more: Any) -> dict[str, Any]:
    message = {"role": "user", "content": "2 + 2?"}
    return {"model": "m", "input" if path == "/responses" else "messages": [message], **more}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", ["/chat/completions", "/responses", "/messages"])
async def test_a_call_gets_the_real_key_and_is_counted(
    server: ModelServer, port: int, client: httpx.AsyncClient, path: str, stream: bool
) -> None:
    call = {"id": "c1", "name": "add", "arguments": {"a": 1}}
    server.script("", Reply("4", tool_calls=(call,), stop_reason="tool_calls"))
    async with proxy_for(server, port, prices=PRICES) as proxy:
        answer = await client.post(path, json=body_of(path, stream=stream))
    assert (answer.status_code, "4" in answer.text) == (200, True)
    headers = server.calls[0].headers
    assert KEY in (headers.get("x-api-key"), headers.get("authorization", "").removeprefix("Bearer "))
    assert TOKEN not in str(headers)
    [seen] = proxy.calls
    assert (seen.status, seen.content, seen.model) == (200, "4", "m")
    assert [(tool.name, tool.arguments) for tool in seen.tool_calls] == [("add", {"a": 1})]
    assert (seen.usage.prompt_tokens, seen.usage.completion_tokens) == (11, 7)
    assert (seen.tokens, seen.estimated, seen.cost_usd) == (18, False, 25e-6)


@pytest.mark.parametrize(
    ("change", "status", "said"),
    [
        ({"headers": {"authorization": "Bearer wrong"}}, 401, "token"),
        ({"headers": {"authorization": KEY}}, 401, "token"),
        ({"json": {"model": "gpt-expensive", "messages": []}}, 403, "only model 'm' can be called here"),
        ({"content": b"[1]"}, 403, "only model"),
        ({"content": b"{"}, 400, "not JSON"),
        ({"url": "/embeddings"}, 404, "no POST /v1/embeddings here"),
        ({"method": "GET"}, 404, "no GET"),
    ],
)
async def test_what_is_not_a_call_of_this_agent_is_refused(
    server: ModelServer, port: int, client: httpx.AsyncClient, change: dict[str, Any], status: int, said: str
) -> None:
    request: dict[str, Any] = {"method": "POST", "url": "/chat/completions", **change}
    if "content" not in request:
        request.setdefault("json", body_of(""))
    async with proxy_for(server, port):
        answer = await client.request(**request)
    assert (answer.status_code, said in answer.text) == (status, True)
    assert server.calls == []


async def test_a_refusal_of_the_endpoint_shows_no_key_and_ends_the_calls(
    server: ModelServer, port: int, client: httpx.AsyncClient
) -> None:
    async with proxy_for(server, port, key="sk-wrong-canary") as proxy:
        answer = await client.post("/chat/completions", json=body_of(""))
        again = await client.post("/chat/completions", json=body_of(""))
    assert (answer.status_code, answer.json()["error"]["message"]) == (
        401,
        "Incorrect API key provided: ***",
    )
    assert proxy.issue is not None
    assert (proxy.issue.severity, proxy.issue.code) == (Severity.FATAL, "model_authentication")
    assert "canary" not in proxy.issue.message
    assert (again.status_code, len(server.calls)) == (403, 1)


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        ({"max_calls": 2}, "model_proxy.call_budget"),
        ({"max_total_tokens": 30}, "model_proxy.token_budget"),
        ({"max_cost_usd": 4e-5, "prices": PRICES}, "model_proxy.cost_budget"),
    ],
)
async def test_a_budget_ends_the_calls(
    server: ModelServer, port: int, client: httpx.AsyncClient, limits: dict[str, Any], code: str
) -> None:
    async with proxy_for(server, port, **limits) as proxy:
        statuses = [(await client.post("/chat/completions", json=body_of(""))).status_code for _ in range(3)]
    assert (statuses, len(server.calls)) == ([200, 200, 403], 2)
    assert proxy.issue is not None and (proxy.issue.severity, proxy.issue.code) == (Severity.ERROR, code)


async def test_an_endpoint_that_is_gone_is_a_bad_gateway(port: int, client: httpx.AsyncClient) -> None:
    async with ModelServer() as server:
        proxy = proxy_for(server, port)
    async with proxy:
        answer = await client.post("/chat/completions", json=body_of(""))
    assert (answer.status_code, [call.status for call in proxy.calls]) == (502, [502])
    assert (proxy.calls[0].unanswered, proxy.calls[0].tokens) == (False, 0), "nothing was sent"


async def test_an_endpoint_that_is_silent_is_asked_once_and_the_call_counts(
    server: ModelServer, port: int, client: httpx.AsyncClient
) -> None:
    server.script("", Reply(hang=True))
    patience = {"request_timeout_seconds": 0.3}
    async with proxy_for(server, port, model_params=patience, max_calls=1, prices=PRICES) as proxy:
        statuses = [(await client.post("/chat/completions", json=body_of(""))).status_code for _ in range(2)]
    assert (statuses, len(server.calls)) == ([502, 403], 1)
    [seen] = proxy.calls
    assert (seen.status, seen.unanswered, seen.estimated) == (502, True, True)
    assert seen.tokens > 0 and seen.cost_usd == seen.tokens / 1e6


@pytest.mark.parametrize(
    ("limits", "noted", "answers"),
    [({}, [502, 502, 200], [200]), ({"max_calls": 2}, [502, 502], [502, 403])],
)
async def test_each_request_that_is_sent_again_is_noted_and_counts(
    server: ModelServer,
    port: int,
    client: httpx.AsyncClient,
    limits: dict[str, Any],
    noted: list[int],
    answers: list[int],
) -> None:
    server.script("", Reply(drop="reset"), Reply(drop="before"), Reply("4"))
    async with proxy_for(server, port, **limits) as proxy:
        got = [(await client.post("/chat/completions", json=body_of(""))).status_code for _ in answers]
    assert (got, [call.status for call in proxy.calls], len(server.calls)) == (answers, noted, len(noted))
    assert [call.unanswered for call in proxy.calls] == [status == 502 for status in noted]


@pytest.mark.parametrize(("reply", "status"), [(Reply(hang=True), 499), (Reply(drop="reset"), 502)])
async def test_nothing_more_is_asked_for_an_agent_that_has_hung_up(
    server: ModelServer, port: int, client: httpx.AsyncClient, reply: Reply, status: int
) -> None:
    """While it waits for the answer, and while it waits for the next try."""
    noted = asyncio.Event()

    async def note() -> None:
        noted.set()

    server.script("", reply)
    waits = {"retry_min_delay_seconds": 1000, "retry_max_delay_seconds": 1000}
    async with proxy_for(server, port, model_params=waits, on_call=note) as proxy:
        asking = asyncio.create_task(client.post("/chat/completions", json=body_of("")))
        await server.wait_for_calls(1)
        if not reply.hang:
            await noted.wait()
        [connection] = proxy._connections
        asking.cancel()
        await asyncio.wait_for(connection, 30)
    assert [(call.status, call.unanswered) for call in proxy.calls] == [(status, True)]
    assert (noted.is_set(), len(server.calls)) == (True, 1)


async def test_a_client_that_only_ends_its_sending_gets_its_answer(server: ModelServer, port: int) -> None:
    server.script("", Reply("forty-two", delay_seconds=0.5))
    body = json.dumps(body_of("")).encode()
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nauthorization: Bearer {TOKEN}\r\ncontent-length: {len(body)}"
    )
    async with proxy_for(server, port) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head.encode() + b"\r\n\r\n" + body)
        writer.write_eof()
        answer = await reader.read()
        writer.close()
    assert b"forty-two" in answer and [call.status for call in proxy.calls] == [200]


async def test_a_call_that_is_under_way_when_the_proxy_closes_is_noted(
    server: ModelServer, port: int, client: httpx.AsyncClient
) -> None:
    server.script("", Reply(hang=True))
    async with proxy_for(server, port) as proxy:
        asking = asyncio.create_task(client.post("/chat/completions", json=body_of("")))
        await server.wait_for_calls(1)
    await asyncio.gather(asking, return_exceptions=True)
    assert [(call.status, call.unanswered) for call in proxy.calls] == [(499, True)]


@pytest.mark.parametrize(
    "sent",
    [
        b"\r\n\r\n",
        b"nonsense\r\n\r\n",
        b"POST /v1/messages HTTP/1.1\r\ncontent-length: -5\r\n\r\n",
        b"POST /v1/messages HTTP/1.1\r\ncontent-length: 99999999999\r\n\r\n",
        b"POST /v1/messages HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"\xff" * 200_000,
        b"POST /v1/messages HTTP/1.1\r\ncontent-length: 10\r\n\r\nabc",
    ],
)
async def test_bytes_that_are_no_request_cost_their_own_connection_only(
    server: ModelServer, port: int, client: httpx.AsyncClient, sent: bytes
) -> None:
    async with proxy_for(server, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(sent)
            writer.write_eof()
            await reader.read()
        except ConnectionError:
            pass  # the proxy has hung up
        writer.close()
        assert (await client.post("/chat/completions", json=body_of(""))).status_code == 200


def own(path: Path, **proxy: Any) -> CliAgent:
    params = {"description": str(path), "poll_seconds": 0.05, "proxy": proxy}
    return CliAgent(CliAgentParams.model_validate(params))


async def test_the_real_key_never_enters_the_environment(
    env: EnvironmentSession, server: ModelServer, tmp_path: Path
) -> None:
    run = 'env > "$AGENT_RUN_DIR/env.txt"; exec python3 "$AGENT_RUN_DIR/program.py"'
    server.script("", Reply("42"))
    agent = own(describe(tmp_path, run=run), prices=PRICES)
    result = await run_hooks(agent, env, request_for(server.base_url), task(), context_for())
    assert (result.final_answer, result.issues) == ("42!", [])
    assert (await env.exec(f'grep -r "{KEY}" "$HOME" .')).stdout.text == ""
    assert (await env.exec('grep -c "OWN_KEY=ac-" "$HOME"/.agentcompass/run-*/env.txt')).stdout.text == "1\n"
    assert result.trajectory is not None
    [call] = result.trajectory.extra["model_calls"]  # type: ignore[misc]
    assert (call["status"], call["tokens"], call["cost_usd"]) == (200, 18, 25e-6)  # type: ignore[index,call-overload]
    last = result.trajectory.steps[-1]
    assert (last.usage, last.cost_usd) == (Usage(prompt_tokens=11, completion_tokens=7), 25e-6)


async def test_an_agent_over_its_budget_is_ended_and_scored(
    env: EnvironmentSession, server: ModelServer, tmp_path: Path
) -> None:
    run = 'while true; do python3 "$AGENT_RUN_DIR/program.py"; sleep 0.2; done'
    server.script("", Reply("42"))
    agent = own(describe(tmp_path, run=run), max_calls=2)
    result = await run_hooks(agent, env, request_for(server.base_url), task(), context_for())
    assert "model_proxy.call_budget" in [issue.code for issue in result.issues]
    assert (len(server.calls), await env.end_all_processes()) == (2, 0)
    assert str(result.final_answer).startswith("42")


async def test_an_agent_without_steps_gets_those_of_its_calls(
    env: EnvironmentSession, server: ModelServer, tmp_path: Path
) -> None:
    run = 'python3 "$AGENT_RUN_DIR/program.py" > /dev/null; python3 "$AGENT_RUN_DIR/program.py" > /dev/null; echo done'
    server.script("", Reply("41"), Reply("42"))
    agent = own(describe(tmp_path, run=run, trajectory={"format": "text"}))
    result = await run_hooks(agent, env, request_for(server.base_url), task(), context_for())
    assert result.trajectory is not None
    assert [step.message for step in result.trajectory.steps] == ["41", "42"]
    assert result.final_answer == "done"


async def test_the_address_and_the_calls_outlive_the_worker(
    env: EnvironmentSession, server: ModelServer, tmp_path: Path
) -> None:
    """The agent makes its second call after another worker has taken over."""
    run = 'P="$AGENT_RUN_DIR/program.py"; python3 "$P" && exec python3 "$P"'
    agent = own(describe(tmp_path, run=run))
    (tmp_path / "gate").unlink()
    server.script("", Reply("41"), Reply("42"))
    context, request = context_for(), request_for(server.base_url)
    first = asyncio.create_task(run_hooks(agent, env, request, task(), context))
    while not context.steps:
        await asyncio.wait({first}, timeout=0.05)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)

    second = asyncio.create_task(run_hooks(agent, env, request, task(), restarted := context.restarted()))
    while not restarted.steps:
        await asyncio.wait({second}, timeout=0.05)
    (tmp_path / "gate").touch()
    result = await second
    assert (result.final_answer, len(server.calls)) == ("42!", 2)
    assert result.trajectory is not None
    assert len(result.trajectory.extra["model_calls"]) == 2  # type: ignore[arg-type]


async def test_a_port_that_is_taken_is_passed_over(
    env: EnvironmentSession, server: ModelServer, tmp_path: Path
) -> None:
    ports = list(candidate_ports(env.handle.id))
    assert len(set(ports)) == len(ports) and all(20_000 <= port < 32_000 for port in ports)
    holder = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", ports[0])
    server.script("", Reply("42"))
    async with holder:
        result = await run_hooks(
            own(describe(tmp_path)), env, request_for(server.base_url), task(), context_for()
        )
    assert (result.final_answer, result.issues) == ("42!", [])


def test_a_loopback_address_is_refused_for_environments_elsewhere(tmp_path: Path) -> None:
    request = request_for("http://127.0.0.1:1/v1")
    docker = request.environment.model_copy(update={"id": "docker"})
    refusal = own(describe(tmp_path), host="127.0.0.1").supports(docker, request.model)
    assert refusal == "proxy.host '127.0.0.1' is not this machine inside environment 'docker'"
    named = own(describe(tmp_path), host="host.docker.internal", bind="0.0.0.0")
    assert named.supports(docker, request.model) is None
    assert own(describe(tmp_path)).supports(docker, request.model) is None


def test_the_addresses_of_the_proxy_are_known_before_it_is_there(tmp_path: Path) -> None:
    ports = candidate_ports("ac-1")
    assert own(describe(tmp_path)).run_hosts("ac-1", "box") == [f"box:{port}" for port in ports]
    named = own(describe(tmp_path), host="10.0.0.1")
    assert named.run_hosts("ac-1", "box")[0].startswith("10.0.0.1:")
    with pytest.raises(UsageError, match=r"give proxy.host, and proxy.bind"):
        own(describe(tmp_path)).run_hosts("ac-1", None)
    without = CliAgent(CliAgentParams.model_validate({"description": str(describe(tmp_path))}))
    assert without.run_hosts("ac-1", None) == []


async def test_an_address_of_another_machine_is_named(
    env: EnvironmentSession, server: ModelServer, tmp_path: Path
) -> None:
    agent = own(describe(tmp_path), bind="192.0.2.77")
    result = await run_hooks(agent, env, request_for(server.base_url), task(), context_for())
    [problem] = [issue for issue in result.issues if issue.severity is Severity.FATAL]
    assert problem.code == "cli_agent.proxy_address_unusable"
    assert "cannot listen on 192.0.2.77" in problem.message and "proxy.bind" in problem.message


def test_calls_are_json(tmp_path: Path) -> None:
    call = ProxiedCall(
        at=1.0, protocol="anthropic", status=200, latency_seconds=0.5, content="secret thoughts"
    )
    assert "secret thoughts" not in json.dumps(call.summary())
