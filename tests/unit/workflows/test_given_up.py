"""A phase that is given up because each of its workers died: what that says depends on the phase.

Pure, because an engine that gives an activity up takes minutes for it.
"""

from __future__ import annotations

import pytest
from temporalio.exceptions import ApplicationError, TimeoutError, TimeoutType

from agentcompass.contracts.issues import Severity
from agentcompass.contracts.phases import Phase
from agentcompass.workflows.calls import given_up, is_verifier_crash

HEARTBEAT = TimeoutError("activity Heartbeat timeout", type=TimeoutType.HEARTBEAT, last_heartbeat_details=[])
FULL_DISK = ApplicationError("no space left on device", type="OSError")


@pytest.mark.parametrize("phase", Phase)
def test_only_a_verifier_can_crash_without_a_fault_of_the_surroundings(phase: Phase) -> None:
    assert is_verifier_crash(HEARTBEAT, phase) is (phase is Phase.EVALUATE)
    assert not is_verifier_crash(FULL_DISK, phase)
    assert not is_verifier_crash(None, phase)


@pytest.mark.parametrize(
    ("phase", "severity", "expected"),
    [
        (Phase.PREPARE_TASK, Severity.FATAL, ("fatal", "setup")),
        (Phase.RUN_HARNESS, Severity.FATAL, ("fatal", "run")),
        (Phase.EVALUATE, Severity.ERROR, ("error", "evaluate")),
        (Phase.CLOSE_ENVIRONMENT, Severity.FATAL, ("warning", "cleanup")),
    ],
)
def test_the_issue_of_a_phase_whose_workers_died(
    phase: Phase, severity: Severity, expected: tuple[str, str]
) -> None:
    found = given_up(HEARTBEAT, phase, "activity Heartbeat timeout", severity)
    assert (found.severity, found.phase) == expected
    assert found.code == "worker_lost"
    assert found.message == (
        f"{phase}: activity Heartbeat timeout; its worker died, or did not get on, in every try"
    )


def test_what_our_own_bookkeeping_met_says_so() -> None:
    found = given_up(FULL_DISK, Phase.EVALUATE, "no space left on device", Severity.FATAL)
    assert (found.severity, found.code) == ("fatal", "worker_lost")
    assert found.message == "evaluate: no space left on device"
