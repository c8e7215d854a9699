"""What endpoints do to attempts: rate limits are waited for, a judge's refusal pauses the run."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from command_line import CommandLine, wait_for
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
