"""Failures that Temporal answers with another try are logged, and do not flood the log."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest
from temporalio.testing import ActivityEnvironment

from agentcompass.activities import retry_log
from agentcompass.activities.boundary import activity_boundary

FULL = OSError(28, "No space left on device")


class Activities:
    @activity_boundary
    async def save(self, input: SimpleNamespace) -> None:
        raise FULL


@pytest.fixture(autouse=True)
def nothing_logged_yet() -> None:
    retry_log._last.clear()


async def test_first_failure_is_logged_with_activity_reason_and_run(caplog: pytest.LogCaptureFixture) -> None:
    input = SimpleNamespace(ref=SimpleNamespace(run_dir="/runs/one"))
    for _ in range(3):
        with caplog.at_level(logging.WARNING), pytest.raises(OSError):
            await ActivityEnvironment().run(Activities().save, input)
    [record] = caplog.records
    assert "is tried again" in record.getMessage()
    assert "OSError: [Errno 28] No space left on device" in record.getMessage()
    assert vars(record)["run_dir"] == "/runs/one"


async def test_lasting_failure_is_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    for seconds in (0, 59, 1, 1):
        for key in retry_log._last:
            retry_log._last[key] -= seconds  # the clock of the event loop must not be turned
        with caplog.at_level(logging.WARNING), pytest.raises(OSError):
            await ActivityEnvironment().run(Activities().save, SimpleNamespace(run_dir="/runs/one"))
    assert len(caplog.records) == 2
