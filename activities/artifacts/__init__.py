"""Declared artifacts: collecting them from an environment, keeping them, restoring them."""

from .collection import ArtifactCollection
from .manifest import manifest_of, with_manifest
from .restore import drop_copy, restore_artifacts

__all__ = [
    "ArtifactCollection",
    "drop_copy",
    "manifest_of",
    "restore_artifacts",
    "with_manifest",
]
