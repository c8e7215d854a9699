"""For the tests of extension authors: an :class:`AttemptContext` that remembers what it was told.

>>> context = RecordingContext(secrets={"env:KEY": "k"})
>>> session = await harness.start_session(env, request, plan, context)

After a simulated crash, ``context.restarted()`` is what the hooks see on the next worker.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import orjson
from pydantic import JsonValue

from ..contracts.context import AttemptContext
from ..contracts.errors import StageFailure
from ..contracts.issues import Issue, IssueCode, IssuePhase, Severity
from ..contracts.result import TrajectoryStep


class RecordingContext:
    """Keeps progress, steps, issues and the checkpoint in memory.

    ``secrets`` maps references (``env:NAME``) to values, ``artifacts`` destinations to local paths;
    ``deadline`` is a Unix time.
    """

    def __init__(
        self,
        task_id: str = "task-1",
        *,
        attempt: int = 1,
        execution: int = 1,
        step: int = 0,
        deadline: float | None = None,
        secrets: Mapping[str, str] | None = None,
        artifacts: Mapping[str, Path] | None = None,
    ) -> None:
        self.task_id = task_id
        self.attempt = attempt
        self.execution = execution
        self.step = step
        self.deadline = deadline
        self.log = logging.LoggerAdapter(logging.getLogger("agentcompass.testing"), {"task_id": task_id})
        self.messages: list[str] = []
        self.steps: list[TrajectoryStep] = []
        self.issues: list[Issue] = []
        self.checkpoints_saved = 0
        self.uncharged_seconds = 0.0
        self._secrets = dict(secrets or {})
        self._artifacts = dict(artifacts or {})
        self._checkpoint: bytes | None = None

    @property
    def label(self) -> str:
        """As in a run."""
        return f"a{self.attempt}-e{self.execution}{f'-s{self.step}' if self.step else ''}"

    def remaining(self) -> float | None:
        """Seconds until the deadline, never negative; ``None`` without one."""
        return None if self.deadline is None else max(0.0, self.deadline - time.time())

    def wait_uncharged(self, seconds: float) -> float:
        """Moves the deadline; the seconds add up in ``uncharged_seconds``."""
        self.uncharged_seconds += seconds
        if self.deadline is not None:
            self.deadline += seconds
        return seconds

    def progress(self, message: str) -> None:
        """Remembered in ``messages``."""
        self.messages.append(message)

    def record_step(self, step: TrajectoryStep) -> None:
        """Remembered in ``steps``."""
        self.steps.append(step)

    def report_issue(self, severity: Severity, phase: IssuePhase, code: str, message: str) -> None:
        """Remembered in ``issues``."""
        self.issues.append(Issue(severity=severity, phase=phase, code=code, message=message))

    async def load_checkpoint(self) -> JsonValue:
        """The last checkpoint, as it would be read from disk."""
        return None if self._checkpoint is None else self._parsed(self._checkpoint)

    async def save_checkpoint(self, value: JsonValue) -> None:
        """Serialised at once, so that a value which is not JSON fails here as it would in a run."""
        self._checkpoint = orjson.dumps(value)
        self.checkpoints_saved += 1

    def artifact_path(self, destination: str) -> Path | None:
        """The path given for ``destination``."""
        return self._artifacts.get(destination)

    def resolve_secret(self, reference: str) -> str:
        """The value given for ``reference``. Raises ``StageFailure`` for an unknown one."""
        if not reference:
            return ""
        if reference not in self._secrets:
            raise StageFailure.fatal(
                IssuePhase.SETUP, IssueCode.SECRET_UNAVAILABLE, f"{reference} is not set on this worker"
            )
        return self._secrets[reference]

    def restarted(self) -> Self:
        """A new context of the same execution: of the old one only the checkpoint is left."""
        fresh = type(self)(
            self.task_id,
            attempt=self.attempt,
            execution=self.execution,
            step=self.step,
            deadline=self.deadline,
            secrets=self._secrets,
            artifacts=self._artifacts,
        )
        fresh._checkpoint = self._checkpoint
        return fresh

    @staticmethod
    def _parsed(raw: bytes) -> JsonValue:
        value: JsonValue = orjson.loads(raw)
        return value


_CONFORMS: type[AttemptContext] = RecordingContext  # checked by mypy, so that the two stay alike
