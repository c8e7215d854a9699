"""What an extension sees of the runtime: log, progress, checkpoint, deadline, secrets."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Protocol

from pydantic import JsonValue

from .issues import IssuePhase, Severity
from .result import TrajectoryStep


class AttemptContext(Protocol):
    """Given to every hook. Nothing in it belongs to the engine underneath."""

    @property
    def task_id(self) -> str:
        """The task being executed."""
        ...

    @property
    def attempt(self) -> int:
        """The semantic attempt, from 1."""
        ...

    @property
    def execution(self) -> int:
        """The execution inside the attempt, from 1; a retry is the next number."""
        ...

    @property
    def step(self) -> int:
        """The step of a task that is given step by step, from 1; 0 for any other task."""
        ...

    @property
    def label(self) -> str:
        """``a1-e1``, in a step ``a1-e1-s2``: unique in an environment, for ids of processes and names of folders."""
        ...

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """Writes into the run's log file, secrets masked, with task and attempt in front."""
        ...

    @property
    def deadline(self) -> float | None:
        """Unix time at which the current phase's budget ends; ``None`` without a limit."""
        ...

    def remaining(self) -> float | None:
        """Seconds until the deadline, never negative; ``None`` without a limit."""
        ...

    def wait_uncharged(self, seconds: float) -> float:
        """Say before waiting for a rate limit or a provider that the wait is not the agent's.

        Moves :attr:`deadline`. Returns how many of the seconds are not charged: all of them, until the
        bound of an hour for each phase is reached. Model clients call it by themselves when they are
        given it: ``create_model_client(…, uncharged=context.wait_uncharged)``.
        """
        ...

    def progress(self, message: str) -> None:
        """Say in one line what is being done; shown by ``status`` and in the Temporal UI."""
        ...

    def record_step(self, step: TrajectoryStep) -> None:
        """Make a finished step visible at once (``agentcompass logs``); not a checkpoint."""
        ...

    def report_issue(self, severity: Severity, phase: IssuePhase, code: str, message: str) -> None:
        """Add an issue to the result without stopping the phase."""
        ...

    async def load_checkpoint(self) -> JsonValue:
        """What :meth:`save_checkpoint` stored last for this phase of this execution, else ``None``.

        A driver-side loop continues from here after its worker died.
        """
        ...

    async def save_checkpoint(self, value: JsonValue) -> None:
        """Store a JSON value durably before going on, so that no finished turn is paid for twice."""
        ...

    def artifact_path(self, destination: str) -> Path | None:
        """Where a collected artifact lies on this machine, ``None`` when it was not collected.

        Its content is the agent's: look at it as at anything hostile. A verifier of mode ``none`` gets a copy,
        which it may change; nobody else may.
        """
        ...

    def resolve_secret(self, reference: str) -> str:
        """The value behind ``env:NAME`` or ``file:/path``; ``""`` for an empty reference.

        Raises :class:`~agentcompass.contracts.errors.StageFailure` (``secret_unavailable``)
        when it cannot be resolved on this worker.
        """
        ...
