"""``artifacts.reuse_history``: where a result that was taken over comes from."""

from __future__ import annotations

from pydantic import JsonValue

from ...contracts.records import AttemptCheckpoint
from ...contracts.result import REUSE_HISTORY


def with_history(
    artifacts: dict[str, JsonValue], source_run: str, retry_count: int = 0
) -> dict[str, JsonValue]:
    """``artifacts`` with the run that executed the attempt; what an earlier take-over wrote stays."""
    if REUSE_HISTORY in artifacts:
        return artifacts
    return {**artifacts, REUSE_HISTORY: {"source_run": source_run, "retry_count": retry_count}}


def remembered(checkpoint: AttemptCheckpoint, source_run: str) -> AttemptCheckpoint:
    """``checkpoint`` with its retries as history: the new run has a budget of its own."""
    artifacts = with_history(checkpoint.record.artifacts, source_run, checkpoint.retry_count)
    record = checkpoint.record.model_copy(update={"artifacts": artifacts})
    return checkpoint.model_copy(update={"record": record})
