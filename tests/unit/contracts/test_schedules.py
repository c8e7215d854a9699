"""What the launches and runs of a schedule are called, and where they go."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from pydantic import ValidationError

from agentcompass.contracts.launch import LaunchSpec
from agentcompass.contracts.request import (
    BenchmarkSpec,
    EnvironmentSpec,
    HarnessSpec,
    ModelSpec,
    OutputSpec,
    RequestMetadata,
    RunRequest,
)
from agentcompass.contracts.schedules import (
    ScheduledLaunchInput,
    is_schedule_name,
    schedule_workflow_id,
    scheduled_launch_id,
    scheduled_run_id,
    scheduled_spec,
)

AT = datetime(2026, 12, 1, 2, 0, tzinfo=timezone(timedelta(hours=1)))


def plan(name: str = "", run_name: str = "") -> LaunchSpec:
    request = RunRequest(
        benchmark=BenchmarkSpec(id="bench"),
        harness=HarnessSpec(id="harness"),
        environment=EnvironmentSpec(id="sandbox"),
        model=ModelSpec(id="model"),
        output=OutputSpec(run_name=run_name),
        metadata=RequestMetadata(request_name="one"),
    )
    return LaunchSpec(name=name, requests=[request])


def test_ids_hold_the_scheduled_time_in_utc() -> None:
    assert scheduled_launch_id("nightly", AT) == "nightly-20261201-010000"
    assert scheduled_run_id(AT) == "20261201_010000"
    assert schedule_workflow_id("nightly", AT) == "schedule/nightly-2026-12-01T01:00:00Z"


def test_a_repetition_of_a_time_is_numbered() -> None:
    assert scheduled_launch_id("nightly", AT, 2) == "nightly-20261201-010000-2"
    assert scheduled_run_id(AT, 3) == "20261201_010000-3"


@pytest.mark.parametrize(("run_name", "folder"), [("", "nightly"), ("a/b", "nightly/a/b")])
def test_runs_go_below_a_folder_of_the_schedule(run_name: str, folder: str) -> None:
    input = ScheduledLaunchInput(
        schedule="nightly", cron="0 2 * * *", spec=plan(run_name=run_name), fail_on_regression=True
    )
    [request] = scheduled_spec(input, AT).requests
    assert (request.output.run_name, request.output.run_id) == (folder, "20261201_010000")
    scheduled = request.metadata.scheduled
    assert scheduled is not None
    assert scheduled.scheduled_at == "2026-12-01T01:00:00+00:00"
    assert (scheduled.schedule, scheduled.fail_on_regression) == ("nightly", True)


@pytest.mark.parametrize(("name", "expected"), [("", "nightly"), ("weekly", "weekly")])
def test_a_launch_without_a_name_has_that_of_its_schedule(name: str, expected: str) -> None:
    input = ScheduledLaunchInput(schedule="nightly", cron="0 2 * * *", spec=plan(name))
    assert scheduled_spec(input, AT.astimezone(UTC)).name == expected


@pytest.mark.parametrize("name", ["", ".", "..", "-x", "a/b", "a b", "ä", "x" * 65, "a\n", "../up"])
def test_a_name_that_is_no_folder_is_refused(name: str) -> None:
    assert not is_schedule_name(name)
    with pytest.raises(ValidationError):
        ScheduledLaunchInput(schedule=name, cron="0 2 * * *", spec=plan())
