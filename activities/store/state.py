"""The models of the hidden ``.state`` directory, which belongs to the program and not to its users."""

from __future__ import annotations

from dataclasses import dataclass

from ...contracts.base import Contract
from ...contracts.issues import Severity
from ...contracts.launch import LaunchRuntime
from ...contracts.records import TemporalInfo
from ...contracts.request import RunRequest


class DriverRecord(Contract):
    """Who drives a run directory. ``launch_id`` and ``request_key`` are its identity."""

    launch_id: str
    request_key: str
    namespace: str = ""
    workflow_id: str = ""
    host: str = ""
    pid: int = 0
    reserved_at: str = ""

    def same_driver(self, other: DriverRecord) -> bool:
        """True when ``other`` is this driver, maybe in another process."""
        mine = (self.namespace, self.launch_id, self.request_key)
        return mine == (other.namespace, other.launch_id, other.request_key)


class RequestState(Contract):
    """The request of a run directory, as every activity needs it."""

    run_id: str
    launch_id: str
    request_key: str
    request_index: int = 0
    request_count: int = 1
    request: RunRequest
    runtime: LaunchRuntime
    temporal: TemporalInfo | None = None

    @property
    def orchestrated(self) -> bool:
        """True for a request of a ``launch``; its progress events then name the orchestration."""
        return bool(self.request.metadata.request_name) or self.request_count > 1


class ReopenedTask(Contract):
    """A finished task that an operator had executed again, and what became of it before."""

    generation: int
    status: str
    """As its ``task_finished`` event said."""
    severity: Severity


@dataclass(frozen=True, slots=True)
class TaskEntry:
    """One line of the task list: enough to schedule a task without reading it."""

    index: int
    task_id: str
    category: str
    digest: str
    """sha256 of the task's content, in hex."""
