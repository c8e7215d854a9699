"""A fleet is given changed code in the middle of a launch, one version beside the other."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import Cluster
from command_line import Running, wait_for
from gated_runs import start_gated
from gates import Gates
from temporalio.api.enums.v1 import EventType, VersioningBehavior
from temporalio.client import Client

import agentcompass

ROOT = Path(agentcompass.__file__).resolve().parent
TEMPORAL = str(Path(sys.executable).with_name("temporal"))
DEPLOYMENT = "evaluations"
FOLDERS = ("activities", "cli", "contracts", "plugins", "workflows")
BEFORE = "            begun = await self._begin(input)\n"
AFTER = "            await workflow.sleep(0.01)\n" + BEFORE
"""A timer more: an attempt that began with the other version cannot be replayed with this one."""


def changed_code(folder: Path) -> Path:
    """A copy of the package whose attempts do something else; returns what goes into PYTHONPATH."""
    package = folder / "agentcompass"
    package.mkdir(parents=True)
    for name in ("__init__.py", "worker.py", "py.typed"):
        shutil.copy(ROOT / name, package)
    for name in FOLDERS:
        shutil.copytree(ROOT / name, package / name, ignore=shutil.ignore_patterns("__pycache__"))
    file = package / "workflows" / "attempt.py"
    text = file.read_text(encoding="utf-8")
    assert text.count(BEFORE) == 1
    file.write_text(text.replace(BEFORE, AFTER), encoding="utf-8")
    return folder


def version_worker(cluster: Cluster, gates: Gates, build: str, code: Path | None = None) -> Running:
    """Start a worker of a version and make it the current one, as docs/operating.md says."""
    env = dict(gates.env)
    if code is not None:
        env["PYTHONPATH"] = os.pathsep.join([str(code), cluster.command_line.env["PYTHONPATH"]])
    worker = cluster.worker("--deployment-name", DEPLOYMENT, "--build-id", build, env=env)
    wait_for(f"version {build}", lambda: set_current(cluster, build))
    return worker


@pytest.fixture
def no_version_afterwards(cluster: Cluster) -> Iterator[None]:
    """This machine's own queue is that of other tests' workers, too, which are no versions."""
    yield
    assert set_current(cluster, "")


def set_current(cluster: Cluster, build: str) -> bool:
    """Make a build the current one; none makes workers without a version the current ones."""
    command = [
        TEMPORAL,
        "worker",
        "deployment",
        "set-current-version",
        "--yes",
        "--deployment-name",
        DEPLOYMENT,
    ]
    command += ["--build-id", build] if build else ["--unversioned", "--ignore-missing-task-queues"]
    command += ["--address", cluster.address, "--namespace", cluster.command_line.env["TEMPORAL_NAMESPACE"]]
    return subprocess.run(command, capture_output=True, check=False, timeout=60).returncode == 0


async def versions(client: Client, launch_id: str) -> dict[str, tuple[int, str]]:
    """Versioning behaviour and build of a launch's workflows: ``launch``, ``request``, and each task."""
    found: dict[str, tuple[int, str]] = {}
    async for item in client.list_workflows(f"AgentCompassLaunch = '{launch_id}'"):
        parts = item.id.split("/")
        name = parts[3] if len(parts) > 3 else ("launch", "request")[len(parts) - 2]
        handle = client.get_workflow_handle(item.id)
        info = (await handle.describe()).raw_description.workflow_execution_info.versioning_info
        found[name] = info.behavior, info.deployment_version.build_id
        failures = [
            event.workflow_task_failed_event_attributes.failure.message
            async for event in handle.fetch_history_events()
            if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED
        ]
        assert failures == [], f"{item.id}: {failures}"
    return found


@pytest.mark.usefixtures("no_version_afterwards")
def test_attempts_end_with_the_version_that_began_them_and_new_ones_take_the_new_one(
    cluster: Cluster, tmp_path: Path
) -> None:
    gates = Gates(tmp_path / "gates")
    gates.close("plan", "execute_task")
    old = version_worker(cluster, gates, "v1")
    run = start_gated(cluster.command_line, gates, "--json", tasks=["plan", "open", "save"])
    assert gates.wait("plan", "execute_task") == old.pid
    new = version_worker(cluster, gates, "v2", changed_code(tmp_path / "changed"))
    gates.open("plan", "execute_task")
    launch_id = run.wait().expect(0).json["launch_id"]

    ran_in = {entry.task: entry.pid for entry in gates.entries() if entry.hook == "execute_task"}
    assert ran_in == {"plan": old.pid, "open": new.pid, "save": new.pid}

    async def look() -> dict[str, tuple[int, str]]:
        return await versions(await cluster.client(), launch_id)

    found = wait_for(
        "all workflows in the list", lambda: (seen := asyncio.run(look())) and len(seen) == 5 and seen
    )
    pinned = VersioningBehavior.VERSIONING_BEHAVIOR_PINNED
    upgraded = VersioningBehavior.VERSIONING_BEHAVIOR_AUTO_UPGRADE
    assert found == {
        "launch": (upgraded, "v2"),
        "request": (upgraded, "v2"),
        "plan": (pinned, "v1"),
        "open": (pinned, "v2"),
        "save": (pinned, "v2"),
    }
    for worker in (old, new):
        worker.terminate()
        worker.wait().expect(0)


@pytest.mark.usefixtures("no_version_afterwards")
def test_a_pool_serves_attempts_of_a_version(cluster: Cluster, tmp_path: Path) -> None:
    gates = Gates(tmp_path / "gates")
    worker = version_worker(cluster, gates, "v1")
    cluster.command_line.run("pool", "set", "gated", "--capacity", "1").expect(0)
    try:
        start_gated(cluster.command_line, gates, tasks=["one", "two", "three"], concurrency=3).wait().expect(
            0
        )
    finally:
        cluster.command_line.run("pool", "set", "gated", "--capacity", "0").expect(0)
    inside = 0
    for entry in gates.entries():
        inside += (entry.hook, entry.what) == ("open", "began")
        assert inside <= 1, "one place, one environment at a time"
        inside -= (entry.hook, entry.what) == ("close", "ended")
    worker.terminate()
    worker.wait().expect(0)


def test_run_says_when_no_version_is_current(cluster: Cluster) -> None:
    """Temporal gives work to the current version only, and a new deployment has none."""
    cluster.worker("--deployment-name", f"{DEPLOYMENT}-{cluster.queue}", "--build-id", "v1")
    command_line = cluster.command_line
    dataset = command_line.dataset([{"id": "q", "question": "2 + 2?", "answer": "4"}])
    run = command_line.start(
        "run", "qa", "oracle", "none", "--benchmark-params", dataset, "--progress", "none"
    )
    wait_for("the note", lambda: "temporal worker deployment set-current-version" in run.stderr)
