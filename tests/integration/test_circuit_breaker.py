"""A refused key pauses the run instead of burning its tasks, until somebody mends it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from command_line import CommandLine, Ended, Running, kill_and_wait, wait_for
from model_answers import Reply
from model_server import ModelServer
from run_directory import events

TASKS = [{"id": f"q{number}", "question": f"{number} + 1?", "answer": "ok"} for number in range(6)]
NO_CREDIT = Reply(status=429, code="insufficient_quota", message="no credit left")


async def _paused_and_resumed(
    cli: CommandLine, server: ModelServer, *, mend: str, kill: bool = False
) -> None:
    running = await asyncio.to_thread(
        cli.start,
        *("run", "qa", "openai_chat", "m", "--benchmark-params", cli.dataset(TASKS)),
        *("--model-base-url", server.base_url, "--model-api-key", "${THE_KEY}", "--model-api-protocol", "openai-chat"),
        *("--env", "host_process", "--task-concurrency", "2", "--progress", "plain"),
        env={"THE_KEY": "wrong-key-0123456789"},
    )  # fmt: skip
    launch = await asyncio.to_thread(lambda: running.launch_id)

    def paused() -> str | None:
        told = cli.run("status", launch).expect(0).stdout
        return told if "paused" in told and "running=0" in told else None  # those that wait do not run

    told = await asyncio.to_thread(wait_for, "a paused launch", paused)
    assert f"HTTP {429 if mend == 'credit' else 401} from 127.0.0.1: " in told
    assert "wrong-key-0123456789" not in told
    assert 1 <= len(server.calls) <= 2  # what ran already; nothing was started after the refusal
    if kill:
        asked = len(server.calls)
        await asyncio.to_thread(kill_and_wait, running.worker_pid)
        await asyncio.to_thread(wait_for, "the same from another worker", paused)
        assert len(server.calls) == asked
    if mend == "credit":
        server.script("", Reply("ok"))
    key = {"THE_KEY": "right-key-0123456789"}
    (await asyncio.to_thread(lambda: cli.run("resume", launch, env=key))).expect(0)
    ended = (await asyncio.to_thread(running.wait)).expect(0)
    assert "6/6 tasks evaluated" in ended.stdout
    [run_dir] = cli.run_dirs
    assert list((run_dir / "details").glob("_error_*")) == []
    assert not (run_dir / "retry_details").exists()
    assert not [event for event in events(run_dir) if event["event"] == "attempt_retry"]


async def test_a_refused_key_pauses_the_run_and_resume_goes_on_with_the_new_one(
    command_line: CommandLine,
) -> None:
    async with ModelServer(api_key="right-key-0123456789") as server:
        await _paused_and_resumed(command_line, server, mend="key")


async def test_a_worker_killed_in_the_pause_changes_nothing(command_line: CommandLine) -> None:
    async with ModelServer(api_key="right-key-0123456789") as server:
        await _paused_and_resumed(command_line, server, mend="key", kill=True)


async def test_an_exhausted_account_pauses_the_run_until_there_is_credit(command_line: CommandLine) -> None:
    async with ModelServer() as server:
        server.script("", NO_CREDIT)
        await _paused_and_resumed(command_line, server, mend="credit")


PLAN = """\
version: 1
task_concurrency: 2
runtime: {{results_dir: {results}}}
defaults:
  harness: {{id: openai_chat}}
  environment: {{id: host_process}}
requests:
  - {{name: one, benchmark: {{id: qa, path: {tasks}}}, model: {{id: m1, base_url: "{refusing}", api_key: "${{THE_KEY}}"}}}}
  - {{name: two, benchmark: {{id: qa, path: {tasks}}}, model: {{id: m2, base_url: "{refusing}", api_key: "${{THE_KEY}}"}}}}
  - {{name: three, benchmark: {{id: qa, path: {tasks}}}, model: {{id: m3, base_url: "{other}", api_key: "${{OTHER_KEY}}"}}}}
"""


KEYS = {"THE_KEY": "wrong-key-0123456789", "OTHER_KEY": "other-key-0123456789"}
MENDED = {**KEYS, "THE_KEY": "right-key-0123456789"}


async def _started(cli: CommandLine, refusing: ModelServer, other: ModelServer) -> Running:
    plan = cli.folder / "plan.yaml"
    tasks = json.loads(cli.dataset(TASKS))["path"]
    plan.write_text(
        PLAN.format(results=cli.results, tasks=tasks, refusing=refusing.base_url, other=other.base_url)
    )
    return await asyncio.to_thread(cli.start, "launch", str(plan), "--progress", "plain", env=KEYS)


async def _told(cli: CommandLine, launch: str, *states: str) -> dict[str, Any]:
    """What ``status`` tells as soon as the requests are in these states."""

    def look() -> dict[str, Any] | None:
        told: dict[str, Any] = cli.run("status", launch, "--json").expect(0).json
        return told if [request["state"] for request in told["requests"]] == list(states) else None

    return await asyncio.to_thread(wait_for, f"requests that are {', '.join(states)}", look)


async def test_a_refusal_stops_all_requests_at_that_endpoint_and_a_killed_worker_changes_nothing(
    command_line: CommandLine,
) -> None:
    cli = command_line
    async with ModelServer(api_key=MENDED["THE_KEY"]) as refusing, ModelServer() as other:
        running = await _started(cli, refusing, other)
        launch = await asyncio.to_thread(lambda: running.launch_id)
        told = await _told(cli, launch, "paused", "paused", "completed")
        one, two, _ = told["requests"]
        assert told["state"] == "paused"
        assert one["message"].startswith("HTTP 401 from 127.0.0.1: ")
        assert "met by q" in two["message"] and "/a1 of request one, at an endpoint that" in two["message"]
        assert KEYS["THE_KEY"] not in json.dumps(told)
        # Only what ran when the first was refused; the other request was told before it had a slot.
        assert {call.body["model"] for call in refusing.calls} == {"m1"} and len(refusing.calls) <= 2
        assert len(other.calls) == len(TASKS)

        asked = len(refusing.calls)
        await asyncio.to_thread(kill_and_wait, running.worker_pid)
        await _told(cli, launch, "paused", "paused", "completed")  # from another worker
        assert len(refusing.calls) == asked

        (await asyncio.to_thread(lambda: cli.run("resume", launch, env=MENDED))).expect(0)
        (await asyncio.to_thread(running.wait)).expect(0)
        assert len(refusing.calls) == asked + 2 * len(TASKS)


async def test_one_request_that_is_resumed_takes_along_who_waits_for_its_endpoint_but_no_operator(
    command_line: CommandLine,
) -> None:
    cli = command_line
    async with ModelServer(api_key=MENDED["THE_KEY"]) as refusing, ModelServer() as other:
        running = await _started(cli, refusing, other)
        launch = await asyncio.to_thread(lambda: running.launch_id)
        await _told(cli, launch, "paused", "paused", "completed")

        def tell(*arguments: str) -> Ended:
            return cli.run(*arguments, env=MENDED)

        unknown = (await asyncio.to_thread(tell, "pause", launch, "--request", "nobody")).expect(2)
        assert "no request 'nobody' of launch" in unknown.stderr
        paused = await asyncio.to_thread(tell, "pause", launch, "--request", "one", "--reason", "lunch")
        assert f"agentcompass resume {launch} --request one" in paused.expect(0).stdout
        (await asyncio.to_thread(tell, "resume", launch, "--request", "two")).expect(0)
        told = await _told(cli, launch, "paused", "completed", "completed")
        assert told["requests"][0]["message"] == "lunch"
        (await asyncio.to_thread(tell, "resume", launch, "--request", "one")).expect(0)
        (await asyncio.to_thread(running.wait)).expect(0)
