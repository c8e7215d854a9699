"""When another worker of a launch is started: one that cannot start is given up, one that tasks kill is not."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentcompass.cli import worker_process
from agentcompass.cli.worker_process import MAX_QUICK_DEATHS, LaunchWorker, WorkerState
from agentcompass.contracts.errors import AgentCompassError


class Starts:
    """Processes that are dead as soon as they are started."""

    def __init__(self, home: Path, *, serving: bool) -> None:
        self.worker = LaunchWorker(home, "launch")
        self.pids: list[int] = []
        self.now = 0.0
        self._home = home
        self._serving = serving
        self._numbers: Iterator[int] = itertools.count(1_000_001)

    def start(self, task_queue: str, concurrency: int, address: str) -> None:
        pid = next(self._numbers)
        self.pids.append(pid)
        state = WorkerState(
            launch_id="launch",
            task_queue=task_queue,
            concurrency=concurrency,
            address=address,
            pid=pid,
            marker="m",
        )
        (self._home / "workers" / "launch.json").write_text(state.model_dump_json(), encoding="utf-8")
        if self._serving:
            (self._home / "workers" / "launch.served").write_text(str(pid), encoding="utf-8")

    def ensure(self) -> bool:
        return self.worker.ensure("queue", 1, "address")


@pytest.fixture
def starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Starts:
    found = Starts(tmp_path, serving=request.param)
    monkeypatch.setattr(found.worker, "_start", found.start)
    monkeypatch.setattr(worker_process.time, "monotonic", lambda: found.now)
    return found


@pytest.mark.parametrize("starts", [False], indirect=True)
def test_a_worker_that_never_serves_is_given_up(starts: Starts) -> None:
    for _ in range(MAX_QUICK_DEATHS):
        assert starts.ensure()
    with pytest.raises(AgentCompassError, match="before it took any work"):
        starts.ensure()


@pytest.mark.parametrize("starts", [True], indirect=True)
def test_a_worker_that_tasks_kill_is_followed_by_another_later_and_later(starts: Starts) -> None:
    begun: list[float] = []
    while starts.now < 120:
        if starts.ensure():
            begun.append(starts.now)
        starts.now += 0.5
    pauses = [later - earlier for earlier, later in itertools.pairwise(begun)]
    assert pauses[:2] == [0.5, 0.5]
    assert pauses[2:] == sorted(pauses[2:]) and max(pauses) <= 31
    assert len(begun) > MAX_QUICK_DEATHS
    assert starts.worker.deaths >= MAX_QUICK_DEATHS
