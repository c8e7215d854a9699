"""Artifacts: files that an attempt leaves and that are kept or restored."""

from __future__ import annotations

from pathlib import PurePosixPath

from pydantic import Field, field_validator

from .base import Contract


class ArtifactLimits(Contract):
    """Bounds of one collection or restore: MiB (1,048,576 bytes), entries, seconds."""

    max_mb: int = Field(default=16384, gt=0)
    max_files: int = Field(default=100_000, gt=0)
    timeout_seconds: float = Field(default=600.0, gt=0)


class ArtifactSpec(Contract):
    """A declared path: ``source`` inside the environment, ``destination`` below ``artifacts/``."""

    source: str
    destination: str = ""
    exclude: list[str] = Field(default_factory=list)

    @field_validator("source")
    @classmethod
    def _absolute(cls, value: str) -> str:
        if not PurePosixPath(value).is_absolute():
            raise ValueError(f"source {value!r} must be an absolute path inside the environment")
        return value

    @field_validator("destination")
    @classmethod
    def _relative(cls, value: str) -> str:
        path = PurePosixPath(value)
        if path.is_absolute() or ".." in path.parts:
            raise ValueError(f"destination {value!r} must stay below the artifact directory")
        return value


class ArtifactCommand(Contract):
    """A command that prepares artifacts; it runs in the environment's default work directory."""

    command: str = Field(min_length=1)
    timeout_seconds: float | None = Field(default=None, gt=0)
