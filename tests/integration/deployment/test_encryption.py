"""A launch on a cluster with a payload key: nobody without the key can read what it is about."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import secrets
import subprocess
import sys
from pathlib import Path

import pytest
from cluster import Cluster
from command_line import CommandLine, wait_for
from model_answers import Reply
from model_server import ModelServer
from temporalio.client import Client, WorkflowHistory
from temporalio.worker import Replayer

from agentcompass.activities.data_converter import data_converter
from agentcompass.activities.encryption import KEY_VARIABLE
from agentcompass.workflows.registration import WORKFLOWS
from agentcompass.workflows.runner import sandbox

CANARY = "sk-" + secrets.token_hex(12)
"""A literal model key; the endpoint repeats it."""
PARAMETER = "parameter-" + secrets.token_hex(6)
"""Stands in the request, in clear text on the disk of whoever runs it."""
CODEC_TOKEN = "token-" + secrets.token_hex(8)
KEY = base64.b64encode(os.urandom(32)).decode()
UI_ORIGIN = "http://127.0.0.1:8243"


@pytest.fixture
def encrypted(cluster: Cluster) -> Cluster:
    """The key as a file, as a secret is mounted into a container."""
    file = cluster.command_line.folder / "payload-key"
    file.write_text(KEY + "\n")
    cluster.command_line.env[KEY_VARIABLE] = f"file:{file}"
    return cluster


def ask(command_line: CommandLine, base_url: str, *options: str) -> tuple[str, ...]:
    dataset = command_line.dataset([{"id": "q", "question": "repeat", "answer": "4"}])
    model = ("--model-base-url", base_url, "--model-api-key", CANARY)
    params = ("--model-params", json.dumps({"user": PARAMETER}))
    harness = ("qa", "openai_chat", "model", "--benchmark-params", dataset)
    return ("run", *harness, *model, *params, "--progress", "none", *options)


async def histories(client: Client, launch_id: str) -> list[WorkflowHistory]:
    """Of all workflows of a launch, payloads as they are."""
    query = f"AgentCompassLaunch = '{launch_id}'"

    async def found() -> list[WorkflowHistory]:
        return [item async for item in client.list_workflows(query).map_histories()]

    while len(items := await found()) < 3:  # noqa: ASYNC110  # the list of workflows follows a moment later
        await asyncio.sleep(0.1)
    return items


async def test_history_holds_no_plain_text_and_replays_with_the_key(
    encrypted: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    command_line = encrypted.command_line
    async with ModelServer(api_key=CANARY) as server:
        server.script("repeat", Reply(f"4 {CANARY}"))
        worker = encrypted.worker()
        arguments = ask(command_line, server.base_url, "--json")
        ended = (await asyncio.to_thread(command_line.run, *arguments)).expect(0)
        assert len(server.calls) == 1, "a key that was written out reached the endpoint"
    launch_id = ended.json["launch_id"]
    shown = await asyncio.to_thread(command_line.run, "status", launch_id, "--json")
    assert shown.expect(0).json["requests"][0]["total_tasks"] == 1

    client = await encrypted.client()
    items = await histories(client, launch_id)
    raw = b"".join(event.SerializeToString() for item in items for event in item.events)
    for text in (CANARY, PARAMETER, server.base_url, str(command_line.folder)):
        assert text.encode() not in raw, f"{text} can be read in the history"
    assert raw.count(b"binary/encrypted") > 10

    monkeypatch.setenv(KEY_VARIABLE, KEY)
    converter = data_converter()
    replayer = Replayer(workflows=WORKFLOWS, data_converter=converter, workflow_runner=sandbox(converter))
    for item in items:
        await replayer.replay_workflow(item)
    worker.end()
    on_disk = [path for path in command_line.results.rglob("*") if path.is_file()]
    assert on_disk and not [path for path in on_disk if CANARY.encode() in path.read_bytes()]


def test_literal_key_is_refused_without_a_payload_key(cluster: Cluster) -> None:
    arguments = ask(cluster.command_line, "http://127.0.0.1:9/v1")
    [error] = cluster.command_line.run(*arguments).expect(2).errors
    assert "--model-api-key" in error and KEY_VARIABLE in error
    assert CANARY not in error and not cluster.command_line.results.exists()


async def test_command_without_the_key_says_which_key_it_lacks(encrypted: Cluster) -> None:
    worker = encrypted.worker()
    command_line = encrypted.command_line
    rows = [{"id": "q", "question": "2 + 2?", "answer": "4"}]
    ended = await asyncio.to_thread(encrypted.run_questions, rows, "--json")
    launch_id = ended.expect(0).json["launch_id"]
    worker.end()
    for wrong, said in ((" ", "does not have"), (base64.b64encode(b"x" * 32).decode(), "does not have")):
        missing = await asyncio.to_thread(
            lambda value=wrong: command_line.run("attach", launch_id, env={KEY_VARIABLE: value})
        )
        [error] = missing.expect(2).errors
        assert said in error and KEY_VARIABLE in error


@pytest.mark.parametrize("served", [True, False])
def test_list_goes_on_where_a_launch_was_encrypted_with_the_key_of_others(
    encrypted: Cluster, served: bool
) -> None:
    command_line = encrypted.command_line
    rows = [{"id": "q", "command": "sleep 600"}]
    dataset = command_line.dataset(rows, "commands.jsonl")
    run = ("run", "command", "none", "none", "--benchmark-params", dataset, "--env", "host_process")
    worker = encrypted.worker()
    launch_id = command_line.run(*run, "--detach", "--json").expect(0).json["launch_id"]
    if not served:
        worker.end()
    assert launch_id in command_line.run("list", env={KEY_VARIABLE: " "}).expect(0).stdout
    if not served:
        encrypted.worker()
    command_line.run("cancel", launch_id).expect(0)
    command_line.run("attach", launch_id).expect(130)


def test_worker_with_another_key_breaks_nothing_and_status_says_why(cluster: Cluster) -> None:
    """Its failures are retried: a worker with the right key takes over."""
    command_line = cluster.command_line
    keys = {name: base64.b64encode(os.urandom(32)).decode() for name in ("ours", "theirs")}
    command_line.env["AGENTCOMPASS_PAYLOAD_KEYS"] = f"ours={keys['ours']}"
    dataset = command_line.dataset([{"id": "q", "question": "2 + 2?", "answer": "4"}])
    run = command_line.start(
        "run", "qa", "oracle", "none", "--benchmark-params", dataset, "--progress", "none"
    )
    wrong = cluster.worker(env={"AGENTCOMPASS_PAYLOAD_KEYS": f"theirs={keys['theirs']}"})
    wait_for("the trouble", lambda: "key 'theirs'" in run.stderr, 30)
    wrong.end()
    right = cluster.worker()
    run.wait().expect(0)
    right.end()


def test_temporal_command_line_reads_histories_through_the_codec_server(encrypted: Cluster) -> None:
    command_line = encrypted.command_line
    worker = encrypted.worker()
    dataset = command_line.dataset([{"id": "q", "question": "2 + 2?", "answer": "4"}])
    run = ("run", "qa", "oracle", "none", "--benchmark-params", dataset, "--run-name", PARAMETER)
    launch_id = command_line.run(*run, "--progress", "none", "--json").expect(0).json["launch_id"]
    worker.end()
    token = {"AGENTCOMPASS_CODEC_TOKEN": f"file:{_write(command_line.folder / 'token', CODEC_TOKEN)}"}
    server = command_line.start("codec-server", "--origin", UI_ORIGIN, "--port", "0", env=token)
    address = wait_for("its address", lambda: _address(command_line))

    def show(*options: str) -> str:
        show = ("workflow", "show", "--workflow-id", f"launch/{launch_id}", "--output", "json")
        place = ("--address", encrypted.address, "--namespace", command_line.env["TEMPORAL_NAMESPACE"])
        temporal = str(Path(sys.executable).with_name("temporal"))
        done = subprocess.run(
            [temporal, *show, *place, *options], capture_output=True, text=True, check=False, timeout=60
        )
        data = [base64.b64decode(text) for text in re.findall(r'"data": "([^"]+)"', done.stdout)]
        return f"{done.stdout} {done.stderr} {data}"

    assert PARAMETER not in show()
    assert PARAMETER in show("--codec-endpoint", address, "--codec-auth", f"Bearer {CODEC_TOKEN}")
    assert PARAMETER not in show("--codec-endpoint", address, "--codec-auth", "Bearer wrong")
    server.terminate()
    server.wait().expect(0)


def _write(file: Path, text: str) -> Path:
    file.write_text(text)
    return file


def _address(command_line: CommandLine) -> str | None:
    for file in command_line.folder.glob("stdout.*"):
        if (text := file.read_text()).startswith("Codec server: "):
            return text.split()[2]
    return None
