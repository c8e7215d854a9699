"""Artifacts: files that an attempt leaves and that are kept or restored."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Final, Literal

from pydantic import Field, field_validator, model_validator

from .base import MAX_SECONDS, Contract

MEBIBYTE = 1_048_576
WORKDIR_PREFIX: Final = "{workdir}/"
"""Begins a source below the environment's default work directory, wherever that is."""


class ArtifactLimits(Contract):
    """Bounds of one collection or restore: MiB (1,048,576 bytes), entries, seconds."""

    max_mb: int = Field(default=16384, gt=0)
    max_files: int = Field(default=100_000, gt=0)
    timeout_seconds: float = Field(default=600.0, gt=0, le=MAX_SECONDS)

    @property
    def max_bytes(self) -> int:
        """The size limit of all artifacts together, and of each transferred archive."""
        return self.max_mb * MEBIBYTE


class ArtifactSpec(Contract):
    """A declared path: ``source`` inside the environment, ``destination`` below ``artifacts/``.

    ``source`` is absolute, or begins with ``{workdir}/`` where environments have no fixed paths.
    ``destination`` defaults to the last component of ``source``. ``exclude`` holds patterns for
    paths relative to ``source``; see :func:`is_excluded`.
    """

    source: str
    destination: str = ""
    exclude: list[str] = Field(default_factory=list)

    @field_validator("source")
    @classmethod
    def _absolute(cls, value: str) -> str:
        path = PurePosixPath("/" + value.removeprefix(WORKDIR_PREFIX) if _in_workdir(value) else value)
        if not path.is_absolute() or "\0" in value:
            raise ValueError(
                f"source {value!r} must be an absolute path inside the environment, or begin with {WORKDIR_PREFIX}"
            )
        if not path.name or ".." in path.parts:
            raise ValueError(f"source {value!r} must name a file or folder, without '..'")
        return value

    @field_validator("destination")
    @classmethod
    def _relative(cls, value: str) -> str:
        path = PurePosixPath(value)
        if path.is_absolute() or ".." in path.parts or "\0" in value:
            raise ValueError(f"destination {value!r} must stay below the artifact directory")
        return str(path) if path.parts else ""

    @field_validator("exclude")
    @classmethod
    def _patterns(cls, value: list[str]) -> list[str]:
        for pattern in value:
            if not pattern.strip("/") or pattern.startswith("/") or ".." in pattern.split("/"):
                raise ValueError(f"exclude pattern {pattern!r} must be relative to the source")
        return value

    @model_validator(mode="after")
    def _default_destination(self) -> ArtifactSpec:
        self.destination = self.destination or PurePosixPath(self.source).name
        return self

    def source_in(self, workdir: str) -> str:
        """The absolute source in an environment with the default work directory ``workdir``."""
        if not _in_workdir(self.source):
            return self.source
        return str(PurePosixPath(workdir) / self.source.removeprefix(WORKDIR_PREFIX))


class ArtifactCommand(Contract):
    """A command that prepares artifacts; it runs in the environment's default work directory."""

    command: str = Field(min_length=1)
    timeout_seconds: float | None = Field(default=60.0, gt=0, le=MAX_SECONDS)
    """``None`` leaves only the limit of the whole group."""
    user: str | None = None
    """By default that of the environment."""


def check_destinations(specs: list[ArtifactSpec] | None) -> list[ArtifactSpec] | None:
    """Raise ``ValueError`` when two artifacts would be stored at one place, or one inside another."""
    taken: list[ArtifactSpec] = []
    for spec in specs or []:
        here = PurePosixPath(spec.destination)
        for other in taken:
            there = PurePosixPath(other.destination)
            if here.is_relative_to(there) or there.is_relative_to(here):
                raise ValueError(
                    f"artifacts {other.source!r} and {spec.source!r} share the destination "
                    f"{min(other.destination, spec.destination, key=len)!r}; give one of them another destination"
                )
        taken.append(spec)
    return specs


def is_excluded(parts: tuple[str, ...], patterns: Sequence[str]) -> bool:
    """Whether a path below a source (as its components), or a folder above it, matches a pattern.

    A pattern without ``/`` is compared with names at any depth; one with ``/`` with the path from
    the source on. ``*``, ``?`` and ``[…]`` stay within a component, ``**`` spans any number of them.
    """
    return any(
        _matches(parts[:length], pattern) for length in range(1, len(parts) + 1) for pattern in patterns
    )


def _matches(parts: tuple[str, ...], pattern: str) -> bool:
    wanted = _components(pattern)
    return fnmatchcase(parts[-1], wanted[0]) if len(wanted) == 1 else _spans(parts, wanted)


@lru_cache(maxsize=256)
def _components(pattern: str) -> tuple[str, ...]:
    return tuple(part for part in pattern.split("/") if part not in ("", "."))


def _spans(parts: tuple[str, ...], wanted: tuple[str, ...]) -> bool:
    if not wanted:
        return not parts
    if wanted[0] == "**":
        # The last ** means what is below, not the folder itself.
        first = 1 if len(wanted) == 1 else 0
        return any(_spans(parts[skip:], wanted[1:]) for skip in range(first, len(parts) + 1))
    return bool(parts) and fnmatchcase(parts[0], wanted[0]) and _spans(parts[1:], wanted[1:])


def _in_workdir(source: str) -> bool:
    return source.startswith(WORKDIR_PREFIX)


class ArtifactStatus(StrEnum):
    """What became of a declared path.

    ``missing``: nothing that can be collected is there. ``excluded``: all of it matches a pattern.
    ``failed``: the transfer broke off. ``not_collected``: it was not tried.
    """

    COLLECTED = "collected"
    MISSING = "missing"
    EXCLUDED = "excluded"
    FAILED = "failed"
    NOT_COLLECTED = "not_collected"


class ArtifactKind(StrEnum):
    """What was collected."""

    FILE = "file"
    DIRECTORY = "directory"


class RefusedMember(Contract):
    """Something that the agent left and that was not taken, with the reason; both printable."""

    path: str
    """Relative to the source; ``.`` is the source itself."""
    reason: str


class ArtifactEntry(Contract):
    """One declared path in the manifest."""

    source: str
    destination: str
    exclude: list[str] = Field(default_factory=list)
    status: ArtifactStatus = ArtifactStatus.NOT_COLLECTED
    reason: str = ""
    """Why it was not collected."""
    kind: ArtifactKind | None = None
    sha256: str | None = None
    """Of a file its bytes; of a directory see ``activities/artifacts/digest.py``."""
    size_bytes: int | None = None
    file_count: int | None = None
    refused: list[RefusedMember] = Field(default_factory=list)
    """At most the first hundred."""
    refused_count: int = 0


class ArtifactManifest(Contract):
    """``artifacts.declared_artifacts`` of a result: what was declared and what became of it."""

    schema_version: Literal[1] = 1
    directory: str
    """Where the destinations are, relative to the run directory."""
    complete: bool = False
    """True when nothing failed and nothing was left untried."""
    entries: list[ArtifactEntry] = Field(default_factory=list)
