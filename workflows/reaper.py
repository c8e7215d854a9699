"""Removes environments whose attempt is over: what the schedule of a cluster starts every few minutes."""

from __future__ import annotations

from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy

with workflow.unsafe.imports_passed_through():
    from ..contracts.activities import REAP_ENVIRONMENTS
    from ..contracts.upkeep import ReapInput, SweepReport
    from ..contracts.workflows import REAPER_WORKFLOW

_LIMIT = timedelta(minutes=30)
_HEARTBEAT = timedelta(seconds=60)
_TRIES = RetryPolicy(maximum_attempts=3)
"""No more: the schedule comes again."""


@workflow.defn(name=REAPER_WORKFLOW)
class ReaperWorkflow:
    """One sweep; the UI shows what it did."""

    @workflow.run
    async def run(self, input: ReapInput) -> SweepReport:
        """Returns what was removed."""
        report: SweepReport = await workflow.execute_activity(
            REAP_ENVIRONMENTS.name,
            input,
            result_type=SweepReport,
            start_to_close_timeout=_LIMIT,
            heartbeat_timeout=_HEARTBEAT,
            retry_policy=_TRIES,
            summary="environments whose attempt is over",
        )
        workflow.set_current_details(
            f"removed {len(report.released)}, failed {len(report.failed)}, left {report.left}"
        )
        return report
