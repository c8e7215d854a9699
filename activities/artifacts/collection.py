"""Collecting declared artifacts while the environment lives: commands, then transfers.

Files come as one tar archive per declared path, read while the provider makes it: only so are size
and count enforced before anything large is copied, and only one reader has to withstand what an
agent may have left. ``download`` would copy first and look afterwards, once per provider.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from ...contracts.artifacts import (
    ArtifactEntry,
    ArtifactManifest,
    ArtifactSpec,
    ArtifactStatus,
    check_destinations,
)
from ...contracts.environment import EnvironmentLostError, EnvironmentSession
from ...contracts.errors import StageFailure
from ...contracts.issues import IssueCode, IssuePhase, Severity
from ..phase import PhaseScope
from .commands import ArtifactCommandError, run_commands
from .digest import content_of
from .meter import TransferMeter
from .progress import CollectionProgress
from .transfer import Transfer, remove_tree

TRANSFER_BUDGET = "artifact_limits.timeout_seconds"
_REPORT_SECONDS = 5.0
_SETTLED = (ArtifactStatus.COLLECTED, ArtifactStatus.MISSING, ArtifactStatus.EXCLUDED)


class ArtifactCollection:
    """One collection. ``manifest`` is up to date whatever happens."""

    def __init__(self, scope: PhaseScope, session: EnvironmentSession) -> None:
        self._scope = scope
        self._session = session
        self._plan = scope.plan
        self._progress = CollectionProgress.load(scope.execution)
        self._entries = [
            ArtifactEntry(source=spec.source, destination=spec.destination, exclude=spec.exclude)
            for spec in self._plan.artifacts
        ]
        self._reported = time.monotonic()
        self._deadline = time.monotonic()

    @property
    def manifest(self) -> ArtifactManifest:
        """What became of each declared path so far."""
        return ArtifactManifest(
            directory=self._scope.execution.artifact_path(),
            complete=all(entry.status in _SETTLED for entry in self._entries),
            entries=self._entries,
        )

    async def run(self) -> None:
        """Run the commands and bring the files. Raises ``StageFailure`` (FATAL), and what is lost with
        the environment as ``EnvironmentLostError``."""
        try:
            check_destinations(self._plan.artifacts)  # a recipe may have put them together unchecked
            await run_commands(
                self._session,
                self._plan.artifact_collect,
                self._plan.budgets.artifact_collect_timeout_seconds,
                self._progress,
                self._save,
            )
        except (ArtifactCommandError, ValueError) as error:
            raise self._failure(str(error)) from error
        if self._plan.artifacts and self._plan.save_artifacts:
            # What is transferred may be graded: no process of the agent may change it meanwhile.
            await self._session.end_all_processes()
            await self._transfer()
        elif self._plan.artifacts:
            self._entries = [
                entry.model_copy(update={"reason": "save_artifacts is off"}) for entry in self._entries
            ]

    async def _transfer(self) -> None:
        seconds = self._plan.artifact_limits.timeout_seconds
        left = max(0.0, seconds - self._progress.transfer_seconds)
        began = time.monotonic()
        self._deadline = began + left
        target = self._scope.execution.artifact_dir()
        incoming = target.parent / f".{target.name}.incoming"
        await asyncio.to_thread(remove_tree, incoming)  # of a worker that was killed
        try:
            async with asyncio.timeout(left) as limit:
                await self._collect_all(target, incoming)
        except TimeoutError as error:
            if not limit.expired():
                raise
            message = f"the budget of {seconds:g} s for collecting artifacts ({TRANSFER_BUDGET}) is used up"
            raise self._broken(message) from error
        finally:
            self._progress.transfer_seconds += time.monotonic() - began
            self._save()
            await asyncio.to_thread(remove_tree, incoming)

    async def _collect_all(self, target: Path, incoming: Path) -> None:
        meter = TransferMeter(self._plan.artifact_limits)
        transfer = Transfer(self._session, target, incoming, meter, self._report)
        for index, spec in enumerate(self._plan.artifacts):
            entry = await self._collected_before(spec, target, meter)
            if entry is None:
                try:
                    entry = await transfer.collect(spec)
                except (EnvironmentLostError, StageFailure):
                    raise
                except Exception as error:  # a provider may raise anything; all of it ends the transfer
                    raise self._broken(str(error) or type(error).__name__) from error
                self._progress.entries.append(entry)
                self._save()
            self._entries[index] = entry
            self._warn(entry)

    async def _collected_before(
        self, spec: ArtifactSpec, target: Path, meter: TransferMeter
    ) -> ArtifactEntry | None:
        """The entry of an earlier try, if what it stored is still what it says."""
        found = next((entry for entry in self._progress.entries if entry.source == spec.source), None)
        if found is None or found.status is not ArtifactStatus.COLLECTED:
            return found
        try:
            stored = await asyncio.to_thread(content_of, target / found.destination)
        except OSError:
            stored = None
        if stored is None or stored.sha256 != found.sha256:
            self._progress.entries.remove(found)
            return None
        meter.content_bytes += stored.size_bytes
        meter.entries += stored.file_count
        return found

    def _broken(self, message: str) -> StageFailure:
        """Mark the artifact at which the transfer broke off as failed."""
        for index, entry in enumerate(self._entries):
            if entry.status is ArtifactStatus.NOT_COLLECTED:
                update = {"status": ArtifactStatus.FAILED, "reason": message[:1000]}
                self._entries[index] = entry.model_copy(update=update)
                return self._failure(f"{entry.source}: {message}")
        return self._failure(message)

    @staticmethod
    def _failure(message: str) -> StageFailure:
        return StageFailure.fatal(IssuePhase.COLLECT, IssueCode.ARTIFACT_COLLECTION_FAILED, message[:2000])

    def _warn(self, entry: ArtifactEntry) -> None:
        if entry.refused_count:
            first = entry.refused[0]
            self._scope.context.report_issue(
                Severity.WARNING,
                IssuePhase.COLLECT,
                IssueCode.ARTIFACT_REFUSED,
                f"{entry.source}: left out {entry.refused_count}, first {first.path}: {first.reason}",
            )

    def _report(self, source: str, count: int) -> None:
        now = time.monotonic()
        if now - self._reported >= _REPORT_SECONDS:
            self._reported = now
            left = max(0.0, self._deadline - now)
            self._scope.context.progress(f"collecting {source}: {count} bytes, {left:.0f} s left")

    def _save(self) -> None:
        self._progress.save(self._scope.execution)
