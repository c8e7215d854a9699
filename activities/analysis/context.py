"""What an analyzer sees of the runtime."""

from __future__ import annotations

from pydantic import JsonValue

from ...contracts.activities import ExecutionRef
from ...contracts.issues import IssuePhase, Severity
from ...contracts.phases import Phase
from ...contracts.result import TrajectoryStep
from ..context import PhaseContext
from ..store import ExecutionStore


class AnalysisContext(PhaseContext):
    """The context of an attempt that is over: nothing an analyzer says gets into its result."""

    def __init__(self, ref: ExecutionRef, execution_store: ExecutionStore) -> None:
        super().__init__(ref, Phase.ANALYZE, execution_store)
        self._checkpoint: JsonValue = None

    def record_step(self, step: TrajectoryStep) -> None:
        """Goes to the log: the attempt has taken its last step."""
        self.log.debug("step of an analyzer: %s", step.message)

    def report_issue(self, severity: Severity, phase: IssuePhase, code: str, message: str) -> None:
        """Goes to the log: an analyzer has findings, and an issue could change a score."""
        self.log.warning("an analyzer reports %s %s in %s: %s", severity, code, phase, message)

    async def load_checkpoint(self) -> JsonValue:
        """What this analysis saved; one that was interrupted begins again."""
        return self._checkpoint

    async def save_checkpoint(self, value: JsonValue) -> None:
        """Kept for this analysis only."""
        self._checkpoint = value
