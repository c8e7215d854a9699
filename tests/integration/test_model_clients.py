"""Model clients against a real HTTP server on loopback: faults, limits, secrets."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import socket
import sys
import time
import traceback
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from model_server import ModelServer, Reply

from agentcompass.contracts import IssueCode, IssuePhase, Message, ModelSpec, Severity, StageFailure
from agentcompass.plugins.models import ModelResponse, check_reachable, create_model_client
from agentcompass.plugins.models import transport as transport_module
from agentcompass.plugins.models.retry import Surroundings

ASK = [Message(role="user", content="[task: t1] 2 + 2?")]
KEY = "sk-canary-5f3a9c1e7b2d4860"
PROTOCOLS = ["openai-chat", "openai-responses", "anthropic"]


@pytest_asyncio.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with ModelServer() as running:
        yield running


def spec_for(base_url: str, protocol: str = "openai-chat", **params: object) -> ModelSpec:
    fields = {"id": "m", "base_url": base_url, "api_protocol": protocol, "params": params}
    return ModelSpec.model_validate(fields)


class Waits:
    """Records waits instead of waiting; everything else is real."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.surroundings = Surroundings(sleep=self._sleep, jitter=lambda: 1.0)

    async def _sleep(self, seconds: float) -> None:
        self.seconds.append(seconds)


async def ask(
    spec: ModelSpec, key: str = "", deadline: float | None = None, waits: Waits | None = None
) -> ModelResponse:
    around = (waits or Waits()).surroundings
    async with create_model_client(spec, key, deadline=deadline, surroundings=around) as client:
        return await client.generate(ASK)


async def failure_of(
    spec: ModelSpec, key: str = "", deadline: float | None = None, waits: Waits | None = None
) -> StageFailure:
    with pytest.raises(StageFailure) as caught:
        await ask(spec, key, deadline, waits)
    return caught.value


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_an_answer_comes_back_over_each_protocol(server: ModelServer, protocol: str) -> None:
    server.script("2 + 2", Reply("4", reasoning="easy"))
    response = await ask(spec_for(server.base_url, protocol), KEY)
    assert (response.content, response.reasoning, response.stop_reason) == ("4", "easy", "stop")
    assert (response.usage.prompt_tokens, response.usage.completion_tokens) == (11, 7)
    assert (response.model, response.attempts) == ("m", 1)
    assert response.response_id and response.latency_seconds > 0


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_the_bare_host_is_enough_as_base_url(server: ModelServer, protocol: str) -> None:
    assert (await ask(spec_for(server.root_url, protocol))).content == "ok"


async def test_keys_are_sent_as_each_protocol_wants(server: ModelServer) -> None:
    for protocol in PROTOCOLS:
        await ask(spec_for(server.base_url, protocol), f" {KEY}\n")
    chat, responses, anthropic = (call.headers for call in server.calls)
    assert chat["authorization"] == responses["authorization"] == f"Bearer {KEY}"
    assert (anthropic["x-api-key"], anthropic["anthropic-version"]) == (KEY, "2023-06-01")
    assert "authorization" not in anthropic


async def test_without_a_key_no_credentials_are_sent(server: ModelServer) -> None:
    await ask(spec_for(server.base_url))
    assert "authorization" not in server.calls[0].headers


async def test_a_busy_server_is_asked_again_until_it_answers(server: ModelServer) -> None:
    server.script(
        "", Reply(status=503), Reply(status=529), Reply(drop="before"), Reply(drop="body"), Reply("4")
    )
    waits = Waits()
    response = await ask(spec_for(server.base_url), waits=waits)
    assert (response.content, response.attempts) == ("4", 5)
    assert waits.seconds == [1.0, 2.0, 4.0, 8.0]
    assert server.counts == {"t1": 5}


async def test_the_wait_that_the_server_asks_for_is_kept(server: ModelServer) -> None:
    server.script("", Reply(status=429, headers={"Retry-After": "7"}), Reply("4"))
    waits = Waits()
    await ask(spec_for(server.base_url), waits=waits)
    assert waits.seconds == [8.0]


async def test_a_retry_after_beyond_the_deadline_ends_the_call_at_once(server: ModelServer) -> None:
    server.script("", Reply(status=429, headers={"Retry-After": "50"}, message="slow down"))
    failure = await failure_of(spec_for(server.base_url), deadline=time.time() + 20)
    assert failure.issue.code == IssueCode.MODEL_RATE_LIMITED
    assert len(server.calls) == 1


@pytest.mark.parametrize(
    ("reply", "severity", "code", "tries"),
    [
        (Reply(status=401, message="bad key"), Severity.FATAL, IssueCode.MODEL_AUTHENTICATION, 1),
        (Reply(status=403), Severity.FATAL, IssueCode.MODEL_AUTHENTICATION, 1),
        (Reply(status=402), Severity.FATAL, IssueCode.MODEL_QUOTA, 1),
        (Reply(status=429, code="insufficient_quota"), Severity.FATAL, IssueCode.MODEL_QUOTA, 1),
        (Reply(status=429), Severity.FATAL, IssueCode.MODEL_RATE_LIMITED, 7),
        (Reply(status=500), Severity.FATAL, IssueCode.MODEL_SERVER_ERROR, 7),
        (Reply(status=404), Severity.FATAL, IssueCode.MODEL_REQUEST_REJECTED, 1),
        (Reply(status=409), Severity.FATAL, IssueCode.MODEL_REQUEST_REJECTED, 1),
        (Reply(status=422), Severity.FATAL, IssueCode.MODEL_REQUEST_REJECTED, 1),
        (Reply(status=308, headers={"Location": "/v2"}), Severity.FATAL, IssueCode.MODEL_REQUEST_REJECTED, 1),
        (Reply(drop="before"), Severity.FATAL, IssueCode.MODEL_UNREACHABLE, 7),
        (Reply(drop="body"), Severity.FATAL, IssueCode.MODEL_UNREACHABLE, 7),
        (Reply(raw_body="<html>busy</html>"), Severity.ERROR, IssueCode.MODEL_PROTOCOL_ERROR, 2),
        (Reply(raw_body="[1, 2]"), Severity.ERROR, IssueCode.MODEL_PROTOCOL_ERROR, 2),
        (
            Reply(raw_body='{"choices": [{"message": "x"}]}'),
            Severity.ERROR,
            IssueCode.MODEL_PROTOCOL_ERROR,
            2,
        ),
        (
            Reply(raw_body='{"error": {"code": 429, "message": "x"}}'),
            Severity.FATAL,
            IssueCode.MODEL_RATE_LIMITED,
            7,
        ),
        (
            Reply("4", headers={"Content-Encoding": "gzip"}),
            Severity.ERROR,
            IssueCode.MODEL_PROTOCOL_ERROR,
            2,
        ),
    ],
)
async def test_what_does_not_pass_ends_in_its_issue(
    server: ModelServer, reply: Reply, severity: Severity, code: IssueCode, tries: int
) -> None:
    server.script("", reply)
    issue = (await failure_of(spec_for(server.base_url))).issue
    assert (issue.severity, issue.code, issue.phase) == (severity, code, IssuePhase.RUN)
    assert len(server.calls) == tries
    assert "127.0.0.1" in issue.message and "\n" not in issue.message


async def test_a_failed_response_object_counts_as_the_error_it_names(server: ModelServer) -> None:
    body = {"status": "failed", "output": [], "error": {"code": "server_error", "message": "it broke"}}
    server.script("", Reply(raw_body=json.dumps(body)), Reply("4"))
    assert (await ask(spec_for(server.base_url, "openai-responses"))).attempts == 2


async def test_a_request_that_takes_too_long_is_tried_once_more(server: ModelServer) -> None:
    server.script("", Reply(hang=True))
    issue = (await failure_of(spec_for(server.base_url, request_timeout_seconds=0.1))).issue
    assert (issue.severity, issue.code) == (Severity.ERROR, IssueCode.MODEL_TIMEOUT)
    assert len(server.calls) == 2


async def test_the_deadline_ends_a_hanging_request(server: ModelServer) -> None:
    server.script("", Reply(hang=True))
    began = time.monotonic()
    issue = (await failure_of(spec_for(server.base_url), deadline=time.time() + 0.2)).issue
    assert issue.code == IssueCode.MODEL_TIMEOUT
    assert time.monotonic() - began < 10
    assert len(server.calls) == 1


async def test_a_refused_connection_is_unreachable_after_all_tries() -> None:
    waits = Waits()
    issue = (
        await failure_of(spec_for(f"http://127.0.0.1:{free_port()}/v1", max_attempts=3), waits=waits)
    ).issue
    assert (issue.severity, issue.code) == (Severity.FATAL, IssueCode.MODEL_UNREACHABLE)
    assert issue.message == "no connection to 127.0.0.1 (3 tries): connection refused"
    assert waits.seconds == [1.0, 2.0]


async def test_a_server_that_comes_up_in_between_is_reached() -> None:
    port = free_port()
    server = ModelServer(port=port)

    async def start_server(seconds: float) -> None:
        await server.__aenter__()

    around = Surroundings(sleep=start_server)
    async with create_model_client(
        spec_for(f"http://127.0.0.1:{port}/v1"), "", surroundings=around
    ) as client:
        assert (await client.generate(ASK)).attempts == 2
    await server.__aexit__(None, None, None)


async def test_a_body_over_the_limit_is_not_read_to_its_end(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport_module, "MAX_BODY_BYTES", 1024 * 1024)
    bomb = gzip.compress(b" " * (2 * 1024 * 1024))
    server.script("", Reply(raw_body=bomb, headers={"Content-Encoding": "gzip"}))
    issue = (await failure_of(spec_for(server.base_url))).issue
    assert (issue.code, len(server.calls)) == (IssueCode.MODEL_PROTOCOL_ERROR, 1)
    assert "larger than 1 MiB" in issue.message


async def test_a_multibyte_character_cut_by_a_chunk_arrives_whole(server: ModelServer) -> None:
    text = "ä" * 200_000
    server.script(
        "", Reply(raw_body=json.dumps({"choices": [{"message": {"content": text}}]}, ensure_ascii=False))
    )
    assert (await ask(spec_for(server.base_url))).content == text


async def test_a_lone_surrogate_in_a_prompt_does_not_stop_the_call(server: ModelServer) -> None:
    async with create_model_client(spec_for(server.base_url), "") as client:
        await client.generate([Message.model_construct(role="user", content="a\ud83d")])
    assert server.calls[0].body["messages"][0]["content"] == "a?"


async def test_a_message_that_cannot_be_sent_is_the_fault_of_the_task(server: ModelServer) -> None:
    broken = Message(role="assistant", content="", tool_calls=[{"id": 5, "name": "f"}])
    async with create_model_client(spec_for(server.base_url), "") as client:
        with pytest.raises(StageFailure, match="tool call id is a number") as caught:
            await client.generate([broken])
    assert caught.value.issue.code == IssueCode.TASK_INPUT_INVALID


async def test_the_key_is_in_no_message_repr_log_or_traceback(
    server: ModelServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.script(
        "", Reply(status=500, message=f"cannot use {KEY}"), Reply(status=401, message=f"bad key {KEY}")
    )
    for protocol in PROTOCOLS:
        spec = spec_for(server.base_url, protocol)
        client = create_model_client(spec, KEY, surroundings=Waits().surroundings)
        with caplog.at_level(logging.DEBUG):
            async with client:
                with pytest.raises(StageFailure) as caught:
                    await client.generate(ASK)
        shown = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
        texts = [repr(client), repr(vars(client)), str(caught.value), "".join(shown.format()), caplog.text]
        assert all(KEY not in text for text in texts)
        assert caught.value.issue.message.endswith("bad key ***")
    assert all(KEY in json.dumps(call.headers) for call in server.calls)


async def test_a_server_that_repeats_a_wrong_key_does_not_reveal_it() -> None:
    async with ModelServer(api_key="right") as strict:
        issue = (await failure_of(spec_for(strict.base_url), KEY)).issue
    assert issue.message == "HTTP 401 from 127.0.0.1: Incorrect API key provided: ***"


def test_a_key_that_no_header_can_carry_is_refused_without_showing_it() -> None:
    with pytest.raises(StageFailure) as caught:
        create_model_client(spec_for("http://127.0.0.1:1/v1"), "se\ncret")
    assert caught.value.issue.code == IssueCode.MODEL_AUTHENTICATION
    assert "cret" not in caught.value.issue.message


async def test_loopback_is_reached_without_the_proxy_of_the_environment(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    assert (await ask(spec_for(server.base_url))).content == "ok"
    assert await check_reachable(spec_for(server.base_url)) is None


async def test_other_hosts_are_reached_through_the_proxy(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.setenv("HTTP_PROXY", server.root_url)
    monkeypatch.setenv("http_proxy", server.root_url)
    assert (await ask(spec_for("http://models.invalid/v1"))).content == "ok"
    assert server.calls[0].path == "http://models.invalid/v1/chat/completions"


async def test_many_calls_share_one_client(server: ModelServer) -> None:
    server.script("", Reply("4", hang=True))
    async with create_model_client(spec_for(server.base_url), "") as client:
        running = [asyncio.create_task(client.generate(ASK)) for _ in range(20)]
        await server.wait_for_calls(20)
        server.release()
        answers = await asyncio.gather(*running)
    assert [answer.content for answer in answers] == ["4"] * 20
    assert server.peak_concurrency == 20


@pytest.mark.parametrize("status", [200, 401, 404, 500])
async def test_any_http_answer_means_reachable(server: ModelServer, status: int) -> None:
    server.default = Reply(status=status)
    assert await check_reachable(spec_for(server.base_url)) is None
    assert server.calls == []


async def test_nobody_listening_is_unreachable_in_one_line() -> None:
    url = f"http://127.0.0.1:{free_port()}/v1"
    assert await check_reachable(spec_for(url)) == (
        f"the endpoint of model 'm' cannot be reached at {url}/chat/completions: connection refused"
    )


async def test_a_name_that_does_not_exist_is_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    problem = await check_reachable(spec_for("http://no-such-host.invalid/v1"))
    assert problem is not None and problem.endswith(": host name not found")


async def test_a_silent_server_is_unreachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        problem = await check_reachable(spec_for(url), timeout=0.2)
    assert problem is not None and problem.endswith(": no answer within 0.2 s")


async def test_the_scripted_server_runs_as_a_process(tmp_path: Path) -> None:
    script, log = tmp_path / "script.json", tmp_path / "calls.jsonl"
    script.write_text(json.dumps({"rules": [{"contains": "2 + 2", "replies": [{"content": "4"}]}]}))
    program = Path(__file__).parents[1] / "support" / "model_server.py"
    options = ["--port", "0", "--script", str(script), "--call-log", str(log)]
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(program), *options, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        line = (await asyncio.wait_for(process.stdout.readline(), 30)).decode()
        assert (await ask(spec_for(line.removeprefix("listening on ").strip()))).content == "4"
    finally:
        process.terminate()
        await process.wait()
    assert json.loads(log.read_text())["task"] == "t1"
