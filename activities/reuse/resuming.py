"""Taking up an evaluation that another run did not get to, or could not finish."""

from __future__ import annotations

import logging

from pydantic import JsonValue

from ...contracts.activities import AttemptRef, ExecutionRef
from ...contracts.errors import RecordError
from ...contracts.plan import ExecutionPlan
from ...contracts.records import EvaluationCheckpoint
from ...contracts.result import DECLARED_ARTIFACTS, RunResult
from ...contracts.retries import matching_issue
from ..identity import unscored_identity
from ..store import RunStore, TakeOver
from .checkpointing import is_resumable
from .history import with_history
from .inputs import changed_files

_log = logging.getLogger(__name__)


def adopt_evaluation(
    work: TakeOver,
    checkpoint: EvaluationCheckpoint,
    ref: AttemptRef,
    plan: ExecutionPlan,
    task_digest: str,
    retry_count: int,
) -> str:
    """Make the source's unscored execution the first one of ``ref`` in the target.

    Returns why that is refused, an empty text when it is done. ``retry_count`` is what the source
    spent on the attempt; it stays history.
    """
    reason = obstacle(checkpoint, plan, task_digest)
    if reason:
        return reason
    first = ExecutionRef(**ref.model_dump())
    execution = work.target.execution(first)
    directory = work.take_execution(checkpoint, first)
    reason = changed_files(checkpoint.digests, directory, checkpoint.prepared)
    if reason:
        execution.discard()
        return reason
    result = _moved(checkpoint.result, execution.artifact_path())
    artifacts = with_history(result.artifacts, checkpoint.source_run, retry_count)
    result = result.model_copy(update={"artifacts": artifacts})
    execution.save_prepared(checkpoint.prepared)
    execution.save_result(result)
    # Written last: it says that the execution is complete.
    work.target.evaluation_checkpoints.save(checkpoint.model_copy(update={"result": result, "execution": 1}))
    return ""


def obstacle(checkpoint: EvaluationCheckpoint, plan: ExecutionPlan, task_digest: str) -> str:
    """Why the evaluation cannot be taken up under ``plan``; empty when it can."""
    if checkpoint.mode is not plan.evaluation_environment_mode:
        return f"it was made for evaluation mode {checkpoint.mode.value!r}"
    if checkpoint.run_network_policy != plan.run_network_policy:
        return "the network policy of the run phase has changed"
    if checkpoint.evaluation_network_policy != plan.evaluation_network_policy:
        return "the network policy of the evaluation has changed"
    identity = unscored_identity(task_digest, plan)
    if checkpoint.identity.task_digest != identity.task_digest:
        return "the task's content has changed"
    if checkpoint.identity.plan_digest != identity.plan_digest:
        return "the task is planned differently"
    if not is_resumable(plan, checkpoint.result):
        return "its result is not complete"
    match = matching_issue(checkpoint.result.issues, plan.retry.retry_pattern_list)
    if match is not None:
        return f"its issue {match[0].code} matches the retry pattern {match[1]!r}"
    return ""


def resumes_evaluation(store: RunStore, ref: AttemptRef, plan: ExecutionPlan, task_digest: str) -> bool:
    """Whether the first execution of ``ref`` was taken over, and only its evaluation is left.

    One that does not fit the plan any more is dropped, so that everything runs.
    """
    execution = store.execution(ExecutionRef(**ref.model_dump(exclude={"execution"})))
    try:
        checkpoint = store.evaluation_checkpoints.find(ref.task_id, ref.attempt)
        if checkpoint is None or checkpoint.source_run == store.run_id:
            return False  # nothing was taken over, or another execution has followed since
        if execution.find_result() is None or execution.find_prepared() is None:
            return False
        reason = obstacle(checkpoint, plan, task_digest)
    except RecordError as error:
        reason = str(error)
    if not reason:
        return True
    _log.warning("[%s a%s] the evaluation is not taken up: %s", ref.task_id, ref.attempt, reason)
    execution.discard()
    return False


def _moved(result: RunResult, directory: str) -> RunResult:
    """``result`` with the manifest of its artifacts naming the directory where they are now."""
    manifest = result.artifacts.get(DECLARED_ARTIFACTS)
    if not isinstance(manifest, dict):
        return result
    moved: dict[str, JsonValue] = {**manifest, "directory": directory}
    return result.model_copy(update={"artifacts": {**result.artifacts, DECLARED_ARTIFACTS: moved}})
