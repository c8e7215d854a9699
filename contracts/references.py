"""Names of attempts, executions and their environments."""

from __future__ import annotations

import hashlib
import re

from .base import Contract


class AttemptRef(Contract):
    """Names an attempt; what belongs to it is found below the run directory."""

    run_dir: str
    task_index: int
    task_id: str
    attempt: int
    generation: int = 0
    """Counts up when an operator has a finished task executed again, which starts from nothing."""


class ExecutionRef(AttemptRef):
    """Names one execution of an attempt."""

    execution: int = 1
    step: int = 0
    """A step of a task of several steps, from 1; 0 is the whole execution."""


_ENVIRONMENT_ID = re.compile(r"ac-(?:[a-z0-9-]+-)?[0-9a-f]{12}-a\d+-e\d+(?:-g\d+)?(?:-s\d+)?(?:-v)?")


def is_environment_id(text: str) -> bool:
    """Whether it looks like what ``environment_id`` returns."""
    return _ENVIRONMENT_ID.fullmatch(text) is not None


def environment_id(ref: ExecutionRef, *, for_evaluation: bool = False) -> str:
    """The id that an execution's environment gets: readable, derived, unique among all runs.

    ``for_evaluation`` names the verifier's fresh environment instead of the task's.
    At most 63 characters of ``[a-z0-9-]``, as host and container names require.
    """
    digest = hashlib.sha256(f"{ref.run_dir}\0{ref.task_id}".encode()).hexdigest()[:12]
    slug = re.sub(r"[^a-z0-9]+", "-", ref.task_id.lower()).strip("-")[:24].strip("-")
    # What is executed again starts from nothing, also where its first environment was kept.
    again = f"-g{ref.generation}" if ref.generation else ""
    # A step is judged in an environment of its own; its agent works in that of the whole execution.
    judged = f"-s{ref.step}" if ref.step else ""
    suffix = f"{judged}-v" if for_evaluation else ""
    return f"ac-{slug}{'-' if slug else ''}{digest}-a{ref.attempt}-e{ref.execution}{again}{suffix}"
