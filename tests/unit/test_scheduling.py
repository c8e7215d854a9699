"""Which attempts a task still needs."""

import pytest

from agentcompass.contracts import AttemptsSpec, AttemptStrategy
from agentcompass.contracts.activities import FinishedAttempt
from agentcompass.contracts.scheduling import attempts_remaining

AVG, PASS = AttemptStrategy.AVG, AttemptStrategy.PASS
WON = FinishedAttempt(attempt=2, success=True)
LOST = FinishedAttempt(attempt=1, success=False)
UNKNOWN = FinishedAttempt(attempt=3, success=None)
SPOILT = FinishedAttempt(attempt=2, success=True, fatal=True)


@pytest.mark.parametrize(
    ("strategy", "finished", "remaining"),
    [
        (AVG, [], [1, 2, 3]),
        (AVG, [WON], [1, 3]),
        (AVG, [LOST, WON, UNKNOWN], []),
        (PASS, [], [1, 2, 3]),
        (PASS, [LOST], [2, 3]),
        (PASS, [LOST, WON], []),
        (PASS, [SPOILT], [1, 3]),
        (PASS, [UNKNOWN], [1, 2]),
    ],
)
def test_attempts_remaining(
    strategy: AttemptStrategy, finished: list[FinishedAttempt], remaining: list[int]
) -> None:
    assert attempts_remaining(AttemptsSpec(k=3, strategy=strategy), finished) == remaining
