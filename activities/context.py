"""The runtime's side of :class:`~agentcompass.contracts.context.AttemptContext`."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, MutableMapping
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import JsonValue

from ..contracts.activities import ExecutionRef
from ..contracts.issues import Issue, IssuePhase, Severity
from ..contracts.phases import Phase
from ..contracts.result import TrajectoryStep
from .classification import make_issue, says_more
from .services import resolve_secret
from .store import ExecutionStore

MAX_UNCHARGED_SECONDS = 3600.0
"""Waiting beyond this is charged to the budget of a phase after all, so that it stays a budget."""


class _AttemptLog(logging.LoggerAdapter[logging.Logger]):
    """Puts task and attempt in front of every message and says which run it belongs to."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        extra = dict(self.extra or {})
        kwargs["extra"] = {**extra, **kwargs.get("extra", {})}
        return f"[{extra.get('label')}] {msg}", kwargs


class PhaseContext:
    """An attempt context for one phase of one execution."""

    def __init__(
        self, ref: ExecutionRef, phase: Phase, execution_store: ExecutionStore, *, spent_seconds: float = 0.0
    ) -> None:
        self._ref = ref
        self._phase = phase
        self._store = execution_store
        self._charged = spent_seconds
        self._charging_since: float | None = None
        self._deadline: float | None = None
        self._uncharged = 0.0
        self._waits_until = 0.0
        self._lock = threading.Lock()
        self._closed = False
        self.on_uncharged: Callable[[float], None] | None = None
        """Hears by how many seconds the deadline has moved; see ``phase_limit.py``."""
        self.artifacts: Path | None = None
        """Where collected artifacts are shown instead of where they are kept."""
        self.message = ""
        self.last_step_at: float | None = None
        self.issues: list[Issue] = []
        self.on_step: Callable[[TrajectoryStep], None] | None = None
        """Called with every step that is recorded."""
        self._log = _AttemptLog(
            logging.getLogger(f"agentcompass.{phase.value}"),
            {
                "run_dir": ref.run_dir,
                "label": f"{ref.task_id} a{ref.attempt}{f' s{ref.step}' if ref.step else ''}",
            },
        )

    @property
    def task_id(self) -> str:
        return self._ref.task_id

    @property
    def attempt(self) -> int:
        return self._ref.attempt

    @property
    def execution(self) -> int:
        return self._ref.execution

    @property
    def step(self) -> int:
        return self._ref.step

    @property
    def label(self) -> str:
        step = f"-s{self.step}" if self.step else ""
        return f"a{self.attempt}-e{self.execution}{step}"

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        return self._log

    @property
    def deadline(self) -> float | None:
        return self._deadline

    def remaining(self) -> float | None:
        return None if self._deadline is None else max(0.0, self._deadline - time.time())

    def start_budget(self, seconds: float | None, *, resumed: bool = True) -> float | None:
        """Begin to charge the phase's budget; returns what is left of it.

        A phase that goes on in another process is charged for the time it ran, not for the time
        in which no worker had it. One that begins anew (``resumed=False``) gets its whole budget.
        """
        if not resumed:
            self._charged = 0.0
        self._charging_since = time.monotonic()
        self._uncharged = 0.0
        self._deadline = None
        if seconds is None:
            return None
        left = max(0.0, seconds - self._charged)
        self._deadline = time.time() + left
        return left

    def stop_budget(self, next_seconds: float | None = None) -> None:
        """Charge no more: what follows has limits of its own, the first of them ``next_seconds``."""
        self._charged, self._charging_since = self.spent_seconds, None
        self._uncharged = 0.0
        self._deadline = None if next_seconds is None else time.time() + next_seconds

    @property
    def spent_seconds(self) -> float:
        """Seconds of the budget used so far, over all processes; kept in the heartbeats."""
        if self._charging_since is None:
            return self._charged
        return max(self._charged, self._charged + time.monotonic() - self._charging_since - self._uncharged)

    def wait_uncharged(self, seconds: float) -> float:
        with self._lock:
            if self._charging_since is None:
                return 0.0
            now = time.monotonic()
            # Calls that wait at the same time wait once.
            begun = max(now, self._waits_until)
            granted = min(max(0.0, now + seconds - begun), MAX_UNCHARGED_SECONDS - self._uncharged)
            if granted > 0:
                self._waits_until = begun + granted
                self._uncharged += granted
                if self._deadline is not None:
                    self._deadline += granted
            covered = min(seconds, max(0.0, self._waits_until - now))
            tell = self.on_uncharged
        if tell is not None and granted > 0:
            tell(granted)
        return covered

    def progress(self, message: str) -> None:
        self.message = message[:200]
        self._log.info("%s", message)

    def close(self) -> None:
        """The phase is over: a hook that was left to itself adds nothing to it any more."""
        self._closed = True

    def _refuse_when_closed(self) -> None:
        if self._closed:
            raise RuntimeError(f"{self._phase.value} of task {self.task_id!r} is over")

    def record_step(self, step: TrajectoryStep) -> None:
        self._refuse_when_closed()
        self.last_step_at = time.time()
        self._store.append_step(step)
        if self.on_step is not None:
            self.on_step(step)

    def report_issue(self, severity: Severity, phase: IssuePhase, code: str, message: str) -> None:
        self._refuse_when_closed()
        self.issues.append(make_issue(severity, phase, code, message))
        if says_more(message):
            self._store.add_diagnostics(f"{code}: {message}")

    async def load_checkpoint(self) -> JsonValue:
        return await asyncio.to_thread(self._store.load_checkpoint, self._phase.value)

    async def save_checkpoint(self, value: JsonValue) -> None:
        self._refuse_when_closed()
        await asyncio.to_thread(self._store.save_checkpoint, self._phase.value, value)

    def artifact_path(self, destination: str) -> Path | None:
        place = PurePosixPath(destination)
        if place.is_absolute() or not place.parts or ".." in place.parts:
            return None
        kept = self.artifacts or Path(self._ref.run_dir) / self._store.artifact_path()
        path = kept / place
        return path if path.exists() else None

    def resolve_secret(self, reference: str) -> str:
        return resolve_secret(reference)
