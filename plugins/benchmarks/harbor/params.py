"""Parameters of the benchmark ``harbor``."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator, model_validator

from ....contracts.benchmark_params import BenchmarkParams
from ....contracts.component import LocalPath

Limit = Literal["cpu", "memory", "storage", "gpu"]


def _default_limits() -> list[Limit]:
    return ["cpu", "memory", "gpu"]


class HarborParams(BenchmarkParams):
    """Where the tasks are (one of ``path``, ``git``, ``registry``), and how far they are trusted."""

    path: LocalPath | None = None
    """A folder of task folders, or one task folder, on every worker."""
    git: str | None = None
    """Address of a git repository: ``https://``, ``ssh://``, ``git@host:…`` or ``file://``."""
    commit: str = "HEAD"
    """With ``git``: a commit, tag or branch; what it names is recorded."""
    subdirectory: str = ""
    """With ``git``: the folder of the tasks in the repository."""
    registry: LocalPath | None = None
    """A ``registry.json`` that lists data sets by git address, commit and path."""
    dataset: str | None = None
    """With ``registry``: ``NAME`` or ``NAME@VERSION``; may be left out where there is one only."""
    skip_invalid: bool = False
    """Leave out tasks that cannot be run, named in the log, instead of refusing the data set."""
    limits: list[Limit] = Field(default_factory=_default_limits)
    """Which of the tasks' resources are asked for; ``storage`` is enforced by few engines."""
    host_variables: list[str] = Field(default_factory=list)
    """Variables of the worker that tasks may read with ``${NAME}``; no others, for a task could send them away."""

    @field_validator("git")
    @classmethod
    def _known_transport(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(("https://", "ssh://", "git@", "file:///")):
            raise ValueError(f"{value!r} must begin with https://, ssh://, git@ or file:///")
        return value

    @field_validator("commit")
    @classmethod
    def _no_option(cls, value: str) -> str:
        if not value or value.startswith("-") or any(character.isspace() for character in value):
            raise ValueError(f"{value!r} is not a commit, tag or branch")
        return value

    @field_validator("subdirectory")
    @classmethod
    def _stays_inside(cls, value: str) -> str:
        if value.startswith("/") or ".." in value.split("/"):
            raise ValueError(f"{value!r} must stay inside the repository")
        return value

    @field_validator("git", "commit", "subdirectory")
    @classmethod
    def _fit_for_a_command(cls, value: str | None) -> str | None:
        text = value or ""
        if "\0" in text or text != text.encode("utf-8", "replace").decode():
            raise ValueError(f"{value!r} holds what no argument of a command can")
        return value

    @model_validator(mode="after")
    def _one_source(self) -> HarborParams:
        given = [name for name in ("path", "git", "registry") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(
                "give one of path, git and registry" + (f", not {' and '.join(given)}" if given else "")
            )
        return self
