"""Which run is continued: the one that was named, else the newest that has something to continue."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import JsonValue, ValidationError

from ...contracts.errors import RecordError, UsageError
from ...contracts.records import ReusedFrom, RunInfo
from ...contracts.request import AttemptsSpec, RunRequest
from ..store import (
    DriverRecord,
    RunStore,
    list_runs,
    read_run_info,
    request_label,
    run_path,
    runs_dir,
    safe_component,
)

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ReuseSource:
    """A run that the request can be continued from."""

    run_dir: Path
    reused_from: ReusedFrom


def find_source(
    request: RunRequest, results_dir: Path, owner: DriverRecord | None = None
) -> ReuseSource | None:
    """The run to take finished work from; ``None`` when the request asks for none or there is none yet.

    Looks only where the request's own runs go. ``owner`` is whoever asks: its own run is no
    source. Raises ``UsageError`` with the reason when the run cannot be continued.
    """
    if not request.runtime.reuse:
        return None
    label = request_label(
        request.model.id, request.benchmark.id, request.harness.id, request.metadata.request_name
    )
    directory = runs_dir(results_dir, request.output.run_name, label)
    wanted = request.runtime.reuse_run_id
    if wanted:
        path = run_path(results_dir, request.output.run_name, label, wanted)
        _check_named(path, wanted, request, directory)
    else:
        found = next((run for run in list_runs(directory) if _continuable(run, owner)), None)
        if found is None:
            _log.info("nothing to reuse: %s holds no run with a finished task", directory)
            return None
        path = found
    reason = _obstacle(path, request)
    if reason:
        raise UsageError(f"run {path.name!r} in {directory} cannot be reused: {reason}")
    return ReuseSource(path, ReusedFrom(run_id=path.name, path=str(path)))


def settled_source(store: RunStore, found: ReuseSource | None) -> ReuseSource | None:
    """``found``, unless an earlier try of the same step has settled on a source already."""
    try:
        info = store.files.run_info()
    except RecordError:
        return found  # nothing was settled yet
    if info.reused_from is None:
        return None
    return ReuseSource(store.run_dir.parent / info.reused_from.run_id, info.reused_from)


def _check_named(path: Path, run_id: str, request: RunRequest, directory: Path) -> None:
    if not path.is_dir():
        known = ", ".join(run.name for run in list_runs(directory)[:5])
        hint = f"; the latest runs there are {known}" if known else ""
        raise UsageError(f"cannot reuse run {run_id!r}: {path} does not exist{hint}")
    own = request.output.run_id
    if own and directory / safe_component(own) == path:
        raise UsageError(
            f"run {run_id!r} cannot be continued in its own directory; choose another --run-id, or leave it out"
        )


def _continuable(run_dir: Path, owner: DriverRecord | None) -> bool:
    """Whether a run is worth continuing: not the asking one, not empty, and with all that it took over.

    One that is just taking over, or was killed then, would hide what its own source has; a copy
    would hide the run that it is a copy of.
    """
    store = RunStore(run_dir)
    try:
        driver = store.driver()
        info = store.files.run_info()
        partial = info.reused_from is not None and not store.is_taken_over()
    except RecordError:
        return store.has_finished_work()  # what is wrong with it is told when it is chosen
    if driver is None:
        return store.has_finished_work()  # of an older version, or a copy without the hidden files
    if info.run_id != run_dir.name and (run_dir.parent / safe_component(info.run_id)).is_dir():
        return False  # a copy of the run beside it, as `agentcompass analysis` makes
    mine = owner is not None and driver.same_driver(owner)
    return not mine and not partial and store.has_finished_work()


def _obstacle(path: Path, request: RunRequest) -> str:
    """Why ``request`` cannot continue the run at ``path``; empty when it can."""
    try:
        info = read_run_info(path / "run_info.json")
        earlier = _attempts(info)
    except RecordError as error:
        return str(error)
    mine = {
        "benchmark": request.benchmark.id,
        "model": request.model.id,
        "harness": request.harness.id,
    }
    for name, wanted in mine.items():
        recorded = _at(info.request, name, "id")
        if recorded != wanted:
            return f"it is about {name} {recorded!r}, this request about {wanted!r}"
    return _plan_obstacle(earlier, request.execution.attempts)


def _plan_obstacle(earlier: AttemptsSpec, wanted: AttemptsSpec) -> str:
    if earlier.strategy is not wanted.strategy:
        return (
            f"its attempts follow the strategy {earlier.strategy.value!r}, those of this request "
            f"{wanted.strategy.value!r}"
        )
    if wanted.k < earlier.k:
        return f"it has k = {earlier.k} attempts a task; k can be kept or raised, not lowered to {wanted.k}"
    return ""


def _attempts(info: RunInfo) -> AttemptsSpec:
    """The attempt plan that was recorded; older versions left a plan of one attempt out."""
    recorded = _at(info.request, "execution", "attempts")
    try:
        return AttemptsSpec.model_validate(recorded or {})
    except ValidationError:
        raise RecordError(f"its attempt plan {recorded!r} is not one of this version") from None


def _at(value: dict[str, JsonValue], *path: str) -> Any:
    found: Any = value
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found
