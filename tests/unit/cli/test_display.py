"""Progress on standard error."""

from __future__ import annotations

import io
import logging

from agentcompass.cli.display import DisplayLogHandler, PlainDisplay, QuietDisplay, make_display
from agentcompass.cli.live_display import LiveDisplay
from agentcompass.contracts.launch import LaunchStatus, RequestStatus
from agentcompass.contracts.records import ProgressSnapshot


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def launch(finished: int = 3, state: str = "running", total: int = 9, **values: object) -> LaunchStatus:
    request = RequestStatus(
        key="1-humaneval-none",
        workflow_id="w",
        state=state,
        benchmark="humaneval",
        harness="openai_chat",
        model="none",
        total_tasks=total,
        finished_tasks=finished,
        running_attempts=2,
        **values,
    )
    return LaunchStatus(launch_id="l", state="running", requests=[request])


def plain() -> tuple[PlainDisplay, io.StringIO, Clock]:
    stream, clock = io.StringIO(), Clock()
    return PlainDisplay(stream, interval_seconds=3, clock=clock), stream, clock


def test_plain_line_has_the_documented_form():
    display, stream, _ = plain()
    display.update(
        launch(), ProgressSnapshot(run_id="r", running_tasks=2, current_phase_counts={"run_harness": 2})
    )
    assert stream.getvalue() == (
        "Progress | humaneval/none [########----------------] 3/9  33.3% | running=2 failed=0 error=0 "
        "warning=0 skipped=0 reused=0 | status=running | phases=run_harness:2\n"
    )


def test_attempts_that_wait_are_not_called_running():
    display, stream, _ = plain()
    display.update(
        launch(state="paused", waiting_attempts=2),
        ProgressSnapshot(run_id="r", running_tasks=2, current_phase_counts={"run_harness": 2}),
    )
    assert "| running=0 failed=0 " in stream.getvalue()
    assert "| status=paused | phases=waiting:2" in stream.getvalue()


def test_plain_line_before_the_tasks_are_known():
    display, stream, _ = plain()
    display.update(launch(finished=0, total=0, state="pending"))
    assert "[------------------------] 0/0   0.0% |" in stream.getvalue()
    assert stream.getvalue().endswith("| status=pending | phases=-\n")


def test_unchanged_state_is_not_repeated():
    display, stream, clock = plain()
    display.update(launch())
    clock.now = 100
    display.update(launch())
    assert stream.getvalue().count("\n") == 1


def test_changes_within_the_interval_are_held_back_and_the_latest_is_shown_at_the_end():
    display, stream, clock = plain()
    display.update(launch(finished=3))
    clock.now = 1
    display.update(launch(finished=4))
    display.update(launch(finished=5))
    assert stream.getvalue().count("\n") == 1
    display.finish()
    assert "5/9" in stream.getvalue().splitlines()[-1]
    assert stream.getvalue().count("\n") == 2


def test_change_after_the_interval_is_shown():
    display, stream, clock = plain()
    display.update(launch(finished=3))
    clock.now = 3
    display.update(launch(finished=4))
    assert stream.getvalue().count("\n") == 2


def test_last_task_and_new_status_are_shown_at_once():
    display, stream, _ = plain()
    display.update(launch(finished=8))
    display.update(launch(finished=9))
    display.update(launch(finished=9, state="paused", message="HTTP 401 from the model"))
    lines = stream.getvalue().splitlines()
    assert len(lines) == 3
    assert lines[-1].endswith("| status=paused | phases=- | HTTP 401 from the model")


def test_each_request_of_a_launch_has_its_own_line():
    display, stream, _ = plain()
    one, two = launch().requests[0], launch(finished=1).requests[0].model_copy(update={"key": "two"})
    display.update(LaunchStatus(launch_id="l", state="running", requests=[one, two]))
    assert [line.split("] ")[1][:3] for line in stream.getvalue().splitlines()] == ["3/9", "1/9"]


def test_mode_and_stream_choose_the_display():
    assert type(make_display("auto", Terminal())) is LiveDisplay
    assert type(make_display("auto", io.StringIO())) is PlainDisplay
    assert type(make_display("plain", Terminal())) is PlainDisplay
    assert type(make_display("none", Terminal())) is QuietDisplay


def test_quiet_display_shows_messages_only():
    stream = io.StringIO()
    display = QuietDisplay(stream)
    display.update(launch())
    display.message("hello")
    assert stream.getvalue() == "hello\n"


def test_live_view_shows_counts_phases_directory_and_address():
    stream = Terminal()
    with LiveDisplay(stream) as display:
        display.address("http://localhost:8243")
        snapshot = ProgressSnapshot(run_id="r", running_tasks=2, current_phase_counts={"evaluate": 1})
        display.update(launch(failed_tasks=1, run_dir="/results/run"), snapshot)
    shown = stream.getvalue()
    for text in (
        "humaneval/none",
        "3/9",
        "2 running",
        "1 failed",
        "evaluate:1",
        "/results/run",
        "http://localhost:8243",
    ):
        assert text in shown


def test_live_view_is_over_after_finish():
    display = LiveDisplay(Terminal())
    display.update(launch())
    display.finish()
    display.update(launch(finished=4))
    display.finish()


def test_log_records_go_through_the_display():
    stream = io.StringIO()
    logger = logging.getLogger("agentcompass.test_display")
    handler = DisplayLogHandler(QuietDisplay(stream))
    logger.addHandler(handler)
    try:
        logger.error("lost %s", "it")
    finally:
        logger.removeHandler(handler)
    assert stream.getvalue() == "ERROR agentcompass.test_display: lost it\n"
