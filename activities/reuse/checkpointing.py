"""Evaluation checkpoints: an execution that has only its evaluation before it, kept for another run."""

from __future__ import annotations

import asyncio
import logging

from ...contracts.activities import ExecutionRef
from ...contracts.plan import ExecutionPlan
from ...contracts.records import EvaluationCheckpoint, Identity
from ...contracts.request import EvaluationMode
from ...contracts.result import DECLARED_ARTIFACTS, RunResult, TaskStatus
from ...contracts.task import PreparedTask
from ..identity import unscored_identity
from ..phase import PhaseScope
from ..store import RunStore, task_digest
from .inputs import artifact_digests, input_digests
from .settings import settings_digest

_log = logging.getLogger(__name__)


async def checkpoint_evaluation(scope: PhaseScope, result: RunResult) -> None:
    """Keep ``result``, all of whose inputs are there, so that a run with ``--reuse`` can score it.

    Does nothing where an evaluation cannot be taken up: in the environment of the agent, in a step
    that others follow, or after a FATAL. To be called before the result itself is stored, so that there is no moment
    in which the agent has ended and nothing could be continued.
    """
    if not scope.ref.step and is_resumable(scope.plan, result):
        await asyncio.to_thread(_save, scope, result)


def is_resumable(plan: ExecutionPlan, result: RunResult) -> bool:
    """Whether another run could score ``result`` without executing the task again."""
    separate = plan.evaluation_environment_mode in (EvaluationMode.NONE, EvaluationMode.FRESH)
    ended = result.status not in (TaskStatus.SKIPPED, TaskStatus.CANCELLED)
    return separate and ended and not result.has_fatal and artifacts_complete(result)


def artifacts_complete(result: RunResult) -> bool:
    """False when a declared artifact could not be transferred."""
    manifest = result.artifacts.get(DECLARED_ARTIFACTS)
    return not isinstance(manifest, dict) or manifest.get("complete") is True


def _save(scope: PhaseScope, result: RunResult) -> None:
    prepared = scope.execution.load_prepared()
    try:
        identity = unscored_identity(task_digest(scope.task), scope.plan, settings_digest(scope.components))
        checkpoint = _checkpoint(scope.store, scope.ref, identity, scope.plan, prepared, result)
    except OSError as error:  # of a file of the task's or the agent's, not of ours
        _log.warning("[%s a%s] no evaluation checkpoint: %s", scope.ref.task_id, scope.ref.attempt, error)
        return
    scope.store.evaluation_checkpoints.save(checkpoint)


def _checkpoint(
    store: RunStore,
    ref: ExecutionRef,
    identity: Identity,
    plan: ExecutionPlan,
    prepared: PreparedTask,
    result: RunResult,
) -> EvaluationCheckpoint:
    directory = store.run_dir / store.execution(ref).artifact_path()
    return EvaluationCheckpoint(
        task_id=ref.task_id,
        attempt=ref.attempt,
        execution=ref.execution,
        mode=plan.evaluation_environment_mode,
        prepared=prepared,
        result=result,
        identity=identity,
        run_network_policy=plan.run_network_policy,
        evaluation_network_policy=plan.evaluation_network_policy,
        source_run=store.run_id,
        digests={**artifact_digests(directory), **input_digests(prepared)},
    )
