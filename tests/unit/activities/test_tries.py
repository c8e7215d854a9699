"""Quick steps that take their workers along, or do not end."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from typing import cast

import pytest
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from agentcompass.activities import quick_execution
from agentcompass.activities.quick_execution import QuickExecutions, Steps
from agentcompass.activities.services import Services, WorkerSettings
from agentcompass.activities.store import ExecutionStore, RunStore
from agentcompass.activities.tries import (
    MOST_BLOCKS,
    MOST_QUICK_TRIES,
    count_quick_try,
    refuse_blocking,
)
from agentcompass.contracts.activities import TRIED_TOO_OFTEN, ExecutionRef
from agentcompass.contracts.phases import Phase


def execution(folder: Path, number: int) -> ExecutionStore:
    ref = ExecutionRef(run_dir=str(folder), task_index=0, task_id="t", attempt=1, execution=number)
    return RunStore(folder).execution(ref)  # another one each time, as in another worker


def begin(folder: Path, step: str, *, number: int = 1, local: bool = True) -> None:
    environment = ActivityEnvironment()
    environment.info = dataclasses.replace(environment.info, is_local=local)
    environment.run(count_quick_try, execution(folder, number), step)


def test_a_step_is_begun_a_few_times_in_workflow_tasks_and_then_as_often_as_an_activity_is(
    tmp_path: Path,
) -> None:
    for _ in range(MOST_QUICK_TRIES):
        begin(tmp_path, "evaluate")
    with pytest.raises(ApplicationError) as refused:
        begin(tmp_path, "evaluate")
    assert (refused.value.type, refused.value.non_retryable) == (TRIED_TOO_OFTEN, True)
    begin(tmp_path, "evaluate", local=False)
    begin(tmp_path, "close_environment")
    begin(tmp_path, "evaluate", number=2)


@pytest.mark.parametrize(
    ("phase", "found"),
    [
        (Phase.PREPARE_TASK, ("fatal", "setup", "setup_failed")),
        (Phase.RUN_HARNESS, ("error", "run", "harness_timeout")),
        (Phase.EVALUATE, ("error", "evaluate", "evaluation_timeout")),
    ],
)
async def test_a_quick_execution_that_does_not_end_is_a_timeout_of_the_phase_it_was_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, phase: Phase, found: tuple[str, str, str]
) -> None:
    class Hanging(QuickExecutions):
        async def _execute(self, input: ExecutionRef, steps: Steps) -> None:
            steps.phase = phase
            await asyncio.Event().wait()

    monkeypatch.setattr(quick_execution, "LIMIT_SECONDS", 0.05)
    ref = ExecutionRef(run_dir=str(tmp_path), task_index=0, task_id="t", attempt=1)
    # The execution needs no server.
    hanging = Hanging(Services(cast(Client, None), WorkerSettings("queue", "host")))
    done = await ActivityEnvironment().run(hanging.first_execution, ref)
    assert [(issue.severity, issue.phase, issue.code) for issue in done.issues] == [found]


@pytest.mark.parametrize(
    ("phase", "severity", "code"),
    [
        (Phase.PREPARE_TASK, "fatal", "setup_failed"),
        (Phase.RUN_HARNESS, "fatal", "harness_failed"),
        (Phase.EVALUATE, "error", "evaluation_failed"),
        (Phase.CLOSE_ENVIRONMENT, "warning", "cleanup_failed"),
    ],
)
def test_a_phase_that_blocks_its_workers_is_given_up(
    tmp_path: Path, phase: Phase, severity: str, code: str
) -> None:
    for _ in range(MOST_BLOCKS):
        refuse_blocking(execution(tmp_path, 1), phase)
        execution(tmp_path, 1).count_block(phase.value)
    with pytest.raises(ApplicationError) as refused:
        refuse_blocking(execution(tmp_path, 1), phase)
    [found] = refused.value.details
    assert (found["severity"], found["code"]) == (severity, code)
    assert refused.value.non_retryable
    refuse_blocking(execution(tmp_path, 2), phase)
