"""A request that is stopped, or refused, while it is being prepared leaves no run directory behind."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any, cast

import pytest
from temporalio.activity import ActivityCancellationDetails
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from agentcompass.activities.prepare_request import PrepareRequest
from agentcompass.activities.services import Services, WorkerSettings
from agentcompass.activities.store import RunStore
from agentcompass.contracts.activities import PreparedRequest, PrepareRequestInput
from agentcompass.contracts.launch import LaunchRuntime
from agentcompass.contracts.records import TemporalInfo
from agentcompass.contracts.request import RunRequest

REQUESTED = ActivityCancellationDetails(cancel_requested=True)
SHUT_DOWN = ActivityCancellationDetails(worker_shutdown=True)


class Gate:
    """Stands in a step of the store: says that it was reached, and waits."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
        self.reached, self.open = threading.Event(), threading.Event()
        real = getattr(RunStore, step)

        def gated(store: RunStore, *arguments: Any, **named: Any) -> Any:
            self.reached.set()
            self.open.wait(60)
            return real(store, *arguments, **named)

        monkeypatch.setattr(RunStore, step, gated)


def prepare_input(folder: Path) -> PrepareRequestInput:
    tasks = folder / "tasks.jsonl"
    tasks.write_text(json.dumps({"id": "q", "question": "?", "answer": "!"}) + "\n")
    return PrepareRequestInput(
        launch_id="l",
        request_key="one",
        request_index=0,
        request_count=1,
        request=RunRequest.model_validate(
            {
                "benchmark": {"id": "qa", "params": {"path": str(tasks)}},
                "harness": {"id": "oracle"},
                "environment": {"id": "host_process"},
                "model": {"id": "none"},
            }
        ),
        runtime=LaunchRuntime(results_dir=str(folder / "results")),
        temporal=TemporalInfo(namespace="n", workflow_id="w", run_id="r"),
    )


async def cancelled(
    monkeypatch: pytest.MonkeyPatch, folder: Path, step: str, details: ActivityCancellationDetails
) -> list[str]:
    """What is in the results directory after a cancellation in ``step``."""
    gate = Gate(monkeypatch, step)
    # The activity needs no server.
    activity = PrepareRequest(Services(cast(Client, None), WorkerSettings("queue", "host")))
    environment = ActivityEnvironment()

    async def run() -> PreparedRequest:
        return await environment.run(activity.prepare_request, prepare_input(folder))

    running = asyncio.create_task(run())
    await asyncio.to_thread(gate.reached.wait, 60)
    environment.cancel(details)
    await asyncio.sleep(0)
    gate.open.set()
    with pytest.raises(asyncio.CancelledError):
        await running
    return sorted(path.name for path in (folder / "results").rglob("*"))


@pytest.mark.parametrize("step", ["save_request", "save_tasks"])
async def test_a_request_that_is_stopped_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, step: str
) -> None:
    assert await cancelled(monkeypatch, tmp_path, step, REQUESTED) == []


async def test_a_request_whose_source_is_gone_by_now_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    activity = PrepareRequest(Services(cast(Client, None), WorkerSettings("queue", "host")))
    input = prepare_input(tmp_path)
    reusing = input.request.model_copy(
        update={"runtime": input.request.runtime.model_copy(update={"reuse": True, "reuse_run_id": "gone"})}
    )
    with pytest.raises(ApplicationError, match="cannot reuse run 'gone'"):
        await ActivityEnvironment().run(
            activity.prepare_request, input.model_copy(update={"request": reusing})
        )
    assert not (tmp_path / "results").exists()


async def test_a_worker_that_is_shut_down_leaves_it_to_the_next_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert "driver.json" in await cancelled(monkeypatch, tmp_path, "save_tasks", SHUT_DOWN)


async def test_what_a_dead_worker_had_reserved_is_removed_and_nothing_of_another_request(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As after ``kill -9`` while it was cancelled: the directory is there, its worker is not."""
    await cancelled(monkeypatch, tmp_path, "save_tasks", SHUT_DOWN)
    monkeypatch.undo()
    activity = PrepareRequest(Services(cast(Client, None), WorkerSettings("queue", "host")))
    other = prepare_input(tmp_path).model_copy(update={"request_key": "two"})
    kept = await ActivityEnvironment().run(activity.prepare_request, other)

    for _ in range(2):  # twice is as good as once
        await ActivityEnvironment().run(activity.discard_request, prepare_input(tmp_path))

    [label] = (tmp_path / "results").iterdir()
    assert [str(path) for path in label.iterdir()] == [kept.run_dir]
    await ActivityEnvironment().run(activity.discard_request, other)
    assert list((tmp_path / "results").iterdir()) == []
