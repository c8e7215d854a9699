"""Benchmarks that need tools or a judge, with the real model client and command line."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from command_line import CommandLine
from model_answers import Reply
from model_server import ModelServer

DATA = Path(__file__).parents[1] / "data"


def attempts(line: CommandLine) -> dict[str, dict[str, Any]]:
    records = [json.loads(file.read_bytes()) for file in (line.run_dirs[-1] / "details").glob("*.json")]
    return {record["task_id"]: record["attempts"]["1"] for record in records}


async def test_a_model_is_offered_functions_and_its_calls_are_judged(command_line: CommandLine) -> None:
    async with ModelServer() as server:
        call = {"id": "1", "name": "geometry_area", "arguments": {"base": 10, "height": 5.0}}
        server.script("base 10 and height 5", Reply("", tool_calls=(call,), stop_reason="tool_calls"))
        server.script("capital of France", Reply("Paris."))
        running = await asyncio.to_thread(
            command_line.run,
            *("run", "bfcl", "openai_chat", "m", "--env", "host_process", "--progress", "none"),
            *("--model-base-url", server.base_url, "--model-api-protocol", "openai-chat"),
            *(
                "--benchmark-params",
                json.dumps({"path": str(DATA / "bfcl"), "categories": ["simple", "irrelevance"]}),
            ),
        )
    assert "correct.native@1 = 1.0000" in running.expect(0).stdout
    offered = {call.prompt: call.body["tools"] for call in server.calls}
    assert sorted(tools[0]["function"]["name"] for tools in offered.values()) == ["geometry_area", "play"]


async def test_a_judge_decides_and_its_key_is_nowhere(command_line: CommandLine) -> None:
    key = "sk-of-the-judge-0123456789"
    async with ModelServer() as model, ModelServer(api_key=key) as judge:
        model.default = Reply("Paris")
        judge.default = Reply("No.\nVERDICT: INCORRECT")
        judge.script("capital of France", Reply("Yes.\nVERDICT: CORRECT"))
        judge.script("Cologne", Reply("I cannot say."))
        params = {
            "path": str(DATA / "judged_qa" / "metadata.jsonl"),
            "judge": {"id": "j", "base_url": judge.base_url, "api_key": "${JUDGE_KEY}"},
        }
        ended = await asyncio.to_thread(
            command_line.run,
            *("run", "judged_qa", "openai_chat", "m", "--env", "host_process", "--progress", "none"),
            *("--model-base-url", model.base_url, "--model-api-protocol", "openai-chat"),
            *("--benchmark-params", json.dumps(params)),
            env={"JUDGE_KEY": key},
        )
    ended.expect(1)
    found = attempts(command_line)
    scores = {name: item["metrics"].get("correct") for name, item in found.items()}
    assert scores == {"capital": True, "total": False, "river": None}
    [issue] = found["river"]["issues"]
    assert (issue["severity"], issue["code"]) == ("fatal", "judge_failed")
    assert found["capital"]["meta"]["benchmark"]["judge"]["usage"]["completion_tokens"] == 7
    for file in command_line.results.rglob("*"):
        assert not file.is_file() or key.encode() not in file.read_bytes(), file
