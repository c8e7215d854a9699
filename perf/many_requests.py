"""Measures a launch of many small requests against one request with as many tasks."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from command import (
    Bench,
    HistorySize,
    attempt_times,
    history_size,
    no_op,
    run_json,
    workflow_seconds,
    write_questions,
)

from agentcompass.contracts.workflows import launch_workflow_id


@dataclass(frozen=True)
class Timed:
    """A launch, by its workflow: the command line's own start and end are not in it."""

    seconds: float
    attempts_seconds: float
    """From the first attempt_started to the last attempt_finished of all its requests."""


@dataclass(frozen=True)
class ManyRequests:
    """A launch file beside one run of as many tasks."""

    requests: int
    tasks: int
    """Of each request."""
    many: Timed
    one: Timed
    launch_history: HistorySize
    largest_request: HistorySize
    """The longest history among the requests of the launch."""

    @property
    def ratio(self) -> float:
        """Wall time of the launch, divided by that of the single request."""
        return self.many.seconds / self.one.seconds


async def measure_many_requests(bench: Bench, requests: int, tasks: int, concurrency: int) -> ManyRequests:
    """First the launch file, then the single request."""
    client = await bench.client()
    plan = _write_plan(bench, requests, tasks, concurrency)
    arguments = ["launch", str(plan), "--json", "--progress", "plain", "--results-dir", str(bench.results)]
    launched, _ = run_json(bench, *arguments)
    single, _ = run_json(bench, *no_op(bench, requests * tasks, concurrency))
    launch = launch_workflow_id(launched["launch_id"])
    histories = await asyncio.gather(
        *(history_size(client, f"{launch}/{item['key']}") for item in launched["requests"])
    )
    return ManyRequests(
        requests,
        tasks,
        many=_timed(launched, await workflow_seconds(client, launch), requests * tasks),
        one=_timed(
            single, await workflow_seconds(client, launch_workflow_id(single["launch_id"])), requests * tasks
        ),
        launch_history=await history_size(client, launch),
        largest_request=max(histories, key=lambda item: item.events),
    )


def _write_plan(bench: Bench, requests: int, tasks: int, concurrency: int) -> Path:
    questions = write_questions(bench.work / f"questions-{tasks}.jsonl", tasks)
    plan = {
        "version": 1,
        "name": "many",
        "task_concurrency": concurrency,
        "defaults": {
            "model": {"id": "none"},
            "benchmark": {"id": "qa", "path": str(questions)},
            "harness": {"id": "nop"},
            "environment": {"id": "host_process"},
        },
        "requests": [{"name": f"request-{number:03d}"} for number in range(requests)],
    }
    path = bench.work / "many.json"
    path.write_text(json.dumps(plan))
    return path


def _timed(result: dict[str, Any], seconds: float, attempts: int) -> Timed:
    started: list[float] = []
    ended: list[float] = []
    for request in result["requests"]:
        more_started, more_ended = attempt_times(Path(request["run_dir"]))
        started += more_started
        ended += more_ended
    if len(ended) != attempts:
        raise RuntimeError(f"{len(ended)} of {attempts} attempts finished")
    return Timed(seconds, max(ended) - min(started))
