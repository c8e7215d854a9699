"""The manifest of declared artifacts inside a result."""

from __future__ import annotations

from ...contracts.artifacts import ArtifactManifest
from ...contracts.result import DECLARED_ARTIFACTS, RunResult


def with_manifest(result: RunResult, manifest: ArtifactManifest) -> RunResult:
    """The result with the manifest under ``artifacts.declared_artifacts``."""
    stored = manifest.model_dump(mode="json")
    return result.model_copy(update={"artifacts": {**result.artifacts, DECLARED_ARTIFACTS: stored}})


def manifest_of(result: RunResult) -> ArtifactManifest | None:
    """The manifest, ``None`` when nothing was declared. Raises ``ValidationError``."""
    stored = result.artifacts.get(DECLARED_ARTIFACTS)
    return None if stored is None else ArtifactManifest.model_validate(stored)
