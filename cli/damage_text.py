"""What a command says of task records that cannot be read, and the exit code that goes with it."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from ..activities.metrics.text import one_line
from ..contracts.records import DamagedRecord

MAX_DAMAGED = 10
"""Damaged records that are named; a whole lost disk need not fill the terminal."""


def damage_line(found: DamagedRecord) -> str:
    """One line, fit for a terminal: what cannot be read, why, and what mends it."""
    reason = one_line(found.reason, 300)
    if not found.task_id:
        return f"the task list cannot be read: {reason}"
    return (
        f"the record of task {one_line(found.task_id, 80)!r} cannot be read: {reason}; "
        "`agentcompass run … --reuse` executes the task again"
    )


def tell_damage(damaged: Sequence[DamagedRecord]) -> int:
    """Name them on standard error; returns the exit code: 1 when there are any."""
    for found in damaged[:MAX_DAMAGED]:
        print(f"Not passed: {damage_line(found)}", file=sys.stderr)
    if len(damaged) > MAX_DAMAGED:
        print(f"Not passed: {len(damaged) - MAX_DAMAGED} more task records cannot be read", file=sys.stderr)
    return 1 if damaged else 0
