"""What launches leave in the home is removed once they are over."""

from __future__ import annotations

import os
import time
import uuid
from pathlib import Path

import pytest
from command_line import CommandLine, wait_for

from agentcompass.cli import launcher
from agentcompass.cli.config import HomeSecretStore
from agentcompass.cli.housekeeping import KEPT_LOGS, forget_secrets, own_secrets, sweep
from agentcompass.contracts.launch import LaunchSpec
from agentcompass.contracts.request import (
    BenchmarkSpec,
    EnvironmentSpec,
    HarnessSpec,
    ModelSpec,
    RunRequest,
)
from agentcompass.contracts.workflows import launch_workflow_id

ROWS = [{"id": "q1", "question": "2 + 2?", "answer": "4"}]
DAY = 24 * 3600.0


def spec_with(reference: str) -> LaunchSpec:
    request = RunRequest(
        benchmark=BenchmarkSpec(id="qa"),
        harness=HarnessSpec(id="openai_chat"),
        environment=EnvironmentSpec(id="host_process"),
        model=ModelSpec(id="m", api_key=reference),
    )
    return LaunchSpec(requests=[request])


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def make_old(path: Path) -> None:
    then = time.time() - 2 * DAY
    os.utime(path, (then, then))


def test_key_goes_with_its_launch_and_no_other(tmp_path: Path) -> None:
    store = HomeSecretStore(tmp_path)
    mine, other = store("sk-of-mine"), store("sk-of-another")
    own_secrets(tmp_path, "mine", spec_with(mine))
    own_secrets(tmp_path, "other", spec_with(other))
    forget_secrets(tmp_path, "mine")
    kept = Path(other.removeprefix("file:")).name
    assert names(tmp_path / "secrets") == {kept, f"{kept}.launch"}


def test_key_of_an_analysis_is_discarded(tmp_path: Path) -> None:
    store = HomeSecretStore(tmp_path)
    store("sk-of-an-analyzer")
    store.discard()
    assert names(tmp_path / "secrets") == set()


def test_written_out_key_is_gone_after_its_run(command_line: CommandLine) -> None:
    secrets = command_line.home / "secrets"
    before = names(secrets) if secrets.is_dir() else set()
    command_line.run(
        *("run", "qa", "oracle", "none", "--benchmark-params", command_line.dataset(ROWS)),
        *("--model-api-key", "sk-written-out-on-the-command-line"),
    ).expect(0)
    wait_for("the key to be removed", lambda: names(secrets) <= before)


@pytest.mark.usefixtures("embedded_home")
async def test_sweep_removes_keys_of_launches_that_are_over_and_keeps_those_that_run(tmp_path: Path) -> None:
    client = (await launcher.open_connection()).client
    running = f"running-{uuid.uuid4().hex[:8]}"
    await client.start_workflow("Waits", id=launch_workflow_id(running), task_queue=running)
    store = HomeSecretStore(tmp_path)
    kept = store("sk-of-a-running-launch"), store("sk-of-a-new-launch")
    gone = store("sk-of-a-launch-that-is-over")
    for launch_id, reference in ((running, kept[0]), ("new", kept[1]), ("over", gone)):
        own_secrets(tmp_path, launch_id, spec_with(reference))
        if launch_id != "new":
            make_old(Path(reference.removeprefix("file:") + ".launch"))
    try:
        await sweep(client, tmp_path)
    finally:
        await client.get_workflow_handle(launch_workflow_id(running)).terminate()
    files = [Path(reference.removeprefix("file:")).name for reference in kept]
    assert names(tmp_path / "secrets") == {*files, *(f"{name}.launch" for name in files)}


@pytest.mark.usefixtures("embedded_home")
async def test_sweep_keeps_the_latest_worker_logs(tmp_path: Path) -> None:
    client = (await launcher.open_connection()).client
    workers = tmp_path / "workers"
    workers.mkdir()
    for name in ("old.log", "old.lock", "old.supervisor.log"):
        (workers / name).touch()
        make_old(workers / name)
    latest = {f"launch-{number}.log" for number in range(KEPT_LOGS)}
    for name in latest:
        (workers / name).touch()
    await sweep(client, tmp_path)
    assert names(workers) == latest
