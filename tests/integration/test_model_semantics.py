"""What endpoints do to attempts: rate limits are waited for, a judge's refusal pauses the run."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from command_line import CommandLine, kill_and_wait, wait_for
from model_answers import Reply
from model_server import ModelServer
from row_runs import finish, make_command_line, start_rows

MODES = {"a": "none", "b": "fresh", "c": "none", "d": "fresh"}
BUSY = Reply(status=429, code="rate_limit_exceeded", message="slow down", headers={"retry-after": "3"})


async def test_waiting_for_a_rate_limit_is_not_charged_to_the_agent(command_line: CommandLine) -> None:
    tasks = [{"id": "q", "question": "1 + 1?", "answer": "ok"}]
    async with ModelServer() as server:
        server.script("", BUSY, Reply("ok"))
        ended = await asyncio.to_thread(
            command_line.run,
            *("run", "qa", "openai_chat", "m", "--benchmark-params", command_line.dataset(tasks)),
            *("--model-base-url", server.base_url, "--env", "host_process", "--progress", "none"),
            *("--execution-params", json.dumps({"run_timeout_seconds": 2})),
        )
        assert len(server.calls) == 2
    ended.expect(0)
    assert "1/1 tasks evaluated" in ended.stdout
    [run_dir] = command_line.run_dirs
    assert json.loads((run_dir / "details" / "q.json").read_bytes())["attempts"]["1"]["issues"] == []


async def test_a_judge_whose_key_is_refused_pauses_the_run_and_the_agent_works_once(
    embedded_home: Path, tmp_path: Path
) -> None:
    line = make_command_line(embedded_home, tmp_path)
    log = tmp_path / "agent.log"
    tasks = [
        {"id": name, "mode": mode, "do": {"execute_task": f"sh:echo {name} >> {log}", "evaluate": "judge"}}
        for name, mode in MODES.items()
    ]
    try:
        async with ModelServer(api_key="right-key-0123456789") as server:
            running = await asyncio.to_thread(
                start_rows,
                line,
                tasks,
                *("--model-base-url", server.base_url, "--model-api-key", "${THE_KEY}"),
                *("--model-api-protocol", "openai-chat", "--task-concurrency", "3", "--progress", "plain"),
                env={"THE_KEY": "wrong-key-0123456789"},
            )
            launch = await asyncio.to_thread(lambda: running.launch_id)

            def paused() -> str | None:
                told = line.run("status", launch).expect(0).stdout
                return told if "paused" in told else None

            told = await asyncio.to_thread(wait_for, "a paused launch", paused)
            assert "model_authentication: HTTP 401 from 127.0.0.1: " in told
            assert "wrong-key-0123456789" not in told
            mended = {"THE_KEY": "right-key-0123456789"}
            (await asyncio.to_thread(lambda: line.run("resume", launch, env=mended))).expect(0)
            run = await asyncio.to_thread(finish, line, running)
        run.ended.expect(0)
        assert [(run.state(name), run.correct(name), run.issues(name)) for name in MODES] == [
            ("evaluated", True, [])
        ] * 4
        assert sorted(log.read_text().split()) == list(MODES)
        assert not (run.run_dir / "retry_details").exists()
    finally:
        line.end_all()


async def test_a_refused_judge_in_the_agents_environment_costs_nothing_but_what_vanished(
    embedded_home: Path, tmp_path: Path
) -> None:
    """The worker is killed while the run is paused, and one environment removed."""
    line = make_command_line(embedded_home, tmp_path)
    log = tmp_path / "agent.log"
    tasks = [
        {
            "id": name,
            "mode": "reuse",
            "do": {"execute_task": f"sh:echo {name} >> {log}; touch made", "evaluate": "judge"},
        }
        for name in ("stays", "goes")
    ]
    try:
        async with ModelServer(api_key="right-key-0123456789") as server:
            running = await asyncio.to_thread(
                start_rows,
                line,
                tasks,
                *("--model-base-url", server.base_url, "--model-api-key", "${THE_KEY}"),
                *("--model-api-protocol", "openai-chat", "--task-concurrency", "2", "--progress", "plain"),
                benchmark="rows_slow",
                harness="rows_slow",
                env={"THE_KEY": "wrong-key-0123456789"},
            )
            launch = await asyncio.to_thread(lambda: running.launch_id)

            def both_wait() -> bool:
                told = line.run("status", launch).expect(0).stdout
                return "paused" in told and len(server.calls) == 2

            await asyncio.to_thread(wait_for, "both judges to be refused", both_wait)
            await asyncio.to_thread(lambda: kill_and_wait(running.worker_pid))
            listed = await asyncio.to_thread(lambda: line.run("env", "list", "--launch", launch, "--json"))
            owned = {item["task"]: item["id"] for item in json.loads(listed.expect(0).stdout)}
            assert sorted(owned) == ["goes", "stays"]
            release = ("env", "release", "--force", owned["goes"])
            (await asyncio.to_thread(lambda: line.run(*release))).expect(0)
            mended = {"THE_KEY": "right-key-0123456789"}
            (await asyncio.to_thread(lambda: line.run("resume", launch, env=mended))).expect(0)
            run = await asyncio.to_thread(finish, line, running)
        run.ended.expect(0)
        assert sorted(log.read_text().split()) == ["goes", "goes", "stays"]
        assert (run.correct("stays"), run.issues("stays")) == (True, [])
        assert (run.correct("goes"), run.issues("goes")) == (
            True,
            [("warning", "evaluate", "environment_lost")],
        )
        assert "executed again" in run.message("goes")
        assert not (run.run_dir / "retry_details").exists()
    finally:
        line.end_all()


async def test_a_second_judge_in_a_kept_environment_works_under_its_own_policy(
    embedded_home: Path, tmp_path: Path
) -> None:
    """The first one was refused, and left the environment as whatever is kept."""
    line = make_command_line(embedded_home, tmp_path)
    policies = {
        "network_policy": "no-network",
        "run_network_policy": "public",
        "verifier_network_policy": "public",
    }
    given = {"log": str(tmp_path / "policies.jsonl"), **policies}
    try:
        async with ModelServer(api_key="right-key-0123456789") as server:
            running = await asyncio.to_thread(
                start_rows,
                line,
                [{"id": "t", "mode": "reuse", "do": {"evaluate": "judge"}}],
                *("--env", "switching", "--env-params", json.dumps(given), "--keep-environment"),
                *("--model-base-url", server.base_url, "--model-api-key", "${THE_KEY}"),
                *("--model-api-protocol", "openai-chat", "--progress", "plain"),
                benchmark="rows_slow",
                env={"THE_KEY": "wrong-key-0123456789"},
            )
            launch = await asyncio.to_thread(lambda: running.launch_id)

            def paused() -> bool:
                return "paused" in line.run("status", launch).expect(0).stdout

            await asyncio.to_thread(wait_for, "the judge to be refused", paused)
            mended = {"THE_KEY": "right-key-0123456789"}
            (await asyncio.to_thread(lambda: line.run("resume", launch, env=mended))).expect(0)
            run = await asyncio.to_thread(finish, line, running)
        run.ended.expect(0)
        noted = [json.loads(text)[1:] for text in (tmp_path / "policies.jsonl").read_text().splitlines()]
        agent = [["open", "no-network"], ["switch", "public"]]
        judge = [["switch", "public"], ["switch", "no-network"]]
        assert noted == [*agent, *judge, *judge]
    finally:
        line.end_all()
