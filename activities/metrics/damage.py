"""Task records that a report leaves out because they cannot be counted: damaged ones, and those of old versions.

One rule for every command that reads a run: a damaged record is named, its task counts as unavailable, all
others count, and the exit code is 1, since what was once evaluated is missing. An older record
that says too little is not damaged.
"""

from __future__ import annotations

from ...contracts.metrics import MetricReport
from ...contracts.records import DamagedRecord

UNREADABLE_RECORD = "record_unreadable"
"""Why a report leaves out a task that has a record which cannot be read."""
UNCLASSIFIED_RECORD = "record_unclassified"
"""Why it leaves out one whose record, of an older version, says too little to be counted."""


def damaged_records(report: MetricReport) -> list[DamagedRecord]:
    """The tasks that ``report`` leaves out because their records cannot be read."""
    found = {item.task_id: item for item in report.exclusions if item.code == UNREADABLE_RECORD}
    return [DamagedRecord(task_id=item.task_id, reason=item.reason) for item in found.values()]
