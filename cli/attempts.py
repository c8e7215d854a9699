"""Finding the attempt of a task that a command speaks of, among those that Temporal knows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from temporalio.client import Client, WorkflowExecution, WorkflowExecutionStatus

from ..contracts.errors import UsageError
from ..contracts.search_attributes import LAUNCH, TASK
from ..contracts.workflows import ATTEMPT_WORKFLOW, AttemptInput

_LISTED = 500
_ATTEMPT_ID = re.compile(r"launch/([^/]+)/([^/]+)/([^/]+)/a([0-9]+)(?:/again[0-9]+)?")


@dataclass(frozen=True)
class KnownAttempt:
    """An attempt workflow, and what its id says."""

    workflow_id: str
    launch_id: str
    request_key: str
    task_id: str
    attempt: int
    running: bool

    @property
    def name(self) -> str:
        """As messages call it."""
        return f"attempt {self.attempt} of task {self.task_id!r} (launch {self.launch_id})"


@dataclass(frozen=True)
class Wanted:
    """Which attempt a command is about; ``None`` where its user says nothing."""

    task_id: str
    launch_id: str | None = None
    request_key: str | None = None
    attempt: int | None = None

    def fits(self, known: KnownAttempt) -> bool:
        """Whether ``known`` can be meant."""
        return (
            self.task_id == known.task_id
            and self.launch_id in (None, known.launch_id)
            and self.request_key in (None, known.request_key)
            and self.attempt in (None, known.attempt)
        )

    def __str__(self) -> str:
        which = f"attempt {self.attempt} of " if self.attempt else ""
        where = f" of request {self.request_key!r}" if self.request_key else ""
        return f"{which}task {self.task_id!r}{where}"


async def find_attempts(client: Client, wanted: Wanted) -> list[KnownAttempt]:
    """Attempts that can be meant, those that started last first."""
    conditions = [f"WorkflowType = {_quoted(ATTEMPT_WORKFLOW)}", f"{TASK} = {_quoted(wanted.task_id)}"]
    if wanted.launch_id is not None:
        conditions.append(f"{LAUNCH} = {_quoted(wanted.launch_id)}")
    found = [item async for item in client.list_workflows(" AND ".join(conditions), limit=_LISTED)]
    found.sort(key=lambda item: item.start_time, reverse=True)
    return [known for item in found if (known := _known(item)) is not None and wanted.fits(known)]


def choose_attempt(found: Sequence[KnownAttempt], wanted: Wanted, *, running: bool = False) -> KnownAttempt:
    """The only one that can be meant: a running one before those that are over, of these the last.

    Raises ``UsageError`` that says what there is when none, or more than one, could be.
    """
    fitting = [item for item in found if wanted.fits(item)]
    alive = [item for item in fitting if item.running]
    if len(alive) > 1:
        raise UsageError(_how_to_choose(alive, wanted))
    if alive:
        return alive[0]
    if fitting and not running:
        return fitting[0]
    if fitting:
        raise UsageError(f"{wanted} is not running; it is over in launch {fitting[0].launch_id}")
    raise UsageError(f"{wanted} is not running; `agentcompass status LAUNCH` lists what a launch is doing")


def _how_to_choose(alive: Sequence[KnownAttempt], wanted: Wanted) -> str:
    """The first thing in which those that run differ, with the flag that names it."""
    for flag, values in (
        ("--launch", {item.launch_id for item in alive}),
        ("--request", {item.request_key for item in alive}),
    ):
        if len(values) > 1:
            return f"{wanted} runs several times, choose with {flag}: {', '.join(sorted(values))}"
    numbers = ", ".join(str(number) for number in sorted(item.attempt for item in alive))
    return f"several attempts of {wanted} run, choose with --attempt: {numbers}"


async def input_of(client: Client, known: KnownAttempt) -> AttemptInput:
    """What the attempt was started with; needs no worker that answers."""
    handle = client.get_workflow_handle(known.workflow_id)
    async for event in handle.fetch_history_events(page_size=1):
        payloads = event.workflow_execution_started_event_attributes.input.payloads
        decoded = await client.data_converter.decode(payloads, [AttemptInput])
        found: AttemptInput = decoded[0]
        return found
    raise UsageError(f"{known.name} has no history any more")


def _known(item: WorkflowExecution) -> KnownAttempt | None:
    """``launch/<launch>/<request>/<task>/a<attempt>``, each part percent-encoded; and ``/again<n>`` after a retry."""
    found = _ATTEMPT_ID.fullmatch(item.id)
    if found is None:
        return None
    launch, request, task, attempt = found.groups()
    return KnownAttempt(
        workflow_id=item.id,
        launch_id=unquote(launch),
        request_key=unquote(request),
        task_id=unquote(task),
        attempt=int(attempt),
        running=item.status is WorkflowExecutionStatus.RUNNING,
    )


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
