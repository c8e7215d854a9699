"""Counting what a transfer brings, so that it ends at its limits and not after them."""

from __future__ import annotations

from dataclasses import dataclass

from ...contracts.artifacts import MEBIBYTE, ArtifactLimits


class LimitExceededError(Exception):
    """The artifacts are more than ``artifact_limits`` allows; the message names the option."""


@dataclass
class TransferMeter:
    """Bytes and entries of all artifacts of one collection, and of the archive being read.

    Every method raises ``LimitExceededError`` as soon as a limit is passed.
    """

    limits: ArtifactLimits
    content_bytes: int = 0
    entries: int = 0
    archive_bytes: int = 0

    def begin_archive(self) -> None:
        """The next archive starts."""
        self.archive_bytes = 0

    def received(self, count: int) -> None:
        """Bytes of the archive arrived, its own overhead included."""
        self.archive_bytes += count
        if self.archive_bytes > self.limits.max_bytes:
            raise self._too_large("the archive has more")

    def entry(self) -> None:
        """The archive holds one more file, folder or other thing."""
        self.entries += 1
        if self.entries > self.limits.max_files:
            raise LimitExceededError(
                f"the artifacts have more than {self.limits.max_files} entries (artifact_limits.max_files)"
            )

    def content(self, size: int, path: str) -> None:
        """A file of ``size`` bytes is about to be written."""
        self.content_bytes += size
        if self.content_bytes > self.limits.max_bytes:
            raise self._too_large(f"{path} has {size} bytes")

    def _too_large(self, detail: str) -> LimitExceededError:
        return LimitExceededError(
            f"the artifacts are larger than {self.limits.max_bytes // MEBIBYTE} MiB "
            f"(artifact_limits.max_mb): {detail}"
        )
