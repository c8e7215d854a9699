"""What keeps a launch from getting on is shown by every display, and its state says when it waits."""

from __future__ import annotations

import io

import pytest

from agentcompass.cli.commands.launches import status_lines
from agentcompass.cli.display import PlainDisplay, QuietDisplay
from agentcompass.cli.launch_status import state_with
from agentcompass.cli.live_display import LiveDisplay
from agentcompass.contracts.launch import LaunchResult, LaunchStatus, RequestResult, RequestStatus


def launch(message: str = "", *troubles: str, told: str = "", state: str = "running") -> LaunchStatus:
    request = RequestStatus(key="one", workflow_id="w", state="running", message=told)
    return LaunchStatus(
        launch_id="l",
        state=state,
        requests=[request] if told else [],
        message=message,
        troubles=list(troubles),
    )


@pytest.mark.parametrize("kind", [QuietDisplay, PlainDisplay])
def test_notices_are_written_when_they_change(kind: type[QuietDisplay]) -> None:
    stream = io.StringIO()
    display = kind(stream)
    for status in (
        launch("no worker polls"),
        launch("no worker polls"),
        launch("", "activity x is tried again (try 1)"),
        launch("", "activity x is tried again (try 7)"),
        launch(),
        launch("no worker polls"),
    ):
        display.update(status)
    assert stream.getvalue().splitlines() == [
        "Note | no worker polls",
        "Note | activity x is tried again (try 1)",
        "Note | no worker polls",
    ]


def test_message_that_a_request_tells_is_not_repeated() -> None:
    stream = io.StringIO()
    QuietDisplay(stream).update(launch("paused", told="paused"))
    assert stream.getvalue() == ""


def test_launch_that_is_over_has_no_notices() -> None:
    stream = io.StringIO()
    QuietDisplay(stream).update(launch("it failed", state="failed"))
    assert stream.getvalue() == ""


def test_live_view_shows_notices() -> None:
    stream = io.StringIO()
    with LiveDisplay(stream) as display:
        display.update(launch("no worker polls"))
    assert "no worker polls" in stream.getvalue()


def test_status_shows_troubles() -> None:
    assert status_lines(launch("m", "activity x fails")) == [
        "Launch: l (running)",
        "Message: m",
        "Trouble: activity x fails",
    ]


def test_status_tells_the_same_failure_once() -> None:
    requests = [
        RequestStatus(key=name, workflow_id="w", state="failed", message=f"{name} broke") for name in "ab"
    ]
    failed = launch("a broke\nb broke", state="failed").model_copy(update={"requests": requests})
    lines = [line.strip() for line in status_lines(failed)]
    assert [line for line in lines if "broke" in line] == ["a broke", "b broke"]


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        (["paused"], "paused"),
        (["completed", "paused", "pending"], "paused"),
        (["paused", "running"], "running"),
        (["pending"], "running"),
        (["completed"], "running"),
    ],
)
def test_launch_waits_when_all_that_is_left_waits(states: list[str], expected: str) -> None:
    requests = [RequestStatus(key=str(at), workflow_id="w", state=state) for at, state in enumerate(states)]
    assert state_with(launch(), requests) == expected


def test_launch_that_stops_is_not_called_paused() -> None:
    paused = RequestStatus(key="one", workflow_id="w", state="paused")
    assert state_with(launch(state="stopping"), [paused]) == "stopping"


@pytest.mark.parametrize(
    ("exit_code", "run_dir", "refused"), [(2, "", True), (3, "", True), (1, "", False), (2, "/r", False)]
)
def test_refused_is_what_never_got_a_run_directory(exit_code: int, run_dir: str, refused: bool) -> None:
    request = RequestResult(key="one", status="failed", run_dir=run_dir)
    result = LaunchResult(launch_id="l", status="failed", requests=[request], exit_code=exit_code)
    assert result.refused is refused
