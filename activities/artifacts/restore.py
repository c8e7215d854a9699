"""Collected artifacts as the input of an evaluation: verified, and put back where they came from."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

from pydantic import ValidationError

from ...contracts.artifacts import ArtifactManifest, ArtifactSpec, ArtifactStatus
from ...contracts.environment import EnvironmentLostError, EnvironmentSession
from ...contracts.errors import StageFailure
from ...contracts.issues import IssueCode, IssuePhase
from ...contracts.request import EvaluationMode
from ...contracts.result import RunResult
from ..phase import PhaseScope
from ..threads import in_settled_thread
from .collection import TRANSFER_BUDGET
from .digest import content_of
from .manifest import manifest_of, with_manifest
from .transfer import remove_tree


async def restore_artifacts(
    scope: PhaseScope, result: RunResult, session: EnvironmentSession | None
) -> RunResult:
    """Verify what ``none`` and ``fresh`` judge, restore it for ``fresh``; the result names its place.

    The verifier of ``none`` gets a copy: what it changes there, no other try of the evaluation sees.
    Has the budget of a transfer, apart from that of the evaluation. Files are put over what the
    fresh environment has at their sources. Raises ``StageFailure`` (FATAL, ``artifact_restore_failed``).
    """
    mode = scope.plan.evaluation_environment_mode
    try:
        manifest = manifest_of(result)
    except ValidationError as error:
        raise _failure("the manifest of the collected artifacts cannot be read") from error
    if manifest is None or mode is EvaluationMode.REUSE:
        return result
    seconds = scope.plan.artifact_limits.timeout_seconds
    try:
        async with asyncio.timeout(seconds) as limit:
            await _verify_and_restore(scope, manifest, session)
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise _failure(
            f"the budget of {seconds:g} s for restoring artifacts ({TRANSFER_BUDGET}) is used up"
        ) from error
    # A retry of the evaluation has the files in a directory of its own.
    return with_manifest(result, manifest.model_copy(update={"directory": scope.execution.artifact_path()}))


async def _verify_and_restore(
    scope: PhaseScope, manifest: ArtifactManifest, session: EnvironmentSession | None
) -> None:
    directory = scope.execution.artifact_dir()
    for entry in manifest.entries:
        if entry.status is not ArtifactStatus.COLLECTED:
            continue
        spec = ArtifactSpec(source=entry.source, destination=entry.destination)
        path = directory / spec.destination
        await _verify(path, spec.destination, entry.sha256)
        if session is None:
            continue
        scope.context.progress(f"restoring {spec.source}: {entry.size_bytes} bytes")
        try:
            await session.upload(path, spec.source_in(session.workdir))
        except (EnvironmentLostError, StageFailure):
            raise
        except Exception as error:  # a provider may raise anything; all of it ends the restore
            raise _failure(f"{spec.source} could not be restored: {error}") from error
    if session is None and any(entry.status is ArtifactStatus.COLLECTED for entry in manifest.entries):
        await _copy(scope)


async def _copy(scope: PhaseScope) -> None:
    """Show the verifier a copy, which :func:`drop_copy` removes."""
    stop = threading.Event()
    try:
        scope.context.artifacts = await in_settled_thread(scope.execution.place_for_copy)
        copying = asyncio.ensure_future(
            asyncio.to_thread(scope.execution.copy_artifacts, scope.context.artifacts, stop)
        )
        try:
            await asyncio.shield(copying)
        except asyncio.CancelledError:  # also that of a used-up budget
            stop.set()
            await asyncio.wait([copying])
            copying.exception()  # looked at: nobody else does
            raise
    except OSError as error:
        raise _failure(f"the collected artifacts could not be copied for the verifier: {error}") from error


async def drop_copy(scope: PhaseScope) -> None:
    """Remove the copy that this try of the evaluation has made, if any; what stays goes with the record."""
    place, scope.context.artifacts = scope.context.artifacts, None
    if place is None:
        return
    try:
        await in_settled_thread(remove_tree, place)
    except OSError as error:
        scope.context.log.warning("the verifier's copy of the artifacts is not removed yet: %s", error)


async def _verify(path: Path, destination: str, sha256: str | None) -> None:
    try:
        content = await asyncio.to_thread(content_of, path)
    except OSError as error:
        raise _failure(f"the collected artifact {destination!r} cannot be read: {error}") from error
    if content.sha256 != sha256:
        raise _failure(f"the collected artifact {destination!r} is not what was collected: another sha256")


def _failure(message: str) -> StageFailure:
    return StageFailure.fatal(IssuePhase.EVALUATE, IssueCode.ARTIFACT_RESTORE_FAILED, message[:2000])
